"""asin, acos, atan, atan2."""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY
from .ir import Value, absolute, either, fma, polynomial, select, square_root, with_sign_of

_HALF_PI_HIGH = 1.57079637050628662109375
_HALF_PI_LOW = -4.37113900018624283e-8


def asin_single(x: Value) -> Value:
    """Odd polynomial of degree 13 to 1/2; beyond, pi/2 - 2 asin(sqrt((1 - |x|) / 2)). Error < 1.3 ulp."""
    magnitude = absolute(x)
    inner = magnitude <= 0.5
    angle = _asin_to_half(magnitude, inner)
    outer = fma(angle, -2.0, _HALF_PI_LOW) + _HALF_PI_HIGH
    return with_sign_of(select(inner, angle, outer), x)


def acos_single(x: Value) -> Value:
    """pi/2 - asin(x) to 1/2; beyond, 2 asin(sqrt((1 - |x|) / 2)), from pi for negative x. Error < 1.3 ulp."""
    magnitude = absolute(x)
    inner = magnitude <= 0.5
    angle = _asin_to_half(magnitude, inner)
    centre = _HALF_PI_HIGH - (with_sign_of(angle, x) - _HALF_PI_LOW)
    doubled = angle + angle
    outer = select(x < 0.0, 2 * _HALF_PI_HIGH - (doubled - 2 * _HALF_PI_LOW), doubled)
    return select(inner, centre, outer)


def _asin_to_half(magnitude: Value, inner: Value) -> Value:
    """asin of ``magnitude`` if ``inner`` (up to 1/2), else of sqrt((1 - magnitude) / 2); nan beyond 1."""
    square = select(inner, magnitude * magnitude, fma(magnitude, -0.5, 0.5))
    sine = select(inner, magnitude, square_root(square))
    return fma(sine * square, polynomial(square, c.ASIN_SINGLE), sine)


def atan_single(x: Value) -> Value:
    """Odd polynomial of degree 19 to 1; beyond, pi/2 - atan(1/|x|). Error < 1.6 ulp."""
    magnitude = absolute(x)
    steep = magnitude > 1.0
    tangent = select(steep, 1.0 / magnitude, magnitude)
    square = tangent * tangent
    angle = fma(tangent * square, polynomial(square, c.ATAN_SINGLE), tangent)
    return with_sign_of(select(steep, _HALF_PI_HIGH - (angle - _HALF_PI_LOW), angle), x)


def atan2_single(y: Value, x: Value) -> Value:
    """The angle of the point (x, y) with all signed zeros and infinities of ISO C, in double. Error < 0.52 ulp."""
    height, width = absolute(y).to_double(), absolute(x).to_double()
    steep = height > width
    larger, smaller = select(steep, height, width), select(steep, width, height)
    tangent = select(larger.equals(0.0), 0.0, select(smaller.equals(INFINITY), 1.0, smaller / larger))
    square = tangent * tangent
    angle = fma(tangent * square, polynomial(square, c.ATAN_LITE), tangent)
    angle = select(steep, math.pi / 2 - angle, angle)
    angle = select(x.bits() < 0, math.pi - angle, angle)
    return select(either(x.is_nan(), y.is_nan()), x + y, with_sign_of(angle.to_float(), y))


FORMULAS = {("asin", "f32"): asin_single, ("acos", "f32"): acos_single, ("atan", "f32"): atan_single, ("atan2", "f32"): atan2_single}
