"""Elementwise operations, constants included."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np

from ..ir import Operation
from ..numerics import HELD_AS, Array, from_storage, round_to, to_storage
from ..types import DType
from . import special
from .table import Implementation, narrow, widen


def _math(function: Callable[..., Array]) -> Implementation:
    """``function`` of wide operands, rounded to the result type."""

    def run(operation: Operation, *operands: Array) -> Array:
        return narrow(function(*map(widen, operands)), operation.result.dtype)

    return run


def _plain(function: Callable[..., Array]) -> Implementation:
    """``function`` of the operands as they are."""
    return lambda operation, *operands: function(*operands)


def _by_kind(of_integers: Callable[..., Array], of_floats: Callable[..., Array]) -> Implementation:
    """One meaning for integers, another for floating values."""

    integers, floats = _plain(of_integers), _math(of_floats)

    def run(operation: Operation, *operands: Array) -> Array | tuple[Array, ...]:
        return (integers if operands[0].dtype.kind in "iu" else floats)(operation, *operands)

    return run


def _constant(operation: Operation) -> Array:
    return np.broadcast_to(operation.attributes["value"], operation.result.shape)


def _iota(operation: Operation) -> Array:
    shape, dim, dtype = operation.result.shape, operation.attributes["dim"], operation.result.dtype
    along = [1] * len(shape)
    along[dim] = shape[dim]
    numbers = np.arange(shape[dim])
    return np.broadcast_to(narrow(widen(numbers.astype(np.float64)) if dtype.is_float else numbers, dtype).reshape(along), shape)


def _convert(operation: Operation, x: Array) -> Array:
    """To a type narrower than f32 through f32, as PyTorch does."""
    source, target = operation.operands[0].dtype, operation.result.dtype
    if target is DType.I1:
        return np.asarray(x != 0)
    real = x.real if source.is_complex and not target.is_complex else x
    if target.is_float:
        return round_to(real.astype(np.float32) if target.itemsize < 4 else real, target)
    # Through i64, as an x86 conversion to a narrower or unsigned type keeps the low bits.
    through = real.astype(np.int64) if source.is_float and target.is_integer and target is not DType.UI64 else real
    return through.astype(HELD_AS[target])


def _bitcast_convert(operation: Operation, x: Array) -> Array:
    source, target = operation.operands[0].dtype, operation.result.dtype
    storage_of_target = to_storage(np.zeros((), HELD_AS[target]), target).dtype
    bits = np.ascontiguousarray(to_storage(x, source)).view(storage_of_target)
    return from_storage(bits, target).reshape(x.shape)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        modulus = np.abs(x)
        return np.where(modulus == 0, 0, x / np.where(modulus == 0, 1, modulus))
    return np.where(x == 0, x, np.sign(x))


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x)


def _complex(real: Array, imag: Array) -> Array:
    """Not real + 1j · imag, which makes the real part nan where imag is infinite."""
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imag
    return result


def _population_count(x: Array) -> Array:
    return np.asarray(sum(shifted & np.asarray(1, shifted.dtype) for shifted in _all_shifts(x))).astype(x.dtype)


def _leading_zeros(x: Array) -> Array:
    return np.asarray(sum((shifted == 0).astype(x.dtype) for shifted in _all_shifts(x)))


def _all_shifts(x: Array) -> list[Array]:
    """The unsigned bits of ``x`` shifted right by 0, 1, … width - 1."""
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return [unsigned >> np.asarray(distance, unsigned.dtype) for distance in range(8 * x.dtype.itemsize)]


def _divide_integers(lhs: Array, rhs: Array) -> Array:
    """Truncated; by zero, all bits set. The smallest integer divided by -1 wraps to itself."""
    divisor = np.where(rhs == 0, 1, rhs).astype(rhs.dtype)
    floored = np.floor_divide(lhs, divisor)
    inexact_negative = ((lhs < 0) != (divisor < 0)) & (floored * divisor != lhs)
    return np.where(rhs == 0, np.asarray(-1).astype(lhs.dtype), floored + inexact_negative.astype(lhs.dtype))


def _remainder_integers(lhs: Array, rhs: Array) -> Array:
    return np.asarray(lhs - np.where(rhs == 0, 0, _divide_integers(lhs, rhs)).astype(lhs.dtype) * rhs)


def _power_integers(base: Array, exponent: Array) -> Array:
    """Wrapping square-and-multiply; a negative exponent leaves only ±1 from a base of ±1."""
    result, square, rest = np.ones_like(base), base.copy(), np.maximum(exponent, 0)
    while np.any(rest > 0):
        result = np.where(rest & 1, result * square, result)
        square, rest = square * square, rest >> 1
    sign = np.where(exponent & 1, base, np.ones_like(base))
    inverse = np.where(base == 1, np.ones_like(base), np.where(base == np.asarray(-1).astype(base.dtype), sign, np.zeros_like(base)))
    return np.where(exponent < 0, inverse, result)


def _shift(lhs: Array, rhs: Array, shift: Callable[[Array, Array], Array], beyond: Array) -> Array:
    """``beyond`` where the distance, taken as unsigned, is the width or more."""
    width = 8 * lhs.dtype.itemsize
    distance = rhs.view(f"u{rhs.dtype.itemsize}")
    inside = np.minimum(distance, width - 1).astype(lhs.dtype)
    return np.where(distance >= width, beyond, shift(lhs, inside))


def _shift_left(lhs: Array, rhs: Array) -> Array:
    return _shift(lhs, rhs, np.left_shift, np.zeros_like(lhs))


def _shift_right_logical(lhs: Array, rhs: Array) -> Array:
    unsigned: Array = lhs.view(f"u{lhs.dtype.itemsize}")
    return _shift(unsigned, rhs, np.right_shift, np.zeros_like(unsigned)).view(lhs.dtype)


def _shift_right_arithmetic(lhs: Array, rhs: Array) -> Array:
    signed = lhs.view(f"i{lhs.dtype.itemsize}")
    return _shift(signed, rhs, np.right_shift, np.where(signed < 0, -1, 0).astype(signed.dtype)).view(lhs.dtype)


_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _compare(operation: Operation, lhs: Array, rhs: Array) -> Array:
    return _COMPARISONS[operation.attributes["direction"]](lhs, rhs)


ELEMENTWISE: Mapping[str, Implementation] = {
    "constant": _constant,
    "iota": _iota,
    "convert": _convert,
    "bitcast_convert": _bitcast_convert,
    "compare": _compare,
    "select": _plain(np.where),
    "clamp": _plain(lambda lo, x, hi: np.minimum(np.maximum(x, lo), hi)),
    # Exact in every type.
    "negate": _plain(np.negative),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "round_nearest_even": _plain(np.rint),
    "maximum": _plain(np.maximum),
    "minimum": _plain(np.minimum),
    "not": _plain(np.invert),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "is_finite": _plain(np.isfinite),
    "is_nan": _plain(np.isnan),
    "is_inf": _plain(np.isinf),
    "real": _plain(np.real),
    "imag": _plain(np.imag),
    "popcnt": _plain(_population_count),
    "count_leading_zeros": _plain(_leading_zeros),
    "shift_left": _plain(_shift_left),
    "shift_right_logical": _plain(_shift_right_logical),
    "shift_right_arithmetic": _plain(_shift_right_arithmetic),
    # NumPy's integer arithmetic wraps, its + and * of booleans are or and and.
    "abs": _math(np.abs),
    "sign": _math(_sign),
    "add": _math(np.add),
    "subtract": _math(np.subtract),
    "multiply": _math(np.multiply),
    "divide": _by_kind(_divide_integers, np.divide),
    "remainder": _by_kind(_remainder_integers, np.fmod),
    "power": _by_kind(_power_integers, np.power),
    "atan2": _math(np.arctan2),
    "complex": _math(_complex),
    "round_nearest_afz": _math(_round_half_away),
    "exponential": _math(np.exp),
    "exponential_minus_one": _math(np.expm1),
    "log": _math(np.log),
    "log_plus_one": _math(np.log1p),
    "logistic": _math(lambda x: 1 / (1 + np.exp(-x))),
    "tanh": _math(np.tanh),
    "sine": _math(np.sin),
    "cosine": _math(np.cos),
    "tan": _math(np.tan),
    "sqrt": _math(np.sqrt),
    "rsqrt": _math(lambda x: 1 / np.sqrt(x)),
    "cbrt": _math(np.cbrt),
    "asin": _math(np.arcsin),
    "acos": _math(np.arccos),
    "atan": _math(np.arctan),
    "sinh": _math(np.sinh),
    "cosh": _math(np.cosh),
    "asinh": _math(np.arcsinh),
    "acosh": _math(np.arccosh),
    "atanh": _math(np.arctanh),
    "erf": _math(special.erf),
    "erfc": _math(special.erfc),
    "erf_inv": _math(special.erf_inv),
    "lgamma": _math(special.lgamma),
    "digamma": _math(special.digamma),
}
