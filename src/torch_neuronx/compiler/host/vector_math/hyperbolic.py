"""tanh, sinh, cosh and the inverses asinh, acosh, atanh."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import reduced, scaled
from .formats import NAN, power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, square_root, with_sign_of
from .logarithms import log_lite

# Below this asinh(x) and atanh(x) are x to within x^2/3 = 2^-37, and the formulas above it lose 53 - 14 bits at most.
_LINEAR = 2.0**-18


def tanh_single(x: Value) -> Value:
    """Odd polynomial of degree 13 below 0.6; 1 - 2 / (e^2|x| + 1) above, from 10 on constant. Error < 1.4 ulp."""
    magnitude = absolute(x)
    square = x * x
    near = fma(magnitude * square, polynomial(square, c.TANH_SINGLE), magnitude)
    minus_one, n = reduced(lesser(magnitude, 10.0) * 2.0, c.EXP_SINGLE)
    scale = power_of_two(n, x)
    far = 1.0 - 2.0 / (fma(scale, minus_one, scale) + 1.0)
    return with_sign_of(select(magnitude < 0.6, near, far), x)


def sinh_single(x: Value) -> Value:
    """Odd polynomial of degree 9 below 1; h - 1/(4h) with h = e^|x| / 2 above. Error < 1.7 ulp."""
    magnitude = absolute(x)
    square = x * x
    near = fma(magnitude * square, polynomial(square, c.SINH_SINGLE), magnitude)
    half = _half_exponential(magnitude)
    return with_sign_of(select(magnitude < 1.0, near, half - 0.25 / half), x)


def cosh_single(x: Value) -> Value:
    """h + 1/(4h) with h = e^|x| / 2. Error < 1.7 ulp."""
    half = _half_exponential(absolute(x))
    return half + 0.25 / half


def _half_exponential(magnitude: Value) -> Value:
    """e^magnitude / 2, finite wherever sinh and cosh are."""
    minus_one, n = reduced(lesser(magnitude, 90.0), c.EXP_SINGLE)
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


FORMULAS = {
    ("tanh", "f32"): tanh_single,
    ("sinh", "f32"): sinh_single,
    ("cosh", "f32"): cosh_single,
    ("asinh", "f32"): asinh_single,
    ("acosh", "f32"): acosh_single,
    ("atanh", "f32"): atanh_single,
}
