"""The models of the catalogue compiled: one training step leaves behind what it leaves behind on the CPU, without a fallback."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch

import torch_neuronx
from benchmarks.models import WORKLOADS

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from training_step import F32_TOLERANCE, errors_of, training_step

TRAINING = [name for name, workload in WORKLOADS.items() if workload.trains]


@pytest.mark.parametrize("name", TRAINING)
def test_a_compiled_step_equals_the_cpu(name: str) -> None:
    torch._dynamo.reset()
    workload = WORKLOADS[name]
    torch.manual_seed(0)
    model, batch = workload.model("small"), workload.batch("small")
    device_model = copy.deepcopy(model).to("neuron")
    expected = training_step(model, batch, workload, None)
    device_model.compile(backend="neuron")
    with torch_neuronx.fallback_policy("error"):
        actual = training_step(device_model, batch.to("neuron"), workload, None)
    wrong = {value: error for value, error in errors_of(actual, expected).items() if not error <= F32_TOLERANCE}
    assert not wrong, f"{name}: beyond {F32_TOLERANCE}: {wrong}"
