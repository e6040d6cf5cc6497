"""Writing along one dimension at index tensors: scatter, index_add and their relatives."""

from __future__ import annotations

import math

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .indexing import at_least_1d, flat, flat_positions, out_of_range, put_along, wrapped
from .precision import widened
from .registry import lowering

# PyTorch's names of reductions → scatter kinds; mean is a sum and a count.
_KINDS = {
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


def _scatter(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, kind: str) -> Value:
    """``source`` is of the index's shape, or larger (the rest is not used), or 0-d."""
    if math.prod(index.shape) == 0:
        return x
    target, places = at_least_1d(b, x), at_least_1d(b, index)
    axis = dim % len(target.shape)
    if source.shape and source.shape != index.shape:
        source = b.slice(source, [0] * len(source.shape), index.shape)
    updates = flat(b, b.broadcast(b.cast(source, x.dtype), places.shape if not source.shape else source.shape))
    positions = flat(b, flat_positions(b, target.shape, axis, places))
    message = out_of_range(target.shape[axis], axis)
    return b.reshape(b.scatter(flat(b, target), positions, updates, kind, (), (0,), (0,), 1, message), x.shape)


@lowering("aten::scatter.src", exact=True)
def scatter(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(b, x, dim, index, source, "set")


@lowering("aten::scatter.value", exact=True)
def scatter_value(b: LoweringBuilder, x: Value, dim: int, index: Value, value: Value | int | float | complex) -> Value:
    return _scatter(b, x, dim, index, b.scalar(value, x.dtype), "set")


@lowering("aten::scatter_add")
def scatter_add(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(b, widened(b, x), dim, index, source, "add")


@lowering("aten::scatter.reduce")
def scatter_reduce(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str) -> Value:
    return _scatter(b, widened(b, x), dim, index, source, _KINDS[reduce])


@lowering("aten::scatter.value_reduce")
def scatter_reduce_value(b: LoweringBuilder, x: Value, dim: int, index: Value, value: Value | int | float | complex, reduce: str) -> Value:
    return _scatter(b, widened(b, x), dim, index, b.scalar(value, x.dtype), _KINDS[reduce])


@lowering("aten::scatter_reduce.two")
def scatter_reduce_two(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    x = widened(b, x)
    start = x if include_self else _scatter(b, x, dim, index, _identity(b, x, reduce), "set")
    total = _scatter(b, start, dim, index, source, _KINDS[reduce])
    if reduce != "mean":
        return total
    ones = b.constant(1, DType.I64, index.shape)
    count = _scatter(b, b.constant(int(include_self), DType.I64, x.shape), dim, index, ones, "add")
    return _mean(b, total, count)


def _identity(b: LoweringBuilder, x: Value, reduce: str) -> Value:
    """The value that a reduction starts from where the tensor's own does not count."""
    match _KINDS[reduce]:
        case "add":
            return b.constant(0, x.dtype)
        case "multiply":
            return b.constant(1, x.dtype)
        case kind:
            return b.reduce(b.constant(0, x.dtype, (0,)), kind, (0,))


def _mean(b: LoweringBuilder, total: Value, count: Value) -> Value:
    """total / count, rounding down for integers; a count of 0 counts as 1."""
    divisor = b.cast(b.maximum(count, b.like(1, count)), total.dtype)
    if total.dtype.is_float or total.dtype.is_complex:
        return b.divide(total, divisor)
    quotient = b.divide(total, divisor)
    if total.dtype.kind == "u":
        return quotient
    rest = b.remainder(total, divisor)
    return b.select(b.compare(rest, b.like(0, rest), "LT"), b.subtract(quotient, b.like(1, quotient)), quotient)


def _put_slices(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, kind: str) -> Value:
    """``source``'s slices along ``dim`` combined into those of ``x`` that ``index`` names."""
    target, places = at_least_1d(b, x), at_least_1d(b, b.cast(index, DType.I64))
    if math.prod(places.shape) == 0 or math.prod(target.shape) == 0:
        return x
    axis = dim % len(target.shape)
    source = b.cast(source, x.dtype)
    shape = (*target.shape[:axis], places.shape[0], *target.shape[axis + 1 :])
    updates = b.reshape(source, shape) if math.prod(source.shape) == math.prod(shape) else b.broadcast(source, shape)
    return b.reshape(put_along(b, target, axis, places, updates, kind, out_of_range(target.shape[axis], axis)), x.shape)


@lowering("aten::index_add")
def index_add(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, alpha: Value | int | float) -> Value:
    x = widened(b, x)
    axis = dim % max(len(x.shape), 1)
    if len(source.shape) == len(x.shape) and any(i != axis and pair[0] != pair[1] for i, pair in enumerate(zip(x.shape, source.shape))):
        raise ValueError(f"index_add: the source is {source.type}; it must have the sizes of {x.type} in all dimensions but {dim}")
    source = b.cast(source, x.dtype)
    return _put_slices(b, x, dim, index, b.multiply(source, b.scalar(alpha, x.dtype, source.shape)), "add")


@lowering("aten::index_copy", exact=True)
def index_copy(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _put_slices(b, x, dim, index, source, "set")


@lowering("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor", exact=True)
def index_fill(b: LoweringBuilder, x: Value, dim: int, index: Value, value: Value | int | float | complex) -> Value:
    extent = x.shape[dim] if x.shape else 1
    return _put_slices(b, x, dim, wrapped(b, index, extent), b.scalar(value, x.dtype), "set")


@lowering("aten::index_reduce")
def index_reduce(b: LoweringBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    x = widened(b, x)
    start = x if include_self else _put_slices(b, x, dim, index, _identity(b, x, reduce), "set")
    total = _put_slices(b, start, dim, index, source, _KINDS[reduce])
    if reduce != "mean":
        return total
    count = _put_slices(b, b.constant(int(include_self), DType.I64, x.shape), dim, index, b.constant(1, DType.I64, source.shape), "add")
    return _mean(b, total, count)


@lowering("aten::put", exact=True)
def put(b: LoweringBuilder, x: Value, index: Value, source: Value, accumulate: bool) -> Value:
    if math.prod(index.shape) == 0 or not x.shape:
        return x if math.prod(index.shape) == 0 else _put_into_0d(b, x, index, source, accumulate)
    count = math.prod(x.shape)
    positions = flat(b, wrapped(b, index, count))
    kind = "add" if accumulate else "set"
    return b.reshape(b.scatter(flat(b, x), positions, flat(b, source), kind, (), (0,), (0,), 1, out_of_range(count, 0)), x.shape)


def _put_into_0d(b: LoweringBuilder, x: Value, index: Value, source: Value, accumulate: bool) -> Value:
    return b.reshape(put(b, b.reshape(x, (1,)), index, source, accumulate), ())
