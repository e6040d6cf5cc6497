"""sine, cosine, tan in f64, with the argument reduced to two doubles.

x = n pi + r for sine and tan, x = (n + 1/2) pi + r for the cosine. Below 2^20, pi in three parts; above, x / pi modulo 2 in fixed
point with 127 bits after the binary point (Payne and Hanek): the integer mantissa times the 160 bits of 1/pi that matter at x's
exponent, in 32-bit limbs.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .double_double import DoubleDouble, quotient_of_sums, sum_in_order, sum_of
from .formats import INFINITY, format_of
from .ir import Value, absolute, both, fma, funnel_shift_left, polynomial, round_to_integer, select, table_entry

# pi in three parts; the products of the first two with the half-integers below 2^20 are exact.
_PI_PARTS = (float.fromhex("0x1.921fb544p+1"), float.fromhex("0x1.0b4611a6p-33"), float.fromhex("0x1.3198a2e037073p-68"))
_PI, _PI_LOW = math.pi, float.fromhex("0x1.1a62633145c07p-53")
_LARGE = 2.0**20
# 1/pi after the binary point in 64-bit words, after one word of zeros.
_INVERSE_PI_WORDS = (
    0x0000000000000000,
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
_LOW_HALF = 0xFFFFFFFF


def sine_double(x: Value) -> Value:
    """sin(x) for every double, polynomial of degree 17. Error < 1.5 ulp."""
    r, parity = _reduce(absolute(x), half_turn=0)
    return _with_sign_bits(_sine(r)[0], (parity << 63) ^ (x.bits() & (1 << 63)))


def cosine_double(x: Value) -> Value:
    """cos(x) = -(-1)^n sin(r) for every double, polynomial of degree 17. Error < 1.5 ulp."""
    r, parity = _reduce(absolute(x), half_turn=1)
    return _with_sign_bits(_sine(r)[0], (parity ^ 1) << 63)


def tan_double(x: Value) -> Value:
    """sin(r) / sin(pi/2 - |r|) with the sign of r, for every double. Error < 2 ulp."""
    (r, r_low), _ = _reduce(absolute(x), half_turn=0)
    magnitude = absolute(r)
    magnitude_low = select(r < 0.0, -r_low, r_low)
    complement = _PI / 2 - magnitude
    complement_low = ((_PI / 2 - complement) - magnitude) + (_PI_LOW / 2 - magnitude_low)
    tangent = quotient_of_sums(_sine((r, r_low)), _sine(sum_in_order(complement, complement_low)))
    return _with_sign_bits(tangent, x.bits() & (1 << 63))


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


def _reduce(magnitude: Value, half_turn: int) -> tuple[DoubleDouble, Value]:
    """(r in two parts, n as i64 of which the lowest bit counts) with magnitude = (n + half_turn / 2) pi + r, |r| <= pi/2."""
    n = round_to_integer(fma(magnitude, 1 / math.pi, -0.5 * half_turn))
    turns = n + 0.5 * half_turn
    exact = fma(turns, -_PI_PARTS[0], magnitude)
    high = fma(turns, -_PI_PARTS[1], exact)
    low = fma(turns, -_PI_PARTS[2], fma(turns, -_PI_PARTS[1], exact - high))
    near = sum_in_order(high, low)
    parity_near = (n + format_of(magnitude).magic).bits() & 1
    far, parity_far = _reduce_large(magnitude, half_turn)
    # Infinity takes the near way, where it becomes nan.
    large = both(magnitude >= _LARGE, magnitude < INFINITY)
    r = (select(large, far[0], near[0]), select(large, far[1], near[1]))
    return r, select(large, parity_far, parity_near)


def _reduce_large(magnitude: Value, half_turn: int) -> tuple[DoubleDouble, Value]:
    """``_reduce`` for magnitude >= 2^20."""
    limbs = _turns_modulo_two(magnitude)
    if not half_turn:
        limbs = [limbs[0] + (1 << 30), *limbs[1:]]
    parity = (limbs[0] >> 31) & 1
    # The fraction of a turn less a half, summed from its 32-bit limbs, of which each is exact as a double.
    upper = ((limbs[0] & 0x7FFFFFFF).low_i32() - (1 << 30)).to_double()
    first, second, third = (_limb_to_double(limb) for limb in limbs[1:])
    high, low = sum_in_order(upper * 2.0**32, first)
    high, low_second = sum_of(high, second * 2.0**-32)
    high, low = sum_in_order(high, low + low_second + third * 2.0**-64)
    scale, scale_low = _PI * 2.0**-63, _PI_LOW * 2.0**-63
    product = high * scale
    return sum_in_order(product, fma(high, scale, -product) + fma(high, scale_low, low * scale)), parity


def _turns_modulo_two(magnitude: Value) -> list[Value]:
    """magnitude / pi modulo 2 as four 32-bit limbs in i64, the uppermost bit of the first with weight 1."""
    bits = magnitude.bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    mantissa_low, mantissa_high = mantissa & _LOW_HALF, mantissa >> 32
    # magnitude = mantissa 2^(exponent - 1075); the table's word of zeros makes the offset positive for magnitude >= 2^20.
    offset = ((bits >> 52) & 0x7FF) - (1075 + 1 - 64)
    # Smaller magnitudes, whose result is not used, and infinity stay within the table.
    offset = select(both(offset > 0, offset < 1035), offset, 0)
    words = [table_entry("vm_inverse_pi", _INVERSE_PI_WORDS, (offset >> 6) + i) for i in range(4)]
    window = [funnel_shift_left(words[i], words[i + 1], offset) for i in range(3)]
    # Limbs of the window, least significant first; what lies below window[2]'s upper half is less than 2^-126.
    w = [window[2] >> 32, window[1] & _LOW_HALF, window[1] >> 32, window[0] & _LOW_HALF, window[0] >> 32]
    low_products = [mantissa_low * limb for limb in w]
    high_products = [mantissa_high * limb for limb in w[:4]]
    limbs: list[Value] = []
    carry = low_products[0] >> 32
    for column in range(4):
        carry = carry + (high_products[column] & _LOW_HALF) + (low_products[column + 1] & _LOW_HALF)
        if column > 0:
            carry = carry + (high_products[column - 1] >> 32) + (low_products[column] >> 32)
        limbs.insert(0, carry & _LOW_HALF)
        carry = carry >> 32
    return limbs


def _limb_to_double(limb: Value) -> Value:
    """An i64 below 2^32, exactly, without a 64-bit conversion, which AVX2 lacks."""
    return (limb | 0x4330000000000000).as_float() - 2.0**52


FORMULAS = {("sine", "f64"): sine_double, ("cosine", "f64"): cosine_double, ("tan", "f64"): tan_double}
