"""Operators over lists of tensors, fused optimizer steps and gradient scaling, against CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checked_ops import CheckLowerings
from torch.testing import make_tensor

aten = torch.ops.aten


def tensors(count: int = 3, low: float = 0.5, high: float = 2.0, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    shapes = [(3,), (2, 2), (), (4, 1)]
    return [make_tensor(shapes[i % 4], device="cpu", dtype=dtype, low=low, high=high) for i in range(count)]


def agrees(op: Any, *arguments: Any, in_float64: bool = True, **keywords: Any) -> None:
    check = CheckLowerings(rtol=2e-5, in_float64=in_float64)
    with check:
        op(*arguments, **keywords)
    assert not check.failures, check.failures
    assert op.name() in check.checked, f"{op} was not compared: {check.unserved}"


UNARY = ["abs", "acos", "ceil", "erf", "exp", "frac", "log", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sqrt", "tanh"]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    given = tensors(high=0.9)
    agrees(getattr(aten, f"_foreach_{name}").default, given)
    agrees(getattr(aten, f"_foreach_{name}_").default, given)


@pytest.mark.parametrize("suffix", ["", "_"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
def test_binary_forms(name: str, suffix: str) -> None:
    packet = getattr(aten, f"_foreach_{name}{suffix}")
    agrees(packet.Scalar, tensors(), 1.5)
    agrees(packet.Scalar, tensors(), 2)
    agrees(packet.ScalarList, tensors(), [1.5, 0.7, 2.0])
    agrees(packet.List, tensors(), tensors())


@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_a_tensor_operand_applies_to_every_element(name: str) -> None:
    agrees(getattr(aten, f"_foreach_{name}").Tensor, tensors(), torch.tensor(1.25))
    agrees(getattr(aten, f"_foreach_{name}_").Tensor, tensors(), torch.tensor(1.25))


def test_add_and_subtract_scale_the_other_list() -> None:
    agrees(aten._foreach_add.List, tensors(), tensors(), alpha=-0.5)
    agrees(aten._foreach_sub_.List, tensors(), tensors(), alpha=3)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_fused_multiply_add_forms(name: str) -> None:
    for packet in (getattr(aten, f"_foreach_{name}"), getattr(aten, f"_foreach_{name}_")):
        agrees(packet.Scalar, tensors(), tensors(), tensors(), -0.25)
        agrees(packet.ScalarList, tensors(), tensors(), tensors(), [0.5, -1.0, 2.0])


def test_lerp_norm_copy_zero() -> None:
    agrees(aten._foreach_lerp_.Scalar, tensors(), tensors(), 0.1)
    agrees(aten._foreach_lerp.List, tensors(), tensors(), tensors(high=1.0))
    agrees(aten._foreach_norm.Scalar, tensors())
    agrees(aten._foreach_norm.Scalar, tensors(), 1)
    agrees(aten._foreach_copy_.default, tensors(), tensors(dtype=torch.float64))
    agrees(aten._foreach_zero_.default, tensors())


def test_integers_stay_exact() -> None:
    wide = [torch.tensor([2**53 + 1, -(2**60)]), torch.tensor(7)]
    agrees(aten._foreach_add.Scalar, wide, 1)
    agrees(aten._foreach_mul.List, wide, [torch.tensor([3, 2]), torch.tensor(2**40)])


def adam_state() -> list[list[torch.Tensor]]:
    parameters, grads, first = tensors(low=-1), tensors(low=-1), tensors(low=-1)
    return [parameters, grads, first, tensors(), tensors(), [torch.tensor(float(i + 3)) for i in range(3)]]


@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("scaled", [None, 0.0, 1.0])
def test_fused_adam(name: str, amsgrad: bool, scaled: float | None) -> None:
    state = adam_state()
    if not amsgrad:
        state[4] = []
    options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": amsgrad, "maximize": False}
    if scaled is not None:
        options |= {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(scaled)}
    agrees(getattr(aten, name).default, *state, **options, in_float64=scaled is None)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("is_first_step", [False, True])
def test_fused_sgd(nesterov: bool, is_first_step: bool) -> None:
    options = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.05, "dampening": 0.0, "nesterov": nesterov, "maximize": False}
    agrees(aten._fused_sgd_.default, tensors(), tensors(), tensors(), **options, is_first_step=is_first_step)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscaling_finds_what_is_not_finite(bad: float | None) -> None:
    grads = tensors()
    if bad is not None:
        grads[1][0, 1] = bad
    agrees(aten._amp_foreach_non_finite_check_and_unscale_.default, grads, torch.zeros(1), torch.tensor([0.25]), in_float64=False)


@pytest.mark.parametrize(("found", "tracker"), [(0.0, 0), (0.0, 1), (1.0, 1)])
def test_loss_scale_update(found: float, tracker: int) -> None:
    state = torch.tensor([1024.0]), torch.tensor([tracker], dtype=torch.int32)
    agrees(aten._amp_update_scale_.default, *state, torch.tensor([found]), 2.0, 0.5, 2, in_float64=False)
