"""Models in evaluation: batch norm uses the running statistics that training steps left, and keeps them."""

from __future__ import annotations

import copy

import pytest
import torch
from training_step import F32_TOLERANCE, relative_error, training_step

import torch_neuronx
from benchmarks.models import WORKLOADS


@pytest.mark.parametrize("name", ["resnet", "resnet channels_last", "separable"])
def test_evaluation_after_a_training_step_equals_the_cpu(name: str) -> None:
    workload = WORKLOADS[name]
    torch.manual_seed(0)
    model, batch = workload.model("small"), workload.batch("small")
    training_step(model, batch, workload, autocast=None)
    model.eval()
    ours = copy.deepcopy(model).to("neuron")
    with torch_neuronx.fallback_policy("error"), torch.no_grad():
        actual = ours(*batch.to("neuron").inputs).cpu()
    assert relative_error(actual, model.double()(*batch.to("cpu", torch.float64).inputs), 0.0) <= F32_TOLERANCE
    buffers = dict(model.named_buffers())
    assert buffers
    assert all(torch.equal(buffer.cpu().double(), buffers[name].double()) for name, buffer in ours.named_buffers())
