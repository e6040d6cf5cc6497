"""rsqrt, cbrt."""

from __future__ import annotations

from .formats import INFINITY
from .ir import Value, absolute, both, fma, select, square_root, with_sign_of

# The upper 32 bits of x^(-1/3) are about this less a third of those of x; 0x55555556 / 2^32 is that third.
_SEED = 0x553EF0FF
_THIRD = 0x55555556


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), two correctly rounded operations. Error < 1.5 ulp. rsqrt(-0) is -infinity, as in ATen."""
    return 1.0 / square_root(x)


def cbrt_single(x: Value) -> Value:
    """x^(1/3) = x (x^(-1/3))^2 in double, where every float is normal. Error < 0.51 ulp."""
    magnitude = absolute(x)
    wide = magnitude.to_double()
    inverse = _inverse_cube_root(wide)
    return with_sign_of(_keep_special((wide * inverse * inverse).to_float(), magnitude), x)


def cbrt_double(x: Value) -> Value:
    """x (x^(-1/3))^2 and one Newton step with the residual in two parts. Error < 0.7 ulp."""
    magnitude = absolute(x)
    denormal = magnitude < 2.0**-1022
    a = select(denormal, magnitude * 2.0**54, magnitude)
    inverse = _inverse_cube_root(a)
    inverse_square = inverse * inverse
    root = a * inverse_square
    square = root * root
    residual = fma(square, -root, a) - fma(root, root, -square) * root
    root = fma(residual, inverse_square * (1.0 / 3.0), root)
    return with_sign_of(_keep_special(select(denormal, root * 2.0**-18, root), magnitude), x)


def _inverse_cube_root(a: Value) -> Value:
    """a^(-1/3) of a positive normal double: a seed z from the exponent bits (error 4 %), then twice z (1 - e)^(-1/3), e = 1 - a z^3."""
    third = ((a.bits() >> 32) * _THIRD) >> 32
    z = ((_SEED - third) << 32).as_float()
    for _ in range(2):
        e = fma(a * z * z, -z, 1.0)
        z = fma(z * e, fma(e, fma(e, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), z)
    return z


def _keep_special(root: Value, magnitude: Value) -> Value:
    """0, infinity and nan are their own roots."""
    return select(both(magnitude > 0.0, magnitude < INFINITY), root, magnitude)


FORMULAS = {("rsqrt", "f32"): rsqrt, ("rsqrt", "f64"): rsqrt, ("cbrt", "f32"): cbrt_single, ("cbrt", "f64"): cbrt_double}
