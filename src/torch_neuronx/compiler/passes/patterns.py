"""The questions that rewrite rules ask of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..hlo.builder import Builder
from ..hlo.ir import Operation, Value
from ..hlo.numerics import Array

# A rule: given the builder, an operation and its rewritten operands, the values that replace its results, or None if it does not apply.
Rule = Callable[[Builder, Operation, tuple[Value, ...]], Sequence[Value] | None]


def made_by(value: Value, name: str) -> Operation | None:
    """The producer of ``value`` if it is an operation of that name."""
    return value.producer if value.producer is not None and value.producer.name == name else None


def literal(value: Value) -> Array | None:
    """The held array of a constant; 0-d if it is a splat."""
    constant = made_by(value, "constant")
    return None if constant is None else constant.attributes["value"]


def is_splat(value: Value, number: complex) -> bool:
    """All elements are ``number``, with the sign of a zero; of a complex constant both parts."""
    array = literal(value)
    if array is None or array.ndim or array != number:
        return False
    wide, expected = complex(array), complex(number)
    same_real = np.signbit(wide.real) == np.signbit(expected.real) or value.dtype.kind not in "fc"
    return bool(same_real and (np.signbit(wide.imag) == np.signbit(expected.imag) or not value.dtype.is_complex))
