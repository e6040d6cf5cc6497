"""Pooling and its gradients against CPU float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import check
from torch.testing import make_tensor

import torch_neuronx

aten = torch.ops.aten


def distinct(*shape: int) -> torch.Tensor:
    """Values without ties, so that the position of a maximum is unique."""
    count = torch.Size(shape).numel()
    return (torch.randperm(count).float() / count - 0.5).reshape(shape)


# (shape, kernel, stride, padding, dilation, ceil mode)
MAX_2D = [
    ((2, 3, 6, 6), [2, 2], [], [0, 0], [1, 1], False),
    ((3, 7, 5), [3, 2], [2, 1], [1, 1], [1, 1], False),
    ((1, 2, 9, 8), [3, 2], [2, 3], [1, 0], [2, 1], True),
    ((2, 2, 5, 5), [2, 2], [2, 2], [1, 1], [1, 1], True),
]


@pytest.mark.parametrize("case", MAX_2D)
def test_max_pool2d(case: tuple[Any, ...]) -> None:
    shape, *window = case
    x = distinct(*shape)
    check(aten.max_pool2d_with_indices.default, x, *window)
    values, indices = aten.max_pool2d_with_indices.default(x, *window)
    kernel, stride, *rest = window
    check(aten.max_pool2d_with_indices_backward.default, torch.randn_like(values), x, kernel, stride or kernel, *rest, indices)


def test_max_pool_takes_the_first_of_equal_values_and_propagates_nan() -> None:
    check(aten.max_pool2d_with_indices.default, torch.zeros(1, 1, 4, 4), [2, 2])
    x = distinct(1, 1, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    check(aten.max_pool2d_with_indices.default, x, [2, 2])


def test_max_pool3d() -> None:
    x = distinct(2, 2, 4, 5, 6)
    window = [[2, 2, 3], [2, 1, 2], [0, 1, 1], [1, 1, 1], False]
    check(aten.max_pool3d_with_indices.default, x, *window)
    values, indices = aten.max_pool3d_with_indices.default(x, *window)
    check(aten.max_pool3d_with_indices_backward.default, torch.randn_like(values), x, *window, indices)


# (shape, kernel, stride, padding, ceil mode, count padding, divisor)
AVERAGE_2D = [
    ((2, 3, 6, 6), [2, 2], [], [0, 0], False, True, None),
    ((3, 7, 5), [3, 2], [2, 1], [1, 1], False, True, None),
    ((1, 2, 7, 5), [3, 2], [2, 1], [1, 1], False, False, None),
    ((1, 2, 9, 8), [3, 3], [2, 3], [1, 0], True, True, None),
    ((1, 2, 9, 8), [3, 3], [2, 3], [1, 0], True, False, None),
    ((1, 2, 6, 6), [2, 3], [2, 2], [0, 1], False, True, 5),
]


@pytest.mark.parametrize("case", AVERAGE_2D)
def test_avg_pool2d(case: tuple[Any, ...]) -> None:
    shape, kernel, stride, *rest = case
    x = make_tensor(shape, device="cpu", dtype=torch.float32)
    check(aten.avg_pool2d.default, x, kernel, stride, *rest)
    grad = torch.randn_like(aten.avg_pool2d.default(x, kernel, stride, *rest))
    check(aten.avg_pool2d_backward.default, grad, x, kernel, stride or kernel, *rest)


def test_avg_pool3d() -> None:
    x = make_tensor((2, 2, 4, 5, 6), device="cpu", dtype=torch.float32)
    window = [[2, 2, 3], [2, 1, 2], [0, 1, 1], True, False, None]
    check(aten.avg_pool3d.default, x, *window)
    check(aten.avg_pool3d_backward.default, torch.randn_like(aten.avg_pool3d.default(x, *window)), x, *window)


@pytest.mark.parametrize(("shape", "output"), [((2, 3, 8, 6), [4, 2]), ((2, 3, 7, 5), [3, 4]), ((3, 6, 6), [1, 6]), ((1, 2, 3, 4), [5, 8])])
def test_adaptive_avg_pool2d(shape: tuple[int, ...], output: list[int]) -> None:
    x = make_tensor(shape, device="cpu", dtype=torch.float32)
    check(aten._adaptive_avg_pool2d.default, x, output)
    check(aten._adaptive_avg_pool2d_backward.default, torch.randn(*shape[:-2], *output), x)


def test_adaptive_avg_pool3d() -> None:
    x = make_tensor((2, 3, 4, 5, 6), device="cpu", dtype=torch.float32)
    check(aten._adaptive_avg_pool3d.default, x, [2, 3, 6])
    check(aten._adaptive_avg_pool3d_backward.default, torch.randn(2, 3, 2, 3, 6), x)


@pytest.mark.parametrize(("shape", "output"), [((2, 3, 8, 6), [4, 2]), ((2, 3, 7, 5), [3, 4]), ((3, 6, 6), [1, 6]), ((1, 2, 3, 4), [5, 8])])
def test_adaptive_max_pool2d(shape: tuple[int, ...], output: list[int]) -> None:
    x = distinct(*shape)
    check(aten.adaptive_max_pool2d.default, x, output)
    values, indices = aten.adaptive_max_pool2d.default(x, output)
    check(aten.adaptive_max_pool2d_backward.default, torch.randn_like(values), x, indices)


def test_adaptive_max_pool3d_with_ties_and_nan() -> None:
    x = distinct(2, 3, 4, 5, 6).round(decimals=1)
    x[1, 2, 3, 3, 3] = float("nan")
    check(aten.adaptive_max_pool3d.default, x, [2, 3, 4])
    values, indices = aten.adaptive_max_pool3d.default(x, [2, 3, 4])
    check(aten.adaptive_max_pool3d_backward.default, torch.randn_like(values), x, indices)


def test_out_overloads_of_adaptive_average_pooling_resize() -> None:
    x = torch.randn(2, 3, 4, 6, 5)
    for image, extents, op in ((x[0], (2, 3), aten.adaptive_avg_pool2d), (x, (2, 3, 5), aten.adaptive_avg_pool3d)):
        out = torch.empty(0, device="neuron")
        with torch_neuronx.fallback_policy("error"):
            op.out(image.to("neuron"), extents, out=out)
        torch.testing.assert_close(out.cpu(), op.default(image, extents))
