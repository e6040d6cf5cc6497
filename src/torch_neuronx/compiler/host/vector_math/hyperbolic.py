"""tanh, sinh, cosh and the inverses asinh, acosh, atanh."""

from __future__ import annotations

from . import coefficients as c
from .double_double import quotient_in_two_parts, sum_in_order
from .exponentials import bounded, exponential_parts, scaled
from .formats import INFINITY, NAN, power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, square_root, with_sign_of
from .logarithms import log_lite, log_of_one_plus

_TANH = {"float": c.TANH_SINGLE, "double": c.TANH_DOUBLE}
# From here on tanh rounds to 1.
_TANH_IS_ONE = {"float": 10.0, "double": 20.0}
_SINH = {"float": c.SINH_SINGLE, "double": c.SINH_DOUBLE}
# asinh and atanh are x here to within x^2/3 = 2^-37; the float formulas in double lose less than 20 of its 53 bits above.
_LINEAR = 2.0**-18
# Above this x + sqrt(x^2 +- 1) is 2x in double.
_DOUBLING = 2.0**28


def tanh(x: Value) -> Value:
    """Odd polynomial of degree 13 (f32), 25 (f64) below 0.6; 1 - 2 / (e^2|x| + 1) above. Error < 1.4 ulp."""
    magnitude = absolute(x)
    square = x * x
    near = fma(magnitude * square, polynomial(square, _TANH[x.type]), magnitude)
    minus_one, n = exponential_parts(lesser(magnitude, _TANH_IS_ONE[x.type]) * 2.0)
    scale = power_of_two(n, x)
    far = 1.0 - 2.0 / (fma(scale, minus_one, scale) + 1.0)
    return with_sign_of(select(magnitude < 0.6, near, far), x)


def sinh(x: Value) -> Value:
    """Odd polynomial of degree 9 (f32), 15 (f64) below 1; h - 1/(4h) with h = e^|x| / 2 above. Error < 1.7 ulp."""
    magnitude = absolute(x)
    square = x * x
    near = fma(magnitude * square, polynomial(square, _SINH[x.type]), magnitude)
    half = _half_exponential(magnitude)
    return with_sign_of(select(magnitude < 1.0, near, half - 0.25 / half), x)


def cosh(x: Value) -> Value:
    """h + 1/(4h) with h = e^|x| / 2. Error < 1.7 ulp."""
    half = _half_exponential(absolute(x))
    return half + 0.25 / half


def _half_exponential(magnitude: Value) -> Value:
    """e^magnitude / 2, finite wherever sinh and cosh are."""
    minus_one, n = exponential_parts(bounded(magnitude))
    return scaled(minus_one + 1.0, n - 1)


def asinh_single(x: Value) -> Value:
    """log(|x| + sqrt(x^2 + 1)) in double. Error < 0.52 ulp."""
    magnitude = absolute(x).to_double()
    far = log_lite(magnitude + square_root(fma(magnitude, magnitude, 1.0)))
    return with_sign_of(select(magnitude < _LINEAR, magnitude, far).to_float(), x)


def acosh_single(x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)) in double; nan below 1. Error < 0.52 ulp."""
    wide = x.to_double()
    result = log_lite(wide + square_root(fma(wide, wide, -1.0)))
    return select(x >= 1.0, result, wide.constant(NAN)).to_float()


def atanh_single(x: Value) -> Value:
    """log((1 + |x|) / (1 - |x|)) / 2 in double; infinite at 1, nan beyond. Error < 0.52 ulp."""
    magnitude = absolute(x).to_double()
    far = log_lite((magnitude + 1.0) / (1.0 - magnitude)) * 0.5
    result = select(magnitude < _LINEAR, magnitude, select(magnitude <= 1.0, far, magnitude.constant(NAN)))
    return with_sign_of(result.to_float(), x)


def asinh_double(x: Value) -> Value:
    """log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))), the sum in two parts; log(2|x|) for large x. Error < 2 ulp."""
    magnitude = absolute(x)
    square = magnitude * magnitude
    rest = square / (square_root(square + 1.0) + 1.0)
    result = _log_of_one_plus_sum(magnitude, rest, magnitude)
    return with_sign_of(select(magnitude < INFINITY, result, magnitude), x)


def acosh_double(x: Value) -> Value:
    """log(1 + t + sqrt(t^2 + 2t)) with t = x - 1, the sum in two parts; log(2x) for large x; nan below 1. Error < 2 ulp."""
    t = x - 1.0
    result = _log_of_one_plus_sum(square_root(fma(t, t, t + t)), t, x)
    return select(x >= 1.0, select(x < INFINITY, result, x), NAN)


def _log_of_one_plus_sum(larger: Value, smaller: Value, magnitude: Value) -> Value:
    """log(1 + larger + smaller), or log(2 magnitude) for a large magnitude."""
    doubled = magnitude > _DOUBLING
    total, low = sum_in_order(larger, smaller)
    one = total.bits().constant(1)
    return log_of_one_plus(select(doubled, magnitude - 1.0, total), select(doubled, 0.0, low), select(doubled, one, 0))


def atanh_double(x: Value) -> Value:
    """log(1 + 2|x| / (1 - |x|)) / 2, the quotient in two parts; infinite at 1, nan beyond. Error < 2 ulp."""
    magnitude = absolute(x)
    one, zero = x.constant(1.0), x.constant(0.0)
    quotient, low = quotient_in_two_parts((magnitude + magnitude, zero), sum_in_order(one, -magnitude))
    result = with_sign_of(log_of_one_plus(quotient, low) * 0.5, x)
    edge = select(magnitude.equals(1.0), x * INFINITY, x.constant(NAN))
    return select(magnitude < 1.0, select(magnitude < 2.0**-60, x, result), edge)


FORMULAS = {
    ("tanh", "f32"): tanh,
    ("tanh", "f64"): tanh,
    ("sinh", "f32"): sinh,
    ("sinh", "f64"): sinh,
    ("cosh", "f32"): cosh,
    ("cosh", "f64"): cosh,
    ("asinh", "f32"): asinh_single,
    ("asinh", "f64"): asinh_double,
    ("acosh", "f32"): acosh_single,
    ("acosh", "f64"): acosh_double,
    ("atanh", "f32"): atanh_single,
    ("atanh", "f64"): atanh_double,
}
