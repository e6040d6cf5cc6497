"""Elementwise functions of one tensor, without the activations."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .pointwise import Kind, pointwise

# log10(2) in two parts, the first of 40 bits.
_LOG10_2, _LOG10_2_LOW = float.fromhex("0x1.34413509f6000p-2"), float.fromhex("0x1.9fef311f12b36p-42")
# For exp2: the integer of the same width, mantissa bits, bias, and where 2^x is 0 or infinite, half of which is still an exponent.
_EXP2_FORMAT = {DType.F32: (DType.I32, 23, 127, 160), DType.F64: (DType.I64, 52, 1023, 1100)}
# The bits of sqrt(1/2) as a double, rounded down.
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCC

# Functions of real or complex numbers that HLO has as an op; integers are computed in the default float dtype.
_FLOAT_FUNCTIONS = {
    "aten::acos": "acos",
    "aten::acosh": "acosh",
    "aten::asin": "asin",
    "aten::asinh": "asinh",
    "aten::atan": "atan",
    "aten::atanh": "atanh",
    "aten::cos": "cosine",
    "aten::cosh": "cosh",
    "aten::digamma": "digamma",
    "aten::erf": "erf",
    "aten::erfc": "erfc",
    "aten::erfinv": "erf_inv",
    "aten::exp": "exponential",
    "aten::expm1": "exponential_minus_one",
    "aten::lgamma": "lgamma",
    "aten::log": "log",
    "aten::log1p": "log_plus_one",
    "aten::rsqrt": "rsqrt",
    "aten::sigmoid": "logistic",
    "aten::sin": "sine",
    "aten::sinh": "sinh",
    "aten::sqrt": "sqrt",
    "aten::tan": "tan",
    "aten::tanh": "tanh",
}


def _apply(operation: str) -> Callable[[LoweringBuilder, Value], Value]:
    def lower(b: LoweringBuilder, x: Value) -> Value:
        result: Value = getattr(b, operation)(x)
        return result

    return lower


for _name, _operation in _FLOAT_FUNCTIONS.items():
    pointwise(_name, kind=Kind.INT_TO_FLOAT)(_apply(_operation))


@pointwise("aten::exp2", kind=Kind.INT_TO_FLOAT)
def exp2(b: LoweringBuilder, x: Value) -> Value:
    """2^n e^(r ln 2) with x = n + r and n the nearest integer, exact at integers; 2^n in two factors, of which only the last can round."""
    if x.dtype.is_complex:
        return b.power(b.like(2, x), x)
    integer, mantissa_bits, bias, limit = _EXP2_FORMAT[x.dtype]
    bounded = b.clamp(b.like(-limit, x), x, b.like(limit, x))
    whole = b.round_nearest_even(bounded)
    rest = b.exponential(b.multiply(b.subtract(bounded, whole), b.like(math.log(2), x)))
    exponent = b.cast(whole, integer)
    half = b.shift_right_arithmetic(exponent, b.like(1, exponent))
    for part in (half, b.subtract(exponent, half)):
        rest = b.multiply(rest, b.bitcast_convert(b.shift_left(b.add(part, b.like(bias, part)), b.like(mantissa_bits, part)), x.dtype))
    return rest


@pointwise("aten::log2", kind=Kind.INT_TO_FLOAT)
def log2(b: LoweringBuilder, x: Value) -> Value:
    return _log_to_base(b, x, 1.0, 0.0, 1 / math.log(2))


@pointwise("aten::log10", kind=Kind.INT_TO_FLOAT)
def log10(b: LoweringBuilder, x: Value) -> Value:
    return _log_to_base(b, x, _LOG10_2, _LOG10_2_LOW, 1 / math.log(10))


def _log_to_base(b: LoweringBuilder, x: Value, of_two: float, of_two_low: float, of_e: float) -> Value:
    """The logarithm to the base in which 2 has the logarithm ``of_two`` + ``of_two_low`` and e ``of_e``: exact at powers of the base.

    float32 is computed in double and rounded. A double is 2^k m with m near 1, and ``of_two`` is so short that its multiple is exact.
    """
    if x.dtype.is_complex:
        return b.multiply(b.log(x), b.like(of_e, x))
    if x.dtype is not DType.F64:
        wide = b.cast(x, DType.F64)
        return b.cast(b.multiply(b.log(wide), b.like(of_e, wide)), x.dtype)
    bits = b.bitcast_convert(x, DType.I64)
    shift = b.like(52, bits)
    regular = b.and_(b.compare(x, b.like(2.0**-1022, x), "GE"), b.compare(x, b.like(math.inf, x), "LT"))
    k = b.shift_right_arithmetic(b.subtract(bits, b.like(_SQRT_HALF_BITS, bits)), shift)
    k = b.select(regular, k, b.like(0, k))
    m = b.bitcast_convert(b.subtract(bits, b.shift_left(k, shift)), DType.F64)
    turns = b.cast(k, DType.F64)
    low = b.add(b.multiply(turns, b.like(of_two_low, x)), b.multiply(b.log(m), b.like(of_e, x)))
    return b.add(b.multiply(turns, b.like(of_two, x)), low)


@pointwise("aten::reciprocal", kind=Kind.INT_TO_FLOAT)
def reciprocal(b: LoweringBuilder, x: Value) -> Value:
    return b.divide(b.like(1, x), x)


@pointwise("aten::deg2rad", kind=Kind.INT_TO_FLOAT)
def deg2rad(b: LoweringBuilder, x: Value) -> Value:
    return b.multiply(x, b.like(math.pi / 180, x))


@pointwise("aten::rad2deg", kind=Kind.INT_TO_FLOAT)
def rad2deg(b: LoweringBuilder, x: Value) -> Value:
    return b.multiply(x, b.like(180 / math.pi, x))


@pointwise("aten::sinc", kind=Kind.INT_TO_FLOAT)
def sinc(b: LoweringBuilder, x: Value) -> Value:
    """sin(πx) / πx, and 1 at 0."""
    angle = b.multiply(x, b.like(math.pi, x))
    return b.select(b.is_zero(x), b.like(1, x), b.divide(b.sine(angle), angle))


@pointwise("aten::logit", kind=Kind.INT_TO_FLOAT)
def logit(b: LoweringBuilder, x: Value, eps: float | None) -> Value:
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] if eps is given."""
    if eps is not None:
        x = b.clamp(b.like(eps, x), x, b.like(1 - eps, x))
    return b.log(b.divide(x, b.subtract(b.like(1, x), x)))


