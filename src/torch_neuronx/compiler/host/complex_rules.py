"""Complex arithmetic as real expressions on the two parts.

The formulas of the inverse functions are those of W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987): each takes its branch
from the signs of square roots and keeps its precision near branch points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..hlo.types import DType
from .expressions import Complex, Expression

if TYPE_CHECKING:
    from .trace import Tracer

PART = {DType.C64: DType.F32, DType.C128: DType.F64}


@dataclass(frozen=True, slots=True)
class Real:
    """A real expression with arithmetic."""

    tracer: Tracer
    node: Expression

    def apply(self, op: str, *others: Real, dtype: DType | None = None, attribute: str = "") -> Real:
        operands = (self.node, *(other.node for other in others))
        return Real(self.tracer, self.tracer.apply(op, operands, dtype or self.node.dtype, attribute))

    def constant(self, value: float) -> Real:
        return Real(self.tracer, self.tracer.literal(float(value), self.node.dtype))

    def _other(self, value: Real | float) -> Real:
        return value if isinstance(value, Real) else self.constant(value)

    def __add__(self, other: Real | float) -> Real:
        return self.apply("add", self._other(other))

    def __sub__(self, other: Real | float) -> Real:
        return self.apply("subtract", self._other(other))

    def __mul__(self, other: Real | float) -> Real:
        return self.apply("multiply", self._other(other))

    def __truediv__(self, other: Real) -> Real:
        return self.apply("divide", other)

    def __neg__(self) -> Real:
        return self.apply("negate")

    def __abs__(self) -> Real:
        return self.apply("abs")

    def is_(self, direction: str, other: Real | float) -> Real:
        return self.apply("compare", self._other(other), dtype=DType.I1, attribute=direction)

    def choose(self, on_true: Real, on_false: Real) -> Real:
        """For a condition: one of two numbers."""
        return self.apply("select", on_true, on_false, dtype=on_true.node.dtype)


@dataclass(frozen=True, slots=True)
class Number:
    """A complex expression with arithmetic."""

    re: Real
    im: Real

    def __add__(self, other: Number) -> Number:
        return Number(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Number) -> Number:
        return Number(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Number) -> Number:
        return Number(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __neg__(self) -> Number:
        return Number(-self.re, -self.im)

    def __truediv__(self, other: Number) -> Number:
        """With the divisor scaled by its larger part, so that nothing overflows on the way."""
        scale = abs(other.re).apply("maximum", abs(other.im))
        c, d = other.re / scale, other.im / scale
        a, b = self.re / scale, self.im / scale
        size = c * c + d * d
        return Number((a * c + b * d) / size, (b * c - a * d) / size)

    def conjugate(self) -> Number:
        return Number(self.re, -self.im)

    def times_i(self) -> Number:
        return Number(-self.im, self.re)

    def over_i(self) -> Number:
        return Number(self.im, -self.re)

    def shifted(self, real: float) -> Number:
        return Number(self.re + real, self.im)

    def one(self) -> Number:
        return Number(self.re.constant(1.0), self.re.constant(0.0))


def apply_complex(tracer: Tracer, op: str, operands: tuple[Expression, ...], dtype: DType, attribute: str) -> Expression:
    """An elementwise operation with a complex operand or result. KeyError names one that there is none of."""
    match op:
        case "complex":
            return Complex(operands[0], operands[1], dtype)
        case "real" | "imag":
            number = _parts(operands[0])
            return number[0 if op == "real" else 1]
        case "convert":
            return _convert(tracer, operands[0], dtype)
        case "select":
            (re, im), (other_re, other_im) = _parts(operands[1]), _parts(operands[2])
            condition = operands[0]
            part = re.dtype
            return Complex(
                tracer.apply("select", (condition, re, other_re), part), tracer.apply("select", (condition, im, other_im), part), dtype
            )
        case "compare":
            return _compare(tracer, operands, attribute)
    numbers = [Number(*(Real(tracer, part) for part in _parts(operand))) for operand in operands]
    result = _RULES[op](*numbers)
    return result.node if isinstance(result, Real) else Complex(result.re.node, result.im.node, dtype)


def _parts(operand: Expression) -> tuple[Expression, Expression]:
    assert isinstance(operand, Complex), "complex values are traced as their parts"
    return operand.real, operand.imag


def _convert(tracer: Tracer, x: Expression, dtype: DType) -> Expression:
    if not dtype.is_complex:
        re, im = _parts(x)
        if dtype is DType.I1:
            zero = tracer.literal(0.0, re.dtype)
            nonzero = [tracer.apply("compare", (part, zero), DType.I1, "NE") for part in (re, im)]
            return tracer.apply("or", (nonzero[0], nonzero[1]), DType.I1)
        return re if re.dtype is dtype else tracer.apply("convert", (re,), dtype)
    part = PART[dtype]
    re, im = (
        p if p.dtype is part else tracer.apply("convert", (p,), part)
        for p in (_parts(x) if isinstance(x, Complex) else (x, tracer.literal(0.0, part)))
    )
    return Complex(re, im, dtype)


def _compare(tracer: Tracer, operands: tuple[Expression, ...], direction: str) -> Expression:
    pairs = zip(_parts(operands[0]), _parts(operands[1]))
    re, im = (tracer.apply("compare", pair, DType.I1, direction) for pair in pairs)
    return tracer.apply("and" if direction == "EQ" else "or", (re, im), DType.I1)


# The functions


def modulus(z: Number) -> Real:
    """√(re² + im²) without overflow: scaled by the larger part; infinite if a part is."""
    a, b = abs(z.re), abs(z.im)
    large, small = a.apply("maximum", b), a.apply("minimum", b)
    ratio = small / large
    size = large * (ratio * ratio + 1.0).apply("sqrt")
    special = large.is_("EQ", 0.0).apply("or", large.is_("EQ", float("inf")))
    return special.choose(large, size)


def _exponential(z: Number) -> Number:
    size = z.re.apply("exponential")
    return Number(size * z.im.apply("cosine"), size * z.im.apply("sine"))


def _exponential_minus_one(z: Number) -> Number:
    """e^a cos b - 1 = (e^a - 1) cos b - 2 sin²(b/2)."""
    half = (z.im * 0.5).apply("sine")
    re = z.re.apply("exponential_minus_one") * z.im.apply("cosine") - half * half * 2.0
    return Number(re, z.re.apply("exponential") * z.im.apply("sine"))


def _argument(z: Number) -> Real:
    return z.im.apply("atan2", z.re)


def _log(z: Number) -> Number:
    """Near the unit circle log |z| = ½ log1p(|z|² - 1), from the parts without cancellation."""
    a, b = abs(z.re), abs(z.im)
    large, small = a.apply("maximum", b), a.apply("minimum", b)
    near = ((large - 1.0) * (large + 1.0) + small * small).apply("log_plus_one") * 0.5
    size = modulus(z)
    is_near = size.is_("GT", 0.5).apply("and", size.is_("LT", 2.0))
    return Number(is_near.choose(near, size.apply("log")), _argument(z))


def _log_plus_one(z: Number) -> Number:
    return Number((z.re * (z.re + 2.0) + z.im * z.im).apply("log_plus_one") * 0.5, z.im.apply("atan2", z.re + 1.0))


def _sqrt(z: Number) -> Number:
    """The root with a real part that is not negative; the imaginary part has the sign of z's."""
    root = ((abs(z.re) + modulus(z)) * 0.5).apply("sqrt")
    other = abs(z.im) / (root * 2.0)
    zero = root.is_("EQ", 0.0)
    other = zero.choose(root, other)
    right = z.re.is_("GE", 0.0)
    return Number(right.choose(root, other), _with_sign(right.choose(other, root), z.im))


