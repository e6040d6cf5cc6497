"""power."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import reduced
from .formats import INFINITY, NAN, power_of_two
from .ir import Value, absolute, both, differ, fma, greater, lesser, round_to_integer, select, with_sign_of
from .logarithms import log_lite


def power_single(x: Value, y: Value) -> Value:
    """x^y = e^(y log|x|) in double with relative errors of 2^-37 in both steps, then rounded: error < 0.52 ulp. Special values as pow in ISO C."""
    base = absolute(x).to_double()
    logarithm = select(base.equals(0.0), base.constant(-INFINITY), log_lite(base))
    # A finite stand-in for infinite y, so that 1^y is e^0.
    exponent = lesser(greater(y, -1e30), 1e30).to_double()
    minus_one, n = reduced(lesser(greater(exponent * logarithm, -150.0), 150.0), c.EXP_LITE)
    scale = power_of_two(n, base)
    return with_power_signs(fma(scale, minus_one, scale).to_float(), x, y)


def with_power_signs(magnitude: Value, x: Value, y: Value) -> Value:
    """|x|^y to x^y: negative for x < 0 and odd y, nan for finite x < 0 and fractional y, 1 for y = 0 or x = 1 whatever the other is."""
    half = y * 0.5
    fractional = _has_fraction(y)
    odd = differ(_has_fraction(half), fractional)
    result = select(odd, with_sign_of(magnitude, x), magnitude)
    result = select(both(both(x < 0.0, x > -INFINITY), fractional), result.constant(NAN), result)
    return select(y.equals(0.0), 1.0, select(x.equals(1.0), x, result))


def _has_fraction(y: Value) -> Value:
    """Whether y is no integer; false for infinities and nan."""
    return absolute(y - round_to_integer(y)) > 0.0


FORMULAS = {("power", "f32"): power_single}
