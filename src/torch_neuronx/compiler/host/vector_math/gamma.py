"""lgamma, digamma, computed in double for both formats.

Both use Stirling's series at w >= 8, reached from 1/2 <= z < 8 by the recurrence over w = z + 8, and reflect arguments below 1/2 to z = 1 - x.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY, NAN
from .ir import Value, absolute, both, either, fma, polynomial, round_to_integer, select
from .logarithms import log_finite

_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def lgamma(x: Value) -> Value:
    """log|gamma(x)|. f32: error < 0.6 ulp, also next to the zeros. f64: a few 2^-52 absolute next to the zeros, else < 4 ulp."""
    reflected = x < 0.5
    z = select(reflected, 1.0 - x, x)
    rising = z
    for i in range(1, _SHIFT):
        rising = rising * (z + float(i))
    shifted = z < float(_SHIFT)
    rising = select(shifted, rising, 1.0)
    w = select(shifted, z + float(_SHIFT), z)
    inverse = 1.0 / w
    stirling = fma(w - 0.5, log_finite(w), fma(inverse, polynomial(inverse * inverse, c.STIRLING), _HALF_LOG_TWO_PI - w))
    sine = sine_of_turns(absolute(x - round_to_integer(x)))
    # The logarithms of the recurrence and of the reflection pi / sin(pi x) are taken of one product.
    logarithm = log_finite(select(reflected, rising * math.pi / sine, rising))
    result = select(reflected, logarithm - stirling, stirling - logarithm)
    pole = both(reflected, sine.equals(0.0))
    return select(either(pole, absolute(x).equals(INFINITY)), INFINITY, select(x.is_nan(), x, result))


def digamma(x: Value) -> Value:
    """The derivative of lgamma: P'(z)/P(z) for the recurrence, pi cot(pi x) for the reflection.

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
