"""The one way in which passes change operations: copy the module, putting other values in place of some results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import Builder
from .ir import Module, Operation, Value

# Given the builder of the copy, an operation of the module and its operands in the copy: the values that take the place of its results,
# or None to copy it.
Replacement = Callable[[Builder, Operation, tuple[Value, ...]], Sequence[Value] | None]


def rebuild(module: Module, replace: Replacement) -> Module:
    """``module`` with the values that ``replace`` returns in place of results; ``module`` itself if it always returns None.

    Operations come in order, so the operands that ``replace`` sees are already rewritten. The copy shares the parameters, and the
    operations that do not change, with ``module``. A value of another type than the result it stands for is a ValueError.
    """
    builder = Builder(module.name, module.parameters)
    replaced: dict[Value, Value] = {}
    changed = False
    for operation in module.operations:
        operands = tuple([replaced.get(operand, operand) for operand in operation.operands])
        results = replace(builder, operation, operands)
        changed |= results is not None
        if results is None:
            results = builder.copy(operation, operands)
        for old, new in zip(operation.results, results, strict=True):
            if old.type != new.type:
                raise ValueError(f"rebuild: {old!r} of module {module.name!r} cannot be replaced by {new!r}; the types must be equal")
            if old is not new:
                replaced[old] = new
    return builder.build([replaced.get(result, result) for result in module.results]) if changed else module
