"""Sampling at the points of a grid, and its gradients, against CPU float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from lowering_reference import check

import torch_neuronx

aten = torch.ops.aten
CASES = [*product((2,), (0, 1, 2), (0, 1, 2), (False, True)), *product((3,), (0, 1), (0, 1, 2), (False, True))]


def samplers(spatial: int) -> tuple[Any, Any]:
    if spatial == 2:
        return aten.grid_sampler_2d.default, aten.grid_sampler_2d_backward.default
    return aten.grid_sampler_3d.default, aten.grid_sampler_3d_backward.default


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients_in_every_mode(case: tuple[int, int, int, bool]) -> None:
    torch.manual_seed(0)
    spatial, *mode = case
    forward, backward = samplers(spatial)
    image = torch.randn(2, 3, *(4, 5, 3)[:spatial])
    grid = 1.6 * torch.rand(2, *(3, 2, 4)[:spatial], spatial) - 0.8
    grid[0, 0] *= 4  # outside of the image
    check(forward, image, grid, *mode, rtol=1e-4, atol=1e-5)
    values = forward(image, grid, *mode)
    check(backward, torch.randn_like(values), image, grid, *mode, [True, True], rtol=1e-4, atol=1e-4)


def test_only_the_gradients_asked_for() -> None:
    image, grid = torch.randn(1, 2, 3, 3), torch.rand(1, 2, 2, 2)
    with torch_neuronx.fallback_policy("error"):
        moved = [tensor.to("neuron") for tensor in (torch.ones(1, 2, 2, 2), image, grid)]
        of_image, of_grid = aten.grid_sampler_2d_backward.default(*moved, 0, 0, False, [False, True])
    expected = aten.grid_sampler_2d_backward.default(torch.ones(1, 2, 2, 2), image, grid, 0, 0, False, [False, True])
    assert of_image is None
    torch.testing.assert_close(of_grid.cpu(), expected[1])


@pytest.mark.parametrize("spatial", [2, 3])
def test_no_images_and_no_points(spatial: int) -> None:
    forward, backward = samplers(spatial)
    for batch, points in ((0, 2), (2, 0)):
        image, grid = torch.randn(batch, 3, *(4,) * spatial), torch.rand(batch, points, *(2,) * (spatial - 1), spatial)
        check(forward, image, grid, 0, 0, False)
        check(backward, torch.randn(batch, 3, points, *(2,) * (spatial - 1)), image, grid, 0, 0, False, [True, True])


def test_infinite_places_outside_do_not_reach_the_result() -> None:
    image = torch.full((1, 1, 2, 2), float("inf"))
    image[0, 0, 0, 0] = 1.0
    grid = torch.tensor([-3.0, -3.0]).reshape(1, 1, 1, 2)
    check(aten.grid_sampler_2d.default, image, grid, 0, 0, False)


def test_strided_images_and_grids() -> None:
    image = torch.randn(2, 4, 5, 3).permute(0, 3, 1, 2)
    grid = (2 * torch.rand(2, 2, 6, 3) - 1).permute(0, 2, 3, 1)
    check(aten.grid_sampler_2d.default, image, grid, 0, 0, False)


def test_a_mode_that_volumes_do_not_have_raises_what_the_cpu_raises() -> None:
    image, grid = torch.randn(1, 1, 2, 2, 2, device="neuron"), torch.rand(1, 1, 1, 1, 3, device="neuron")
    with pytest.raises(RuntimeError, match="bicubic interpolation only supports 4D input"):
        torch.grid_sampler(image, grid, 2, 0, False)
