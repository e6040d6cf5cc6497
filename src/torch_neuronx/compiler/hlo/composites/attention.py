"""Scaled dot-product attention and its gradient. Everything is computed in f32, and in f64 for f64 operands."""

from __future__ import annotations

from ..builder import Builder
from ..composite_rules import statistics_dtype
from ..ir import Value
from ..types import DType


def decompose_attention(
    b: Builder, q: Value, k: Value, v: Value, mask: Value | None = None, *, causal: bool, scale: float
) -> tuple[Value, Value]:
    """(out, logsumexp). A row without a kept column has the maximum -inf, the sum 0, hence the result 0."""
    scores = _scores(b, q, k, mask, causal, scale)
    wide = scores.dtype
    batch, heads, length, _ = q.shape
    maximum = b.reduce(scores, "maximum", (3,))
    finite_maximum = b.select(_is_value(b, maximum, float("-inf")), _fill(b, 0.0, maximum), maximum)
    weights = b.exponential(b.subtract(scores, _along_rows(b, finite_maximum, scores)))
    total = b.reduce(weights, "add", (3,))
    logsumexp = b.add(finite_maximum, b.log(total))
    divisor = b.select(_is_value(b, total, 0.0), _fill(b, 1.0, total), total)
    probabilities = b.divide(weights, _along_rows(b, divisor, weights))
    out = b.dot_general(_by_key_head(b, probabilities, k), b.convert(v, wide), (0, 1), (0, 1), (4,), (2,))
    return b.convert(b.reshape(out, (batch, heads, length, v.shape[3])), q.dtype), logsumexp


def decompose_attention_backward(
    b: Builder,
    dout: Value,
    q: Value,
    k: Value,
    v: Value,
    out: Value,
    logsumexp: Value,
    mask: Value | None = None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Value, Value, Value]:
    """(dq, dk, dv), from probabilities recomputed with logsumexp: with P = exp(scores - logsumexp) and Δ = rowsum(dout ∘ out),
    dV = Pᵀ dout, dS = P ∘ (dout Vᵀ - Δ), dQ = scale dS K, dK = scale dSᵀ Q. Gradients of shared key heads are summed."""
    scores = _scores(b, q, k, mask, causal, scale)
    wide = scores.dtype
    shift = b.select(_is_value(b, logsumexp, float("-inf")), _fill(b, 0.0, logsumexp), logsumexp)
    probabilities = _by_key_head(b, b.exponential(b.subtract(scores, _along_rows(b, shift, scores))), k)
    queries, douts = _by_key_head(b, b.convert(q, wide), k), _by_key_head(b, b.convert(dout, wide), k)
    keys, values = b.convert(k, wide), b.convert(v, wide)

    dv = b.dot_general(probabilities, douts, (0, 1), (0, 1), (2, 3), (2, 3))
    dprobabilities = b.dot_general(douts, values, (0, 1), (0, 1), (4,), (3,))
    delta = b.reduce(b.multiply(douts, _by_key_head(b, b.convert(out, wide), k)), "add", (4,))
    dscores = b.multiply(probabilities, b.subtract(dprobabilities, _along_rows(b, delta, dprobabilities)))
    dscores = b.multiply(dscores, _fill(b, scale, dscores))
    dq = b.dot_general(dscores, keys, (0, 1), (0, 1), (4,), (2,))
    dk = b.dot_general(dscores, queries, (0, 1), (0, 1), (2, 3), (2, 3))
    return b.convert(b.reshape(dq, q.shape), q.dtype), b.convert(dk, k.dtype), b.convert(dv, v.dtype)


def _scores(b: Builder, q: Value, k: Value, mask: Value | None, causal: bool, scale: float) -> Value:
    """[B,H,L,S]: scale · q kᵀ, plus the mask; -inf where a column is not kept."""
    wide = statistics_dtype(q.dtype)
    shape = (*q.shape[:3], k.shape[2])
    products = b.dot_general(_by_key_head(b, b.convert(q, wide), k), b.convert(k, wide), (0, 1), (0, 1), (4,), (3,))
    scores = b.reshape(products, shape)
    scores = b.multiply(scores, _fill(b, scale, scores))
    removed = _fill(b, float("-inf"), scores)
    if mask is not None and mask.dtype is DType.I1:
        scores = b.select(b.broadcast(mask, shape), scores, removed)
    elif mask is not None:
        scores = b.add(scores, b.broadcast(b.convert(mask, wide), shape))
    if causal:
        rows, columns = b.iota(shape, DType.I64, 2), b.iota(shape, DType.I64, 3)
        scores = b.select(b.compare(columns, rows, "LE"), scores, removed)
    return scores


def _by_key_head(b: Builder, x: Value, k: Value) -> Value:
    """[B,H,L,N] as [B,Hkv,H/Hkv,L,N]."""
    batch, heads, length, width = x.shape
    return b.reshape(x, (batch, k.shape[1], heads // k.shape[1], length, width))


def _along_rows(b: Builder, x: Value, like: Value) -> Value:
    """``x`` repeated along the last dimension of ``like``."""
    return b.broadcast_in_dim(x, like.shape, range(len(x.shape)))


def _fill(b: Builder, value: float, like: Value) -> Value:
    return b.constant(value, like.dtype, like.shape)


def _is_value(b: Builder, x: Value, value: float) -> Value:
    return b.compare(x, _fill(b, value, x), "EQ")