@pointwise("aten::special_entr", kind=Kind.INT_TO_FLOAT)
def entr(b: LoweringBuilder, x: Value) -> Value:
    """-x log x, 0 at 0, -inf below."""
    zero = b.like(0, x)
    below = b.select(b.compare(x, zero, "LT"), b.like(-math.inf, x), b.negate(b.multiply(x, b.log(x))))
    return b.select(b.is_zero(x), zero, below)


@pointwise("aten::special_ndtri", kind=Kind.INT_TO_FLOAT)
def ndtri(b: LoweringBuilder, p: Value) -> Value:
    """Quantile function of the standard normal distribution."""
    doubled = b.subtract(b.multiply(p, b.like(2, p)), b.like(1, p))
    return b.multiply(b.erf_inv(doubled), b.like(math.sqrt(2), p))


@pointwise("aten::abs", kind=Kind.COMPLEX_TO_FLOAT)
def absolute(b: LoweringBuilder, x: Value) -> Value:
    return x if x.dtype.kind in "ub" else b.abs(x)


@pointwise("aten::neg")
def negate(b: LoweringBuilder, x: Value) -> Value:
    return b.negate(x)


@pointwise("aten::sign")
def sign(b: LoweringBuilder, x: Value) -> Value:
    """(x > 0) - (x < 0), so that the sign of nan is 0."""
    if x.dtype is DType.I1:
        return x
    zero = b.like(0, x)
    return b.subtract(b.cast(b.compare(x, zero, "GT"), x.dtype), b.cast(b.compare(x, zero, "LT"), x.dtype))


@pointwise("aten::sgn")
def sgn(b: LoweringBuilder, x: Value) -> Value:
    if x.dtype.is_complex:
        return b.sign(x)
    return sign(b, x)


@pointwise("aten::signbit", kind=Kind.ALWAYS_BOOL)
def signbit(b: LoweringBuilder, x: Value) -> Value:
    if x.dtype is DType.I1:
        return b.like(False, x)
    if x.dtype.is_float:
        x = b.bitcast_convert(x, DType.I64 if x.dtype is DType.F64 else DType.I32)
    return b.compare(x, b.like(0, x), "LT")


