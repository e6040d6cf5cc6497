"""Calls that PyTorch's meta functions let pass and the CPU refuses raise what they raise on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(*shape: int, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device=device)


WRONG: dict[str, Callable[[str], Any]] = {
    "parts of a complex number": lambda device: torch.complex(numbers(3, device=device), numbers(3, device=device, dtype=torch.float64)),
    "boundaries": lambda device: torch.bucketize(numbers(3, device=device), numbers(2, 2, device=device)),
    "index_add": lambda device: numbers(3, 4, device=device).index_add(
        0, torch.tensor([0, 1], device=device), numbers(2, 1, device=device)
    ),
    "padding": lambda device: torch.conv3d(numbers(1, 1, 4, 4, 4, device=device), numbers(1, 1, 2, 2, 2, device=device), padding=-1),
}


@pytest.mark.parametrize("call", WRONG)
def test_raises_what_the_cpu_raises(call: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        WRONG[call]("cpu")
    with pytest.raises(RuntimeError) as actual:
        WRONG[call]("neuron").cpu()
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
