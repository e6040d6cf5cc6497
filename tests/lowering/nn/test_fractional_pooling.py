"""Fractional max pooling and its gradients against CPU float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import check

aten = torch.ops.aten

# (spatial dimensions, shape, window, result's extents)
CASES: list[tuple[int, tuple[int, ...], list[int], list[int]]] = [
    (2, (2, 3, 7, 8), [3, 3], [4, 5]),
    (2, (3, 7, 8), [2, 3], [4, 1]),
    (2, (0, 3, 7, 8), [2, 2], [3, 3]),
    (3, (2, 2, 6, 7, 5), [2, 2, 2], [4, 5, 3]),
    (3, (2, 6, 7, 5), [2, 3, 2], [3, 3, 1]),
]


def pooling(spatial: int) -> tuple[Any, Any]:
    if spatial == 2:
        return aten.fractional_max_pool2d.default, aten.fractional_max_pool2d_backward.default
    return aten.fractional_max_pool3d.default, aten.fractional_max_pool3d_backward.default


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_indices_and_gradients(case: tuple[int, tuple[int, ...], list[int], list[int]]) -> None:
    torch.manual_seed(0)
    spatial, shape, window, extents = case
    forward, backward = pooling(spatial)
    x = torch.randn(shape)
    samples = torch.rand(shape[0] if len(shape) == spatial + 2 else 1, shape[-spatial - 1], spatial)
    check(forward, x, window, extents, samples)
    values, indices = forward(x, window, extents, samples)
    check(backward, torch.randn_like(values), x, window, extents, indices)


@pytest.mark.parametrize("spatial", [2, 3])
def test_the_last_nan_of_a_window_wins_and_the_first_of_equal_values(spatial: int) -> None:
    forward, _ = pooling(spatial)
    x = torch.zeros(1, 1, *(5,) * spatial)
    samples = torch.rand(1, 1, spatial)
    check(forward, x, [3] * spatial, [2] * spatial, samples)
    x[..., 1, 1] = x[..., 2, 2] = float("nan")
    check(forward, x, [3] * spatial, [2] * spatial, samples)


def test_a_window_larger_than_the_plane_raises_what_the_cpu_raises() -> None:
    x = torch.randn(1, 1, 4, 4, device="neuron")
    with pytest.raises(RuntimeError, match="pool height 5 too large relative to input height 4"):
        torch.nn.functional.fractional_max_pool2d(x, 5, 2, _random_samples=torch.rand(1, 1, 2, device="neuron"))
