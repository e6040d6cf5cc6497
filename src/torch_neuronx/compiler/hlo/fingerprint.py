"""What a module is, as text that is equal for equal modules, in any process."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from .ir import Module, Signature, Value
from .types import DType


def module_fingerprint(module: Module, signature: Signature) -> str:
    """64 hexadecimal digits that identify what compiling ``module`` for ``signature`` gives: structure, constants, layouts, and the names
    that the result shows in errors and traces."""
    numbers: dict[Value, int] = {}
    digest = sha256()

    def put(*fields: object) -> None:
        # Fields are told apart by their lengths, whatever characters they have.
        for each in map(str, fields):
            digest.update(f"{len(each)}:{each}".encode())
        digest.update(b";")

    put(module.name, signature.text)
    for parameter in module.parameters:
        numbers[parameter] = len(numbers)
        put("parameter", parameter.type, parameter.is_scalar)
    for operation in module.operations:
        put(operation.name, attributes_key(operation.attributes), *(numbers[operand] for operand in operation.operands))
        for result in operation.results:
            numbers[result] = len(numbers)
            put("result", result.type)
    put("return", *(numbers[result] for result in module.results))
    put("parameters", *(layout.strides if layout is not None else "scalar" for layout in signature.parameters))
    put("results", *(layout.strides for layout in signature.results))
    put("donations", *sorted(signature.donations.items()))
    return digest.hexdigest()


def attributes_key(attributes: Mapping[str, Any]) -> str:
    """Text that is equal exactly if the attributes are equal, to the last bit and in their types."""
    return ", ".join(f"{name}={_key(value)}" for name, value in sorted(attributes.items()))


def _key(value: Any) -> str:
    match value:
        case np.ndarray():
            little_endian = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            return f"array {value.dtype.name} {value.shape} {sha256(little_endian.tobytes()).hexdigest()}"
        case tuple():
            return f"({', '.join(map(_key, value))})"
        case DType():
            return value.label
        case bool() | int() | str() | None:
            return repr(value)
        case float():
            return value.hex()
        case _:
            raise TypeError(f"attributes_key: {type(value).__name__} is not a type of attributes: {value!r}")
