"""The compact form: one line per operation, values numbered in order of definition."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from ..ir import Module, Operation, Value
from ..types import DType

# A constant with more elements is shown by its hash.
SHOWN_ELEMENTS = 16


def print_module(module: Module) -> str:
    """For example::

    module m(%0: tensor<2xf32>, %1: scalar tensor<f64>)
      %2 = negate(%0) : tensor<2xf32>
      return %2
    """
    names: dict[Value, str] = {}
    for value in (*module.parameters, *(result for operation in module.operations for result in operation.results)):
        names[value] = f"%{len(names)}"
    parameters = (f"{names[each]}: {'scalar ' if each.is_scalar else ''}{each.type}" for each in module.parameters)
    lines = [f"module {module.name}({', '.join(parameters)})"]
    lines += [f"  {_operation(operation, names)}" for operation in module.operations]
    lines.append(f"  return {', '.join(names[result] for result in module.results)}".rstrip())
    return "\n".join(lines) + "\n"


def _operation(operation: Operation, names: dict[Value, str]) -> str:
    attributes = dict(operation.attributes)
    name = attributes.pop("name") if operation.name == "composite" else operation.name
    # The result type shows them.
    for implied in ("shape", "dtype"):
        attributes.pop(implied, None)
    shown = ", ".join(f"{key}={_attribute(value)}" for key, value in sorted(attributes.items()) if value is not None)
    left = ", ".join(names[result] for result in operation.results)
    types = ", ".join(str(result.type) for result in operation.results)
    operands = ", ".join(names[operand] for operand in operation.operands)
    return f"{left} = {name}({operands}){f' {{{shown}}}' if shown else ''} : {types}"


def _attribute(value: Any) -> str:
    match value:
        case np.ndarray() if value.size > SHOWN_ELEMENTS:
            return f"<{value.size} elements {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:8]}>"
        case np.ndarray():
            return str(value.tolist())
        case DType():
            return str(value)
        case tuple():
            return f"({', '.join(map(_attribute, value))})"
        case _:
            return str(value)
