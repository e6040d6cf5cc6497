"""Reading and writing at index tensors: index_select, gather, advanced indexing, take, masked_scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering


def out_of_range(extent: int, dim: int) -> str:
    """The failure's text."""
    return f"index out of range: dimension {dim} has size {extent}"


def wrapped(b: LoweringBuilder, index: Value, extent: int) -> Value:
    """Indices as i64, negative ones counted from the end."""
    index = b.cast(index, DType.I64)
    return b.select(b.compare(index, b.like(0, index), "LT"), b.add(index, b.like(extent, index)), index)


def checked(b: LoweringBuilder, index: Value, extent: int, position: Value) -> Value:
    """``position`` where ``index`` is in [0, extent), else -1, which a gather or scatter with a failure text refuses."""
    inside = b.and_(b.compare(index, b.like(0, index), "GE"), b.compare(index, b.like(extent, index), "LT"))
    return b.select(inside, position, b.like(-1, position))


def at_least_1d(b: LoweringBuilder, x: Value) -> Value:
    return x if x.shape else b.reshape(x, (1,))


def flat(b: LoweringBuilder, x: Value) -> Value:
    return b.reshape(x, (math.prod(x.shape),))


@lowering("aten::index_select", exact=True)
def index_select(b: LoweringBuilder, x: Value, dim: int, index: Value) -> Value:
    source = at_least_1d(b, x)
    axis = dim % len(source.shape)
    taken = b.take(source, at_least_1d(b, b.cast(index, DType.I64)), axis, out_of_range(source.shape[axis], axis))
    return b.reshape(taken, b.output.shape)


def flat_positions(b: LoweringBuilder, shape: Sequence[int], axis: int, index: Value) -> Value:
    """Row-major positions in a tensor of ``shape`` of (own coordinates, with ``index`` along ``axis``); −1 where the index is outside."""
    index = b.cast(index, DType.I64)
    strides = np.cumprod([1, *reversed(shape[1:])])[::-1].tolist()
    position = b.multiply(index, b.like(strides[axis], index))
    for other, stride in enumerate(strides):
        if other != axis and index.shape[other] > 1:
            coordinate = b.iota(index.shape, DType.I64, other)
            position = b.add(position, b.multiply(coordinate, b.like(stride, coordinate)))
    return checked(b, index, shape[axis], position)


@lowering("aten::gather", exact=True)
def gather(b: LoweringBuilder, x: Value, dim: int, index: Value, sparse_grad: bool) -> Value:
    source, places = at_least_1d(b, x), at_least_1d(b, index)
    axis = dim % len(source.shape)
    if math.prod(index.shape) == 0:
        return b.constant(0, x.dtype, b.output.shape)
    positions = flat_positions(b, source.shape, axis, places)
    return b.reshape(b.take(flat(b, source), positions, 0, out_of_range(source.shape[axis], axis)), b.output.shape)


@lowering("aten::take", exact=True)
def take(b: LoweringBuilder, x: Value, index: Value) -> Value:
    count = math.prod(x.shape)
    if math.prod(index.shape) == 0:
        return b.constant(0, x.dtype, index.shape)
    return b.take(flat(b, x), wrapped(b, index, count), 0, out_of_range(count, 0))


@dataclass(frozen=True, slots=True)
class AdvancedIndex:
    """An advanced index made into one along one dimension of a rearranged tensor.

    The tensor is transposed by ``order``, then reshaped to ``merged``, whose dimension ``axis`` holds all indexed dimensions;
    ``positions`` index it. Reading gives dimensions before ``axis``, the index's own, and those after.
    """

    order: tuple[int, ...]
    merged: tuple[int, ...]
    axis: int
    positions: Value
    message: str

    @property
    def is_transposed(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def advanced_index(b: LoweringBuilder, x: Value, indices: Sequence[Value | None]) -> AdvancedIndex:
    """The plan for ``x[indices]``: adjacent indexed dimensions stay where they are, others move to the front, as in NumPy."""
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in (DType.I1, DType.UI8) for index in given):
        raise NotImplementedError("indexing with a mask has a size that depends on data")
    shape = np.broadcast_shapes(*(index.shape for index in given))
    rank = len(x.shape)
    if indexed == list(range(indexed[0], indexed[-1] + 1)):
        order, axis = tuple(range(rank)), indexed[0]
    else:
        order, axis = (*indexed, *(i for i in range(rank) if i not in indexed)), 0
    position: Value | None = None
    inside: Value | None = None
    for dim, index in zip(indexed, given, strict=True):
        extent = x.shape[dim]
        index = b.broadcast(wrapped(b, index, extent), shape)
        valid = b.and_(b.compare(index, b.like(0, index), "GE"), b.compare(index, b.like(extent, index), "LT"))
        position = index if position is None else b.add(b.multiply(position, b.like(extent, position)), index)
        inside = valid if inside is None else b.and_(inside, valid)
    assert position is not None and inside is not None
    moved = [x.shape[i] for i in order]
    merged = (*moved[:axis], math.prod(x.shape[i] for i in indexed), *moved[axis + len(indexed) :])
    sizes = ", ".join(str(x.shape[i]) for i in indexed)
    message = f"index out of range: dimension(s) {', '.join(map(str, indexed))} of size(s) {sizes}"
    return AdvancedIndex(order, merged, axis, b.select(inside, position, b.like(-1, position)), message)


