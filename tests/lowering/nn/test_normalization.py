"""Norms and softmax with their gradients against CPU float64."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check, compare, run
from torch.testing import make_tensor

aten = torch.ops.aten


def floats(*shape: int) -> torch.Tensor:
    return make_tensor(shape, device="cpu", dtype=torch.float32, low=-3, high=3)


@pytest.mark.parametrize(("shape", "dim"), [((4, 7), 1), ((4, 7), 0), ((2, 3, 5), -2), ((), 0), ((0, 3), 1)])
@pytest.mark.parametrize(
    ("forward", "backward"),
    [(aten._softmax.default, aten._softmax_backward_data.default), (aten._log_softmax.default, aten._log_softmax_backward_data.default)],
)
def test_softmax(forward: torch._ops.OpOverload, backward: torch._ops.OpOverload, shape: tuple[int, ...], dim: int) -> None:
    x = floats(*shape)
    check(forward, x, dim, False)
    output = forward(x, dim, False)
    variants, _ = run(backward, [torch.ones_like(x), output, dim, torch.float32])
    grad = torch.randn(shape)
    expected = backward(grad.double(), output.double(), dim, torch.float64)
    (result,), _ = run(backward, [grad, output, dim, torch.float32])
    compare(str(backward), result, expected, 2e-5, 2e-6)
    assert len(variants) == 1


def test_softmax_of_large_values_and_infinities() -> None:
    check(aten._softmax.default, torch.tensor([[1e4, 1e4 - 1], [-1e30, 0.0], [float("-inf"), 1.0]]), 1, False)
    check(aten._softmax.default, torch.full((1, 3), float("-inf")), 1, False)
    check(aten._log_softmax.default, torch.tensor([[1e4, 1e4 - 1], [-1e30, 0.0]]), 1, False)


def test_half_to_float_softmax() -> None:
    x = floats(2, 5).half()
    (result,), _ = run(aten._softmax.default, [x, 1, True])
    compare("softmax", result, x.double().softmax(1), 1e-6, 0)
    assert result is not None
    assert result.dtype == torch.float32


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "normalized"), [((4, 6), [6]), ((2, 3, 4, 5), [4, 5]), ((7,), [7]), ((0, 4), [4])])
def test_layer_norm(shape: tuple[int, ...], normalized: list[int], affine: bool) -> None:
    x = floats(*shape)
    weight, bias = (floats(*normalized), floats(*normalized)) if affine else (None, None)
    check(aten.native_layer_norm.default, x, normalized, weight, bias, 1e-5)
    _, mean, rstd = aten.native_layer_norm.default(x, normalized, weight, bias, 1e-5)
    mask = [True, affine, affine]
    check(aten.native_layer_norm_backward.default, torch.randn(shape), x, normalized, mean, rstd, weight, bias, mask, rtol=1e-4, atol=1e-5)


def test_layer_norm_of_values_far_from_zero_keeps_its_precision() -> None:
    x = 1000 + torch.arange(12.0).reshape(2, 6) / 8
    check(aten.native_layer_norm.default, x, [6], None, None, 1e-5)


@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(affine: bool) -> None:
    x = floats(3, 4, 6)
    weight = floats(6) if affine else None
    leaves = [tensor.double().requires_grad_() for tensor in (x, weight) if tensor is not None]
    expected = torch.nn.functional.rms_norm(leaves[0], [6], leaves[1] if affine else None, 1e-5)
    results, _ = run(aten._fused_rms_norm.default, [x, [6], weight, 1e-5])
    compare("rms_norm", results[0], expected.detach(), 2e-5, 2e-6)
    compare("rstd", results[1], (x.double().square().mean(-1, keepdim=True) + 1e-5).rsqrt(), 2e-5, 2e-6)
    grad = torch.randn(3, 4, 6)
    expected_grads = torch.autograd.grad(expected, leaves, grad.double())
    grads, _ = run(aten._fused_rms_norm_backward.default, [grad, x, [6], results[1], weight, [True, affine]])
    for result, right in zip(grads, (*expected_grads, None)):
        compare("rms_norm backward", result, right, 1e-4, 1e-5)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 5), 3), ((3, 4, 3, 3), 1), ((2, 4), 4)])
def test_group_norm(shape: tuple[int, ...], groups: int, affine: bool) -> None:
    x = floats(*shape)
    samples, channels = shape[:2]
    extent = x[0, 0].numel()
    weight, bias = (floats(channels), floats(channels)) if affine else (None, None)
    sizes = (samples, channels, extent, groups)
    check(aten.native_group_norm.default, x, weight, bias, *sizes, 1e-5)
    _, mean, rstd = aten.native_group_norm.default(x, weight, bias, *sizes, 1e-5)
    check(
        aten.native_group_norm_backward.default,
        *(torch.randn(shape), x, mean, rstd, weight, *sizes, [True, affine, affine]),
        rtol=1e-3,
        atol=1e-4,
    )
