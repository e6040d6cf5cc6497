"""Constants in MLIR's syntax, exact to the last bit."""

from __future__ import annotations

import numpy as np

from ..numerics import Array, to_storage
from ..types import DType

# Arrays with more elements are printed as the bytes in memory.
LISTED_ELEMENTS = 16


def dense_literal(value: Array, dtype: DType) -> str:
    """``dense<...>`` for an array in held form; a 0-d one is a splat."""
    if value.size > LISTED_ELEMENTS and dtype is not DType.I1:
        data = np.ascontiguousarray(to_storage(value, dtype)).astype(to_storage(value, dtype).dtype.newbyteorder("<"))
        return f'dense<"0x{data.tobytes().hex().upper()}">'
    return f"dense<{_nested(value, dtype)}>" if value.size else "dense<>"


def _nested(value: Array, dtype: DType) -> str:
    if value.ndim:
        return f"[{', '.join(_nested(item, dtype) for item in value)}]"
    if dtype.is_complex:
        part = DType.F32 if dtype is DType.C64 else DType.F64
        return f"({_number(value.real, part)}, {_number(value.imag, part)})"
    return _number(value, dtype)


def _number(value: Array, dtype: DType) -> str:
    if dtype is DType.I1:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    # Decimal where a reader gains by it and no digit is lost; else the bits.
    decimal = f"{float(value):.6e}"
    if np.isfinite(value) and float(decimal) == float(value):
        return decimal
    bits = int(np.asarray(to_storage(value, dtype)).view(f"u{dtype.itemsize}"))
    return f"0x{bits:0{2 * dtype.itemsize}X}"
