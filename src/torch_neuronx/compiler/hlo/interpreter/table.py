"""What the interpreter's tables hold, and the change between a type and the wide one that it is computed in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numerics import HELD_AS, Array, round_to
from ..types import DType

# Operation, operand arrays → result array, or a tuple of them. Arrays are in held form and have the operation's recorded shapes.
Implementation = Callable[..., Array | tuple[Array, ...]]


def widen(values: Array) -> Array:
    """Floating values as float64 or complex128; others as they are."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    return values.astype(np.complex128) if values.dtype.kind == "c" else values


def narrow(values: Array, dtype: DType) -> Array:
    """Wide values in the held form of ``dtype``, rounded once."""
    return round_to(values, dtype) if dtype.is_float else np.asarray(values).astype(HELD_AS[dtype])
