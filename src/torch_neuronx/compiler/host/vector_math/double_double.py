"""Numbers as unevaluated sums of two parts, where one rounding would cost too much. Of each pair the first is the larger."""

from __future__ import annotations

from .ir import Value, fma

DoubleDouble = tuple[Value, Value]


def sum_in_order(larger: Value, smaller: Value) -> DoubleDouble:
    """The rounded sum and its error; |larger| >= |smaller|, or larger is 0."""
    total = larger + smaller
    return total, smaller - (total - larger)


def sum_of(a: Value, b: Value) -> DoubleDouble:
    """The rounded sum and its error, in whatever order of magnitude."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def product(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a * b, to about twice the precision less two bits."""
    high = a[0] * b[0]
    return high, fma(a[0], b[0], -high) + fma(a[0], b[1], a[1] * b[0])


def quotient_in_two_parts(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a / b, to about twice the precision less three bits."""
    inverse = 1.0 / b[0]
    high = a[0] * inverse
    rest = fma(high, -b[0], a[0]) + fma(high, -b[1], a[1])
    return high, rest * inverse


def quotient_of_sums(a: DoubleDouble, b: DoubleDouble) -> Value:
    """a / b, rounded to within about half an ulp."""
    high, low = quotient_in_two_parts(a, b)
    return high + low
