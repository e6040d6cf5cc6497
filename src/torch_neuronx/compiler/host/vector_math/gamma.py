"""lgamma, digamma in f32, computed in double.

Both use Stirling's series at w >= 8, reached from 1/2 <= z < 8 by the recurrence over w = z + 8, and reflect arguments below 1/2 to z = 1 - x.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY, NAN
from .ir import Value, absolute, both, fma, polynomial, round_to_integer, select
from .logarithms import log_finite

_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def lgamma_single(x: Value) -> Value:
    """log|gamma(x)|: the logarithms of the recurrence and the reflection are taken of one product. Error < 1 ulp, next to the zeros at 1, 2 and below 0 too."""
    wide = x.to_double()
    reflected = wide < 0.5
    z = select(reflected, 1.0 - wide, wide)
    rising = z
    for i in range(1, _SHIFT):
        rising = rising * (z + float(i))
    shifted = z < float(_SHIFT)
    rising = select(shifted, rising, 1.0)
    w = select(shifted, z + float(_SHIFT), z)
    inverse = 1.0 / w
    stirling = fma(w - 0.5, log_finite(w), fma(inverse, polynomial(inverse * inverse, c.STIRLING), _HALF_LOG_TWO_PI - w))
    sine = sine_of_turns(absolute(wide - round_to_integer(wide)))
    logarithm = log_finite(select(reflected, rising * math.pi / sine, rising))
    result = select(reflected, logarithm - stirling, stirling - logarithm)
    finite = both(absolute(wide) < INFINITY, sine > 0.0)
    pole = select(x.is_nan(), wide, wide.constant(INFINITY))
    return select(finite, result, select(both(wide > 0.0, wide < INFINITY), result, pole)).to_float()


def digamma_single(x: Value) -> Value:
    """The derivative of lgamma: P'(z)/P(z) for the recurrence, pi cot(pi x) for the reflection. Error < 2 ulp, but absolute 2^-48 next to the zeros."""
    wide = x.to_double()
    reflected = wide < 0.5
    z = select(reflected, 1.0 - wide, wide)
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
    turns = wide - round_to_integer(wide)
    cotangent = sine_of_turns(0.5 - absolute(turns)) / sine_of_turns(turns)
    reflection = select(reflected, cotangent * math.pi, 0.0)
    result = (log_finite(w) + tail) - recurrence - reflection
    pole = both(turns.equals(0.0), wide < 0.0)
    result = select(wide.equals(0.0), -1.0 / wide, select(pole, wide.constant(NAN), result))
    return select(absolute(wide) < INFINITY, result, select(wide > 0.0, wide, wide.constant(NAN))).to_float()


def sine_of_turns(turns: Value) -> Value:
    """sin(pi turns) in double, |turns| <= 1/2."""
    r = turns * math.pi
    square = r * r
    return fma(r * square, polynomial(square, c.SINE_DOUBLE), r)


FORMULAS = {("lgamma", "f32"): lgamma_single, ("digamma", "f32"): digamma_single}
