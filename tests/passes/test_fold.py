"""Constant folding, on printed modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_modules import after, module_of

from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.passes.dce import eliminate_dead_code
from torch_neuronx.compiler.passes.fold import fold_constants

F32, I64 = DType.F32, DType.I64


def folded(build: Any, *types: Any) -> list[str]:
    return after(lambda module: eliminate_dead_code(fold_constants(module)), module_of(build, *types))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b: b.convert(b.constant(2.75, F32), I64), "constant() {value=2} : tensor<i64>"),
        (lambda b: b.broadcast(b.constant(1.5, F32), (1000, 1000)), "constant() {value=1.5} : tensor<1000x1000xf32>"),
        (
            lambda b: b.add(b.constant(1, F32, (99, 9)), b.constant(2, F32, (99, 9))),
            "constant() {value=3.0} : tensor<99x9xf32>",
        ),
        (lambda b: b.compare(b.constant(1, F32, (99,)), b.constant(2, F32, (99,)), "LT"), "constant() {value=True} : tensor<99xi1>"),
        (lambda b: b.transpose(b.reshape(b.constant(1, F32, (99, 9)), (9, 99)), (1, 0)), "constant() {value=1.0} : tensor<99x9xf32>"),
        (lambda b: b.reverse(b.constant(np.arange(3), I64), (0,)), "constant() {value=[2, 1, 0]} : tensor<3xi64>"),
        (lambda b: b.reduce(b.constant(np.arange(3), I64), "add", (0,)), "constant() {value=3} : tensor<i64>"),
        (
            lambda b: b.concatenate((b.constant(1, I64, (1,)), b.constant(2, I64, (1,))), 0),
            "constant() {value=[1, 2]} : tensor<2xi64>",
        ),
        (
            lambda b: b.select(b.constant(np.array([True, False]), DType.I1), b.constant(1, I64, (2,)), b.constant(2, I64, (2,))),
            "constant() {value=[1, 2]} : tensor<2xi64>",
        ),
    ],
)
def test_operation_on_constants_is_a_constant(build: Any, expected: str) -> None:
    assert folded(build) == [f"%0 = {expected}", "return %0"]


@pytest.mark.parametrize(
    "build",
    [
        lambda b: b.negate(b.constant(np.arange(100), F32)),
        lambda b: b.broadcast(b.constant(np.arange(3), F32), (100, 3)),
        lambda b: b.reduce(b.constant(1, F32, (100,)), "add", (0,)),
        lambda b: b.iota((3,), I64, 0),
        lambda b: b.scan(b.constant(1, F32, (3,)), "add", 0),
        lambda b: b.take(b.constant(1, F32, (3,)), b.constant(7, I64), 0, "out of range"),
    ],
    ids=["large", "large result", "large operand", "iota", "composite", "check"],
)
def test_large_results_composites_and_checks_stay(build: Any) -> None:
    module = module_of(build)
    assert fold_constants(module) is module


def test_operation_on_a_parameter_stays() -> None:
    module = module_of(lambda b, x: b.add(x, b.constant(1, F32, (2,))), ((2,), F32))
    assert fold_constants(module) is module
