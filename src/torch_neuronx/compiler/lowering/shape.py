"""Joining, repeating, reordering and masking by position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering
from .views import sliced, strided_positions

Ints = Sequence[int]


@lowering("aten::cat", exact=True)
def cat(b: LoweringBuilder, tensors: Sequence[Value], dim: int) -> Value:
    """One-dimensional empty tensors are left out, whatever the others' rank."""
    parts = [b.cast(x, b.output.dtype) for x in tensors if x.shape != (0,)]
    if not parts:
        return b.cast(tensors[0], b.output.dtype)
    return parts[0] if len(parts) == 1 else b.concatenate(parts, dim % len(b.output.shape))


@lowering("aten::stack", exact=True)
def stack(b: LoweringBuilder, tensors: Sequence[Value], dim: int) -> Value:
    shape = b.output.shape
    axis = dim % len(shape)
    single = [1 if i == axis else extent for i, extent in enumerate(shape)]
    return b.concatenate([b.reshape(b.cast(x, b.output.dtype), single) for x in tensors], axis)


@lowering("aten::flip", exact=True)
def flip(b: LoweringBuilder, x: Value, dims: Ints) -> Value:
    return b.reverse(x, [axis % len(x.shape) for axis in dims]) if x.shape and dims else x


@lowering("aten::roll", exact=True)
def roll(b: LoweringBuilder, x: Value, shifts: Ints, dims: Ints) -> Value:
    """Without ``dims`` the elements are rolled in row-major order."""
    if math.prod(x.shape) == 0 or not x.shape:
        return x
    if not dims:
        return b.reshape(_rolled(b, b.reshape(x, (math.prod(x.shape),)), shifts[0], 0), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(b, x, shift, dim % len(x.shape))
    return x


def _rolled(b: LoweringBuilder, x: Value, shift: int, axis: int) -> Value:
    cut = -shift % x.shape[axis]
    return b.concatenate([sliced(b, x, axis, cut, None), sliced(b, x, axis, 0, cut)], axis) if cut else x


@lowering("aten::repeat", exact=True)
def repeat(b: LoweringBuilder, x: Value, repeats: Ints) -> Value:
    shape = (1,) * (len(repeats) - len(x.shape)) + tuple(x.shape)
    kept = tuple(2 * axis + 1 for axis in range(len(shape)))
    tiled = [extent for pair in zip(repeats, shape, strict=True) for extent in pair]
    return b.reshape(b.broadcast_in_dim(b.reshape(x, shape), tiled, kept), b.output.shape)


@lowering("aten::tril", exact=True)
def tril(b: LoweringBuilder, x: Value, diagonal: int) -> Value:
    return _masked_by_diagonal(b, x, "LE", diagonal)


@lowering("aten::triu", exact=True)
def triu(b: LoweringBuilder, x: Value, diagonal: int) -> Value:
    return _masked_by_diagonal(b, x, "GE", diagonal)


def _masked_by_diagonal(b: LoweringBuilder, x: Value, direction: str, diagonal: int) -> Value:
    return b.select(diagonal_mask(b, x.shape, direction, diagonal), x, b.like(0, x))


def diagonal_mask(b: LoweringBuilder, shape: Ints, direction: str, diagonal: int) -> Value:
    """column - row compared with ``diagonal``, over the last two dimensions."""
    rows = b.iota(shape, DType.I64, len(shape) - 2)
    columns = b.iota(shape, DType.I64, len(shape) - 1)
    return b.compare(columns, b.add(rows, b.like(diagonal, rows)), direction)


@lowering("aten::diag_embed", exact=True)
def diag_embed(b: LoweringBuilder, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    return onto_diagonal(b, x, b.output.shape, offset, dim1, dim2)


@lowering("aten::diagonal_backward", exact=True)
def diagonal_backward(b: LoweringBuilder, grad: Value, sizes: Ints, offset: int, dim1: int, dim2: int) -> Value:
    return onto_diagonal(b, grad, sizes, offset, dim1, dim2)


def onto_diagonal(b: LoweringBuilder, x: Value, shape: Ints, offset: int, dim1: int, dim2: int, base: Value | None = None) -> Value:
    """A tensor of ``shape`` whose diagonal is ``x`` (last dimension along it), and ``base`` or 0 elsewhere."""
    rank = len(shape)
    first, second = dim1 % rank, dim2 % rank
    order = [axis for axis in range(rank) if axis not in (first, second)] + [first, second]
    moved = [shape[axis] for axis in order]
    back = np.argsort(order).tolist()
    length = x.shape[-1]
    if length == 0:
        return b.constant(0, x.dtype, shape) if base is None else base
    # Element k of the diagonal lies at row k - min(offset, 0).
    row_of = np.clip(np.arange(moved[-2]) + min(offset, 0), 0, length - 1)
    spread = b.take(x, b.constant(row_of, DType.I64), len(x.shape) - 1)
    full = b.transpose(b.broadcast_in_dim(spread, moved, range(rank - 1)), back)
    mask = b.transpose(diagonal_mask(b, moved, "EQ", offset), back)
    return b.select(mask, full, b.constant(0, x.dtype, shape) if base is None else base)


@lowering("aten::slice_backward", exact=True)
def slice_backward(b: LoweringBuilder, grad: Value, sizes: Ints, dim: int, start: int, end: int, step: int) -> Value:
    return spread_along(b, grad, sizes, dim % len(sizes), start, step)


def spread_along(b: LoweringBuilder, x: Value, sizes: Ints, axis: int, start: int | None, step: int) -> Value:
    """Zeros of ``sizes`` with ``x`` at ``start, start + step, …`` of ``axis``."""
    extent, count = sizes[axis], x.shape[axis]
    first = slice(start, None).indices(extent)[0]
    covered = (count - 1) * step + 1 if count else 0
    edges = [(first, extent - first - covered) if i == axis else (0, 0) for i in range(len(sizes))]
    interior = [step - 1 if i == axis else 0 for i in range(len(sizes))]
    return b.pad(x, b.constant(0, x.dtype), [low for low, _ in edges], [high for _, high in edges], interior)


@lowering("aten::select_backward", exact=True)
def select_backward(b: LoweringBuilder, grad: Value, sizes: Ints, dim: int, index: int) -> Value:
    axis = dim % len(sizes)
    single = b.reshape(grad, [1 if i == axis else extent for i, extent in enumerate(sizes)])
    return spread_along(b, single, sizes, axis, index % sizes[axis], 1)


@lowering("aten::slice_scatter", exact=True)
def slice_scatter(b: LoweringBuilder, x: Value, source: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    """``x`` with ``x[start:end:step] = source``."""
    axis = dim % len(x.shape)
    source = b.cast(source, x.dtype)
    first, last, _ = slice(start, end).indices(x.shape[axis])
    if first >= last:
        return x
    if first == 0 and last == x.shape[axis] and step == 1:
        return source
    at = np.arange(x.shape[axis])
    written = (at >= first) & (at < last) & ((at - first) % step == 0)
    mask = b.broadcast_in_dim(b.constant(written, DType.I1), x.shape, (axis,))
    return b.select(mask, spread_along(b, source, x.shape, axis, first, step), x)


@lowering("aten::select_scatter", exact=True)
def select_scatter(b: LoweringBuilder, x: Value, source: Value, dim: int, index: int) -> Value:
    axis = dim % len(x.shape)
    position = index % x.shape[axis]
    single = b.reshape(source, [1 if i == axis else extent for i, extent in enumerate(x.shape)])
    return slice_scatter(b, x, single, axis, position, position + 1, 1)


@lowering("aten::diagonal_scatter", exact=True)
def diagonal_scatter(b: LoweringBuilder, x: Value, source: Value, offset: int, dim1: int, dim2: int) -> Value:
    return onto_diagonal(b, b.cast(source, x.dtype), x.shape, offset, dim1, dim2, base=x)


@lowering("aten::as_strided_scatter", exact=True)
def as_strided_scatter(b: LoweringBuilder, x: Value, source: Value, size: Ints, stride: Ints, offset: int | None) -> Value:
    positions = strided_positions(b.metas["self"], size, stride, offset)
    flat = b.reshape(x, (math.prod(x.shape),))
    indices = b.constant(positions.reshape(-1), DType.I64)
    updates = b.reshape(b.cast(source, x.dtype), (positions.size,))
    return b.reshape(b.scatter(flat, indices, updates, "set", (), (0,), (0,), 1), x.shape)


@lowering("aten::unfold_backward")
def unfold_backward(b: LoweringBuilder, grad: Value, sizes: Ints, dim: int, size: int, step: int) -> Value:
    """Adds each window's gradient to the places that the window covers."""
    if not sizes:
        return b.reshape(b.reduce(grad, "add", (0,)), ())
    axis = dim % len(sizes)
    count, rank = grad.shape[axis], len(sizes)
    moved = b.transpose(grad, [*range(axis + 1), rank, *range(axis + 1, rank)])
    flat = b.reshape(moved, (*sizes[:axis], count * size, *sizes[axis + 1 :]))
    places = (np.arange(count)[:, None] * step + np.arange(size)[None, :]).reshape(-1)
    zeros = b.constant(0, grad.dtype, sizes)
    window = [i for i in range(rank) if i != axis]
    return b.scatter(zeros, b.constant(places, DType.I64), flat, "add", window, (axis,), (axis,), 1)


@lowering("aten::pixel_shuffle", exact=True)
def pixel_shuffle(b: LoweringBuilder, x: Value, factor: int) -> Value:
    *batch, channels, height, width = x.shape
    split = b.reshape(x, (*batch, channels // factor**2, factor, factor, height, width))
    return b.reshape(b.transpose(split, _behind(batch, (0, 3, 1, 4, 2))), b.output.shape)


@lowering("aten::pixel_unshuffle", exact=True)
def pixel_unshuffle(b: LoweringBuilder, x: Value, factor: int) -> Value:
    *batch, channels, height, width = x.shape
    split = b.reshape(x, (*batch, channels, height // factor, factor, width // factor, factor))
    return b.reshape(b.transpose(split, _behind(batch, (0, 2, 4, 1, 3))), b.output.shape)


@lowering("aten::channel_shuffle", exact=True)
def channel_shuffle(b: LoweringBuilder, x: Value, groups: int) -> Value:
    batch, channels, *rest = x.shape
    split = b.reshape(x, (batch, groups, channels // groups, *rest))
    return b.reshape(b.transpose(split, (0, 2, 1, *range(3, 3 + len(rest)))), x.shape)


def _behind(batch: Sequence[Any], order: Ints) -> list[int]:
    """``order`` of the dimensions that follow the batch dimensions."""
    return [*range(len(batch)), *(len(batch) + axis for axis in order)]
