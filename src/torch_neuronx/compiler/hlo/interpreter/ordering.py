"""Composites that have a meaning in NumPy more direct than their decomposition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..composites.philox import KEY_INCREMENTS, MULTIPLIERS, ROUNDS
from ..ir import Operation
from ..numerics import Array
from .reductions import COMBINE
from .table import Implementation, narrow, widen


def _sort(operation: Operation, x: Array) -> tuple[Array, Array]:
    attributes = operation.attributes
    return _ordered(x, attributes["dim"], attributes["descending"])


def _topk(operation: Operation, x: Array) -> tuple[Array, Array]:
    attributes = operation.attributes
    values, indices = _ordered(x, attributes["dim"], attributes["largest"])
    first = np.arange(attributes["k"])
    return values.take(first, attributes["dim"]), indices.take(first, attributes["dim"])


def _ordered(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """NumPy puts nan last. Descending is the ascending order of the reversed elements, read backwards: equal elements keep their order."""
    source = np.flip(x, dim) if descending else x
    order = np.argsort(source, axis=dim, kind="stable")
    if descending:
        order = np.flip(x.shape[dim] - 1 - order, dim)
    return np.take_along_axis(x, order, dim), order.astype(np.int64)


def _scan(operation: Operation, x: Array) -> Array:
    combine, wide = COMBINE[operation.attributes["kind"]], widen(x)
    return narrow(combine.accumulate(wide, axis=operation.attributes["dim"], dtype=wide.dtype), operation.result.dtype)


def _philox(operation: Operation, seed: Array, offset: Array) -> Array:
    """Python integers, one counter at a time."""
    count, mask = operation.attributes["count"], 0xFFFFFFFF
    blocks = []
    for block in range(-(-count // 4)):
        counter = (int(offset) + block) % 2**64
        words, key = [counter & mask, counter >> 32, 0, 0], [int(seed) & mask, int(seed) >> 32]
        for _ in range(ROUNDS):
            product0, product1 = words[0] * MULTIPLIERS[0], words[2] * MULTIPLIERS[1]
            words = [product1 >> 32 ^ words[1] ^ key[0], product1 & mask, product0 >> 32 ^ words[3] ^ key[1], product0 & mask]
            key = [(part + more) & mask for part, more in zip(key, KEY_INCREMENTS, strict=True)]
        blocks.append(words)
    return np.array(blocks, np.uint32).reshape(-1, 4).T.reshape(-1)[:count]


ORDERING_COMPOSITES: Mapping[str, Implementation] = {"sort": _sort, "topk": _topk, "scan": _scan, "philox": _philox}
