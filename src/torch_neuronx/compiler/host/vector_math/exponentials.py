"""exponential, exponential_minus_one, logistic.

All reduce x = n ln2 + r with |r| <= ln2/2 and a two-part ln2, approximate e^r - 1 = r + r^2 q(r), and put 2^n back through the exponent bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import coefficients as c
from .formats import format_of, power_of_two
from .ir import Value, absolute, fma, greater, lesser, polynomial, select

_COEFFICIENTS: dict[str, Sequence[float]] = {"float": c.EXP_SINGLE, "double": c.EXP_DOUBLE}
# Beyond these e^x is 0 or infinity in the format, and 2^n can still be made in two halves.
_LOWEST = {"float": -104.0, "double": -746.0}
_HIGHEST = {"float": 89.0, "double": 710.0}


def exponential(x: Value) -> Value:
    """e^x. Polynomial of degree 7 (f32), 12 (f64). Error < 0.8 ulp in both; results that underflow are rounded once, to denormals."""
    minus_one, n = reduced(lesser(greater(x, _LOWEST[x.type]), _HIGHEST[x.type]), _COEFFICIENTS[x.type])
    return scaled(minus_one + 1.0, n)


def exponential_minus_one(x: Value) -> Value:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), at half scale so that 2^n stays finite. Error < 1.5 ulp."""
    lowest = -(x.mantissa_bits + 3) * math.log(2)
    minus_one, n = reduced(lesser(greater(x, lowest), _HIGHEST[x.type]), _COEFFICIENTS[x.type])
    half = power_of_two(n - 1, x)
    result = fma(half, minus_one, half - 0.5) * 2.0
    return select(absolute(x) < 2.0**-60, x, result)


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x), computed from z = e^-|x| <= 1 as 1/(1+z) or z/(1+z), so that the left tail reaches the denormals. Error < 1.7 ulp."""
    r, r_low, n = _reduce(greater(-absolute(x), _LOWEST[x.type]))
    head = r + 1.0
    head_error = r - (head - 1.0)
    mantissa = fma(r * r, polynomial(r, _COEFFICIENTS[x.type]), head_error + r_low) + head
    z = mantissa * power_of_two(n + x.mantissa_bits * 2, x) * 2.0 ** (-2 * x.mantissa_bits)
    denominator = z + 1.0
    denominator_error = z - (denominator - 1.0)
    quotient = select(x < 0.0, z, 1.0) / denominator
    # To first order quotient * (1 - error / denominator), with 1 / (1 + z) ~ 1 - z/2.
    return fma(quotient * denominator_error, fma(z, 0.5, -1.0), quotient)


def reduced(x: Value, coefficients: Sequence[float]) -> tuple[Value, Value]:
    """(e^r - 1, n) with x = n ln2 + r. |x| must be below 2^20 or nan (then so is the first); n is an integer."""
    form = format_of(x)
    shifted = fma(x, 1 / math.log(2), form.magic)
    n = shifted - form.magic
    r = fma(n, -form.ln2_low, fma(n, -form.ln2_high, x))
    return fma(r * r, polynomial(r, coefficients), r), shifted.bits() - form.magic_bits


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """(r, what r lacks of its exact value, n) as in ``reduced``."""
    form = format_of(x)
    shifted = fma(x, 1 / math.log(2), form.magic)
    n = shifted - form.magic
    r_high = fma(n, -form.ln2_high, x)
    r = fma(n, -form.ln2_low, r_high)
    return r, fma(n, -form.ln2_low, r_high - r), shifted.bits() - form.magic_bits


def scaled(mantissa: Value, n: Value) -> Value:
    """mantissa * 2^n, with n up to twice the exponent range: by two factors, of which only the last can round."""
    half = ((n + 4096) >> 1) - 2048
    return mantissa * power_of_two(half, mantissa) * power_of_two(n - half, mantissa)


FORMULAS = {
    (name, dtype): formula
    for dtype in ("f32", "f64")
    for name, formula in {"exponential": exponential, "exponential_minus_one": exponential_minus_one, "logistic": logistic}.items()
}
