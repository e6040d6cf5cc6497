"""Convolutions and their gradients against CPU float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import check
from torch.testing import make_tensor

aten = torch.ops.aten

# (input, weight, stride, padding, dilation, transposed, output padding, groups)
CASES = {
    "1d": ((2, 3, 9), (4, 3, 3), [1], [1], [1], False, [0], 1),
    "2d": ((2, 3, 6, 5), (4, 3, 3, 2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "2d strided and padded": ((2, 3, 7, 6), (4, 3, 3, 3), [2, 3], [1, 2], [1, 1], False, [0, 0], 1),
    "2d dilated": ((1, 2, 9, 9), (3, 2, 3, 3), [2, 1], [2, 1], [2, 3], False, [0, 0], 1),
    "2d grouped": ((2, 4, 5, 5), (6, 2, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 2),
    "2d depthwise": ((1, 3, 5, 5), (6, 1, 2, 2), [1, 1], [0, 0], [1, 1], False, [0, 0], 3),
    "one number for all dimensions": ((1, 2, 5, 5), (3, 2, 3, 3), [2], [1], [1], False, [0], 1),
    "3d": ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), [1, 2, 1], [1, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
    "transposed 1d": ((2, 3, 5), (3, 4, 3), [2], [1], [1], True, [1], 1),
    "transposed 2d": ((2, 3, 4, 3), (3, 4, 3, 2), [2, 1], [1, 0], [1, 2], True, [1, 0], 1),
    "transposed 2d grouped": ((1, 4, 3, 3), (4, 3, 2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 2),
    "transposed, output padding up to the dilation": ((1, 4, 3, 3), (4, 3, 3, 3), [1, 1], [1, 1], [3, 3], True, [2, 1], 2),
}


def tensors(case: tuple[Any, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Input, weight and bias."""
    input_shape, weight_shape, *_, transposed, _, groups = case
    channels = weight_shape[1] * groups if transposed else weight_shape[0]
    return tuple(
        make_tensor(shape, device="cpu", dtype=torch.float32, low=-1, high=1) for shape in (input_shape, weight_shape, (channels,))
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_forward(case: tuple[Any, ...]) -> None:
    x, weight, bias = tensors(case)
    check(aten.convolution.default, x, weight, bias, *case[2:])
    check(aten.convolution.default, x, weight, None, *case[2:])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_gradients(case: tuple[Any, ...]) -> None:
    x, weight, bias = tensors(case)
    grad = torch.randn_like(aten.convolution.default(x, weight, bias, *case[2:]))
    check(aten.convolution_backward.default, grad, x, weight, list(bias.shape), *case[2:], [True, True, True])


def test_only_the_gradients_asked_for_are_computed() -> None:
    case = CASES["2d"]
    x, weight, bias = tensors(case)
    grad = torch.randn_like(aten.convolution.default(x, weight, bias, *case[2:]))
    check(aten.convolution_backward.default, grad, x, weight, None, *case[2:], [False, True, False])


def test_channels_last_input() -> None:
    case = CASES["2d strided and padded"]
    x, weight, bias = tensors(case)
    check(aten.convolution.default, x.contiguous(memory_format=torch.channels_last), weight, bias, *case[2:])


@pytest.mark.parametrize("last", ["input", "weight"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spatial", [2, 3])
def test_channels_stay_last(last: str, transposed: bool, spatial: int) -> None:
    memory_format = torch.channels_last if spatial == 2 else torch.channels_last_3d
    operands = {"input": torch.randn(2, 4, *(6,) * spatial), "weight": torch.randn(4, 4, *(3,) * spatial)}
    operands[last] = operands[last].contiguous(memory_format=memory_format)
    convolve = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{spatial}d")
    expected = convolve(operands["input"], operands["weight"])
    result = convolve(*(operand.to("neuron") for operand in operands.values()))
    assert result.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
