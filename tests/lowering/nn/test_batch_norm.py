"""Batch norm, its running statistics and its gradient against CPU float64."""

from __future__ import annotations

import pytest
import torch
from interpreted import in_schema_order
from lowering_reference import check, compare, run
from torch.testing import make_tensor

aten = torch.ops.aten
SHAPES = [(5, 3), (4, 3, 6), (2, 3, 4, 5), (2, 3, 2, 3, 2)]


def floats(*shape: int) -> torch.Tensor:
    return make_tensor(shape, device="cpu", dtype=torch.float32, low=-3, high=3)


def parameters() -> tuple[torch.Tensor, torch.Tensor]:
    return floats(3), floats(3)


def running() -> tuple[torch.Tensor, torch.Tensor]:
    return floats(3), floats(3).abs() + 0.1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_training_writes_the_running_statistics(shape: tuple[int, ...], affine: bool, tracked: bool) -> None:
    weight, bias = parameters() if affine else (None, None)
    mean, var = running() if tracked else (None, None)
    check(aten.native_batch_norm.default, floats(*shape), weight, bias, mean, var, True, 0.1, 1e-5)


def test_evaluation_uses_and_keeps_the_running_statistics() -> None:
    x, (weight, bias), (mean, var) = floats(2, 3, 4, 5), parameters(), running()
    results, written = run(aten.native_batch_norm.default, [x, weight, bias, mean, var, False, 0.1, 1e-5])
    expected = torch.nn.functional.batch_norm(*(tensor.double() for tensor in (x, mean, var, weight, bias)))
    compare("evaluation", results[0], expected, 2e-5, 2e-6)
    assert written == {}


def test_explicit_variants() -> None:
    x, (weight, bias) = floats(2, 3, 4, 5), parameters()
    check(aten._native_batch_norm_legit.default, x, weight, bias, *running(), True, 0.3, 1e-5)
    check(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, 0.3, 1e-5)
    check(aten._native_batch_norm_legit_functional.default, x, weight, bias, *running(), True, 0.3, 1e-5)
    check(aten._batch_norm_with_update.default, x, weight, bias, *running(), 0.3, 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_gradient_in_training(shape: tuple[int, ...], affine: bool) -> None:
    x = floats(*shape)
    weight, bias = parameters() if affine else (None, None)
    _, mean, invstd = aten.native_batch_norm.default(x, weight, bias, None, None, True, 0.1, 1e-5)
    arguments = (torch.randn(shape), x, weight, *running(), mean, invstd, True, 1e-5, [True, affine, affine])
    check(aten.native_batch_norm_backward.default, *arguments, rtol=1e-4, atol=1e-5)


def test_gradient_in_evaluation() -> None:
    x, (weight, _) = floats(2, 3, 4), parameters()
    arguments = (torch.randn(2, 3, 4), x, weight, *running(), None, None, False, 1e-5, [True, True, True])
    check(aten.native_batch_norm_backward.default, *arguments, rtol=1e-4, atol=1e-5)


def test_bfloat16_input_with_float32_parameters() -> None:
    x, (weight, bias), (mean, var) = floats(4, 3, 5).bfloat16(), parameters(), running()
    op = aten.native_batch_norm.default
    results, written = run(op, in_schema_order(op, (x, weight, bias, mean, var, True, 0.1, 1e-5), {}))
    expected = torch.nn.functional.batch_norm(x.double(), None, None, weight.double(), bias.double(), training=True)
    assert results[0] is not None
    assert results[0].dtype == torch.bfloat16
    compare("out", results[0], expected, 1e-2, 1e-2)
    assert written[3].dtype == torch.float32
    compare("running mean", written[3], 0.9 * mean.double() + 0.1 * x.double().mean((0, 2)), 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_gradients_of_the_parameters_are_summed_in_float32(dtype: torch.dtype) -> None:
    """4096 terms of one sign per channel: sums kept in the narrow type would stop growing long before the end."""
    x, grad = torch.randn(4, 3, 32, 32).to(dtype), (torch.rand(4, 3, 32, 32) + 0.5).to(dtype)
    weight = torch.ones(3, dtype=dtype)
    mean, invstd = x.double().mean((0, 2, 3)), x.double().var((0, 2, 3), correction=0).add(1e-5).rsqrt()
    arguments = [grad, x, weight, None, None, mean.float(), invstd.float(), True, 1e-5, [True, True, True]]
    (dx, dweight, dbias), _ = run(aten.native_batch_norm_backward.default, arguments)
    wide = [value.double() if isinstance(value, torch.Tensor) else value for value in arguments]
    expected = aten.native_batch_norm_backward.default(*wide)
    rounding = torch.finfo(dtype).eps
    scale = float(grad.double().sum((0, 2, 3)).max())
    compare("dx", dx, expected[0], rounding, rounding)
    compare("dweight", dweight, expected[1], rounding, 1e-5 * scale)
    compare("dbias", dbias, expected[2], rounding, 1e-5 * scale)
