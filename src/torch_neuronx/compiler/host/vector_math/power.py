"""power, with the special values of pow in ISO C."""

from __future__ import annotations

from . import coefficients as c
from .double_double import DoubleDouble, product, quotient_in_two_parts, sum_in_order, sum_of
from .exponentials import bounded, exponential_head_and_tail, exponential_parts, scaled
from .formats import INFINITY, NAN, format_of, power_of_two
from .ir import Value, absolute, both, differ, fma, greater, lesser, polynomial, round_to_integer, select, with_sign_of
from .logarithms import integer_to_float, log_lite, split_any

_TWO_THIRDS, _TWO_THIRDS_LOW = 2.0 / 3.0, float.fromhex("0x1.5555555555555p-55")


def power_single(x: Value, y: Value) -> Value:
    """x^y = e^(y log|x|) in double with relative errors of 2^-37 in both steps, then rounded: error < 0.52 ulp."""
    base = absolute(x).to_double()
    logarithm = select(base.equals(0.0), base.constant(-INFINITY), log_lite(base))
    # A finite stand-in for infinite y, so that 1^y is e^0.
    exponent = lesser(greater(y, -1e30), 1e30).to_double()
    minus_one, n = exponential_parts(lesser(greater(exponent * logarithm, -150.0), 150.0), c.EXP_LITE)
    scale = power_of_two(n, base)
    return _with_power_signs(fma(scale, minus_one, scale).to_float(), x, y)


def power_double(x: Value, y: Value) -> Value:
    """x^y = e^(y log|x|), the logarithm and the product as sums of two doubles (relative error 2^-65). Error < 1 ulp."""
    base = absolute(x)
    high, low = _log_in_two_parts(base)
    high = select(base < INFINITY, high, base)
    high = select(base.equals(0.0), base.constant(-INFINITY), high)
    exponent = lesser(greater(y, -1e300), 1e300)
    product = exponent * high
    product_low = fma(exponent, low, fma(exponent, high, -product))
    head, tail, n = exponential_head_and_tail(bounded(product), select(absolute(product) < 1000.0, product_low, 0.0))
    return _with_power_signs(scaled(tail + head, n), x, y)


def _log_in_two_parts(base: Value) -> DoubleDouble:
    """log of a positive finite double as high + low: 2s + s^3 (2/3 + s^2 p(s^2)) + k ln2 with s = f/(2+f), all but p in two parts."""
    k, f = split_any(base)
    zero = f.constant(0.0)
    s, s_low = quotient_in_two_parts((f, zero), sum_in_order(f.constant(2.0), f))
    square, square_low = product((s, s_low), (s, s_low))
    cube = product((square, square_low), (s, s_low))
    tail = product(cube, sum_in_order(square.constant(_TWO_THIRDS), fma(square, polynomial(square, c.LOG_POWER), _TWO_THIRDS_LOW)))
    series, series_low = sum_in_order(s + s, tail[0])
    form = format_of(base)
    turns = integer_to_float(k, base)
    high, high_low = sum_of(turns * form.ln2_high, series)
    rest = high_low + (series_low + fma(s_low, 2.0, tail[1]) + turns * form.ln2_low)
    return sum_in_order(high, rest)


def _with_power_signs(magnitude: Value, x: Value, y: Value) -> Value:
    """|x|^y to x^y: negative for x < 0 and odd y, nan for finite x < 0 and fractional y, 1 for y = 0 or x = 1 whatever the other is."""
    fractional = _has_fraction(y)
    odd = differ(_has_fraction(y * 0.5), fractional)
    result = select(odd, with_sign_of(magnitude, x), magnitude)
    result = select(both(both(x < 0.0, x > -INFINITY), fractional), result.constant(NAN), result)
    return select(y.equals(0.0), 1.0, select(x.equals(1.0), x, result))


def _has_fraction(y: Value) -> Value:
    """Whether y is no integer; false for infinities and nan."""
    return absolute(y - round_to_integer(y)) > 0.0


FORMULAS = {("power", "f32"): power_single, ("power", "f64"): power_double}
