"""PyTorch's operator samples on the device in bfloat16 and float16, forward and backward: as near to float64 as the dtype can be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from device_check import check_operator, operators

NAMES = Path(__file__).with_name("native_operators.txt").read_text().split()
OPERATORS = operators()
# What cannot be as on the CPU, and why.
EXEMPT = {
    "native_layer_norm": "its statistics are float32, as on CUDA",
    "native_batch_norm": "its statistics are float32, as on CUDA",
    "_native_batch_norm_legit": "its statistics are float32, as on CUDA",
    "_batch_norm_with_update": "its statistics are float32, as on CUDA",
    "nn.functional.conv_transpose3d": "its bias is added to a product that is rounded already",
    "complex": "results of two 16-bit parts have no native program",
}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def supporting(dtype: torch.dtype) -> list[str]:
    return [name for name in NAMES if name in OPERATORS and name not in EXEMPT and dtype in OPERATORS[name].supported_dtypes("cpu")]


@pytest.mark.parametrize("name", supporting(torch.bfloat16))
def test_agrees_with_cpu_float64_in_bfloat16(name: str) -> None:
    check_operator(OPERATORS[name], torch.bfloat16)


@pytest.mark.parametrize("name", supporting(torch.float16))
def test_agrees_with_cpu_float64_in_float16(name: str) -> None:
    check_operator(OPERATORS[name], torch.float16)
