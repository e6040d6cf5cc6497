"""Rewrites of elementwise operations and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..hlo.builder import Builder
from ..hlo.ir import Operation, Value
from ..hlo.numerics import identity_element
from ..hlo.types import DType
from .patterns import Rule, is_splat, literal, made_by

# Significant bits of each type that a conversion may have to keep, and the exponent range of floating ones.
_PRECISION = {DType.F8E5M2: 3, DType.F8E4M3FN: 4, DType.BF16: 8, DType.F16: 11, DType.F32: 24, DType.F64: 53}
_EXPONENTS = {DType.F8E4M3FN: 4, DType.F8E5M2: 5, DType.F16: 5, DType.BF16: 8, DType.F32: 8, DType.F64: 11}


# Conversions


def drop_same_conversion(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    return operands if operands[0].type == operation.result.type else None


def skip_lossless_conversion(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """convert(convert(x, wide), t) → convert(x, t) where ``wide`` holds every value of x."""
    inner = made_by(operands[0], "convert")
    if inner is None or not holds_all_values(inner.result.dtype, inner.operands[0].dtype):
        return None
    (x,) = inner.operands
    return (x,) if x.type == operation.result.type else (b.convert(x, operation.result.dtype),)


def holds_all_values(wide: DType, narrow: DType) -> bool:
    """Every value of ``narrow`` is one of ``wide``. Real types only."""
    if narrow.is_complex or wide.is_complex or narrow is wide:
        return narrow is wide
    if narrow is DType.I1:
        return True
    if wide is DType.I1 or (narrow.is_float and not wide.is_float):
        return False
    if narrow.is_float:
        # Of the two f8 types neither holds the other; f8E4M3FN's nan is also one of the others.
        return _PRECISION[wide] >= _PRECISION[narrow] and _EXPONENTS[wide] >= _EXPONENTS[narrow]
    value_bits = 8 * narrow.itemsize - (narrow.kind == "i")
    if wide.is_float:
        return _PRECISION[wide] >= value_bits
    return 8 * wide.itemsize - (wide.kind == "i") >= value_bits and not (narrow.kind == "i" and wide.kind == "u")


def merge_bitcasts(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """bitcast(bitcast(x)) → bitcast(x), or x if that has the type."""
    inner = made_by(operands[0], "bitcast_convert")
    if inner is None:
        return None
    (x,) = inner.operands
    return (x,) if x.dtype is operation.result.dtype else (b.bitcast_convert(x, operation.result.dtype),)


# Neutral operands


def _drop_right(number: float) -> Rule:
    """x ∘ number → x. Not of complex numbers, whose quotient by 1 changes signs of zeros and makes nan of infinities."""

    def rule(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        return operands[:1] if not operands[0].dtype.is_complex and is_splat(operands[1], number) else None

    return rule


def drop_neutral(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """x ∘ e → x and e ∘ x → x for the neutral element e. That of floating addition is -0: 0 + -0 is 0."""
    lhs, rhs = operands
    neutral: complex = identity_element(operation.name, lhs.dtype)
    if operation.name == "add" and lhs.dtype.kind in "fc":
        neutral = complex(-0.0, -0.0) if lhs.dtype.is_complex else -0.0
    if operation.name == "multiply" and lhs.dtype.is_complex:
        # As for the quotient in _drop_right.
        return None
    if is_splat(rhs, neutral):
        return (lhs,)
    return (rhs,) if is_splat(lhs, neutral) else None


def multiply_integers_by_zero(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """x · 0 → 0; not for floating types, where x may be nan, infinite or negative."""
    if operands[0].dtype.kind not in "biu":
        return None
    zeros = [operand for operand in operands if is_splat(operand, 0)]
    return zeros[:1] or None


def divide_by_power_of_two(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """x / 2ⁿ → x · 2⁻ⁿ, where both powers are normal numbers even of f16."""
    x, divisor = operands
    number = literal(divisor)
    if number is None or number.ndim or x.dtype not in (DType.F16, DType.BF16, DType.F32, DType.F64):
        return None
    mantissa, exponent = np.frexp(np.float64(number))
    if abs(mantissa) != 0.5 or abs(exponent) > 13:
        return None
    return (b.multiply(x, b.constant(1.0 / float(number), x.dtype, x.shape)),)


# Equal operands and opposites


def same_operands(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """x ∘ x → x."""
    return operands[:1] if operands[0] is operands[1] else None


def compare_same(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """x EQ x and the like are known, unless x may be nan."""
    lhs, rhs = operands
    if lhs is not rhs or lhs.dtype.kind in "fc":
        return None
    return (b.constant(operation.attributes["direction"] in ("EQ", "LE", "GE"), DType.I1, lhs.shape),)


def cancel_pair(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """-(-x) → x, not(not(x)) → x."""
    inner = made_by(operands[0], operation.name)
    return inner.operands if inner else None


# Select


def choose_known_branch(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """A constant predicate, or two equal branches."""
    pred, on_true, on_false = operands
    if on_true is on_false or is_splat(pred, True):
        return (on_true,)
    return (on_false,) if is_splat(pred, False) else None


def select_by_complement(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """select(not(p), x, y) → select(p, y, x)."""
    pred, on_true, on_false = operands
    inner = made_by(pred, "not")
    return (b.select(inner.operands[0], on_false, on_true),) if inner else None


# Complex numbers


def part_of_complex(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """real(complex(x, y)) → x, imag(complex(x, y)) → y."""
    inner = made_by(operands[0], "complex")
    return (inner.operands[operation.name == "imag"],) if inner else None


def complex_of_parts(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """complex(real(z), imag(z)) → z."""
    real, imag = made_by(operands[0], "real"), made_by(operands[1], "imag")
    return real.operands if real and imag and real.operands == imag.operands else None


# Reductions


def reduce_nothing(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """A reduction over dimensions of extent 1 → reshape. Not a floating sum, which turns -0 into 0, nor a product of complex numbers."""
    (x,), attributes = operands, operation.attributes
    inexact = "fc" if attributes["kind"] == "add" else "c"
    if any(x.shape[dim] != 1 for dim in attributes["dims"]) or x.dtype.kind in inexact:
        return None
    return (b.reshape(x, operation.result.shape),)


RULES: Mapping[str, tuple[Rule, ...]] = {
    "convert": (drop_same_conversion, skip_lossless_conversion),
    "bitcast_convert": (drop_same_conversion, merge_bitcasts),
    "negate": (cancel_pair,),
    "not": (cancel_pair,),
    "add": (drop_neutral,),
    "subtract": (_drop_right(0.0),),
    "multiply": (drop_neutral, multiply_integers_by_zero),
    "divide": (_drop_right(1.0), divide_by_power_of_two),
    "maximum": (drop_neutral, same_operands),
    "minimum": (drop_neutral, same_operands),
    "and": (drop_neutral, same_operands),
    "or": (drop_neutral, same_operands),
    "xor": (_drop_right(0),),
    "shift_left": (_drop_right(0),),
    "shift_right_arithmetic": (_drop_right(0),),
    "shift_right_logical": (_drop_right(0),),
    "compare": (compare_same,),
    "select": (choose_known_branch, select_by_complement),
    "real": (part_of_complex,),
    "imag": (part_of_complex,),
    "complex": (complex_of_parts,),
    "reduce": (reduce_nothing,),
}
