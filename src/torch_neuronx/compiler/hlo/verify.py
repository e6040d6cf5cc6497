"""Checks that a module is well formed, whoever made it."""

from __future__ import annotations

from .builder import SCALAR_DTYPES
from .ir import Module, Operation, Value
from .ops import infer_types


def verify(module: Module) -> None:
    """Raise ValueError if ``module`` is not well formed.

    Holds afterwards: every operand is a parameter or a result of an earlier operation; every operation is in the op table with the operands
    and attributes of its row; the recorded result types are those of the row's shape rule; all results of the module are defined.
    """
    defined: set[Value] = set()
    for index, parameter in enumerate(module.parameters):
        _verify_parameter(module, index, parameter)
        defined.add(parameter)
    for index, operation in enumerate(module.operations):
        where = f"module {module.name!r}, operation {index} ({operation.name})"
        for position, operand in enumerate(operation.operands):
            if operand not in defined:
                raise ValueError(f"{where}: operand {position} is {operand!r}; it must be a parameter or a result of an earlier operation")
        _verify_results(where, operation, defined)
        defined.update(operation.results)
    for index, result in enumerate(module.results):
        if result not in defined:
            raise ValueError(f"module {module.name!r}: result {index} is {result!r}; it must be a parameter or a result of an operation")


def _verify_parameter(module: Module, index: int, parameter: Value) -> None:
    where = f"module {module.name!r}, parameter {index}"
    if parameter.producer is not None or parameter.index != index:
        raise ValueError(f"{where}: it is {parameter!r}; it must be parameter {index}")
    if parameter.is_scalar and (parameter.shape or parameter.dtype not in SCALAR_DTYPES):
        raise ValueError(f"{where}: a scalar is {parameter.type}; it must be 0-d and of {', '.join(map(str, SCALAR_DTYPES))}")


def _verify_results(where: str, operation: Operation, defined: set[Value]) -> None:
    try:
        expected = infer_types(operation.name, [operand.type for operand in operation.operands], operation.attributes)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    recorded = tuple(result.type for result in operation.results)
    if recorded != expected:
        raise ValueError(f"{where}: its results are ({', '.join(map(str, recorded))}); they must be ({', '.join(map(str, expected))})")
    for position, result in enumerate(operation.results):
        if result.producer is not operation or result.index != position:
            raise ValueError(f"{where}: result {position} is {result!r}; it must be result {position} of this operation")
        if result in defined:
            raise ValueError(f"{where}: result {position} is defined twice; every value has one definition")
