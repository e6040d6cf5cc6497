"""Views, as values. Eager makes them by metadata alone; graphs contain them, and their ``*_copy`` forms are ordinary operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .dtypes import to_dtype
from .registry import lowering

Ints = Sequence[int]


def _view(*names: str) -> Callable[[Any], Any]:
    """Registers a function for a view and for its ``*_copy`` form."""
    copies = []
    for name in names:
        packet, dot, suffix = name.partition(".")
        copies.append(f"{packet}_copy{dot}{suffix}")
    return lambda function: lowering(*names, *copies, exact=True)(function)


@_view("aten::view", "aten::_reshape_alias", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::unsqueeze")
def reshape(b: LoweringBuilder, x: Value, *arguments: Any) -> Value:
    return b.reshape(x, b.output.shape)


lowering("aten::_unsafe_view", exact=True, native=False)(reshape)
lowering("aten::reshape", exact=True, native=False)(reshape)


@lowering("aten::alias", "aten::detach", "aten::lift_fresh", "aten::view_as", exact=True, native=False)
def alias(b: LoweringBuilder, x: Value, *arguments: Any) -> Value:
    return b.reshape(x, b.output.shape)


@lowering("aten::_conj", exact=True, native=False)
def lazy_conjugate(b: LoweringBuilder, x: Value) -> Value:
    """A graph has no lazy views: values are what they stand for."""
    return b.complex(b.real(x), b.negate(b.imag(x)))


@lowering("aten::_neg_view", exact=True, native=False)
def lazy_negative(b: LoweringBuilder, x: Value) -> Value:
    return b.negate(x)


@_view("aten::expand")
def expand(b: LoweringBuilder, x: Value, size: Ints, implicit: bool) -> Value:
    return b.broadcast(x, b.output.shape)


@_view("aten::permute")
def permute(b: LoweringBuilder, x: Value, dims: Ints) -> Value:
    return b.transpose(x, [axis % len(dims) for axis in dims])


@_view("aten::transpose.int")
def transpose(b: LoweringBuilder, x: Value, first: int, second: int) -> Value:
    if not x.shape:
        return x
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return b.transpose(x, order)


@_view("aten::t")
def t(b: LoweringBuilder, x: Value) -> Value:
    return b.transpose(x, tuple(reversed(range(len(x.shape)))))


@_view("aten::slice.Tensor")
def slice_(b: LoweringBuilder, x: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    return sliced(b, x, dim % len(x.shape), start, end, step)


def sliced(b: LoweringBuilder, x: Value, axis: int, start: int | None, end: int | None, step: int = 1) -> Value:
    """``x[start:end:step]`` along ``axis``, with Python's rules for bounds."""
    first, last, _ = slice(start, end).indices(x.shape[axis])
    low = [first if i == axis else 0 for i in range(len(x.shape))]
    high = [max(first, last) if i == axis else extent for i, extent in enumerate(x.shape)]
    return b.slice(x, low, high, [step if i == axis else 1 for i in range(len(x.shape))])


@_view("aten::select.int")
def select(b: LoweringBuilder, x: Value, dim: int, index: int) -> Value:
    axis = dim % len(x.shape)
    position = index % x.shape[axis]
    return b.reshape(sliced(b, x, axis, position, position + 1), b.output.shape)


@_view("aten::split.Tensor")
def split(b: LoweringBuilder, x: Value, size: int, dim: int) -> list[Value]:
    axis = dim % len(x.shape)
    extent = x.shape[axis]
    return _parts(b, x, axis, [min(size, extent - start) for start in range(0, extent, size)] if size else [0])


@_view("aten::split_with_sizes")
def split_with_sizes(b: LoweringBuilder, x: Value, sizes: Ints, dim: int) -> list[Value]:
    return _parts(b, x, dim % len(x.shape), sizes)


def _parts(b: LoweringBuilder, x: Value, axis: int, sizes: Ints) -> list[Value]:
    starts = np.cumsum([0, *sizes]).tolist()
    return [sliced(b, x, axis, start, start + size) for start, size in zip(starts, sizes, strict=False)]


