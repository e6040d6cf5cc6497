"""Compiling in the middle of whatever the program is doing: modes of the caller do not reach into lowerings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_neuronx
from torch_neuronx import _C


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    """Every op of a test compiles within the mode."""
    torch.neuron.init()
    _C._clear_eager_cache()
    with torch_neuronx.fallback_policy("error"):
        yield


class Recorder(TorchDispatchMode):
    """Notes the ops that pass."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def input_tensor() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_a_default_device_context() -> None:
    x = input_tensor().to("neuron")
    with torch.device("neuron"):
        result = x @ x.T + torch.ones(3)
    check(result, input_tensor() @ input_tensor().T + 1)


def test_nested_dispatch_modes_see_the_programs_ops_only() -> None:
    x, names = input_tensor().to("neuron"), []
    with Recorder(names), Recorder(names):
        result = torch.softmax(x, -1)
    assert names == ["aten._softmax.default"] * 2
    check(result, torch.softmax(input_tensor(), -1))


def test_inference_mode() -> None:
    with torch.inference_mode():
        check(torch.sin(input_tensor().to("neuron")) * 3, torch.sin(input_tensor()) * 3)


def test_autocast() -> None:
    x = input_tensor().to("neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        product, exponential = x @ x.T, torch.exp(x)
    assert (product.dtype, exponential.dtype) == (torch.bfloat16, torch.float32)
    check(exponential, torch.exp(input_tensor()))


def test_function_transforms() -> None:
    x = input_tensor().to("neuron")
    check(torch.func.vmap(lambda row: row.sin() + 1)(x), input_tensor().sin() + 1)
    check(torch.func.grad(lambda value: (value**2).sum())(x), 2 * input_tensor())


def test_the_autograd_engines_thread() -> None:
    x = input_tensor().to("neuron").requires_grad_()
    torch.tanh(x).backward(torch.ones(3, 4, device="neuron"))
    check(x.grad, 1 - torch.tanh(input_tensor()) ** 2)
