"""asin, acos, atan, atan2."""

from __future__ import annotations

import math

from . import coefficients as c
from .formats import INFINITY
from .ir import Value, absolute, either, fma, polynomial, select, square_root, with_sign_of

# pi/2 as the nearest number of the format and what it lacks.
_HALF_PI = {"float": 1.57079637050628662109375, "double": math.pi / 2}
_HALF_PI_LOW = {"float": float.fromhex("-0x1.777a5cf72cecep-25"), "double": float.fromhex("0x1.1a62633145c07p-54")}
_ASIN = {"float": c.ASIN_SINGLE, "double": c.ASIN_DOUBLE}
_ATAN = {"float": c.ATAN_SINGLE, "double": c.ATAN_DOUBLE}
# Above cos(1) = 0.54 the half-angle form takes the arc sine of less than 1/2, a binade where its error counts half.
_ASIN_INNER = 0.5625


def asin(x: Value) -> Value:
    """Odd polynomial of degree 15 (f32), 29 (f64) to 0.5625; beyond, pi/2 - 2 asin(sqrt((1 - |x|) / 2)). Error < 1.8 ulp."""
    magnitude = absolute(x)
    inner = magnitude <= _ASIN_INNER
    angle = _asin_inner(magnitude, inner)
    outer = fma(angle, -2.0, _HALF_PI_LOW[x.type]) + _HALF_PI[x.type]
    return with_sign_of(select(inner, angle, outer), x)


def acos(x: Value) -> Value:
    """pi/2 - asin(x) to 0.5625; beyond, 2 asin(sqrt((1 - |x|) / 2)), from pi for negative x. Error < 1.2 ulp."""
    high, low = _HALF_PI[x.type], _HALF_PI_LOW[x.type]
    inner = absolute(x) <= _ASIN_INNER
    angle = _asin_inner(absolute(x), inner)
    centre = high - (with_sign_of(angle, x) - low)
    doubled = angle + angle
    outer = select(x < 0.0, 2 * high - (doubled - 2 * low), doubled)
    return select(inner, centre, outer)


def _asin_inner(magnitude: Value, inner: Value) -> Value:
    """asin of ``magnitude`` if ``inner``, else of sqrt((1 - magnitude) / 2); nan beyond 1."""
    square = select(inner, magnitude * magnitude, fma(magnitude, -0.5, 0.5))
    sine = select(inner, magnitude, square_root(square))
    return fma(sine * square, polynomial(square, _ASIN[magnitude.type]), sine)


def atan(x: Value) -> Value:
    """Odd polynomial of degree 19 (f32), 43 (f64) to 1; beyond, pi/2 - atan(1/|x|). Error < 1.6 ulp."""
    magnitude = absolute(x)
    steep = magnitude > 1.0
    tangent = select(steep, 1.0 / magnitude, magnitude)
    angle = _atan_to_one(tangent, _ATAN[x.type])
    return with_sign_of(select(steep, _HALF_PI[x.type] - (angle - _HALF_PI_LOW[x.type]), angle), x)


def _atan_to_one(tangent: Value, coefficients: tuple[float, ...]) -> Value:
    square = tangent * tangent
    return fma(tangent * square, polynomial(square, coefficients), tangent)


def atan2_single(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in double. Error < 0.52 ulp."""
    return _angle_of_point(y, x, absolute(y).to_double(), absolute(x).to_double(), c.ATAN_LITE)


def atan2_double(y: Value, x: Value) -> Value:
    """The angle of the point (x, y). Error < 2 ulp."""
    return _angle_of_point(y, x, absolute(y), absolute(x), c.ATAN_DOUBLE)


def _angle_of_point(y: Value, x: Value, height: Value, width: Value, coefficients: tuple[float, ...]) -> Value:
    """atan2 with all signed zeros and infinities of ISO C; ``height`` and ``width`` are |y| and |x| in double."""
    steep = height > width
    larger, smaller = select(steep, height, width), select(steep, width, height)
    tangent = select(larger.equals(0.0), 0.0, select(smaller.equals(INFINITY), 1.0, smaller / larger))
    angle = _atan_to_one(tangent, coefficients)
    high, low = _HALF_PI["double"], _HALF_PI_LOW["double"]
    angle = select(steep, high - (angle - low), angle)
    angle = select(x.bits() < 0, 2 * high - (angle - 2 * low), angle)
    narrow = angle.to_float() if x.type == "float" else angle
    return select(either(x.is_nan(), y.is_nan()), x + y, with_sign_of(narrow, y))


FORMULAS = {
    **{(name, dtype): formula for dtype in ("f32", "f64") for name, formula in {"asin": asin, "acos": acos, "atan": atan}.items()},
    ("atan2", "f32"): atan2_single,
    ("atan2", "f64"): atan2_double,
}
