"""Losses and their gradients against CPU float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import check, run
from torch.testing import make_tensor

from torch_neuronx.compiler.hlo.interpreter import LaunchError

aten = torch.ops.aten
REDUCTIONS = (0, 1, 2)
GRADS = {0: (3, 4), 1: (), 2: ()}


def floats(*shape: int, low: float = -3, high: float = 3) -> torch.Tensor:
    return make_tensor(shape, device="cpu", dtype=torch.float32, low=low, high=high)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("mse_loss", ()),
        ("smooth_l1_loss", (1.0,)),
        ("smooth_l1_loss", (0.5,)),
        ("huber_loss", (1.0,)),
        ("huber_loss", (2.0,)),
        ("soft_margin_loss", ()),
    ],
)
def test_elementwise_losses(name: str, numbers: tuple[float, ...], reduction: int) -> None:
    x, target = floats(3, 4), floats(3, 4)
    check(getattr(aten, name).default, x, target, reduction, *numbers)
    check(getattr(aten, f"{name}_backward").default, floats(*GRADS[reduction]), x, target, reduction, *numbers)


def test_smooth_l1_with_beta_zero_is_the_distance() -> None:
    check(aten.smooth_l1_loss.default, floats(5), floats(5), 1, 0.0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [True, False])
def test_binary_cross_entropy(reduction: int, weighted: bool) -> None:
    x, target = floats(3, 4, low=0.01, high=0.99), floats(3, 4, low=0, high=1)
    weight = floats(4, low=0.5, high=2) if weighted else None
    check(aten.binary_cross_entropy.default, x, target, weight, reduction)
    full = None if weight is None else weight.expand(3, 4)
    check(aten.binary_cross_entropy_backward.default, floats(*GRADS[reduction]), x, target, full, reduction, rtol=1e-4)


def test_binary_cross_entropy_at_the_ends() -> None:
    check(aten.binary_cross_entropy.default, torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 1.0, 0.0]), None, 0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [True, False])
def test_binary_cross_entropy_with_logits(reduction: int, weighted: bool) -> None:
    weights = (floats(3, 4), floats(4, low=0.5, high=2)) if weighted else (None, None)
    check(aten.binary_cross_entropy_with_logits.default, floats(3, 4) * 20, floats(3, 4, low=0, high=1), *weights, reduction)


def classes(*shape: int) -> torch.Tensor:
    target = torch.randint(5, shape)
    target.view(-1)[1:2] = -100
    return target


NLL_SHAPES = [("nll_loss", (4, 5), (4,)), ("nll_loss2d", (2, 5, 3, 4), (2, 3, 4))]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("name", "shape", "target_shape"), NLL_SHAPES)
def test_nll_loss(name: str, shape: tuple[int, ...], target_shape: tuple[int, ...], weighted: bool, reduction: int) -> None:
    x, target = floats(*shape), classes(*target_shape)
    weight = floats(5, low=0.5, high=2) if weighted else None
    common: tuple[Any, ...] = (x, target, weight, reduction, -100)
    check(getattr(aten, f"{name}_forward").default, *common)
    _, total_weight = getattr(aten, f"{name}_forward").default(*common)
    grad = floats(*(target_shape if reduction == 0 else ()))
    check(getattr(aten, f"{name}_backward").default, grad, *common, total_weight)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_of_a_single_sample(reduction: int) -> None:
    x, target = floats(5), torch.tensor(3)
    check(aten.nll_loss_forward.default, x, target, None, reduction, -100)
    check(aten.nll_loss_backward.default, floats(), x, target, None, reduction, -100, torch.tensor(1.0))


def test_nll_loss_of_ignored_targets_only_is_nan_with_zero_gradient() -> None:
    x, target = floats(2, 5), torch.tensor([2, 2])
    check(aten.nll_loss_forward.default, x, target, None, 1, 2)
    check(aten.nll_loss_backward.default, floats(), x, target, None, 1, 2, torch.tensor(0.0))


def test_a_target_that_is_no_class_fails_the_launch() -> None:
    with pytest.raises(LaunchError, match="a target is not one of the 5 classes"):
        run(aten.nll_loss_forward.default, [floats(2, 5), torch.tensor([1, 5]), None, 1, -100])
