"""Passes keep the meaning of random modules to the last bit, and the pipeline comes to an end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pass_modules import after, module_of
from random_modules import Program, programs

from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.numerics import Array
from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.hlo.verify import verify
from torch_neuronx.compiler.passes.pipeline import STANDARD_PASSES, Pass, optimize

F32 = DType.F32
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def assert_same_bits(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    for ours, theirs in ((actual.real, expected.real), (actual.imag, expected.imag)):
        np.testing.assert_array_equal(ours, theirs)
        if ours.dtype.kind == "f":
            number = ~np.isnan(theirs)
            np.testing.assert_array_equal(np.signbit(ours)[number], np.signbit(theirs)[number])


@pytest.mark.parametrize("run", [*STANDARD_PASSES, optimize], ids=lambda run: run.__name__)
@given(program=programs())
@quick
def test_pass_keeps_the_meaning(run: Pass, program: Program) -> None:
    verify(program.module)
    result = run(program.module)
    verify(result)
    assert [parameter.type for parameter in result.parameters] == [parameter.type for parameter in program.module.parameters]
    for actual, expected in zip(interpret(result, program.inputs), interpret(program.module, program.inputs), strict=True):
        assert_same_bits(actual, expected)


@given(program=programs())
@settings(quick, max_examples=50)
def test_optimized_module_is_not_changed_again(program: Program) -> None:
    module = optimize(program.module)
    assert optimize(module) is module


def test_passes_open_the_way_for_each_other() -> None:
    # 1 / 4 is folded, its product with 4 too; x · 1 is x; then both sums are equal.
    def build(b, x):
        quarter = b.broadcast(b.divide(b.constant(1.0, F32), b.constant(4.0, F32)), (2,))
        one = b.multiply(quarter, b.constant(4.0, F32, (2,)))
        return b.subtract(b.add(b.multiply(x, one), x), b.add(x, b.reshape(x, (2,))))

    assert after(optimize, module_of(build, ((2,), F32))) == [
        "%1 = add(%0, %0) : tensor<2xf32>",
        "%2 = subtract(%1, %1) : tensor<2xf32>",
        "return %2",
    ]


def test_nothing_to_do_is_the_same_module() -> None:
    module = module_of(lambda b, x: b.exponential(x), ((2,), F32))
    assert optimize(module) is module
