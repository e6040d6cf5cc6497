"""The attention library kernels against a float64 softmax written out."""

import math

import pytest
import torch

from torch_neuronx import _C

SHAPES = {
    # q heads, key heads, queries, keys, head size, value size
    "square": (4, 4, 6, 6, 8, 8),
    "more_keys": (2, 2, 3, 9, 8, 8),
    "grouped": (6, 2, 5, 5, 8, 8),
    "one_key_head": (4, 1, 5, 7, 8, 8),
    "narrow_values": (2, 2, 5, 7, 8, 4),
    "long": (2, 2, 70, 130, 16, 16),
}


def reference(q, k, v, mask, causal, scale):
    """(output, logsumexp) in the operands' dtype; every step differentiable."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = torch.einsum("bhld,bhsd->bhls", q, k) * scale
    hidden = torch.zeros(scores.shape, dtype=torch.bool)
    if mask is not None and mask.dtype == torch.bool:
        hidden |= ~mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        hidden |= torch.arange(k.shape[2])[None, :] > torch.arange(q.shape[2])[:, None]
    scores = scores.masked_fill(hidden, -math.inf)
    sums = torch.logsumexp(scores, -1)
    weights = torch.where(sums[..., None] == -math.inf, 0, torch.exp(scores - sums[..., None]))
    return torch.einsum("bhls,bhsd->bhld", weights, v), sums


def operands(shape, dtype=torch.float32):
    heads, key_heads, queries, keys, size, value_size = shape
    q = torch.randn(2, heads, queries, size).to(dtype)
    k = torch.randn(2, key_heads, keys, size).to(dtype)
    v = torch.randn(2, key_heads, keys, value_size).to(dtype)
    return q, k, v


def masks(shape):
    heads, _, queries, keys, _, _ = shape
    visible = torch.rand(2, 1, queries, keys) > 0.3
    visible[..., 0] = True
    return {"none": None, "boolean": visible, "additive": torch.randn(1, heads, queries, keys)}


def wide(tensor):
    return tensor.double() if tensor is not None and tensor.is_floating_point() else tensor


def run_forward(q, k, v, mask, causal, scale):
    out = torch.full((*q.shape[:3], v.shape[3]), math.nan, dtype=q.dtype)
    sums = torch.full(q.shape[:3], math.nan, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    _C._run_library("attention", [out, sums, q, k, v, mask], [causal], [scale])
    return out, sums


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("mask_kind", ["none", "boolean", "additive"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_attention_forward_and_backward(shape, mask_kind: str, causal: bool) -> None:
    (q, k, v), mask, scale = operands(shape), masks(shape)[mask_kind], 0.3
    wide_operands = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    expected, expected_sums = reference(*wide_operands, wide(mask), causal, scale)
    out, sums = run_forward(q, k, v, mask, causal, scale)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sums.double(), expected_sums, rtol=1e-4, atol=1e-5)

    gradient = torch.randn(out.shape)
    expected.backward(gradient.double())
    gradients = [torch.full_like(tensor, math.nan) for tensor in (q, k, v)]
    _C._run_library("attention_backward", [*gradients, gradient, q, k, v, out, sums, mask], [causal], [scale])
    for actual, operand in zip(gradients, wide_operands, strict=True):
        torch.testing.assert_close(actual.double(), operand.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_attention_in_other_dtypes(dtype: torch.dtype) -> None:
    q, k, v = operands(SHAPES["square"], dtype)
    out, sums = run_forward(q, k, v, None, True, 0.25)
    expected, expected_sums = reference(q.double(), k.double(), v.double(), None, True, 0.25)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-2
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(sums.double(), expected_sums, rtol=tolerance, atol=tolerance)


def test_a_query_that_sees_no_key_has_output_zero() -> None:
    q, k, v = operands(SHAPES["square"])
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool)
    mask[..., 2, :] = False
    out, sums = run_forward(q, k, v, mask, False, 0.3)
    assert torch.equal(out[:, :, 2], torch.zeros(2, 4, 8))
    assert torch.equal(sums[:, :, 2], torch.full((2, 4), -math.inf))
    torch.testing.assert_close(out.double(), reference(q.double(), k.double(), v.double(), mask, False, 0.3)[0], rtol=1e-4, atol=1e-5)
    gradients = [torch.full_like(tensor, math.nan) for tensor in (q, k, v)]
    _C._run_library("attention_backward", [*gradients, torch.ones_like(out), q, k, v, out, sums, mask], [False], [0.3])
    assert torch.equal(gradients[0][:, :, 2], torch.zeros(2, 4, 8))
    assert all(torch.isfinite(tensor).all() for tensor in gradients)


def test_attention_without_keys_is_zero() -> None:
    out, _ = run_forward(torch.randn(1, 2, 3, 8), torch.empty(1, 2, 0, 8), torch.empty(1, 2, 0, 8), None, False, 1.0)
    assert torch.equal(out, torch.zeros(1, 2, 3, 8))


def test_attention_without_queries_writes_nothing() -> None:
    out, sums = run_forward(torch.empty(2, 2, 0, 8), torch.randn(2, 2, 4, 8), torch.randn(2, 2, 4, 8), None, False, 1.0)
    assert out.shape == (2, 2, 0, 8)
    assert sums.shape == (2, 2, 0)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(RuntimeError, match="3 query heads for 2 key heads"):
        run_forward(torch.randn(1, 3, 2, 4), torch.randn(1, 2, 2, 4), torch.randn(1, 2, 2, 4), None, False, 1.0)
