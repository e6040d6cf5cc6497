"""The models of the catalogue: one training step on the device leaves behind what it leaves behind on the CPU, without a fallback."""

from __future__ import annotations

import pytest
import torch
from training_step import check_low_precision_step, check_training_step

from benchmarks.models import WORKLOADS

TRAINING = [name for name, workload in WORKLOADS.items() if workload.trains]


@pytest.mark.parametrize("name", TRAINING)
def test_a_step_in_float32(name: str) -> None:
    check_training_step(WORKLOADS[name])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", TRAINING)
def test_a_step_under_autocast(name: str, dtype: torch.dtype) -> None:
    check_low_precision_step(WORKLOADS[name], torch.float32, autocast=dtype)


@pytest.mark.parametrize("name", TRAINING)
def test_a_step_with_bfloat16_parameters(name: str) -> None:
    check_low_precision_step(WORKLOADS[name], torch.bfloat16, autocast=None)
