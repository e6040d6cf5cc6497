"""sine, cosine, tan in f64, with the argument reduced to two doubles.

x = n pi + r for the sine, (n + 1/2) pi + r for the cosine, n pi/2 + r for tan, from x / pi modulo 2 (Payne and Hanek) for x of any
size: the integer mantissa times the 170 bits of 1/pi that matter at x's exponent. The first 64 of these are an integer, whose product
drops multiples of 2 as it wraps around; the others are two doubles.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import cache

from . import coefficients as c
from .double_double import DoubleDouble, quotient_of_sums, sum_in_order, sum_of
from .ir import Value, absolute, fma, polynomial, select, table_entry

_PI, _PI_LOW = math.pi, float.fromhex("0x1.1a62633145c07p-53")
_BIAS = 1023
# Biased. Smaller magnitudes are computed as if they had it, which gives their cosine, 1; tiny ones are their own sine and tangent.
_LOWEST_EXPONENT = _BIAS - 32
_TINY = 2.0**-30
# 1/pi after the binary point in 64-bit words.
_INVERSE_PI_WORDS = (
    0x517CC1B727220A94,
    0xFE13ABE8FA9A6EE0,
    0x6DB14ACC9E21C820,
    0xFF28B1D5EF5DE2B0,
    0xDB92371D2126E970,
    0x0324977504E8C90E,
    0x7F0EF58E5894D39F,
    0x74411AFA975DA242,
    0x74CE38135A2FBF20,
    0x9CC8EB1CC1A99CFA,
    0x4E422FC5DEFC941D,
    0x8FFC4BFFEF02CC07,
    0xF79788C5AD05368F,
    0xB69B3F6793E584DB,
    0xA7A31FB34F2FF516,
    0xBA93DD63F5F2F8BD,
    0x9E839CFBC5294975,
    0x35FDAFD88FC6AE84,
    0x2B0198237E3DB5D5,
)


def sine_double(x: Value) -> Value:
    """sin(x) for every double, polynomial of degree 17. Error < 1.5 ulp."""
    r, parity = _reduce(absolute(x), offset=1 << 62)
    return _with_sign_bits(_sine(r)[0], (parity << 63) ^ (x.bits() & (1 << 63)))


def cosine_double(x: Value) -> Value:
    """cos(x) = -(-1)^n sin(r) for every double, polynomial of degree 17. Error < 1.5 ulp."""
    r, parity = _reduce(absolute(x), offset=0)
    return _with_sign_bits(_sine(r)[0], (parity ^ 1) << 63)


def tan_double(x: Value) -> Value:
    """sin(r) / sin(pi/2 - |r|) with the sign of r, or less its inverse, for every double: x = n pi/2 + r. Error < 2 ulp."""
    (r, r_low), n = _reduce(absolute(x), offset=1 << 61, fraction_bits=62)
    magnitude = absolute(r)
    magnitude_low = select(r < 0.0, -r_low, r_low)
    complement = _PI / 2 - magnitude
    complement_low = ((_PI / 2 - complement) - magnitude) + (_PI_LOW / 2 - magnitude_low)
    sine, cosine = _sine((r, r_low)), _sine(sum_in_order(complement, complement_low))
    odd = (n & 1).equals(1)
    numerator, denominator = ((select(odd, a[0], b[0]), select(odd, a[1], b[1])) for a, b in ((cosine, sine), (sine, cosine)))
    return _with_sign_bits(quotient_of_sums(numerator, denominator), (n << 63) ^ (x.bits() & (1 << 63)))


def _sine(r: DoubleDouble) -> DoubleDouble:
    """sin of a two-part number up to pi/2, with its rounding error.

    At that end r^3 p(r^2) is no small correction, so r^3 is taken in two parts.
    """
    square = r[0] * r[0]
    square_low = fma(r[0], r[0], -square)
    cube = r[0] * square
    cube_low = fma(r[0], square, -cube) + r[0] * square_low
    factor = polynomial(square, c.SINE_DOUBLE)
    low = fma(cube_low, factor, r[1] * fma(square, -0.5, 1.0))
    return sum_in_order(r[0], fma(cube, factor, low))


def _with_sign_bits(value: Value, sign_bit: Value) -> Value:
    """The sign is applied last, for sin(-0) = -0."""
    return (value.bits() ^ sign_bit).as_float()


def _reduce(magnitude: Value, offset: int, fraction_bits: int = 63) -> tuple[DoubleDouble, Value]:
    """(r in two parts, n as i64, modulo 2 or 4) with magnitude / pi = n + 1/2 - offset + r / pi for ``offset`` in units of 2^-63.

    For 62 bits of fraction, with magnitude / (pi/2) and r / (pi/2); |r| is within half of pi or pi/2. magnitude / pi is computed to
    2^-51 of these units, and |r| / pi is never below 1.
    """
    mantissa, shift, (head, middle, tail) = _split(magnitude)
    turns = (mantissa << shift) * head + offset
    # The fraction of a turn less a half, in two 32-bit pieces, since AVX2 has no 64-bit conversion.
    upper = (turns >> 32) & ((1 << (fraction_bits - 32)) - 1)
    upper = (upper.low_i32() - (1 << (fraction_bits - 33))).to_double() * 2.0**32
    lower = ((turns & 0xFFFFFFFF) | 0x4330000000000000).as_float() - 2.0**52
    y = ((mantissa & ((1 << 52) - 1)) | ((shift + (_BIAS + 52)) << 52)).as_float()
    middle, tail = middle.as_float(), tail.as_float()
    product = y * middle
    high, low = sum_in_order(upper, lower)
    high, error = sum_of(high, product)
    high, low = sum_in_order(high, (low + error) + fma(y, tail, fma(y, middle, -product)))
    scale, scale_low = _PI * 2.0**-63, _PI_LOW * 2.0**-63
    scaled = high * scale
    r, r_low = sum_in_order(scaled, fma(high, scale, -scaled) + fma(high, scale_low, low * scale))
    if offset:
        tiny = magnitude < _TINY
        r, r_low = select(tiny, magnitude, r), select(tiny, 0.0, r_low)
    return (r, r_low), turns >> fraction_bits


def _split(magnitude: Value) -> tuple[Value, Value, list[Value]]:
    """(M, s, parts of 2^(4 w) / pi) with magnitude = 2^(4 w + s) M, M an integer of 53 bits and s < 4; the parts as bits."""
    bits = magnitude.bits()
    exponent = bits >> 52
    position = select(exponent > _LOWEST_EXPONENT, exponent, _LOWEST_EXPONENT) - _LOWEST_EXPONENT
    row = (position >> 2) * 3
    parts = [table_entry("vm_inverse_pi", _inverse_pi_table(), row + i) for i in range(3)]
    return (bits & ((1 << 52) - 1)) | (1 << 52), position & 3, parts


@cache
def _inverse_pi_table() -> tuple[int, ...]:
    """For every fourth exponent, 2^exponent / pi in units of 2^-63 modulo 2^64: an integer and two doubles. The last row makes nan."""
    inverse_pi = sum(word << (64 * i) for i, word in enumerate(reversed(_INVERSE_PI_WORDS)))
    rows: list[bytes] = []
    for exponent in range(_LOWEST_EXPONENT - _BIAS - 52, 972, 4):
        exact = Fraction(inverse_pi, 1 << (64 * len(_INVERSE_PI_WORDS))) * Fraction(2) ** (exponent + 63)
        head = round(exact)
        middle = float(exact - head)
        rows.append(struct.pack("<Qdd", head % (1 << 64), middle, float(exact - head - Fraction(middle))))
    rows.append(struct.pack("<Qdd", 0, math.nan, math.nan))
    return struct.unpack(f"<{3 * len(rows)}Q", b"".join(rows))


FORMULAS = {("sine", "f64"): sine_double, ("cosine", "f64"): cosine_double, ("tan", "f64"): tan_double}
