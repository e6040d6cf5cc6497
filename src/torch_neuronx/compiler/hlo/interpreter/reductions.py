"""Reductions over dimensions and windows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from ..ir import Operation
from ..numerics import Array, identity_element
from .layout import pad_array
from .table import Implementation, narrow, widen

COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def _reduce(operation: Operation, x: Array) -> Array:
    kind, dtype = operation.attributes["kind"], operation.result.dtype
    wide = widen(x)
    initial = np.asarray(identity_element(kind, dtype)).astype(wide.dtype)
    total = COMBINE[kind].reduce(wide, axis=operation.attributes["dims"], dtype=wide.dtype, initial=initial)
    return narrow(np.asarray(total), dtype)


def _argreduce(operation: Operation, x: Array) -> Array:
    """NumPy too takes the first, and nan before all."""
    find = np.argmax if operation.attributes["kind"] == "maximum" else np.argmin
    return np.asarray(find(x, axis=operation.attributes["dim"])).astype(np.int64)


def _reduce_window(operation: Operation, x: Array) -> Array:
    attributes, dtype = operation.attributes, operation.result.dtype
    kind, shape = attributes["kind"], operation.result.shape
    identity = np.asarray(identity_element(kind, dtype)).astype(widen(x).dtype)
    low, high = zip(*attributes["padding"], strict=True) if x.ndim else ((), ())
    padded = pad_array(widen(x), identity, low, high, (0,) * x.ndim)
    total = np.full(shape, identity, padded.dtype)
    if total.size:
        for place in itertools.product(*map(range, attributes["window"])):
            first = [at * step for at, step in zip(place, attributes["dilation"], strict=True)]
            last = [start + (n - 1) * stride + 1 for start, n, stride in zip(first, shape, attributes["strides"], strict=True)]
            total = COMBINE[kind](total, padded[tuple(map(slice, first, last, attributes["strides"]))])
    return narrow(np.asarray(total), dtype)


REDUCTIONS: Mapping[str, Implementation] = {"reduce": _reduce, "argreduce": _argreduce, "reduce_window": _reduce_window}
