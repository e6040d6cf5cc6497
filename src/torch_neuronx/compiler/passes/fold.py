"""Constant folding: operations on constants become constants, computed by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from ..hlo.builder import Builder
from ..hlo.interpreter import evaluate
from ..hlo.interpreter.elementwise import ELEMENTWISE
from ..hlo.ir import Module, Operation, Value
from ..hlo.numerics import Array
from ..hlo.rebuild import rebuild
from ..hlo.types import TensorType
from .dce import may_fail
from .patterns import literal

# Larger results are computed where they are needed rather than stored in every executable.
FOLDED_ELEMENTS = 64

# On equal elements these give the same elements in another shape.
_LAYOUT = frozenset({"broadcast_in_dim", "reshape", "transpose", "reverse", "slice", "dynamic_slice"})


def fold_constants(module: Module) -> Module:
    """``module`` with operations on constants replaced by their results, if those are small or all elements are equal."""
    return rebuild(module, _fold)


def _fold(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    if not operands or operation.name == "composite" or may_fail(operation):
        return None
    literals = [literal(operand) for operand in operands]
    known = [each for each in literals if each is not None]
    if len(known) < len(operands):
        return None
    result = operation.result.type
    if all(array.ndim == 0 for array in known):
        if operation.name in _LAYOUT:
            return (_constant(b, known[0], result),)
        if operation.name in ELEMENTWISE:
            return (_constant(b, _evaluate_on_scalars(operation, known), result),)
    if max(result.size, *(operand.type.size for operand in operands)) > FOLDED_ELEMENTS:
        return None
    (value,) = evaluate(operation, [np.broadcast_to(array, operand.shape) for array, operand in zip(known, operands, strict=True)])
    return (_constant(b, value, result),)


def _evaluate_on_scalars(operation: Operation, literals: Sequence[Array]) -> Array:
    """An elementwise operation on one element of each operand."""
    b = Builder(operation.name)
    scalars = [b.parameter(TensorType((), operand.dtype)) for operand in operation.operands]
    (result,) = b.operation(operation.name, scalars, operation.attributes)
    assert result.producer is not None
    (value,) = evaluate(result.producer, literals)
    return value


def _constant(b: Builder, value: Array, type_: TensorType) -> Value:
    held = np.array(value)
    held.flags.writeable = False
    attributes = MappingProxyType({"value": held, "shape": type_.shape, "dtype": type_.dtype})
    (result,) = b.operation("constant", (), attributes)
    return result
