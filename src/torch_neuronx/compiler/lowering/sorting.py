"""Sorting and order statistics."""

from __future__ import annotations

import math

import numpy as np
import torch

from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .dtypes import to_dtype, to_torch
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


@lowering("aten::searchsorted.Tensor", exact=True)
def searchsorted(
    b: LoweringBuilder, ordered: Value, values: Value, out_int32: bool, right: bool, side: str | None, sorter: Value | None
) -> Value:
    """For each value, how many elements of its row come before it; with ``right`` also those equal to it."""
    return _bisected(b, ordered, values, right or side == "right", sorter)


@lowering("aten::searchsorted.Scalar", exact=True)
def searchsorted_scalar(
    b: LoweringBuilder,
    ordered: Value,
    value: Value | int | float,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Value | None,
) -> Value:
    return _bisected(b, ordered, b.scalar(value, ordered.dtype), right or side == "right", sorter)


@lowering("aten::bucketize.Tensor", exact=True)
def bucketize(b: LoweringBuilder, values: Value, boundaries: Value, out_int32: bool, right: bool) -> Value:
    if len(boundaries.shape) != 1:
        raise ValueError(f"bucketize: the boundaries are {boundaries.type}; they must have one dimension")
    return _bisected(b, boundaries, values, right, None)


@lowering("aten::bucketize.Scalar", exact=True)
def bucketize_scalar(b: LoweringBuilder, value: Value | int | float, boundaries: Value, out_int32: bool, right: bool) -> Value:
    return _bisected(b, boundaries, b.scalar(value, boundaries.dtype), right, None)


def _bisected(b: LoweringBuilder, ordered: Value, values: Value, right: bool, sorter: Value | None) -> Value:
    """Bisection of all values at once: the step halves, and a value moves on where the element before the next place is still lower."""
    common = to_dtype(torch.promote_types(to_torch(ordered.dtype), to_torch(values.dtype)))
    rows, values = b.cast(ordered, common), b.cast(values, common)
    *_, extent = ordered.shape
    place = b.constant(0, DType.I64, values.shape)
    step = 1 << extent.bit_length()
    while step := step // 2:
        candidate = b.add(place, b.like(step, place))
        inside = b.compare(candidate, b.like(extent, place), "LE")
        index = b.select(inside, b.subtract(candidate, b.like(1, place)), b.like(0, place))
        element = _row_element(b, rows, index if sorter is None else _row_element(b, sorter, index))
        # Written so that nan, which compares with nothing, comes after everything.
        lower = b.not_(b.compare(element, values, "GT" if right else "GE"))
        place = b.select(b.and_(inside, lower), candidate, place)
    return place


def _row_element(b: LoweringBuilder, rows: Value, index: Value) -> Value:
    """``rows[..., index]`` with one row for all, or the row that the index stands in."""
    flat = b.reshape(rows, (math.prod(rows.shape),))
    if len(rows.shape) > 1:
        strides = np.cumprod([1, *reversed(rows.shape[1:])])[::-1].tolist()
        for axis, stride in enumerate(strides[:-1]):
            row = b.iota(index.shape, DType.I64, axis)
            index = b.add(index, b.multiply(row, b.like(stride, row)))
    return b.take(flat, index, 0)
