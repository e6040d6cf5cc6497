"""Common subexpression elimination: of operations equal in name, attributes and operands, the first serves for all."""

from __future__ import annotations

from ..hlo.builder import Builder
from ..hlo.fingerprint import attributes_key
from ..hlo.ir import Module, Operation, Value
from ..hlo.rebuild import rebuild

Key = tuple[str, str, tuple[Value, ...]]


def eliminate_common_subexpressions(module: Module) -> Module:
    """``module`` in which no two operations are equal; the same module if none are."""
    first: dict[Key, tuple[Value, ...]] = {}
    repeated = False

    def replace(builder: Builder, operation: Operation, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        nonlocal repeated
        key = (operation.name, attributes_key(operation.attributes), operands)
        if key in first:
            repeated = True
        else:
            first[key] = builder.copy(operation, operands)
        return first[key]

    rebuilt = rebuild(module, replace)
    return rebuilt if repeated else module
