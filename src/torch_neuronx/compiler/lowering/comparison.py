"""Comparisons, logical and bitwise functions, shifts."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .pointwise import Kind, pointwise

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(direction: str) -> Callable[[LoweringBuilder, Value, Value], Value]:
    def lower(b: LoweringBuilder, x: Value, y: Value) -> Value:
        return b.compare(x, y, direction)

    return lower


for _name in _COMPARISONS:
    pointwise(f"aten::{_name}.Tensor", f"aten::{_name}.Scalar", kind=Kind.ALWAYS_BOOL)(_comparison(_name.upper()))


@pointwise("aten::logical_and", kind=Kind.ALWAYS_BOOL)
def logical_and(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.and_(b.is_nonzero(x), b.is_nonzero(y))


@pointwise("aten::logical_or", kind=Kind.ALWAYS_BOOL)
def logical_or(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.or_(b.is_nonzero(x), b.is_nonzero(y))


@pointwise("aten::logical_xor", kind=Kind.ALWAYS_BOOL)
def logical_xor(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.xor(b.is_nonzero(x), b.is_nonzero(y))


def _overloads(name: str) -> tuple[str, ...]:
    return tuple(f"aten::{name}.{suffix}" for suffix in ("Tensor", "Scalar", "Scalar_Tensor"))


@pointwise(*_overloads("bitwise_and"))
def bitwise_and(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.and_(x, y)


@pointwise(*_overloads("bitwise_or"))
def bitwise_or(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.or_(x, y)


@pointwise(*_overloads("bitwise_xor"))
def bitwise_xor(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.xor(x, y)


def _shifts(name: str) -> tuple[str, ...]:
    return (
        f"aten::bitwise_{name}.Tensor",
        f"aten::bitwise_{name}.Tensor_Scalar",
        f"aten::bitwise_{name}.Scalar_Tensor",
        f"aten::__{name[0]}shift__.Tensor",
        f"aten::__{name[0]}shift__.Scalar",
    )


@pointwise(*_shifts("left_shift"))
def left_shift(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """0 for shifts that are negative or reach the width."""
    if x.dtype.is_float:
        return b.multiply(x, b.power(b.like(2, x), y))
    return b.select(_is_in_width(b, y), b.shift_left(x, y), b.like(0, x))


@pointwise(*_shifts("right_shift"))
def right_shift(b: LoweringBuilder, x: Value, y: Value) -> Value:
    """Arithmetic for signed types; shifts that are negative or reach the width leave the sign."""
    if x.dtype.is_float:
        return b.divide(x, b.power(b.like(2, x), y))
    if x.dtype.kind == "u":
        return b.select(_is_in_width(b, y), b.shift_right_logical(x, y), b.like(0, x))
    amount = b.select(_is_in_width(b, y), y, b.like(8 * y.dtype.itemsize - 1, y))
    return b.shift_right_arithmetic(x, amount)


def _is_in_width(b: LoweringBuilder, amount: Value) -> Value:
    assert amount.dtype is not DType.I1
    within = b.compare(amount, b.like(8 * amount.dtype.itemsize, amount), "LT")
    return within if amount.dtype.kind == "u" else b.and_(within, b.compare(amount, b.like(0, amount), "GE"))
