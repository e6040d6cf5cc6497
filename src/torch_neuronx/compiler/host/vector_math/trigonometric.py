"""sine, cosine, tan in f32, computed in double after an argument reduction that is exact enough for every float.

x = n pi + r for sine and tan, x = (n + 1/2) pi + r for the cosine, so that one odd polynomial serves all. Below 2^24, pi in two parts;
above, x / pi modulo 2 in 64-bit fixed point from the bits of 1/pi that matter at x's exponent (Payne and Hanek): multiples of 2 are
dropped before they are computed.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY, format_of
from .ir import Value, absolute, both, fma, funnel_shift_left, polynomial, round_to_integer, select

_PI_HIGH, _PI_LOW = math.pi, float.fromhex("0x1.1a62633145c07p-53")
# The first 256 bits of 1/pi after the binary point.
_INVERSE_PI_WORDS = (0x517CC1B727220A94, 0xFE13ABE8FA9A6EE0, 0x6DB14ACC9E21C820, 0xFF28B1D5EF5DE2B0)
_LARGE = 2.0**24
_LARGE_EXPONENT = 151


def sine_single(x: Value) -> Value:
    """sin(x) for every float, polynomial of degree 11 in double. Error < 0.52 ulp."""
    magnitude = absolute(x)
    r, parity = _reduce(magnitude, half_turn=0)
    sign = x.bits() & (1 << 31)
    return _sine_of_reduced(r, parity.low_i32() << 31 ^ sign)


def cosine_single(x: Value) -> Value:
    """cos(x) = -(-1)^n sin(r) for every float, polynomial of degree 11 in double. Error < 0.52 ulp."""
    r, parity = _reduce(absolute(x), half_turn=1)
    return _sine_of_reduced(r, (parity.low_i32() ^ 1) << 31)


def tan_single(x: Value) -> Value:
    """sin(r) / sin(pi/2 - |r|) with the sign of r, for every float. Error < 0.8 ulp."""
    r, _ = _reduce(absolute(x), half_turn=0)
    complement = (math.pi / 2 - absolute(r)) + _PI_LOW / 2
    tangent = (_sine_polynomial(r) / _sine_polynomial(complement)).to_float()
    return (tangent.bits() ^ (x.bits() & (1 << 31))).as_float()


def _sine_of_reduced(r: Value, sign_bit: Value) -> Value:
    """sin(r) as float, negated by ``sign_bit``, which is applied last, for sin(-0) = -0."""
    return (_sine_polynomial(r).to_float().bits() ^ sign_bit).as_float()


def _sine_polynomial(r: Value) -> Value:
    square = r * r
    return fma(r * square, polynomial(square, c.SINE_LITE), r)


def _reduce(magnitude: Value, half_turn: int) -> tuple[Value, Value]:
    """(r in double, n as i64 of which the lowest bit counts) with magnitude = (n + half_turn / 2) pi + r, |r| <= pi/2."""
    wide = magnitude.to_double()
    magic = format_of(wide).magic
    n = round_to_integer(fma(wide, 1 / math.pi, -0.5 * half_turn))
    turns = n + 0.5 * half_turn
    near = fma(turns, -_PI_LOW, fma(turns, -_PI_HIGH, wide))
    parity_near = (n + magic).bits() & 1
    far, parity_far = _reduce_large(magnitude, half_turn)
    # Infinity takes the near way, where it becomes nan.
    large = both(magnitude >= _LARGE, magnitude < INFINITY)
    return select(large, far, near), select(large, parity_far, parity_near)


def _reduce_large(magnitude: Value, half_turn: int) -> tuple[Value, Value]:
    """``_reduce`` for magnitude >= 2^24: x/pi modulo 2, 63 bits of it after the binary point: the mantissa times 96 bits of 1/pi."""
    bits = magnitude.bits()
    mantissa = ((bits & 0x7FFFFF) | 0x800000).to_i64()
    offset = ((bits >> 23) - _LARGE_EXPONENT).to_i64()
    upper_half = offset > 63
    first, second, third = (
        select(upper_half, offset.constant(_INVERSE_PI_WORDS[i + 1]), offset.constant(_INVERSE_PI_WORDS[i])) for i in range(3)
    )
    leading = funnel_shift_left(first, second, offset)
    trailing = funnel_shift_left(second, third, offset) >> 32
    product = mantissa * leading + ((mantissa * trailing) >> 32)
    quarter = 1 << 62
    if not half_turn:
        product = product + quarter
    fraction = product & ((1 << 63) - 1)
    # The fraction less a half, converted in two 32-bit pieces, since AVX2 has no 64-bit conversion.
    upper = ((fraction >> 32).low_i32() - (1 << 30)).to_double()
    lower = ((fraction & 0xFFFFFFFF) | 0x4330000000000000).as_float() - 2.0**52
    return fma(upper, 2.0**32, lower) * (math.pi * 2.0**-63), product >> 63


FORMULAS = {("sine", "f32"): sine_single, ("cosine", "f32"): cosine_single, ("tan", "f32"): tan_single}