@_view("aten::unbind.int")
def unbind(b: LoweringBuilder, x: Value, dim: int) -> list[Value]:
    axis = dim % len(x.shape)
    shape = [extent for i, extent in enumerate(x.shape) if i != axis]
    return [b.reshape(sliced(b, x, axis, i, i + 1), shape) for i in range(x.shape[axis])]


@_view("aten::diagonal")
def diagonal(b: LoweringBuilder, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    """The diagonal becomes the last dimension: the two dimensions are merged, and every (columns + 1)-th element taken."""
    rank = len(x.shape)
    first, second = dim1 % rank, dim2 % rank
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    moved = b.transpose(x, [*rest, first, second])
    *outer, rows, columns = moved.shape
    flat = b.reshape(moved, [*outer, rows * columns])
    length = b.output.shape[-1]
    start = offset if offset >= 0 else -offset * columns
    limit = start + (length - 1) * (columns + 1) + 1 if length else start
    low, high = [0] * len(outer) + [min(start, rows * columns)], [*outer, min(limit, rows * columns)]
    return b.slice(flat, low, high, [1] * len(outer) + [columns + 1])


@_view("aten::unfold")
def unfold(b: LoweringBuilder, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows of ``size`` along ``dim``, every ``step``; the place in the window becomes the last dimension."""
    if not x.shape:
        return b.reshape(x, b.output.shape)
    axis = dim % len(x.shape)
    count = b.output.shape[axis]
    positions = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    windows = b.take(x, b.constant(positions, DType.I64), axis)
    rank = len(windows.shape)
    return b.transpose(windows, [i for i in range(rank) if i != axis + 1] + [axis + 1])


def strided_positions(x: torch.Tensor, size: Ints, stride: Ints, offset: int | None) -> np.ndarray[Any, Any]:
    """For each element of an ``as_strided`` view of a contiguous tensor ``x``, its flat index in ``x``."""
    if not x.is_contiguous():
        raise NotImplementedError(
            f"as_strided of a tensor with strides {tuple(x.stride())} has no lowering: its elements must be contiguous"
        )
    start = (x.storage_offset() if offset is None else offset) - x.storage_offset()
    positions = np.full((), start, dtype=np.int64)
    for extent, step in zip(size, stride, strict=True):
        positions = positions[..., None] + np.arange(extent, dtype=np.int64) * step
    if positions.size and (positions.min() < 0 or positions.max() >= math.prod(x.shape)):
        raise NotImplementedError("as_strided beyond the elements of its tensor has no lowering")
    return positions


@_view("aten::as_strided")
def as_strided(b: LoweringBuilder, x: Value, size: Ints, stride: Ints, offset: int | None) -> Value:
    positions = strided_positions(b.metas["self"], size, stride, offset)
    return b.take(b.reshape(x, (math.prod(x.shape),)), b.constant(positions, DType.I64), 0)


@_view("aten::view.dtype")
def view_dtype(b: LoweringBuilder, x: Value, dtype: torch.dtype) -> Value:
    target = to_dtype(dtype)
    if target is x.dtype:
        return x
    if target.itemsize != x.dtype.itemsize or target.is_complex or x.dtype.is_complex:
        raise NotImplementedError(f"view of {x.dtype} as {target} has no lowering: only real types of one size have")
    return b.bitcast_convert(x, target)


@_view("aten::view_as_real")
def view_as_real(b: LoweringBuilder, x: Value) -> Value:
    parts = [b.reshape(part, (*x.shape, 1)) for part in (b.real(x), b.imag(x))]
    return b.concatenate(parts, len(x.shape))


@_view("aten::view_as_complex")
def view_as_complex(b: LoweringBuilder, x: Value) -> Value:
    last = len(x.shape) - 1
    real, imag = (b.reshape(sliced(b, x, last, i, i + 1), x.shape[:-1]) for i in (0, 1))
    return b.complex(real, imag)
