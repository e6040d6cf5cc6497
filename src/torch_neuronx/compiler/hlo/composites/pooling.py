"""Max and average pooling over the last dimensions, and their gradients."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np

from ..builder import Builder
from ..composite_rules import pooled_shape
from ..ir import Value
from ..numerics import Array, lowest
from ..types import DType, TensorType

Ints = tuple[int, ...]


def decompose_max_pool(
    b: Builder, x: Value, *, window: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Value, Value]:
    """A running maximum over the window's elements in row-major order.

    An element replaces the best so far if it is the first inside the input, is greater, or is nan: PyTorch's rule.
    """
    spatial = len(window)
    shape = pooled_shape(x.type, window, strides, padding, dilation, ceil_mode)
    lead, extents = x.shape[: -spatial or None], x.shape[len(x.shape) - spatial :]
    counts = shape[len(lead) :]
    reach = [(n - 1) * s + (w - 1) * d + 1 for n, s, w, d in zip(counts, strides, window, dilation, strict=True)]
    high = [r - extent - pad for r, extent, pad in zip(reach, extents, padding, strict=True)]
    zeros = (0,) * len(lead)
    padded = b.pad(x, b.constant(lowest(x.dtype), x.dtype), (*zeros, *padding), (*zeros, *high))

    best = b.constant(lowest(x.dtype), x.dtype, shape)
    best_index = b.constant(-1, DType.I64, shape)
    for place in itertools.product(*map(range, window)):
        start = [at * step for at, step in zip(place, dilation, strict=True)]
        limit = [first + (n - 1) * stride + 1 if n else first for first, n, stride in zip(start, counts, strides, strict=True)]
        value = b.slice(padded, (*zeros, *start), (*lead, *limit), ((1,) * len(lead)) + strides)
        inside, flat = _plane_positions(counts, extents, strides, [first - pad for first, pad in zip(start, padding, strict=True)])
        index = b.broadcast(b.constant(flat, DType.I64), shape)
        better = b.or_(b.compare(value, best, "GT"), b.compare(best_index, b.constant(0, DType.I64, shape), "LT"))
        if x.dtype.is_float:
            better = b.or_(better, b.is_nan(value))
        better = b.and_(better, b.broadcast(b.constant(inside, DType.I1), shape))
        best, best_index = b.select(better, value, best), b.select(better, index, best_index)
    return best, best_index


def decompose_max_pool_backward(b: Builder, dout: Value, indices: Value, *, input_shape: Ints) -> Value:
    """dout added at the flat indices of each plane."""
    spatial = _spatial_rank(dout.shape, input_shape)
    split = len(input_shape) - spatial
    planes, size, windows = prod(input_shape[:split]), prod(input_shape[split:]), prod(dout.shape[split:])
    flat_indices = b.reshape(indices, (planes, windows, 1))
    pairs = b.concatenate((b.iota((planes, windows, 1), DType.I64, 0), flat_indices), 2)
    zeros = b.constant(0, dout.dtype, (planes, size))
    summed = b.scatter(zeros, pairs, b.reshape(dout, (planes, windows)), "add", (), (0, 1), (0, 1), 2)
    return b.reshape(summed, input_shape)