def _with_sign(size: Real, of: Real) -> Real:
    """size with the sign of another number, zeros included: 1 / ±0 is ±inf."""
    negative = of.is_("LT", 0.0).apply("or", of.is_("EQ", 0.0).apply("and", (of.constant(1.0) / of).is_("LT", 0.0)))
    return negative.choose(-size, size)


def _sign(z: Number) -> Number:
    size = modulus(z)
    zero = size.is_("EQ", 0.0)
    return Number(zero.choose(size, z.re / size), zero.choose(size, z.im / size))


def _power(z: Number, exponent: Number) -> Number:
    """e^(exponent · log z); 0 to anything is 0, to 0 it is 1."""
    general = _exponential(exponent * _log(z))
    zero = modulus(z).is_("EQ", 0.0)
    at_zero = modulus(exponent).is_("EQ", 0.0).choose(z.re.constant(1.0), z.re.constant(0.0))
    return Number(zero.choose(at_zero, general.re), zero.choose(z.re.constant(0.0), general.im))


def _sinh(z: Number) -> Number:
    return Number(z.re.apply("sinh") * z.im.apply("cosine"), z.re.apply("cosh") * z.im.apply("sine"))


def _cosh(z: Number) -> Number:
    return Number(z.re.apply("cosh") * z.im.apply("cosine"), z.re.apply("sinh") * z.im.apply("sine"))


