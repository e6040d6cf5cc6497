"""The reference interpreter: what every operation means, in NumPy, obviously right and slow.

Floating-point operations are computed in float64 (complex128) and rounded once to the result type; sums and products accumulate in float64
too. That is more precise than any target, so a target is compared with a tolerance of its own precision. Integers wrap.

Values are arrays in the held form of :mod:`numerics`: bf16 and f8 as float32 arrays of already rounded values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..builder import Builder
from ..composites import decompose
from ..ir import Module, Operation, Value
from ..numerics import HELD_AS, Array, round_to
from .contractions import CONTRACTIONS
from .elementwise import ELEMENTWISE
from .indexing import INDEXING, LaunchError
from .layout import LAYOUT
from .library import LIBRARY_COMPOSITES
from .ordering import ORDERING_COMPOSITES
from .reductions import REDUCTIONS
from .table import Implementation

__all__ = ["LaunchError", "evaluate", "interpret"]

DIRECT_COMPOSITES: Mapping[str, Implementation] = MappingProxyType({**ORDERING_COMPOSITES, **LIBRARY_COMPOSITES})
IMPLEMENTATIONS: Mapping[str, Implementation] = MappingProxyType({**ELEMENTWISE, **LAYOUT, **REDUCTIONS, **CONTRACTIONS, **INDEXING})


def interpret(module: Module, inputs: Sequence[Array]) -> list[Array]:
    """The results of ``module`` for ``inputs``, one array per parameter (0-d for scalars) of its shape and held dtype.

    A bf16 or f8 input is rounded to its type first. ValueError if an input does not fit; :class:`LaunchError` if an index is out of range
    in an operation that checks it.
    """
    if len(inputs) != len(module.parameters):
        raise ValueError(f"interpret: {module.name!r} takes {len(module.parameters)} inputs, got {len(inputs)}")
    values: dict[Value, Array] = {}
    for parameter, given in zip(module.parameters, inputs, strict=True):
        array = np.asarray(given)
        if array.shape != parameter.shape or array.dtype != HELD_AS[parameter.dtype]:
            held = HELD_AS[parameter.dtype]
            raise ValueError(f"interpret: input {parameter.index} is {array.dtype}{list(array.shape)}; {parameter.type} is held as {held}")
        values[parameter] = round_to(array, parameter.dtype) if parameter.dtype.is_float else array
    for operation in module.operations:
        results = evaluate(operation, [values[operand] for operand in operation.operands])
        values.update(zip(operation.results, results, strict=True))
    return [values[result] for result in module.results]


def evaluate(operation: Operation, operands: Sequence[Array]) -> tuple[Array, ...]:
    """The results of one operation."""
    key = operation.attributes["name"] if operation.name == "composite" else operation.name
    table = DIRECT_COMPOSITES if operation.name == "composite" else IMPLEMENTATIONS
    with np.errstate(all="ignore"):
        if key in table:
            results = table[key](operation, *operands)
        else:
            results = tuple(interpret(_decomposition(operation), operands))
    return tuple(np.asarray(result) for result in (results if isinstance(results, tuple) else (results,)))


def _decomposition(operation: Operation) -> Module:
    builder = Builder(str(operation.attributes["name"]))
    parameters = [builder.parameter(operand.type) for operand in operation.operands]
    return builder.build(decompose(operation, builder, parameters))
