"""The pooling library kernels against PyTorch's pooling functions and their gradients in float64."""

import math

import pytest
import torch
import torch.nn.functional as F

from torch_neuronx import _C

MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def avg_pool(x, window, strides, padding, *rest):
    """PyTorch's, with one spatial dimension as a plane of height 1: its avg_pool1d takes no divisor."""
    if len(window) == 1:
        plane = F.avg_pool2d(x.unsqueeze(-2), (1, *window), (1, *strides), (0, *padding), *rest)
        return plane.squeeze(-2)
    return (F.avg_pool2d, F.avg_pool3d)[len(window) - 2](x, window, strides, padding, *rest)


# input, window, strides, padding, dilation
WINDOWS = {
    "line": ((2, 3, 11), (3,), (2,), (1,), (1,)),
    "plane": ((2, 3, 8, 9), (2, 3), (2, 1), (1, 1), (1, 1)),
    "overlapping_dilated": ((2, 3, 9, 9), (2, 2), (1, 1), (0, 0), (2, 3)),
    "volume": ((1, 2, 6, 5, 7), (2, 2, 3), (2, 1, 2), (0, 1, 1), (1, 1, 1)),
    "without_batch": ((3, 8, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
}


@pytest.mark.parametrize("ceil_mode", [False, True], ids=["floor", "ceil"])
@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS)
def test_max_pool(case, ceil_mode: bool) -> None:
    shape, window, strides, padding, dilation = case
    x = torch.randn(shape)
    ints = [len(window), *window, *strides, *padding, *dilation]
    wide = x.double().requires_grad_()
    expected, expected_indices = MAX_POOL[len(window) - 1](wide, window, strides, padding, dilation, ceil_mode, return_indices=True)
    values, indices = torch.empty(expected.shape), torch.empty(expected.shape, dtype=torch.int64)
    _C._run_library("max_pool", [values, indices, x], ints)
    assert torch.equal(values.double(), expected)
    assert torch.equal(indices, expected_indices)

    gradient = torch.randn(expected.shape)
    expected.backward(gradient.double())
    dinput = torch.full_like(x, math.nan)
    _C._run_library("max_pool_backward", [dinput, gradient, indices], ints)
    torch.testing.assert_close(dinput.double(), wide.grad, rtol=1e-5, atol=1e-5)


def test_max_pool_gives_nan_for_a_window_with_nan() -> None:
    x = torch.tensor([[1.0, math.nan, 3.0, 4.0]])
    values, indices = torch.empty(1, 2), torch.empty(1, 2, dtype=torch.int64)
    _C._run_library("max_pool", [values, indices, x], [1, 2, 2, 0, 1])
    assert math.isnan(values[0, 0])
    assert (values[0, 1].item(), indices[0, 1].item()) == (4.0, 3)


@pytest.mark.parametrize("divisor", [None, 5], ids=["window", "five"])
@pytest.mark.parametrize("count_include_pad", [False, True], ids=["inside", "padded"])
@pytest.mark.parametrize("ceil_mode", [False, True], ids=["floor", "ceil"])
@pytest.mark.parametrize("case", [WINDOWS[name] for name in ("line", "plane", "volume", "without_batch")], ids=str)
def test_avg_pool(case, ceil_mode: bool, count_include_pad: bool, divisor: int | None) -> None:
    shape, window, strides, padding, _ = case
    x = torch.randn(shape)
    ints = [len(window), *window, *strides, *padding, ceil_mode, count_include_pad, divisor or 0]
    wide = x.double().requires_grad_()
    expected = avg_pool(wide, window, strides, padding, ceil_mode, count_include_pad, divisor)
    out = torch.empty(expected.shape)
    _C._run_library("avg_pool", [out, x], ints)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)

    gradient = torch.randn(expected.shape)
    expected.backward(gradient.double())
    dinput = torch.full_like(x, math.nan)
    _C._run_library("avg_pool_backward", [dinput, gradient], ints)
    torch.testing.assert_close(dinput.double(), wide.grad, rtol=1e-5, atol=1e-5)


def test_more_than_three_dimensions_are_refused() -> None:
    with pytest.raises(RuntimeError, match="4 spatial dimensions, allowed are 1 to 3"):
        _C._run_library("avg_pool", [torch.empty(1), torch.empty(1)], [4])