def _tanh(z: Number) -> Number:
    """(t + i T) / (1 + i t T) with t = tanh re, T = tan im: nothing overflows."""
    t, tan = z.re.apply("tanh"), z.im.apply("tan")
    size = t * t * tan * tan + 1.0
    return Number(t * (tan * tan + 1.0) / size, tan * ((t.constant(1.0) - t) * (t + 1.0)) / size)


def _asin(z: Number) -> Number:
    below, above = _sqrt(-z.shifted(-1.0)), _sqrt(z.shifted(1.0))
    return Number(z.re.apply("atan2", (below * above).re), (below.conjugate() * above).im.apply("asinh"))


def _acos(z: Number) -> Number:
    below, above = _sqrt(-z.shifted(-1.0)), _sqrt(z.shifted(1.0))
    return Number(below.re.apply("atan2", above.re) * 2.0, (above.conjugate() * below).im.apply("asinh"))


def _acosh(z: Number) -> Number:
    below, above = _sqrt(z.shifted(-1.0)), _sqrt(z.shifted(1.0))
    return Number((below.conjugate() * above).re.apply("asinh"), below.im.apply("atan2", above.re) * 2.0)


def _atanh(z: Number) -> Number:
    short = -z.re + 1.0
    re = (z.re * 4.0 / (short * short + z.im * z.im)).apply("log_plus_one") * 0.25
    im = (z.im * 2.0).apply("atan2", short * (z.re + 1.0) - z.im * z.im) * 0.5
    return Number(re, im)


Rule = Callable[..., Number | Real]

_RULES: dict[str, Rule] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negate": lambda z: -z,
    "abs": modulus,
    "sign": _sign,
    "exponential": _exponential,
    "exponential_minus_one": _exponential_minus_one,
    "log": _log,
    "log_plus_one": _log_plus_one,
    "logistic": lambda z: z.one() / _exponential(-z).shifted(1.0),
    "sqrt": _sqrt,
    "rsqrt": lambda z: z.one() / _sqrt(z),
    "power": _power,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sine": lambda z: _sinh(z.times_i()).over_i(),
    "cosine": lambda z: _cosh(z.times_i()),
    "tan": lambda z: _tanh(z.times_i()).over_i(),
    "asin": _asin,
    "acos": _acos,
    "atan": lambda z: _atanh(z.times_i()).over_i(),
    "asinh": lambda z: _asin(z.times_i()).over_i(),
    "acosh": _acosh,
    "atanh": _atanh,
}
