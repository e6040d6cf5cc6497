"""Padding: with a constant, by reflection, by repeating the edge; and the derivatives of the latter two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering

Ints = Sequence[int]
Positions = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@lowering("aten::constant_pad_nd", exact=True)
def constant_pad_nd(b: LoweringBuilder, x: Value, pad: Ints, value: Value | int | float | complex) -> Value:
    """``pad`` lists (low, high) from the last dimension on; negative amounts cut off."""
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return b.pad(x, b.scalar(value, x.dtype), low, high)


def _reflected(extent: int, low: int, high: int) -> Positions:
    """Source positions of a dimension padded by reflection around its first and last element."""
    distance = np.abs(np.arange(-low, extent + high))
    return np.asarray(extent - 1 - np.abs(extent - 1 - distance), dtype=np.int64)


def _replicated(extent: int, low: int, high: int) -> Positions:
    return np.clip(np.arange(-low, extent + high, dtype=np.int64), 0, extent - 1)


def _register(kind: str, source: Callable[[int, int, int], Positions]) -> None:
    names = [f"aten::{kind}_pad{spatial}d" for spatial in (1, 2, 3)]

    @lowering(*names, exact=True)
    def forward(b: LoweringBuilder, x: Value, pad: Ints) -> Value:
        for axis, low, high in _amounts(x.shape, pad):
            x = b.take(x, b.constant(source(x.shape[axis], low, high), DType.I64), axis)
        return x

    @lowering(*(f"{name}_backward" for name in names))
    def backward(b: LoweringBuilder, grad: Value, x: Value, pad: Ints) -> Value:
        for axis, low, high in _amounts(x.shape, pad):
            shape = [x.shape[axis] if i == axis else extent for i, extent in enumerate(grad.shape)]
            places = b.constant(source(x.shape[axis], low, high), DType.I64)
            window = [i for i in range(len(shape)) if i != axis]
            grad = b.scatter(b.constant(0, grad.dtype, shape), places, grad, "add", window, (axis,), (axis,), 1)
        return grad


def _amounts(shape: Ints, pad: Ints) -> list[tuple[int, int, int]]:
    """(dimension, low, high) for each padded dimension."""
    return [(len(shape) - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


_register("reflection", _reflected)
_register("replication", _replicated)
