"""Adaptive pooling: windows that cover a dimension evenly, overlapping where their number does not divide it. And the gradients.

Window i of n covers ⌊i·extent/n⌋ up to ⌈(i + 1)·extent/n⌉.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .convolution import Ints
from .pooling import batched, pooling_composite
from .precision import widened
from .registry import lowering

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Indices = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


# The public names are composites, but for their out= overloads.
@lowering("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d")
def adaptive_avg_pool(b: LoweringBuilder, self: Value, output_size: Ints) -> Value:
    """The mean over each window, one dimension after the other."""
    result = widened(b, self)
    for dim, windows in enumerate(output_size, len(self.shape) - len(output_size)):
        result = _window_means(b, result, dim, windows)
    return result


@lowering("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(b: LoweringBuilder, grad_output: Value, self: Value) -> Value:
    result = widened(b, grad_output)
    for dim, extent in enumerate(self.shape):
        result = _window_means_backward(b, result, dim, extent)
    return result


def _window_means(b: LoweringBuilder, x: Value, dim: int, windows: int) -> Value:
    extent = x.shape[dim]
    if windows == extent:
        return x
    if windows == 0 or extent % windows:
        return _apply_along(b, x, adaptive_matrix(extent, windows), dim)
    size = extent // windows
    total = b.reduce(b.reshape(x, (*x.shape[:dim], windows, size, *x.shape[dim + 1 :])), "add", (dim + 1,))
    return b.divide(total, b.constant(size, total.dtype, total.shape))


def _window_means_backward(b: LoweringBuilder, grad: Value, dim: int, extent: int) -> Value:
    windows = grad.shape[dim]
    if windows == extent:
        return grad
    if windows == 0 or extent % windows:
        return _apply_along(b, grad, adaptive_matrix(extent, windows).T, dim)
    size = extent // windows
    share = b.divide(grad, b.constant(size, grad.dtype, grad.shape))
    wide = (*grad.shape[: dim + 1], size, *grad.shape[dim + 1 :])
    spread = b.broadcast_in_dim(share, wide, [*range(dim + 1), *range(dim + 2, len(wide))])
    return b.reshape(spread, (*grad.shape[:dim], extent, *grad.shape[dim + 1 :]))


def adaptive_matrix(extent: int, windows: int) -> Array:
    """[windows, extent]: the mean over each window as a product."""
    matrix = np.zeros((windows, extent))
    for window, (start, end) in enumerate(bounds(extent, windows)):
        matrix[window, start:end] = 1 / (end - start)
    return matrix


def _apply_along(b: LoweringBuilder, x: Value, matrix: Array, dim: int) -> Value:
    """``matrix`` applied to every line of ``x`` along ``dim``."""
    product = b.dot_general(x, b.constant(matrix, x.dtype), (), (), (dim,), (1,))
    last = len(x.shape) - 1
    return b.transpose(product, [*range(dim), last, *range(dim, last)])


@lowering("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(b: LoweringBuilder, self: Value, output_size: Ints) -> tuple[Value, Value]:
    """Values, and the positions they come from: flat indices into the pooled dimensions."""
    spatial = len(output_size)
    first = len(self.shape) - spatial
    extents = self.shape[first:]
    tables = [_members(extent, windows) for extent, windows in zip(extents, output_size, strict=True)]
    gathered = self
    for dim, table in enumerate(tables):
        gathered = b.take(gathered, b.constant(table, DType.I64), first + 2 * dim)
    # From [outer…, windows and members of each dimension in turn] to [outer…, windows…, members].
    windows_dims, member_dims = [first + 2 * dim for dim in range(spatial)], [first + 2 * dim + 1 for dim in range(spatial)]
    ordered = b.transpose(gathered, [*range(first), *windows_dims, *member_dims])
    flat = b.reshape(ordered, (*self.shape[:first], *output_size, prod(table.shape[1] for table in tables)))
    last = first + spatial
    chosen = b.broadcast_in_dim(b.argreduce(flat, "maximum", last), flat.shape, range(last))
    is_chosen = b.compare(b.iota(flat.shape, DType.I64, last), chosen, "EQ")
    places = b.broadcast_in_dim(b.constant(_flat_places(tables, extents), DType.I64), flat.shape, range(first, last + 1))
    indices = b.reduce(b.select(is_chosen, places, b.constant(0, DType.I64, flat.shape)), "add", (last,))
    return b.reduce(flat, "maximum", (last,)), indices


@lowering("aten::adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(b: LoweringBuilder, grad_output: Value, self: Value, indices: Value) -> Value:
    return _max_backward(b, grad_output, self, indices, 2)


@lowering("aten::adaptive_max_pool3d_backward")
def adaptive_max_pool3d_backward(b: LoweringBuilder, grad_output: Value, self: Value, indices: Value) -> Value:
    return _max_backward(b, grad_output, self, indices, 3)


def _max_backward(b: LoweringBuilder, grad_output: Value, self: Value, indices: Value, spatial: int) -> Value:
    attributes: dict[str, object] = {"input_shape": batched(self.shape, spatial)}
    (grad,) = pooling_composite(b, "max_pool_backward", spatial, (grad_output, indices), attributes)
    return grad


def bounds(extent: int, windows: int) -> list[tuple[int, int]]:
    return [(window * extent // windows, -(-(window + 1) * extent // windows)) for window in range(windows)]


def _members(extent: int, windows: int) -> Indices:
    """[windows, longest window]: the positions in each window. A shorter one repeats its last: no new maximum, and never the first."""
    edges = bounds(extent, windows)
    longest = max((end - start for start, end in edges), default=0)
    return np.array([[min(start + k, end - 1) for k in range(longest)] for start, end in edges], np.int64).reshape(windows, longest)


def _flat_places(tables: list[Indices], extents: Ints) -> Indices:
    """[windows…, members]: the flat index of each member of each window."""
    spatial = len(tables)
    place = np.zeros((1,) * (2 * spatial), np.int64)
    for dim, (table, extent) in enumerate(zip(tables, extents, strict=True)):
        shape = [1] * (2 * spatial)
        shape[dim], shape[spatial + dim] = table.shape
        place = place * extent + table.reshape(shape)
    return place.reshape(*place.shape[:spatial], -1)
