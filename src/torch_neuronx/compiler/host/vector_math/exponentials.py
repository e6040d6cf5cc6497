"""exponential, exponential_minus_one, logistic.

All reduce x = n ln2 + r with |r| <= ln2/2 and a two-part ln2, approximate e^r - 1 = r + r^2 q(r), and put 2^n back through the
exponent bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import coefficients as c
from .formats import format_of, power_of_two
from .ir import Value, absolute, fma, greater, lesser, polynomial, select

# Polynomials of full precision. c.EXP_LITE is the one for doubles that are to be rounded to float.
_COEFFICIENTS: dict[str, Sequence[float]] = {"float": c.EXP_SINGLE, "double": c.EXP_DOUBLE}
# Beyond these e^x is 0 or infinity in the format, and 2^n can still be made in two halves.
_LOWEST = {"float": -104.0, "double": -746.0}
_HIGHEST = {"float": 90.0, "double": 711.0}


def exponential(x: Value) -> Value:
    """e^x. Polynomial of degree 7 (f32), 12 (f64). Error < 1 ulp; results that underflow are rounded once, to denormals."""
    minus_one, n = exponential_parts(bounded(x))
    return scaled(minus_one + 1.0, n)


def exponential_minus_one(x: Value) -> Value:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), at half scale so that 2^n stays finite. Error < 1.8 ulp."""
    lowest = -(x.mantissa_bits + 3) * math.log(2)
    minus_one, n = exponential_parts(lesser(greater(x, lowest), _HIGHEST[x.type] - 1.0))
    half = power_of_two(n - 1, x)
    result = fma(half, minus_one, half - 0.5) * 2.0
    return select(absolute(x) < 2.0**-60, x, result)


def logistic(x: Value) -> Value:
    """1 / (1 + z) or z / (1 + z) with z = e^-|x|, which reaches the denormals by one rounding. Error < 1.8 ulp."""
    minus_one, n = exponential_parts(greater(-absolute(x), _LOWEST[x.type]))
    lift = x.mantissa_bits * 2
    scale = power_of_two(n + lift, x)
    z = fma(scale, minus_one, scale) * 2.0**-lift
    denominator = z + 1.0
    denominator_error = z - (denominator - 1.0)
    quotient = select(x < 0.0, z, 1.0) / denominator
    # To first order quotient * (1 - error / denominator), with 1 / (1 + z) ~ 1 - z/2.
    return fma(quotient * denominator_error, fma(z, 0.5, -1.0), quotient)


def bounded(x: Value) -> Value:
    """x within the range where the following functions work; what is cut off has the exponential 0 or infinity."""
    return lesser(greater(x, _LOWEST[x.type]), _HIGHEST[x.type])


def exponential_parts(x: Value, coefficients: Sequence[float] | None = None) -> tuple[Value, Value]:
    """(e^r - 1, n) with x = n ln2 + r. x must be ``bounded`` or nan (then so is the first); n is an integer."""
    r, _, n = _reduce(x)
    return fma(r * r, polynomial(r, coefficients or _COEFFICIENTS[x.type]), r), n


def exponential_head_and_tail(x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """(head, tail, n): e^(x + low) = 2^n (head + tail) to a few hundredths ulp before that addition. |low| is below 2^-40."""
    r, r_low, n = _reduce(x)
    head = r + 1.0
    tail = fma(r * r, polynomial(r, _COEFFICIENTS[x.type]), r - (head - 1.0))
    return head, fma(r_low if low is None else r_low + low, head + tail, tail), n


def scaled(mantissa: Value, n: Value) -> Value:
    """mantissa * 2^n, with n up to twice the exponent range: by two factors, of which only the last can round."""
    half = ((n + 4096) >> 1) - 2048
    return mantissa * power_of_two(half, mantissa) * power_of_two(n - half, mantissa)


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """(r, what r lacks of its exact value, n) with x = n ln2 + r."""
    form = format_of(x)
    shifted = fma(x, 1 / math.log(2), form.magic)
    n = shifted - form.magic
    r_high = fma(n, -form.ln2_high, x)
    r = fma(n, -form.ln2_low, r_high)
    return r, fma(n, -form.ln2_low, r_high - r), shifted.bits() - form.magic_bits


FORMULAS = {
    (name, dtype): formula
    for dtype in ("f32", "f64")
    for name, formula in {"exponential": exponential, "exponential_minus_one": exponential_minus_one, "logistic": logistic}.items()
}
