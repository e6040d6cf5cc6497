"""Rebuilding replaces what it is told to, shares the rest, and refuses a value of another type."""

from __future__ import annotations

import pytest
from hlo_modules import module_of

from torch_neuronx.compiler.hlo.printer import print_module
from torch_neuronx.compiler.hlo.rebuild import rebuild
from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.hlo.verify import verify

VECTOR = ((2,), DType.F32)


def test_replaced_results_reach_their_users() -> None:
    module = module_of(lambda b, x: b.negate(b.abs(b.floor(x))), VECTOR)
    result = rebuild(module, lambda b, operation, operands: (b.exponential(*operands),) if operation.name == "abs" else None)
    verify(result)
    assert print_module(result) == print_module(module_of(lambda b, x: b.negate(b.exponential(b.floor(x))), VECTOR))
    assert result.parameters == module.parameters
    assert result.operations[0] is module.operations[0]
    assert result.operations[2] is not module.operations[2]


def test_the_module_itself_is_not_changed() -> None:
    module = module_of(lambda b, x: b.negate(b.abs(x)), VECTOR)
    before = print_module(module)
    rebuild(module, lambda b, operation, operands: operands)
    assert print_module(module) == before


def test_nothing_replaced_is_the_same_module() -> None:
    module = module_of(lambda b, x: b.negate(x), VECTOR)
    assert rebuild(module, lambda b, operation, operands: None) is module


def test_value_of_another_type_is_refused() -> None:
    module = module_of(lambda b, x: b.negate(x), VECTOR)
    with pytest.raises(
        ValueError, match=r"rebuild: .*result 0 of negate: tensor<2xf32>.* of module 'm' cannot be replaced by .*tensor<2xi1>"
    ):
        rebuild(module, lambda b, operation, operands: (b.is_nan(*operands),))
