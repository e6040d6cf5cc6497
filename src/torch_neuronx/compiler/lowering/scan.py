"""Cumulative functions along one dimension."""

from __future__ import annotations

import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering


def scanned(b: LoweringBuilder, x: Value, kind: str, dim: int) -> Value:
    return b.scan(x, kind, dim % len(x.shape)) if x.shape else x


@lowering("aten::cumsum")
def cumsum(b: LoweringBuilder, x: Value, dim: int, dtype: torch.dtype | None) -> Value:
    return scanned(b, widened(b, b.cast(x, b.output.dtype)), "add", dim)


@lowering("aten::cumprod")
def cumprod(b: LoweringBuilder, x: Value, dim: int, dtype: torch.dtype | None) -> Value:
    return scanned(b, widened(b, b.cast(x, b.output.dtype)), "multiply", dim)


@lowering("aten::cummax", exact=True)
def cummax(b: LoweringBuilder, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme_so_far(b, x, "maximum", dim)


@lowering("aten::cummin", exact=True)
def cummin(b: LoweringBuilder, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme_so_far(b, x, "minimum", dim)


def _extreme_so_far(b: LoweringBuilder, x: Value, kind: str, dim: int) -> tuple[Value, Value]:
    """The running extreme and the last index at which it was met; nan is an extreme that stays."""
    if not x.shape:
        return x, b.constant(0, DType.I64)
    axis = dim % len(x.shape)
    comparable = b.cast(x, DType.UI8) if x.dtype is DType.I1 else x
    values = b.scan(comparable, kind, axis)
    met = b.compare(comparable, values, "EQ")
    if x.dtype.is_float:
        met = b.or_(met, b.compare(x, x, "NE"))
    position = b.iota(x.shape, DType.I64, axis)
    return values, b.scan(b.select(met, position, b.like(0, position)), "maximum", axis)


@lowering("aten::logcumsumexp")
def logcumsumexp(b: LoweringBuilder, x: Value, dim: int) -> Value:
    """The logarithm of the running sum of exponentials, by pairwise doubling so that nothing overflows."""
    b.require_real(x)
    if not x.shape:
        return x
    x = widened(b, x)
    axis = dim % len(x.shape)
    step = 1
    while step < x.shape[axis]:
        x = _log_add(b, x, _shifted(b, x, axis, step))
        step *= 2
    return x


def _shifted(b: LoweringBuilder, x: Value, axis: int, step: int) -> Value:
    """``x`` moved up by ``step`` along ``axis``; -inf comes in."""
    low = [step if i == axis else 0 for i in range(len(x.shape))]
    return b.pad(x, b.constant(float("-inf"), x.dtype), low, [-amount for amount in low])


def _log_add(b: LoweringBuilder, x: Value, y: Value) -> Value:
    large, small = b.maximum(x, y), b.minimum(x, y)
    total = b.add(large, b.log_plus_one(b.exponential(b.subtract(small, large))))
    return b.select(b.compare(x, y, "EQ"), b.select(b.is_inf(x), x, total), b.select(b.is_inf(large), large, total))
