"""The verifier accepts what builders make and names what is wrong with anything else."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hlo_samples import all_samples

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module, Operation, Value
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.hlo.verify import verify

VECTOR = TensorType((2,), DType.F32)


def operation(op: str, operands: tuple[Value, ...], *types: TensorType, **attributes: object) -> Operation:
    made = Operation(op, operands, MappingProxyType(attributes))
    made.results = tuple(Value(type_, made, index) for index, type_ in enumerate(types))
    return made


def check(parameters: tuple[Value, ...], operations: tuple[Operation, ...], results: tuple[Value, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verify(Module("m", parameters, operations, results))


def test_accepts_every_sample() -> None:
    for sample in all_samples():
        verify(sample.module)


def test_rejects_use_before_definition() -> None:
    x = Value(VECTOR)
    first = operation("negate", (x,), VECTOR)
    second = operation("negate", first.results, VECTOR)
    check(
        (x,),
        (second, first),
        (),
        r"module 'm', operation 0 \(negate\): operand 0 is Value\(result 0 of negate: tensor<2xf32>\); it must be",
    )


def test_rejects_foreign_operand() -> None:
    check((), (operation("negate", (Value(VECTOR),), VECTOR),), (), r"operation 0 \(negate\): operand 0 is Value\(parameter 0")


def test_rejects_unknown_operation() -> None:
    x = Value(VECTOR)
    check((x,), (operation("neg", (x,), VECTOR),), (), r"operation 0 \(neg\): unknown operation 'neg'; known are abs, ")


def test_rejects_unknown_composite() -> None:
    check((), (operation("composite", (), name="norm"),), (), r"operation 0 \(composite\): unknown composite 'norm'")


def test_rejects_wrong_arity() -> None:
    x = Value(VECTOR)
    check((x,), (operation("add", (x,), VECTOR),), (), r"operation 0 \(add\): add: got 1 operands; the operands are \(lhs, rhs\)")


def test_rejects_missing_attribute() -> None:
    x = Value(VECTOR)
    check((x,), (operation("reverse", (x,), VECTOR),), (), r"reverse: got the attributes \{\}; they must be \{dims\}")


def test_rejects_wrong_attribute() -> None:
    x = Value(VECTOR)
    check((x,), (operation("reverse", (x,), VECTOR, dims=(1,)),), (), r"reverse: dims \(1,\) must be distinct and lie in \[0, 1\)")


def test_rejects_wrong_result_type() -> None:
    x = Value(VECTOR)
    wrong = TensorType((3,), DType.F32)
    check((x,), (operation("negate", (x,), wrong),), (), r"its results are \(tensor<3xf32>\); they must be \(tensor<2xf32>\)")


def test_rejects_wrong_number_of_results() -> None:
    x = Value(VECTOR)
    check((x,), (operation("negate", (x,), VECTOR, VECTOR),), (), r"its results are \(tensor<2xf32>, tensor<2xf32>\)")


def test_rejects_result_of_another_producer() -> None:
    x = Value(VECTOR)
    made, other = operation("negate", (x,), VECTOR), operation("abs", (x,), VECTOR)
    made.results = other.results
    check((x,), (made,), (), "result 0 is Value.result 0 of abs.*; it must be result 0 of this operation")


def test_rejects_operation_listed_twice() -> None:
    x = Value(VECTOR)
    made = operation("negate", (x,), VECTOR)
    check((x,), (made, made), (), r"operation 1 \(negate\): result 0 is defined twice")


def test_rejects_undefined_module_result() -> None:
    check((), (), (Value(VECTOR),), r"module 'm': result 0 is Value\(parameter 0: tensor<2xf32>\); it must be")


def test_rejects_misnumbered_parameter() -> None:
    check((Value(VECTOR, None, 1),), (), (), r"parameter 0: it is Value\(parameter 1: tensor<2xf32>\); it must be parameter 0")


def test_rejects_scalar_that_is_a_tensor() -> None:
    check((Value(VECTOR, None, 0, is_scalar=True),), (), (), "parameter 0: a scalar is tensor<2xf32>; it must be 0-d and of f64, i64, ui64")


def test_rejects_constant_held_in_another_type() -> None:
    b = Builder("m")
    value = b.constant(1, DType.F32).producer.attributes["value"]
    check(
        (),
        (operation("constant", (), TensorType((), DType.F64), value=value, shape=(), dtype=DType.F64),),
        (),
        "constant: value is float32",
    )
