"""Max and average pooling of [N, C, spatial...] over the spatial dimensions, and their gradients."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np

from ..builder import Builder
from ..composite_rules import pooled_shape
from ..ir import Value
from ..numerics import Array, lowest
from ..types import DType

Ints = tuple[int, ...]


def decompose_max_pool(
    b: Builder, x: Value, *, window: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Value, Value]:
    """A running maximum over the window's elements in row-major order.

    An element replaces the best so far if it is the first inside the input, is greater, or is nan: PyTorch's rule.
    """
    shape = pooled_shape(x.type, window, strides, padding, dilation, ceil_mode)
    best, best_index = b.constant(lowest(x.dtype), x.dtype, shape), b.constant(-1, DType.I64, shape)
    if prod(shape) == 0:
        return best, best_index
    counts = shape[2:]
    reach = [(n - 1) * stride + (size - 1) * step + 1 for n, stride, size, step in zip(counts, strides, window, dilation, strict=True)]
    high = [end - extent - pad for end, extent, pad in zip(reach, x.shape[2:], padding, strict=True)]
    padded = b.pad(x, b.constant(lowest(x.dtype), x.dtype), (0, 0, *padding), (0, 0, *high))
    for place in itertools.product(*map(range, window)):
        start = [at * step for at, step in zip(place, dilation, strict=True)]
        limit = [first + (n - 1) * stride + 1 for first, n, stride in zip(start, counts, strides, strict=True)]
        value = b.slice(padded, (0, 0, *start), (*shape[:2], *limit), (1, 1, *strides))
        inside, flat = _plane_positions(x.shape[2:], counts, strides, [first - pad for first, pad in zip(start, padding, strict=True)])
        better = b.or_(b.compare(value, best, "GT"), b.compare(best_index, b.constant(0, DType.I64, shape), "LT"))
        if x.dtype.is_float:
            better = b.or_(better, b.is_nan(value))
        better = b.and_(better, b.broadcast(b.constant(inside, DType.I1), shape))
        best = b.select(better, value, best)
        best_index = b.select(better, b.broadcast(b.constant(flat, DType.I64), shape), best_index)
    return best, best_index


def _plane_positions(extents: Ints, counts: Ints, strides: Ints, first: list[int]) -> tuple[Array, Array]:
    """Of the input positions ``first + stride · i`` for all windows i: which lie inside, and their flat indices."""
    positions = np.indices(counts).reshape(len(counts), *counts)
    inside, flat = np.ones(counts, np.bool_), np.zeros(counts, np.int64)
    for axis, extent in enumerate(extents):
        position = positions[axis] * strides[axis] + first[axis]
        inside &= (position >= 0) & (position < extent)
        flat = flat * extent + position
    return inside, flat


def decompose_max_pool_backward(b: Builder, dout: Value, indices: Value, *, input_shape: Ints) -> Value:
    """dout added at the flat indices of each plane."""
    planes, size, windows = prod(input_shape[:2]), prod(input_shape[2:]), prod(dout.shape[2:])
    flat_indices = b.reshape(indices, (planes, windows, 1))
    pairs = b.concatenate((b.iota((planes, windows, 1), DType.I64, 0), flat_indices), 2)
    zeros = b.constant(0, dout.dtype, (planes, size))
    summed = b.scatter(zeros, pairs, b.reshape(dout, (planes, windows)), "add", (), (0, 1), (0, 1), 2)
    return b.reshape(summed, input_shape)


def decompose_avg_pool(
    b: Builder, x: Value, *, window: Ints, strides: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> Value:
    """Window sums over divisors, in f32 or f64."""
    shape = pooled_shape(x.type, window, strides, padding, (1,) * len(window), ceil_mode)
    wide = b.convert(x, _sum_dtype(x.dtype))
    if prod(shape) == 0:
        return b.constant(0, x.dtype, shape)
    high = []
    for n, stride, size, extent, pad in zip(shape[2:], strides, window, x.shape[2:], padding, strict=True):
        high.append((n - 1) * stride + size - extent - pad)
    sums = b.reduce_window(wide, "add", (1, 1, *window), (1, 1, *strides), [(0, 0), (0, 0), *zip(padding, high, strict=True)])
    divisors = _divisors(x.shape[2:], shape[2:], window, strides, padding, count_include_pad, divisor)
    return b.convert(b.divide(sums, b.broadcast(b.constant(divisors, wide.dtype), shape)), x.dtype)


def decompose_avg_pool_backward(
    b: Builder,
    dout: Value,
    *,
    window: Ints,
    strides: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    input_shape: Ints,
) -> Value:
    """Every input element sums the quotients of the windows that contain it: windows over dout spread out by the strides."""
    if dout.type.size == 0:
        return b.constant(0, dout.dtype, input_shape)
    extents, counts = input_shape[2:], dout.shape[2:]
    wide = b.convert(dout, _sum_dtype(dout.dtype))
    divisors = _divisors(extents, counts, window, strides, padding, count_include_pad, divisor)
    quotients = b.divide(wide, b.broadcast(b.constant(divisors, wide.dtype), dout.shape))
    low = [size - 1 - pad for size, pad in zip(window, padding, strict=True)]
    high = []
    for n, stride, size, extent, before in zip(counts, strides, window, extents, low, strict=True):
        high.append(extent + size - 1 - before - ((n - 1) * stride + 1))
    interior = (0, 0, *(stride - 1 for stride in strides))
    spread = b.pad(quotients, b.constant(0, wide.dtype), (0, 0, *low), (0, 0, *high), interior)
    ones = (1,) * len(input_shape)
    return b.convert(b.reduce_window(spread, "add", (1, 1, *window), ones, [(0, 0)] * len(input_shape)), dout.dtype)


def _divisors(
    extents: Ints, counts: Ints, window: Ints, strides: Ints, padding: Ints, count_include_pad: bool, divisor: int | None
) -> Array:
    """What each window's sum is divided by: ``divisor``, or how many of its elements lie in the input (and its padding)."""
    if divisor is not None:
        return np.full(counts, float(divisor))
    product = np.ones(counts)
    for axis, extent in enumerate(extents):
        start = np.arange(counts[axis]) * strides[axis] - padding[axis]
        end = np.minimum(start + window[axis], extent + padding[axis])
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, extent)
        along = [1] * len(extents)
        along[axis] = counts[axis]
        product = product * (end - start).reshape(along)
    return np.asarray(product)


def _sum_dtype(dtype: DType) -> DType:
    return DType.F64 if dtype is DType.F64 else DType.F32
