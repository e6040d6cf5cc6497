"""Training runs: memory stands still, no program is compiled after the second step, and the loss is the CPU's."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

import torch_neuronx
from benchmarks.models import WORKLOADS
from torch_neuronx import eager

STEPS = 10


@dataclass
class Run:
    losses: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    executables: list[int] = field(default_factory=list)


def train(model: nn.Module, device: str, autocast: torch.dtype | None) -> Run:
    """STEPS steps of AdamW with clipped gradients, a learning rate of its own each, and a scaled loss in float16."""
    workload = WORKLOADS["gpt"]
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    scaler = torch.amp.GradScaler(device, enabled=autocast is torch.float16)
    torch.manual_seed(1)
    run = Run()
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 1e-2 / (step + 1)
        batch = workload.batch("small").to(device)
        with torch.autocast(device, dtype=autocast) if autocast else nullcontext():
            loss = workload.loss(model(*batch.inputs), batch)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        run.losses.append(loss.item())
        if device == "neuron":
            record_device(run)
    return run


def record_device(run: Run) -> None:
    torch.neuron.synchronize()
    run.held.append(torch.neuron.memory_allocated())
    run.peaks.append(torch.neuron.max_memory_allocated())
    run.executables.append(eager.statistics().executables)
    torch.neuron.reset_peak_memory_stats()


@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"])
def test_memory_and_executables_stand_still_after_the_second_step(autocast: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model = WORKLOADS["gpt"].model("small")
    with torch_neuronx.fallback_policy("error"):
        run = train(model, "neuron", autocast)
    assert len(set(run.held[1:])) == 1, run.held
    assert len(set(run.peaks[1:])) == 1, run.peaks
    assert len(set(run.executables[1:])) == 1, run.executables
    tolerance = 8 * torch.finfo(autocast).eps if autocast else 1e-4
    assert run.losses == pytest.approx(train(model, "cpu", autocast).losses, rel=tolerance)