def _rounding(name: str, operation: str) -> None:
    @pointwise(name)
    def lower(b: LoweringBuilder, x: Value) -> Value:
        result: Value = getattr(b, operation)(x) if x.dtype.is_float else x
        return result


_rounding("aten::floor", "floor")
_rounding("aten::ceil", "ceil")
_rounding("aten::round", "round_nearest_even")


@pointwise("aten::trunc")
def trunc(b: LoweringBuilder, x: Value) -> Value:
    if not x.dtype.is_float:
        return x
    return b.select(b.compare(x, b.like(0, x), "LT"), b.ceil(x), b.floor(x))


@pointwise("aten::frac")
def frac(b: LoweringBuilder, x: Value) -> Value:
    return b.subtract(x, trunc(b, x))


@pointwise("aten::round.decimals")
def round_decimals(b: LoweringBuilder, x: Value, decimals: int) -> Value:
    if not x.dtype.is_float or decimals == 0:
        return b.round_nearest_even(x) if x.dtype.is_float else x
    scale = b.like(10.0 ** abs(decimals), x)
    if decimals > 0:
        return b.divide(b.round_nearest_even(b.multiply(x, scale)), scale)
    return b.multiply(b.round_nearest_even(b.divide(x, scale)), scale)


@pointwise("aten::bitwise_not")
def bitwise_not(b: LoweringBuilder, x: Value) -> Value:
    return b.not_(x)


@pointwise("aten::logical_not", kind=Kind.ALWAYS_BOOL)
def logical_not(b: LoweringBuilder, x: Value) -> Value:
    return b.is_zero(x)


@pointwise("aten::isnan", kind=Kind.ALWAYS_BOOL)
def isnan(b: LoweringBuilder, x: Value) -> Value:
    return b.compare(x, x, "NE")


@pointwise("aten::isinf", kind=Kind.ALWAYS_BOOL)
def isinf(b: LoweringBuilder, x: Value) -> Value:
    if x.dtype.is_complex:
        return b.or_(b.is_inf(b.real(x)), b.is_inf(b.imag(x)))
    return b.is_inf(x) if x.dtype.is_float else b.constant(False, DType.I1, x.shape)


@pointwise("aten::isposinf", kind=Kind.ALWAYS_BOOL)
def isposinf(b: LoweringBuilder, x: Value) -> Value:
    return b.compare(x, b.like(math.inf, x), "EQ") if x.dtype.is_float else b.constant(False, DType.I1, x.shape)


@pointwise("aten::isneginf", kind=Kind.ALWAYS_BOOL)
def isneginf(b: LoweringBuilder, x: Value) -> Value:
    return b.compare(x, b.like(-math.inf, x), "EQ") if x.dtype.is_float else b.constant(False, DType.I1, x.shape)


@pointwise("aten::nan_to_num")
def nan_to_num(b: LoweringBuilder, x: Value, nan: float | None, posinf: float | None, neginf: float | None) -> Value:
    """nan → 0 and ±inf → the extreme finite values of the tensor's dtype, unless given."""
    if not x.dtype.is_float:
        return x
    limit = b.finite_limit("self")
    high = b.like(limit if posinf is None else posinf, x)
    low = b.like(-limit if neginf is None else neginf, x)
    x = b.select(b.compare(x, b.like(math.inf, x), "EQ"), high, b.select(b.compare(x, b.like(-math.inf, x), "EQ"), low, x))
    return b.select(b.is_nan(x), b.like(nan or 0.0, x), x)


@pointwise("aten::angle", kind=Kind.COMPLEX_TO_FLOAT)
def angle(b: LoweringBuilder, x: Value) -> Value:
    """Of a complex number its argument; of a real one 0 or π, nan for nan."""
    if x.dtype.is_complex:
        return b.atan2(b.imag(x), b.real(x))
    x = b.cast(x, b.output.dtype)
    positive = b.select(b.compare(x, b.like(0, x), "LT"), b.like(math.pi, x), b.like(0, x))
    return b.select(b.compare(x, x, "NE"), x, positive)


@pointwise("aten::_conj_physical")
def conj_physical(b: LoweringBuilder, x: Value) -> Value:
    return b.complex(b.real(x), b.negate(b.imag(x))) if x.dtype.is_complex else x
