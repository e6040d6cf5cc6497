"""Operations that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import Operation
from ..numerics import Array
from .table import Implementation


def pad_array(x: Array, value: object, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    """StableHLO's pad: elements spread by ``interior``, then padded or cropped on both sides."""
    shape = [max(before + n + max(n - 1, 0) * gap + after, 0) for n, before, after, gap in zip(x.shape, low, high, interior, strict=True)]
    result = np.full(shape, value, x.dtype)
    source, target = [], []
    for n, before, gap, extent in zip(x.shape, low, interior, shape, strict=True):
        step = gap + 1
        kept = [i for i in range(n) if 0 <= before + i * step < extent]
        source.append(kept)
        target.append([before + i * step for i in kept])
    result[np.ix_(*target)] = x[np.ix_(*source)]
    return result


def _broadcast_in_dim(operation: Operation, x: Array) -> Array:
    shape, dims = operation.attributes["shape"], operation.attributes["dims"]
    by_result_order = np.transpose(x, sorted(range(x.ndim), key=lambda axis: dims[axis]))
    extents = iter(by_result_order.shape)
    return np.broadcast_to(by_result_order.reshape([next(extents) if axis in dims else 1 for axis in range(len(shape))]), shape)


def _slice(operation: Operation, x: Array) -> Array:
    attributes = operation.attributes
    return x[tuple(map(slice, attributes["start"], attributes["limit"], attributes["strides"]))]


def _pad(operation: Operation, x: Array, value: Array) -> Array:
    return pad_array(x, value, operation.attributes["low"], operation.attributes["high"], operation.attributes["interior"])


def _window(x: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The block of ``sizes`` at ``starts``, moved inside ``x`` if need be."""
    first = (min(max(int(start), 0), extent - size) for start, extent, size in zip(starts, x.shape, sizes, strict=True))
    return tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))


def _dynamic_slice(operation: Operation, x: Array, *starts: Array) -> Array:
    return x[_window(x, starts, operation.attributes["sizes"])]


def _dynamic_update_slice(operation: Operation, x: Array, update: Array, *starts: Array) -> Array:
    result = x.copy()
    result[_window(x, starts, update.shape)] = update
    return result


LAYOUT: Mapping[str, Implementation] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda operation, x: x.reshape(operation.attributes["shape"]),
    "transpose": lambda operation, x: x.transpose(operation.attributes["permutation"]),
    "reverse": lambda operation, x: np.flip(x, operation.attributes["dims"]),
    "slice": _slice,
    "pad": _pad,
    "concatenate": lambda operation, *operands: np.concatenate(operands, axis=operation.attributes["dim"]),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
