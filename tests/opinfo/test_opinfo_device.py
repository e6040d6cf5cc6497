"""PyTorch's operator samples on the device, in float32, forward and backward, with no fallback allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_check import check_operator, operators

NAMES = Path(__file__).with_name("native_operators.txt").read_text().split()
OPERATORS = operators()

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", [name for name in NAMES if name in OPERATORS])
def test_agrees_with_cpu_float64(name: str) -> None:
    check_operator(OPERATORS[name])
