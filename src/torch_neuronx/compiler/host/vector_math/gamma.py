"""lgamma, digamma, computed in double for both formats.

Arguments below 1/2 are reflected to z = 1 - x. Stirling's series serves from 8.5 (lgamma) or 8 (digamma) on; the recurrence brings
smaller z to [3/2, 5/2] for lgamma, so that the zeros at 1 and 2 are factors of the formula, and beyond 8 for digamma.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY, NAN
from .ir import Value, absolute, both, either, fma, greater, polynomial, round_to_integer, select
from .logarithms import log_finite

_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def lgamma(x: Value) -> Value:
    """log|gamma(x)|. f32: error < 0.6 ulp. f64: error < 4 ulp, but a few 2^-52 absolute next to the zeros below 0."""
    reflected = x < 0.5
    z = select(reflected, 1.0 - x, x)
    result = _lgamma_from_half(z)
    sine = sine_of_turns(absolute(x - round_to_integer(x)))
    result = select(reflected, log_finite(math.pi / sine) - result, result)
    pole = both(reflected, sine.equals(0.0))
    return select(either(pole, absolute(x).equals(INFINITY)), INFINITY, select(x.is_nan(), x, result))


def _lgamma_from_half(z: Value) -> Value:
    """lgamma of z >= 1/2: the logarithm is that of z for Stirling's series, of (z-1)(z-2)... or 1/z for the recurrence."""
    stirling = z >= 8.5
    nearest = greater(round_to_integer(z), 2.0)
    product = z.constant(1.0)
    for i in range(1, 7):
        product = product * select(nearest >= float(i + 2), z - float(i), 1.0)
    below = z < 1.5
    t = select(below, z - 1.0, z - nearest)
    logarithm = log_finite(select(either(stirling, below), z, product))
    recurrence = fma(t, polynomial(t, c.LGAMMA), select(below, -logarithm, logarithm))
    inverse = 1.0 / z
    series = fma(inverse, polynomial(inverse * inverse, c.STIRLING), _HALF_LOG_TWO_PI - z)
    return select(stirling, fma(z - 0.5, logarithm, series), recurrence)


def digamma(x: Value) -> Value:
    """The derivative of lgamma: log and series, less P'(z)/P(z) with P(z) = z(z+1)...(z+7), less pi cot(pi x) for the reflection.

    f32: error < 1 ulp. f64: a few 2^-52 absolute next to the zeros, else < 4 ulp. As in ATen -1/x at 0 and nan at the other poles.
    """
    reflected = x < 0.5
    z = select(reflected, 1.0 - x, x)
    rising, derivative = z, z.constant(1.0)
    for i in range(1, _SHIFT):
        factor = z + float(i)
        derivative = fma(derivative, factor, rising)
        rising = rising * factor
    shifted = z < float(_SHIFT)
    recurrence = select(shifted, derivative / rising, 0.0)
    w = select(shifted, z + float(_SHIFT), z)
    inverse = 1.0 / w
    square = inverse * inverse
    tail = fma(square, polynomial(square, c.DIGAMMA_TAIL), inverse * -0.5)
    turns = x - round_to_integer(x)
    cotangent = sine_of_turns(0.5 - absolute(turns)) / sine_of_turns(turns)
    reflection = select(reflected, cotangent * math.pi, 0.0)
    result = (log_finite(w) + tail) - recurrence - reflection
    pole = both(turns.equals(0.0), x < 0.0)
    result = select(x.equals(0.0), -1.0 / x, select(pole, NAN, result))
    return select(absolute(x) < INFINITY, result, select(x > 0.0, x, NAN))


def sine_of_turns(turns: Value) -> Value:
    """sin(pi turns), |turns| <= 1/2."""
    r = turns * math.pi
    square = r * r
    return fma(r * square, polynomial(square, c.SINE_DOUBLE), r)


FORMULAS = {
    ("lgamma", "f32"): lambda x: lgamma(x.to_double()).to_float(),
    ("lgamma", "f64"): lgamma,
    ("digamma", "f32"): lambda x: digamma(x.to_double()).to_float(),
    ("digamma", "f64"): digamma,
}
