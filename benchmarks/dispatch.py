"""Host time per call of cached ops on tiny tensors, neuron against CPU eager: what dispatch costs when there is nothing to compute.

Each round runs every case many times on both devices, neuron with one synchronize at the end; the table shows medians over the rounds
in microseconds per call. The rounds of the two devices alternate, so that a change of the machine's speed meets both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch


class Case(NamedTuple):
    """What is called, given a device, and the largest ratio to CPU that the design allows."""

    name: str
    make: Callable[[str], Callable[[], object]]
    limit: float


def _pair(device: str, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(shape).to(device), torch.randn(shape).to(device)


def _add(device: str) -> Callable[[], object]:
    a, b = _pair(device, 4)
    return lambda: a + b


def _add_in_place(device: str) -> Callable[[], object]:
    a, b = _pair(device, 4)
    return lambda: a.add_(b)


def _add_number(device: str) -> Callable[[], object]:
    a, _ = _pair(device, 4)
    return lambda: a + 1.5


def _mm(device: str) -> Callable[[], object]:
    a, b = _pair(device, 4, 4)
    return lambda: torch.mm(a, b)


def _empty(device: str) -> Callable[[], object]:
    return lambda: torch.empty(4, device=device)


def _view(device: str) -> Callable[[], object]:
    a, _ = _pair(device, 4)
    return lambda: a.view(2, 2)


def _item(device: str) -> Callable[[], object]:
    a, _ = _pair(device, 1)
    return lambda: a.item()


def _foreach(device: str) -> Callable[[], object]:
    tensors = [torch.randn(8).to(device) for _ in range(32)]
    return lambda: torch._foreach_mul_(tensors, 0.5)


CASES = (
    Case("a + b", _add, 1.2),
    Case("a.add_(b)", _add_in_place, 1.2),
    Case("a + 1.5", _add_number, 1.2),
    Case("mm 4×4", _mm, 1.2),
    Case("_foreach_mul_ of 32", _foreach, 1.2),
    Case("torch.empty", _empty, 1.5),
    Case("view", _view, 1.5),
    Case("item()", _item, 1.5),
)


def _microseconds(call: Callable[[], object], calls: int, finish: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    finish()
    return (time.perf_counter() - start) / calls * 1e6


def measure(case: Case, calls: int, rounds: int) -> tuple[float, float]:
    """Median microseconds per call on the CPU and on neuron."""
    on_cpu, on_neuron = case.make("cpu"), case.make("neuron")
    on_neuron()  # compiles
    cpu_times, neuron_times = [], []
    for _ in range(rounds):
        cpu_times.append(_microseconds(on_cpu, calls, lambda: None))
        neuron_times.append(_microseconds(on_neuron, calls, torch.neuron.synchronize))
    return statistics.median(cpu_times), statistics.median(neuron_times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000, help="calls per round")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':20} {'CPU µs':>8} {'neuron µs':>10} {'ratio':>7} {'limit':>7}")
    for case in CASES:
        cpu, neuron = measure(case, options.calls, options.rounds)
        print(f"{case.name:20} {cpu:8.3f} {neuron:10.3f} {neuron / cpu:6.2f}× {case.limit:6.2f}×", flush=True)


if __name__ == "__main__":
    main()
