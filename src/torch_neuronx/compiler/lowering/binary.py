"""Elementwise functions of two tensors, or of a tensor and a number."""

from __future__ import annotations

import math

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .pointwise import Kind, pointwise
from .unary import trunc


@pointwise("aten::add.Tensor", "aten::add.Scalar")
def add(b: LoweringBuilder, x: Value, y: Value, alpha: Value) -> Value:
    return b.add(x, scaled(b, y, alpha))


@pointwise("aten::_add_relu.Tensor")
def add_relu(b: LoweringBuilder, x: Value, y: Value, alpha: Value) -> Value:
    total = b.add(x, scaled(b, y, alpha))
    return b.maximum(total, b.like(0, total))


@pointwise("aten::sub.Tensor", "aten::sub.Scalar")
def subtract(b: LoweringBuilder, x: Value, y: Value, alpha: Value) -> Value:
    return b.subtract(x, scaled(b, y, alpha))


@pointwise("aten::rsub.Tensor", "aten::rsub.Scalar")
def reverse_subtract(b: LoweringBuilder, x: Value, y: Value, alpha: Value) -> Value:
    return b.subtract(y, scaled(b, x, alpha))


def scaled(b: LoweringBuilder, x: Value, factor: Value) -> Value:
    return x if b.is_one(factor) else b.multiply(x, factor)


