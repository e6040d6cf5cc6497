"""How values of each element type are held in NumPy, and the rounding and bit patterns of the types that NumPy lacks.

bf16 and the two f8 types are held as float32 arrays whose values are already rounded to the type; every other type is held as NumPy's own.
:func:`to_storage` and :func:`from_storage` convert between that form and the bits as they lie in device memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .types import DType

Array = NDArray[Any]

HELD_AS: dict[DType, np.dtype[Any]] = {
    DType.I1: np.dtype(np.bool_),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.UI8: np.dtype(np.uint8),
    DType.UI16: np.dtype(np.uint16),
    DType.UI32: np.dtype(np.uint32),
    DType.UI64: np.dtype(np.uint64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.float32),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
    DType.F8E4M3FN: np.dtype(np.float32),
    DType.F8E5M2: np.dtype(np.float32),
}


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format narrower than float32.

    ``fraction_bits`` excludes the hidden bit; ``min_exponent`` is that of the smallest normal number, ``largest`` the largest finite value.
    A format without infinities overflows to its largest finite value, as PyTorch's conversions to it do.
    """

    fraction_bits: int
    min_exponent: int
    largest: float
    has_infinity: bool


# Sources: binary16 is IEEE 754's; bfloat16 is the upper half of binary32; f8E4M3FN and f8E5M2 are those of
# Micikevicius et al., "FP8 Formats for Deep Learning" (2022).
FORMATS: dict[DType, FloatFormat] = {
    DType.F16: FloatFormat(10, -14, 65504.0, True),
    DType.BF16: FloatFormat(7, -126, float.fromhex("0x1.fep127"), True),
    DType.F8E4M3FN: FloatFormat(3, -6, 448.0, False),
    DType.F8E5M2: FloatFormat(2, -14, 57344.0, True),
}


def round_to(values: Array, dtype: DType) -> Array:
    """Real floating ``values`` rounded once, to nearest even, to the floating ``dtype``, in its held form. Signed zeros and nan stay."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype not in FORMATS or dtype is DType.F16:
            return values.astype(HELD_AS[dtype])
        form = FORMATS[dtype]
        wide = values.astype(np.float64)
        _, exponent = np.frexp(wide)
        quantum = np.maximum(exponent - 1, form.min_exponent) - form.fraction_bits
        rounded = np.ldexp(np.rint(np.ldexp(wide, -quantum)), quantum)
        beyond = np.inf if form.has_infinity else form.largest
        return np.asarray(np.where(np.abs(rounded) > form.largest, np.copysign(beyond, rounded), rounded)).astype(np.float32)


def largest_finite(dtype: DType) -> float:
    """The largest finite value of a floating type."""
    return FORMATS[dtype].largest if dtype in FORMATS else float(np.finfo(HELD_AS[dtype]).max)


def lowest(dtype: DType) -> bool | int | float:
    """The value below all others of a real type: -inf for floating types that have it."""
    if dtype.is_float:
        return -448.0 if dtype is DType.F8E4M3FN else float("-inf")
    return False if dtype is DType.I1 else int(np.iinfo(HELD_AS[dtype]).min)


def highest(dtype: DType) -> bool | int | float:
    """The value above all others of a real type: inf for floating types that have it."""
    if dtype.is_float:
        return 448.0 if dtype is DType.F8E4M3FN else float("inf")
    return True if dtype is DType.I1 else int(np.iinfo(HELD_AS[dtype]).max)


def identity_element(kind: str, dtype: DType) -> bool | int | float:
    """The value that a reduction of ``kind`` starts from."""
    match kind:
        case "add" | "or":
            return 0
        case "multiply":
            return 1
        case "and":
            return 1 if dtype is DType.I1 else (-1 if dtype.kind == "i" else highest(dtype))
        case "maximum":
            return lowest(dtype)
        case "minimum":
            return highest(dtype)
    raise ValueError(f"identity_element: kind is {kind!r}; it must be one of add, multiply, maximum, minimum, and, or")


def to_storage(values: Array, dtype: DType) -> Array:
    """The held ``values`` as they lie in memory: same shape, ``dtype.itemsize`` bytes per element (uint16 for bf16, uint8 for f8)."""
    if dtype is DType.BF16:
        # A nan whose payload lies in the lower half would turn into an infinity.
        bits = np.where(np.isnan(values), np.float32(np.nan), values).astype(np.float32).view(np.uint32)
        return np.asarray((bits >> 16).astype(np.uint16))
    if dtype in (DType.F8E4M3FN, DType.F8E5M2):
        magnitudes = _f8_magnitudes(dtype)
        nan_code = 0x7F if dtype is DType.F8E4M3FN else 0x7E
        codes = np.searchsorted(magnitudes, np.abs(values)).astype(np.uint8)
        codes = np.where(np.isnan(values), np.uint8(nan_code), codes)
        return np.asarray(codes | np.where(np.signbit(values), 0x80, 0).astype(np.uint8))
    return values.astype(HELD_AS[dtype], copy=False)


def from_storage(bits: Array, dtype: DType) -> Array:
    """The inverse of :func:`to_storage`."""
    if dtype is DType.BF16:
        return np.asarray((bits.astype(np.uint32) << 16).view(np.float32))
    if dtype in (DType.F8E4M3FN, DType.F8E5M2):
        magnitudes = _f8_magnitudes(dtype)
        table = np.full(128, np.nan, np.float32)
        table[: len(magnitudes)] = magnitudes
        return np.asarray(np.where(bits & 0x80, -table[bits & 0x7F], table[bits & 0x7F]).astype(np.float32))
    return bits


def _f8_magnitudes(dtype: DType) -> NDArray[np.float32]:
    """The non-negative values of an f8 type in the order of their codes, with infinity, without nan."""
    form = FORMATS[dtype]
    codes = np.arange(0x7F if dtype is DType.F8E4M3FN else 0x7D)
    exponent, fraction = codes >> form.fraction_bits, codes & ((1 << form.fraction_bits) - 1)
    significand = np.where(exponent > 0, fraction + (1 << form.fraction_bits), fraction).astype(np.float64)
    values = np.ldexp(significand, np.maximum(exponent, 1) - 1 + form.min_exponent - form.fraction_bits)
    if form.has_infinity:
        values[-1] = np.inf
    return np.asarray(values.astype(np.float32))
