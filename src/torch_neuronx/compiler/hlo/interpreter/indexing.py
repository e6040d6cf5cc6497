"""Gather and scatter, one index vector at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..ir import Operation
from ..numerics import Array
from .reductions import COMBINE
from .table import Implementation, narrow, widen


class LaunchError(RuntimeError):
    """An index outside its operand in an operation that has a ``fail`` message, which is the text."""


def _gather(operation: Operation, operand: Array, indices: Array) -> Array:
    attributes = operation.attributes
    sizes, collapsed, offset_dims = attributes["slice_sizes"], attributes["collapsed_slice_dims"], attributes["offset_dims"]
    batch_rank = len(operation.result.shape) - len(offset_dims)
    # Batch dimensions first while filling; a view in that order writes into the result's own order.
    result = np.empty(operation.result.shape, operand.dtype)
    batch_first = np.moveaxis(result, offset_dims, range(batch_rank, result.ndim))
    for batch, start in _starts(indices, attributes["index_vector_dim"], attributes["start_index_map"], operand.ndim):
        last = [extent - size for extent, size in zip(operand.shape, sizes, strict=True)]
        if attributes["fail"] is not None and any(not 0 <= at <= end for at, end in zip(start, last, strict=True)):
            raise LaunchError(attributes["fail"])
        first = [min(max(at, 0), end) for at, end in zip(start, last, strict=True)]
        block = operand[tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))]
        batch_first[batch] = block.reshape([size for axis, size in enumerate(sizes) if axis not in collapsed])
    return result


def _scatter(operation: Operation, operand: Array, indices: Array, updates: Array) -> Array:
    attributes, kind = operation.attributes, operation.attributes["kind"]
    window_dims, inserted = attributes["update_window_dims"], attributes["inserted_window_dims"]
    batch_first = np.moveaxis(widen(updates), window_dims, range(updates.ndim - len(window_dims), updates.ndim))
    result = widen(operand).copy()
    extents = iter(updates.shape[dim] for dim in window_dims)
    sizes = [1 if axis in inserted else next(extents) for axis in range(operand.ndim)]
    for batch, start in _starts(indices, attributes["index_vector_dim"], attributes["scatter_dims_to_operand_dims"], operand.ndim):
        if any(not 0 <= at <= extent - size for at, extent, size in zip(start, operand.shape, sizes, strict=True)):
            if attributes["fail"] is not None:
                raise LaunchError(attributes["fail"])
            continue
        block = tuple(slice(at, at + size) for at, size in zip(start, sizes, strict=True))
        update = batch_first[batch].reshape(sizes)
        result[block] = update if kind == "set" else COMBINE[kind](result[block], update)
    return narrow(result, operation.result.dtype)


def _starts(indices: Array, vector_dim: int, index_map: Sequence[int], rank: int) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """For every position of the batch in row-major order: the position and the start in the operand."""
    vectors = np.moveaxis(indices, vector_dim, -1) if vector_dim < indices.ndim else indices[..., np.newaxis]
    for batch in np.ndindex(*vectors.shape[:-1]):
        start = [0] * rank
        for axis, component in zip(index_map, vectors[batch], strict=True):
            start[axis] = int(component)
        yield batch, start


INDEXING: Mapping[str, Implementation] = {"gather": _gather, "scatter": _scatter}