@pointwise("aten::mul.Tensor", "aten::mul.Scalar")
def multiply(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.multiply(x, y)


@pointwise("aten::div.Tensor", "aten::div.Scalar", kind=Kind.INT_TO_FLOAT)
def divide(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.divide(x, y)


@pointwise("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def divide_rounding(b: LoweringBuilder, x: Value, y: Value, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        dtype = b.output.dtype if x.dtype.kind in "iub" else x.dtype
        return b.divide(b.cast(x, dtype), b.cast(y, dtype))
    if rounding_mode == "trunc":
        return trunc(b, b.divide(x, y))
    return floor_divide(b, x, y)


@pointwise("aten::floor_divide", "aten::floor_divide.Scalar")
def floor_divide(b: LoweringBuilder, x: Value, y: Value) -> Value:
    zero, one = b.like(0, x), b.like(1, x)
    remainder = b.remainder(x, y)
    if x.dtype.kind == "u":
        return b.divide(x, y)
    uneven = b.and_(b.compare(remainder, zero, "NE"), b.xor(b.compare(remainder, zero, "LT"), b.compare(y, zero, "LT")))
    if not x.dtype.is_float:
        quotient = b.divide(x, y)
        return b.select(uneven, b.subtract(quotient, one), quotient)
    # As Python's float floor division: exact remainder first, so that rounding in x / y cannot step over an integer.
    quotient = b.divide(b.subtract(x, remainder), y)
    quotient = b.select(uneven, b.subtract(quotient, one), quotient)
    below = b.floor(quotient)
    rounded = b.select(b.compare(b.subtract(quotient, below), b.like(0.5, x), "GT"), b.add(below, one), below)
    true_quotient = b.divide(x, y)
    rounded = b.select(b.is_zero(quotient), copysign(b, zero, true_quotient), rounded)
    return b.select(b.is_zero(y), true_quotient, rounded)


@pointwise("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """The remainder with the divisor's sign."""
    rest = b.remainder(x, y)
    if x.dtype.kind == "u":
        return rest
    zero = b.like(0, x)
    other_sign = b.xor(b.compare(rest, zero, "LT"), b.compare(y, zero, "LT"))
    return b.select(b.and_(b.compare(rest, zero, "NE"), other_sign), b.add(rest, y), rest)


@pointwise("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """The remainder with the dividend's sign."""
    return b.remainder(x, y)


@pointwise("aten::pow.Tensor_Tensor", "aten::pow.Scalar")
def power(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.power(x, y)


@pointwise("aten::pow.Tensor_Scalar", static=("exponent",))
def power_by_number(b: LoweringBuilder, x: Value, exponent: int | float | complex) -> Value:
    """Small whole exponents are multiplications, ±0.5 a square root."""
    if isinstance(exponent, complex):
        return b.power(x, b.like(exponent, x))
    if x.dtype.is_integer:
        return _whole_power(b, x, int(exponent)) if exponent >= 0 else b.power(x, b.like(int(exponent), x))
    if exponent == 0.5:
        return b.sqrt(x)
    if exponent == -0.5:
        return b.divide(b.like(1, x), b.sqrt(x))
    if exponent == int(exponent) if math.isfinite(exponent) else False:
        whole = int(exponent)
        if 0 <= whole <= 3:
            return _whole_power(b, x, whole)
        if -2 <= whole < 0:
            return b.divide(b.like(1, x), _whole_power(b, x, -whole))
    return b.power(x, b.like(exponent, x))


def _whole_power(b: LoweringBuilder, x: Value, exponent: int) -> Value:
    """By repeated squaring; wraps for integers."""
    result: Value | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else b.multiply(result, x)
        exponent >>= 1
        x = b.multiply(x, x) if exponent else x
    return b.like(1, x) if result is None else result


@pointwise("aten::maximum")
def maximum(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.maximum(x, y)


@pointwise("aten::minimum")
def minimum(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.minimum(x, y)


@pointwise("aten::fmax")
def fmax(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return _ignoring_nan(b, x, y, b.maximum(x, y))


@pointwise("aten::fmin")
def fmin(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return _ignoring_nan(b, x, y, b.minimum(x, y))


def _ignoring_nan(b: LoweringBuilder, x: Value, y: Value, chosen: Value) -> Value:
    if not x.dtype.is_float:
        return chosen
    return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, chosen))


@pointwise("aten::atan2", kind=Kind.INT_TO_FLOAT)
def atan2(b: LoweringBuilder, y: Value, x: Value) -> Value:
    return b.atan2(y, x)


@pointwise("aten::hypot")
def hypot(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """sqrt(x² + y²) without overflow: the larger one is factored out."""
    x, y = b.abs(x), b.abs(y)
    large, small = b.maximum(x, y), b.minimum(x, y)
    ratio = b.divide(small, large)
    length = b.multiply(large, b.sqrt(b.add(b.like(1, x), b.multiply(ratio, ratio))))
    infinite = b.or_(b.is_inf(x), b.is_inf(y))
    return b.select(infinite, b.like(math.inf, x), b.select(b.is_zero(large), large, length))


@pointwise("aten::copysign.Tensor", "aten::copysign.Scalar", kind=Kind.INT_TO_FLOAT)
def copysign(b: LoweringBuilder, x: Value, y: Value) -> Value:
    bits = DType.I64 if x.dtype is DType.F64 else DType.I32
    sign_is_set = b.bitcast_convert(y, bits)
    negative = b.compare(sign_is_set, b.constant(0, bits, y.shape), "LT")
    magnitude = b.abs(x)
    return b.select(negative, b.negate(magnitude), magnitude)


@pointwise("aten::nextafter", kind=Kind.NO_OPMATH)
def nextafter(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """One step on the integer scale of the bits, away from 0 or towards it."""
    bits = {8: DType.I64, 4: DType.I32, 2: DType.I16}[x.dtype.itemsize]
    raw = b.bitcast_convert(x, bits)
    zero, one = b.like(0, x), b.like(1, raw)
    outward = b.compare(b.compare(x, zero, "GT"), b.compare(y, x, "GT"), "EQ")
    stepped = b.bitcast_convert(b.select(outward, b.add(raw, one), b.subtract(raw, one)), x.dtype)
    smallest = b.bitcast_convert(one, x.dtype)
    from_zero = b.select(b.compare(y, zero, "GT"), smallest, b.negate(smallest))
    moved = b.select(b.is_zero(x), from_zero, stepped)
    result = b.select(b.compare(x, y, "EQ"), y, moved)
    nan = b.or_(b.compare(x, x, "NE"), b.compare(y, y, "NE"))
    return b.select(nan, b.add(x, y), result)


@pointwise("aten::heaviside")
def heaviside(b: LoweringBuilder, x: Value, at_zero: Value) -> Value:
    if x.dtype is DType.I1:
        return b.or_(x, at_zero)
    zero, one = b.like(0, x), b.like(1, x)
    return b.select(b.is_zero(x), at_zero, b.select(b.compare(x, zero, "LT"), zero, one))


@pointwise("aten::xlogy.Tensor", "aten::xlogy.Scalar_Self", "aten::xlogy.Scalar_Other", kind=Kind.INT_TO_FLOAT)
def xlogy(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return _zero_times(b, x, y, b.log(y))


@pointwise("aten::special_xlog1py", "aten::special_xlog1py.self_scalar", "aten::special_xlog1py.other_scalar", kind=Kind.INT_TO_FLOAT)
def xlog1py(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return _zero_times(b, x, y, b.log_plus_one(y))


def _zero_times(b: LoweringBuilder, x: Value, y: Value, logarithm: Value) -> Value:
    """x · logarithm(y), where 0 · anything but nan is 0."""
    product = b.select(b.is_zero(x), b.like(0, x), b.multiply(x, logarithm))
    return b.select(b.is_nan(y), y, product)


@pointwise("aten::logaddexp")
def logaddexp(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """log(eˣ + eʸ); equal infinities stay as they are."""
    b.require_real(x)
    large, small = b.maximum(x, y), b.minimum(x, y)
    total = b.add(large, b.log_plus_one(b.exponential(b.subtract(small, large))))
    return b.select(b.and_(b.is_inf(x), b.compare(x, y, "EQ")), x, total)


@pointwise("aten::logaddexp2")
def logaddexp2(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """log2(2ˣ + 2ʸ)."""
    large, small = b.maximum(x, y), b.minimum(x, y)
    ratio = b.power(b.like(2, x), b.subtract(small, large))
    total = b.add(large, b.multiply(b.log_plus_one(ratio), b.like(1 / math.log(2), x)))
    return b.select(b.and_(b.is_inf(x), b.compare(x, y, "EQ")), x, total)


@pointwise("aten::complex", kind=Kind.NO_OPMATH)
def make_complex(b: LoweringBuilder, real: Value, imag: Value) -> Value:
    dtypes = [b.metas[part].dtype for part in ("real", "imag")]
    if dtypes[0] != dtypes[1]:
        raise ValueError(f"complex: the parts are {dtypes[0]} and {dtypes[1]}; they must be of one dtype")
    return b.complex(real, imag)


@pointwise("aten::polar", kind=Kind.NO_OPMATH)
def polar(b: LoweringBuilder, modulus: Value, angle: Value) -> Value:
    return b.complex(b.multiply(modulus, b.cosine(angle)), b.multiply(modulus, b.sine(angle)))
