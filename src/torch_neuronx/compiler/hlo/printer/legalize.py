"""Puts a module into StableHLO's own terms before it is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ..builder import Builder
from ..composites import expand_composites
from ..ir import Module, Operation, Value
from ..numerics import highest, lowest
from ..rebuild import rebuild
from ..types import DType

Rule = Callable[[Builder, Operation, tuple[Value, ...]], Sequence[Value] | None]


def legalize(module: Module) -> Module:
    """``module`` without composites (but ``sort``) and operations that StableHLO lacks, with accumulations of narrow types in f32."""
    return rebuild(expand_composites(module), _replace)


def _replace(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    rule = _RULES.get(operation.name)
    return rule(b, operation, operands) if rule else None


def _is_nan(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value]:
    (x,) = operands
    return (b.compare(x, x, "NE"),)


def _digamma(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value]:
    """At the pole ±0 the value is ∓inf, where chlo has nan. New operations are not rewritten again."""
    (x,) = operands
    minus_one = b.constant(-1, x.dtype, x.shape)
    at_pole = b.compare(x, b.constant(0, x.dtype, x.shape), "EQ")
    return (b.select(at_pole, b.divide(minus_one, x), b.digamma(x)),)


def _erfc(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """chlo has no erfc of the f8 types."""
    (x,) = operands
    return (b.convert(b.erfc(b.convert(x, DType.F32)), x.dtype),) if x.dtype.itemsize == 1 else None


def _convert(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """StableHLO's conversion of complex numbers to i1 and to integers is not ours; through f32 as in :mod:`interpreter`."""
    (x,), target = operands, operation.result.dtype
    if x.dtype.is_complex and target is DType.I1:
        return (b.compare(x, b.constant(0, x.dtype, x.shape), "NE"),)
    if x.dtype.is_complex and not target.is_complex:
        return (b.convert(b.real(x), target),)
    if not target.is_float or target.itemsize >= 4 or x.dtype is target:
        return None
    through = b.convert(x, DType.F32)
    if target is DType.F8E4M3FN:
        # StableHLO's overflow is nan, ours the largest value.
        lo, hi = (b.constant(bound, DType.F32, x.shape) for bound in (lowest(target), highest(target)))
        through = b.clamp(lo, through, hi)
    return (b.convert(through, target),)


def _accumulate_in_f32(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """StableHLO leaves open how operations on the types narrower than f32 accumulate."""
    exact = operation.attributes.get("kind") in ("maximum", "minimum")
    if exact or not operands[0].dtype.is_float or operands[0].dtype.itemsize >= 4:
        return None
    attributes = dict(operation.attributes)
    if "dtype" in attributes:
        attributes["dtype"] = DType.F32
    wide = [b.convert(operand, DType.F32) for operand in operands]
    (result,) = b.operation(operation.name, wide, attributes)
    return (b.convert(result, operation.result.dtype),)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "is_nan": _is_nan,
        "erfc": _erfc,
        "digamma": _digamma,
        "convert": _convert,
        "reduce": _accumulate_in_f32,
        "reduce_window": _accumulate_in_f32,
        "dot_general": _accumulate_in_f32,
        "convolution": _accumulate_in_f32,
    }
)
