"""Sums, means and maxima of bags of embeddings, and their gradients.

Bags lie one after another in ``indices`` [count]; ``offsets`` says where each starts, and ends with the count with ``include_last_offset``.
"""

from __future__ import annotations

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .embedding import embedding_dense_backward
from .precision import widened
from .registry import lowering

SUM, MEAN, MAX = 0, 1, 2


@lowering("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    b: LoweringBuilder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Value, ...]:
    """The bags [bags, width], the bag of every index, each bag's number of indices that are no padding, and for maxima their indices."""
    bags, width = b.outputs[0].shape
    rows, (count,) = b.cast(indices, DType.I64), indices.shape
    bag = _bag_of_each(b, offsets, count)
    kept = _kept(b, rows, padding_idx)
    sizes = _sum_by(b, bag, b.cast(kept, DType.I64), (offsets.shape[0],))
    table = b.take(weight, rows, 0, f"embedding_bag: an index is outside of the table, which has {weight.shape[0]} rows")
    values = widened(b, table)
    if per_sample_weights is not None:
        values = b.multiply(values, _along_rows(b, b.cast(per_sample_weights, values.dtype), values))
    filled = _along_rows(b, b.compare(b.slice(sizes, (0,), (bags,)), b.constant(0, DType.I64, (bags,)), "GT"), b.outputs[0])
    if mode == MAX:
        largest, origin = _largest(b, values, rows, bag, kept, (bags, width))
        chosen = b.select(filled, origin, b.like(-1, origin))
        return b.select(filled, largest, b.like(0, largest)), _like(b, bag, 1), _like(b, sizes, 2), _like(b, chosen, 3)
    values = b.select(_along_rows(b, kept, values), values, b.like(0, values))
    total = _sum_by(b, bag, values, (bags, width))
    if mode == MEAN:
        divisor = b.maximum(b.slice(sizes, (0,), (bags,)), b.constant(1, DType.I64, (bags,)))
        total = b.divide(total, _along_rows(b, b.cast(divisor, total.dtype), total))
    return total, _like(b, bag, 1), _like(b, sizes, 2), b.constant(0, b.outputs[3].dtype, b.outputs[3].shape)


@lowering("aten::_embedding_bag_backward")
def embedding_bag_backward(
    b: LoweringBuilder,
    grad: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    padding_idx: int,
) -> Value:
    if sparse:
        raise NotImplementedError("sparse gradients have no lowering; use EmbeddingBag(sparse=False)")
    return embedding_bag_dense_backward(
        b,
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@lowering("aten::_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    b: LoweringBuilder,
    grad: Value,
    indices: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Value | None,
    padding_idx: int,
) -> Value:
    """The gradient of the table [num_weights, width]."""
    grad = widened(b, grad)
    if mode == MAX:
        return _to_the_largest(b, grad, b.cast(maximum_indices, DType.I64), num_weights)
    bag = _given_bags(b, offset2bag, indices)
    if mode == MEAN:
        sizes = b.slice(b.cast(bag_size, grad.dtype), (0,), (grad.shape[0],))
        grad = b.divide(grad, _along_rows(b, b.maximum(sizes, b.like(1, sizes)), grad))
    updates = b.take(grad, bag, 0)
    if per_sample_weights is not None:
        updates = b.multiply(updates, _along_rows(b, b.cast(per_sample_weights, updates.dtype), updates))
    return embedding_dense_backward(b, updates, indices, num_weights, padding_idx, scale_grad_by_freq)


@lowering("aten::_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    b: LoweringBuilder, grad: Value, weight: Value, indices: Value, offsets: Value, offset2bag: Value, mode: int, padding_idx: int
) -> Value:
    """For every index the product of its row and its bag's gradient; 0 for padding."""
    rows = b.cast(indices, DType.I64)
    products = b.multiply(b.take(widened(b, grad), _given_bags(b, offset2bag, indices), 0), b.take(widened(b, weight), rows, 0))
    total = b.reduce(products, "add", (1,))
    return b.select(_kept(b, rows, padding_idx), total, b.like(0, total))


def _bag_of_each(b: LoweringBuilder, offsets: Value, count: int) -> Value:
    """How many bags start at or before each place, less one. A bag that starts behind the last index has none."""
    starts = b.reshape(b.cast(offsets, DType.I64), (offsets.shape[0], 1))
    begun = b.scatter(b.constant(0, DType.I64, (count,)), starts, b.constant(1, DType.I64, offsets.shape), "add", (), (0,), (0,), 1)
    number = b.scan(begun, "add", 0)
    return b.subtract(number, b.like(1, number))


def _given_bags(b: LoweringBuilder, offset2bag: Value, indices: Value) -> Value:
    if offset2bag.shape != indices.shape:
        raise NotImplementedError("the bag of each index is not given: these are the CPU's results of _embedding_bag, not the device's")
    return b.cast(offset2bag, DType.I64)


def _kept(b: LoweringBuilder, rows: Value, padding_idx: int) -> Value:
    return b.compare(rows, b.like(padding_idx, rows), "NE")


def _sum_by(b: LoweringBuilder, bag: Value, values: Value, shape: tuple[int, ...]) -> Value:
    window = tuple(range(1, len(shape)))
    return b.scatter(b.constant(0, values.dtype, shape), b.reshape(bag, (*bag.shape, 1)), values, "add", window, (0,), (0,), 1)


def _largest(b: LoweringBuilder, values: Value, rows: Value, bag: Value, kept: Value, shape: tuple[int, ...]) -> tuple[Value, Value]:
    """The maxima of the bags, and the row of the table that each is from: the first that has it."""
    places = b.reshape(bag, (*bag.shape, 1))
    lowest = b.constant(float("-inf"), values.dtype)
    candidates = b.select(_along_rows(b, kept, values), values, b.broadcast(lowest, values.shape))
    largest = b.scatter(b.broadcast(lowest, shape), places, candidates, "maximum", (1,), (0,), (0,), 1)
    has_it = b.and_(b.compare(candidates, b.take(largest, bag, 0), "EQ"), _along_rows(b, kept, values))
    if not values.shape[0]:
        return largest, b.constant(-1, DType.I64, shape)
    position, last = b.iota(values.shape, DType.I64, 0), values.shape[0] - 1
    first = b.scatter(
        b.constant(last, DType.I64, shape), places, b.select(has_it, position, b.like(last, position)), "minimum", (1,), (0,), (0,), 1
    )
    return largest, b.take(rows, first, 0)


def _to_the_largest(b: LoweringBuilder, grad: Value, origin: Value, num_weights: int) -> Value:
    """Every element goes to the row that its maximum came from; an empty bag has none."""
    width = grad.shape[1]
    column = b.iota(grad.shape, DType.I64, 1)
    empty = b.compare(origin, b.like(0, origin), "LT")
    place = b.add(b.multiply(origin, b.like(width, origin)), column)
    place = b.select(empty, b.like(num_weights * width, place), place)
    size = grad.type.size
    table = b.constant(0, grad.dtype, (num_weights * width,))
    flat = b.scatter(table, b.reshape(place, (size, 1)), b.reshape(grad, (size,)), "add", (), (0,), (0,), 1)
    return b.reshape(flat, (num_weights, width))


def _along_rows(b: LoweringBuilder, x: Value, like: Value) -> Value:
    return b.broadcast_in_dim(x, like.shape, (0,))


def _like(b: LoweringBuilder, x: Value, position: int) -> Value:
    return b.cast(x, b.outputs[position].dtype)
