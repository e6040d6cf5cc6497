"""The counter-based generator Philox4x32-10.

Source of algorithm and constants: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section 4.3.
"""

from __future__ import annotations

from ..builder import Builder
from ..ir import Value
from ..types import DType

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)


def decompose_philox(b: Builder, seed: Value, offset: Value, *, count: int) -> Value:
    """ui32[count]: the first words of all counters, then the second, third and fourth ones."""
    blocks = -(-count // 4)
    shape = (blocks,)
    counters = b.add(b.broadcast(offset, shape), b.iota(shape, DType.UI64, 0))
    zero = b.constant(0, DType.UI32, shape)
    words = [*_halves(b, counters), zero, zero]
    keys = [b.broadcast(half, shape) for half in _halves(b, seed)]
    for step in range(ROUNDS):
        if step > 0:
            keys = [b.add(key, b.constant(more, DType.UI32, shape)) for key, more in zip(keys, KEY_INCREMENTS, strict=True)]
        low0, high0 = _halves(b, _wide_product(b, words[0], MULTIPLIERS[0]))
        low1, high1 = _halves(b, _wide_product(b, words[2], MULTIPLIERS[1]))
        words = [b.xor(b.xor(high1, words[1]), keys[0]), low1, b.xor(b.xor(high0, words[3]), keys[1]), low0]
    return b.slice(b.concatenate(words, 0), (0,), (count,))


def _halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """The low and the high 32 bits of ui64 values."""
    mask = b.constant(0xFFFFFFFF, DType.UI64, x.shape)
    width = b.constant(32, DType.UI64, x.shape)
    return b.convert(b.and_(x, mask), DType.UI32), b.convert(b.shift_right_logical(x, width), DType.UI32)


def _wide_product(b: Builder, x: Value, factor: int) -> Value:
    return b.multiply(b.convert(x, DType.UI64), b.constant(factor, DType.UI64, x.shape))
