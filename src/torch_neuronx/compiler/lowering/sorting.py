"""Sorting and order statistics."""

from __future__ import annotations

import math

from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .reduction import all_dims, restored
from .registry import lowering


def sorted_with_indices(b: LoweringBuilder, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    """Stable; nan counts as larger than all numbers."""
    if not x.shape:
        return x, b.constant(0, DType.I64)
    attributes = {"dim": dim % len(x.shape), "descending": descending, "stable": True}
    values, indices = b.composite("sort", (x,), attributes, (x.type, TensorType(x.shape, DType.I64)))
    return values, indices


@lowering("aten::sort", exact=True)
def sort(b: LoweringBuilder, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    return sorted_with_indices(b, x, dim, descending)


@lowering("aten::sort.stable", exact=True)
def sort_stable(b: LoweringBuilder, x: Value, stable: bool | None, dim: int, descending: bool) -> tuple[Value, Value]:
    return sorted_with_indices(b, x, dim, descending)


@lowering("aten::argsort.stable", exact=True)
def argsort(b: LoweringBuilder, x: Value, stable: bool, dim: int, descending: bool) -> Value:
    return sorted_with_indices(b, x, dim, descending)[1]


@lowering("aten::topk", exact=True)
def topk(b: LoweringBuilder, x: Value, k: int, dim: int, largest: bool, is_sorted: bool) -> tuple[Value, Value]:
    values_type, indices_type = b.outputs
    if not x.shape:
        return x, b.constant(0, DType.I64)
    attributes = {"k": k, "dim": dim % len(x.shape), "largest": largest}
    values, indices = b.composite("topk", (x,), attributes, (values_type, indices_type))
    return values, indices


def _element(b: LoweringBuilder, x: Value, axis: int, position: int) -> Value:
    """The slice at ``position`` of ``axis``, without that axis."""
    start = [position if i == axis else 0 for i in range(len(x.shape))]
    limit = [position + 1 if i == axis else extent for i, extent in enumerate(x.shape)]
    return b.reshape(b.slice(x, start, limit), [extent for i, extent in enumerate(x.shape) if i != axis])


@lowering("aten::kthvalue", exact=True)
def kthvalue(b: LoweringBuilder, x: Value, k: int, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _order_statistic(b, x, k - 1, dim, keepdim)


def _order_statistic(b: LoweringBuilder, x: Value, position: int, dim: int, keepdim: bool) -> tuple[Value, Value]:
    if not x.shape:
        return x, b.constant(0, DType.I64)
    (axis,) = all_dims(x, dim)
    ordered = sorted_with_indices(b, x, axis, False)
    value, index = (restored(b, _element(b, part, axis, position), x, (axis,), keepdim) for part in ordered)
    return value, index


@lowering("aten::median.dim", exact=True)
def median_dim(b: LoweringBuilder, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The lower median; the first nan if there is one."""
    if not x.shape:
        return x, b.constant(0, DType.I64)
    (axis,) = all_dims(x, dim)
    value, index = _order_statistic(b, x, (x.shape[axis] - 1) // 2, axis, keepdim)
    if not x.dtype.is_float:
        return value, index
    nan = b.is_nan(x)
    has_nan = restored(b, b.reduce(nan, "or", (axis,)), x, (axis,), keepdim)
    first = restored(b, b.argreduce(b.cast(nan, DType.UI8), "maximum", axis), x, (axis,), keepdim)
    return b.select(has_nan, b.like(math.nan, value), value), b.select(has_nan, first, index)


@lowering("aten::median", exact=True)
def median(b: LoweringBuilder, x: Value) -> Value:
    if not x.shape:
        return x
    count = math.prod(x.shape)
    if count == 0:
        return b.constant(math.nan, x.dtype)
    return median_dim(b, b.reshape(x, (count,)), 0, False)[0]