@lowering("aten::index.Tensor", "aten::_unsafe_index.Tensor", exact=True)
def index(b: LoweringBuilder, x: Value, indices: Sequence[Value | None]) -> Value:
    if not any(i is not None for i in indices):
        return x
    if math.prod(b.output.shape) == 0:
        return b.constant(0, x.dtype, b.output.shape)
    plan = advanced_index(b, x, indices)
    source = b.reshape(b.transpose(x, plan.order) if plan.is_transposed else x, plan.merged)
    return b.take(source, plan.positions, plan.axis, plan.message)


@lowering("aten::index_put", "aten::_unsafe_index_put", "aten::_index_put_impl", exact=True)
def index_put(
    b: LoweringBuilder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool, unsafe: bool = False
) -> Value:
    values = b.cast(values, x.dtype)
    given = [index for index in indices if index is not None]
    if len(given) == 1 and given[0].dtype is DType.I1 and math.prod(values.shape) == 1:
        return _put_under_mask(b, x, indices, b.reshape(values, ()), accumulate)
    if b.metas["values"].dtype != b.metas["self"].dtype:
        raise ValueError(f"index_put: the values are {b.metas['values'].dtype}, they must be {b.metas['self'].dtype} as what they go into")
    if not given:
        filled = b.broadcast(values, x.shape)
        return b.add(x, filled) if accumulate else filled
    plan = advanced_index(b, x, indices)
    if math.prod(plan.positions.shape) == 0 or math.prod(x.shape) == 0:
        return x
    source = b.reshape(b.transpose(x, plan.order) if plan.is_transposed else x, plan.merged)
    written = put_along(b, source, plan.axis, plan.positions, values, "add" if accumulate else "set", plan.message)
    restored = b.reshape(written, [x.shape[i] for i in plan.order])
    return b.transpose(restored, np.argsort(plan.order).tolist()) if plan.is_transposed else restored


def put_along(b: LoweringBuilder, x: Value, axis: int, index: Value, values: Value, kind: str, message: str) -> Value:
    """``x`` with ``values`` (broadcast to ``take(x, index, axis)``'s shape) combined in along one dimension."""
    index_rank = len(index.shape)
    updates = b.broadcast(values, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    window = [i for i in range(len(updates.shape)) if not axis <= i < axis + index_rank]
    return b.scatter(x, index, updates, kind, window, (axis,), (axis,), index_rank, message)


def _put_under_mask(b: LoweringBuilder, x: Value, indices: Sequence[Value | None], value: Value, accumulate: bool) -> Value:
    """``x[mask] = number``, where the mask covers some dimensions of ``x``."""
    axis = next(i for i, index in enumerate(indices) if index is not None)
    mask = indices[axis]
    assert mask is not None
    covered = b.broadcast_in_dim(mask, x.shape, range(axis, axis + len(mask.shape)))
    filled = b.broadcast(value, x.shape)
    return b.select(covered, b.add(x, filled) if accumulate else filled, x)


@lowering("aten::masked_scatter", exact=True)
def masked_scatter(b: LoweringBuilder, x: Value, mask: Value, source: Value) -> Value:
    """The n-th selected element becomes the n-th element of ``source``."""
    shape = b.output.shape
    if math.prod(shape) == 0 or math.prod(source.shape) == 0:
        return b.broadcast(x, shape)
    selected = flat(b, b.broadcast(mask, shape))
    order = b.scan(b.cast(selected, DType.I64), "add", 0)
    taken = b.take(flat(b, source), b.subtract(order, b.like(1, order)), 0)
    return b.reshape(b.select(selected, taken, flat(b, b.broadcast(x, shape))), shape)
