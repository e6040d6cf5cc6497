"""Dead code and common subexpression elimination, on printed modules."""

from __future__ import annotations

from pass_modules import after, module_of

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Value
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.passes.cse import eliminate_common_subexpressions
from torch_neuronx.compiler.passes.dce import eliminate_dead_code

VECTOR = ((2,), DType.F32)


def test_unused_operations_go_with_what_only_they_need() -> None:
    module = module_of(lambda b, x: (b.negate(b.exponential(x)), b.abs(x))[1], VECTOR)
    assert after(eliminate_dead_code, module) == [
        "%1 = abs(%0) : tensor<2xf32>",
        "return %1",
    ]


def test_an_operation_with_one_needed_result_stays() -> None:
    def build(b: Builder, x: Value) -> Value:
        types = (x.type, TensorType((2,), DType.I64))
        return b.composite("sort", (x,), {"dim": 0, "descending": False, "stable": True}, types)[1]

    module = module_of(build, VECTOR)
    assert eliminate_dead_code(module) is module


def test_an_index_check_is_never_dead() -> None:
    indices = ((3,), DType.I64)
    checked = module_of(lambda b, x, i: (b.take(x, i, 0, "out of range"), x)[1], VECTOR, indices)
    unchecked = module_of(lambda b, x, i: (b.take(x, i, 0), x)[1], VECTOR, indices)
    assert eliminate_dead_code(checked) is checked
    assert after(eliminate_dead_code, unchecked) == ["return %0"]


def test_equal_operations_become_one() -> None:
    module = module_of(lambda b, x: b.add(b.negate(b.abs(x)), b.negate(b.abs(x))), VECTOR)
    assert after(eliminate_common_subexpressions, module) == [
        "%1 = abs(%0) : tensor<2xf32>",
        "%2 = negate(%1) : tensor<2xf32>",
        "%3 = add(%2, %2) : tensor<2xf32>",
        "return %3",
    ]


def test_zeros_of_both_signs_are_different_constants() -> None:
    module = module_of(lambda b, x: b.add(b.constant(0.0, DType.F32, (2,)), b.constant(-0.0, DType.F32, (2,))), VECTOR)
    assert eliminate_common_subexpressions(module) is module


def test_attributes_and_operand_order_matter() -> None:
    module = module_of(lambda b, x, y: [b.subtract(x, y), b.subtract(y, x), b.compare(x, y, "LT"), b.compare(x, y, "GT")], VECTOR, VECTOR)
    assert eliminate_common_subexpressions(module) is module
