"""A training step needs no more memory on the device than on the CPU.

Both sides count the bytes that tensors ask for; how an allocator rounds them is not the models' business. The CPU's are PyTorch's profiler
events, the device's are its statistics of requested bytes, which hold scratch memory of programs as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.models import WORKLOADS, Batch, Workload

TRAINING = [name for name, workload in WORKLOADS.items() if workload.trains]
ALLOWED = 1.05
# The GRU of the CTC model keeps the gates' gradients of all steps at once, for one product per gradient of a weight.
ALLOWED_OF_STEPS = {"ctc": 1.55}


def steady_step(workload: Workload, model: nn.Module, batch: Batch, autocast: torch.dtype | None) -> Callable[[], None]:
    """A training step that has run before: programs are compiled and the optimizer has its state."""
    device = next(model.parameters()).device.type
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast) if autocast else nullcontext():
            loss = workload.loss(model(*batch.inputs), batch)
        loss.backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    return step


def peak_on_cpu(step: Callable[[], None]) -> int:
    """Bytes above what was held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def peak_on_device(step: Callable[[], None]) -> int:
    torch.neuron.synchronize()
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_stats()["requested_bytes.all.current"]
    step()
    torch.neuron.synchronize()
    return torch.neuron.memory_stats()["requested_bytes.all.peak"] - before


def peaks(workload: Workload, autocast: torch.dtype | None) -> tuple[int, int]:
    """The device's and the CPU's."""
    torch.manual_seed(0)
    model, batch = workload.model("small"), workload.batch("small")
    on_device = steady_step(workload, copy.deepcopy(model).to("neuron"), batch.to("neuron"), autocast)
    return peak_on_device(on_device), peak_on_cpu(steady_step(workload, model, batch, autocast))


@pytest.mark.parametrize("name", TRAINING)
def test_a_step_in_float32_needs_no_more_memory_than_on_the_cpu(name: str) -> None:
    device, cpu = peaks(WORKLOADS[name], autocast=None)
    assert 0 < device <= ALLOWED_OF_STEPS.get(name, ALLOWED) * cpu, f"{device} bytes, {device / cpu:.3f} of the CPU's {cpu}"


@pytest.mark.parametrize("name", TRAINING)
def test_a_step_under_autocast_needs_no_more_memory_than_on_the_cpu(name: str) -> None:
    """CUDA's lists compute normalizations in float32 that the CPU's leave in bfloat16; so the CPU's float32 step counts as well."""
    workload = WORKLOADS[name]
    device, cpu = peaks(workload, autocast=torch.bfloat16)
    allowed = ALLOWED_OF_STEPS.get(name, ALLOWED) * max(cpu, peaks(workload, autocast=None)[1])
    assert 0 < device <= allowed, f"{device} bytes, {device / cpu:.3f} of the CPU's {cpu}"
