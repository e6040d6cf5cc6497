"""A model in one mode, precision and thread count, on device "neuron" beside CPU eager; measured in a process of their own."""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass

import torch

import torch_neuronx
from benchmarks.models import WORKLOADS, Batch, Size, Workload

WARM_UPS = 2
# Unless their number is given, interleaved repeats go on until there are so many, or enough and the time is over.
MOST_REPEATS, LEAST_REPEATS, SECONDS = 25, 7, 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """``mode`` is "training" or "inference", ``precision`` "f32" or "bf16" (autocast)."""

    model: str
    mode: str
    precision: str
    threads: int


@dataclass(frozen=True, slots=True)
class Record:
    """Seconds are of one step, medians of interleaved repeats; ``host_us`` is host time per launch of a step that is not waited for (what
    the model itself waits for is part of it); ``loss_difference`` is the largest relative one over all ``steps``, the warm-ups included.
    """

    case: Case
    neuron: float
    cpu: float
    host_us: float
    launches: int
    loss_difference: float
    steps: int

    @property
    def ratio(self) -> float:
        return self.neuron / self.cpu


class Trainee:
    """A model, its optimizer and its batch on one device."""

    def __init__(self, workload: Workload, device: str, case: Case, model: torch.nn.Module, batch: Batch) -> None:
        self.workload, self.device, self.case = workload, device, case
        self.model, self.batch = copy.deepcopy(model).to(device), batch.to(device)
        self.trains = case.mode == "training"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=True) if self.trains else None
        self.model.train(self.trains)
        self.losses: list[float] = []

    def step(self) -> torch.Tensor:
        """One step; its loss is not waited for."""
        with self._precision(), nullcontext() if self.trains else torch.no_grad():
            loss = self.workload.loss(self.model(*self.batch.inputs), self.batch)
        if self.optimizer is not None:
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def timed_step(self) -> float:
        """Seconds until the loss is on the host and the device has nothing left to do."""
        start = time.perf_counter()
        self.losses.append(self.step().item())
        if self.device == "neuron":
            torch.neuron.synchronize()
        return time.perf_counter() - start

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device, dtype=torch.bfloat16) if self.case.precision == "bf16" else nullcontext()


def measure(case: Case, repeats: int | None = None, size: Size = "large") -> Record:
    """Measures a case in this process; an op that falls back is an error."""
    torch.set_num_threads(case.threads)
    workload = WORKLOADS[case.model]
    torch.manual_seed(0)
    model, batch = workload.model(size), workload.batch(size)
    neuron, cpu = (Trainee(workload, device, case, model, batch) for device in ("neuron", "cpu"))
    with torch_neuronx.fallback_policy("error"):
        for _ in range(WARM_UPS):
            neuron.timed_step()
            cpu.timed_step()
        times = interleaved(neuron.timed_step, cpu.timed_step, repeats=repeats)
        host, launches = _host_time(neuron)
    difference = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(neuron.losses, cpu.losses, strict=True))
    return Record(case, *(statistics.median(each) for each in times), host, launches, difference, len(cpu.losses))


def interleaved(*functions: Callable[[], float], repeats: int | None = None) -> tuple[list[float], ...]:
    """What each function returns, called in turn, in another order every time; ``repeats`` times if that is given."""
    results: tuple[list[float], ...] = tuple([] for _ in functions)
    least, most = (LEAST_REPEATS, MOST_REPEATS) if repeats is None else (repeats, repeats)
    end = time.perf_counter() + SECONDS
    while len(results[0]) < least or (time.perf_counter() < end and len(results[0]) < most):
        order = list(zip(functions, results, strict=True))
        for function, result in order if len(results[0]) % 2 else reversed(order):
            result.append(function())
    return results


def _host_time(neuron: Trainee) -> tuple[float, int]:
    """Microseconds of host time per launch of one step, and how many launches it has."""
    best, launches = float("inf"), 0
    for _ in range(3):
        before = torch_neuronx.eager.statistics().launches
        start = time.perf_counter()
        neuron.step()
        elapsed = time.perf_counter() - start
        torch.neuron.synchronize()
        launches = torch_neuronx.eager.statistics().launches - before
        best = min(best, elapsed / launches * 1e6)
    return best, launches


def first_step(case: Case) -> tuple[float, float]:
    """Seconds of a process's first step with an empty disk cache, and of the next process's."""
    with tempfile.TemporaryDirectory() as directory:
        cold, warm = (float(_python([case], "--first-step", TORCH_NEURONX_NEFF_CACHE_DIR=directory)) for _ in range(2))
    return cold, warm


class MeasurementError(RuntimeError):
    """A process that measured has failed; the text says which, and its last words."""


def measure_apart(cases: Sequence[Case], repeats: int | None = None) -> list[Record]:
    """``measure`` of cases with one model and one thread count, in a new process. MeasurementError if that fails."""
    lines = _python(cases, *([] if repeats is None else [f"--repeats={repeats}"])).splitlines()
    return [Record(**(json.loads(line) | {"case": case})) for case, line in zip(cases, lines, strict=True)]


def _python(cases: Sequence[Case], *flags: str, **variables: str) -> str:
    first = cases[0]
    kinds = [f"{case.mode}:{case.precision}" for case in cases]
    command = [sys.executable, "-m", "benchmarks.measuring.case", first.model, str(first.threads), *kinds, *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": str(first.threads), **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        last_words = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        raise MeasurementError(f"{first.model}, {first.threads} threads: {last_words[0]}")
    return done.stdout


def _first_step_here(case: Case) -> float:
    torch.set_num_threads(case.threads)
    workload = WORKLOADS[case.model]
    torch.manual_seed(0)
    return Trainee(workload, "neuron", case, workload.model("large"), workload.batch("large")).timed_step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=WORKLOADS)
    parser.add_argument("threads", type=int)
    parser.add_argument("kinds", nargs="+", metavar="MODE:PRECISION", help="training or inference, f32 or bf16; a line of JSON for each")
    parser.add_argument("--repeats", type=int, help="timed steps of each device (default: as many as fit into two seconds, 7 to 25)")
    parser.add_argument("--first-step", action="store_true", help="only the seconds of this process's first step")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        case = Case(arguments.model, *kind.split(":"), arguments.threads)
        print(_first_step_here(case) if arguments.first_step else json.dumps(asdict(measure(case, arguments.repeats))))


if __name__ == "__main__":
    main()
