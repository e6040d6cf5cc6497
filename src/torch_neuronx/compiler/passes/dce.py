"""Dead code elimination: operations whose results nothing needs are left out."""

from __future__ import annotations

from ..hlo.ir import Module, Operation, Value


def eliminate_dead_code(module: Module) -> Module:
    """``module`` with only the operations that its results or a check need; the same module if that is all of them."""
    needed: set[Value] = set(module.results)
    kept: list[Operation] = []
    for operation in reversed(module.operations):
        if may_fail(operation) or any(result in needed for result in operation.results):
            kept.append(operation)
            needed.update(operation.operands)
    if len(kept) == len(module.operations):
        return module
    return Module(module.name, module.parameters, tuple(reversed(kept)), module.results)


def may_fail(operation: Operation) -> bool:
    """The operation checks its indices, which is an effect: it can make the launch fail."""
    return operation.attributes.get("fail") is not None
