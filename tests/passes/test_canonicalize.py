"""Canonicalisation rules, on printed modules: what is rewritten, and what only looks as if it could be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_modules import after, module_of

from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.passes.arithmetic_rules import holds_all_values
from torch_neuronx.compiler.passes.canonicalize import canonicalize
from torch_neuronx.compiler.passes.dce import eliminate_dead_code

F32, I64, I1, C64, BF16 = DType.F32, DType.I64, DType.I1, DType.C64, DType.BF16
UNCHANGED = ["return %0"]


def rewritten(build: Any, *types: Any) -> list[str]:
    return after(lambda module: eliminate_dead_code(canonicalize(module)), module_of(build, *types))


DISAPPEARING: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("reshape to same shape", lambda b, x: b.reshape(x, (2, 3)), ((2, 3), F32)),
    ("reshape there and back", lambda b, x: b.reshape(b.reshape(x, (6,)), (2, 3)), ((2, 3), F32)),
    ("transpose there and back", lambda b, x: b.transpose(b.transpose(x, (2, 0, 1)), (1, 2, 0)), ((2, 3, 4), F32)),
    ("identity transpose", lambda b, x: b.transpose(x, (0, 1)), ((2, 3), F32)),
    ("broadcast to same shape", lambda b, x: b.broadcast_in_dim(x, (2, 3), (0, 1)), ((2, 3), F32)),
    ("reverse of one element", lambda b, x: b.reverse(x, (0,)), ((1, 3), F32)),
    ("reverse twice", lambda b, x: b.reverse(b.reverse(x, (1, 0)), (0, 1)), ((2, 3), F32)),
    ("full slice", lambda b, x: b.slice(x, (0, 0), (2, 3)), ((2, 3), F32)),
    ("pad by nothing", lambda b, x: b.pad(x, b.constant(0, F32), (0,), (0,)), ((2,), F32)),
    ("concatenate one", lambda b, x: b.concatenate((x,), 0), ((2,), F32)),
    ("concatenate with empty", lambda b, x: b.concatenate((x, b.constant(0, F32, (0,))), 0), ((2,), F32)),
    ("whole dynamic slice", lambda b, x: b.dynamic_slice(x, (b.constant(1, I64),), (2,)), ((2,), F32)),
    ("whole update", lambda b, x: b.dynamic_update_slice(b.constant(0, F32, (2,)), x, (b.constant(0, I64),)), ((2,), F32)),
    ("convert to same type", lambda b, x: b.convert(x, F32), ((2,), F32)),
    ("convert there and back", lambda b, x: b.convert(b.convert(x, F32), BF16), ((2,), BF16)),
    ("convert i1 there and back", lambda b, x: b.convert(b.convert(x, DType.UI8), I1), ((2,), I1)),
    ("bitcast there and back", lambda b, x: b.bitcast_convert(b.bitcast_convert(x, DType.I32), F32), ((2,), F32)),
    ("negate twice", lambda b, x: b.negate(b.negate(x)), ((2,), F32)),
    ("not twice", lambda b, x: b.not_(b.not_(x)), ((2,), I1)),
    ("add -0", lambda b, x: b.add(x, b.constant(-0.0, F32, (2,))), ((2,), F32)),
    ("add integer 0", lambda b, x: b.add(b.constant(0, I64, (2,)), x), ((2,), I64)),
    ("add complex -0", lambda b, x: b.add(x, b.constant(complex(-0.0, -0.0), C64, (2,))), ((2,), C64)),
    ("subtract 0", lambda b, x: b.subtract(x, b.constant(0.0, F32, (2,))), ((2,), F32)),
    ("multiply by 1", lambda b, x: b.multiply(b.constant(1.0, F32, (2,)), x), ((2,), F32)),
    ("divide by 1", lambda b, x: b.divide(x, b.constant(1.0, F32, (2,))), ((2,), F32)),
    ("and with all ones", lambda b, x: b.and_(x, b.constant(255, DType.UI8, (2,))), ((2,), DType.UI8)),
    ("and with true", lambda b, x: b.and_(x, b.constant(True, I1, (2,))), ((2,), I1)),
    ("or with itself", lambda b, x: b.or_(x, x), ((2,), I1)),
    ("xor with 0", lambda b, x: b.xor(x, b.constant(0, I64, (2,))), ((2,), I64)),
    ("shift by 0", lambda b, x: b.shift_left(x, b.constant(0, I64, (2,))), ((2,), I64)),
    ("maximum with itself", lambda b, x: b.maximum(x, x), ((2,), F32)),
    ("maximum with -inf", lambda b, x: b.maximum(x, b.constant(float("-inf"), F32, (2,))), ((2,), F32)),
    ("minimum with the largest", lambda b, x: b.minimum(b.constant(2**63 - 1, I64, (2,)), x), ((2,), I64)),
    ("select of true", lambda b, x: b.select(b.constant(True, I1, (2,)), x, b.negate(x)), ((2,), F32)),
    ("select of equal branches", lambda b, p: b.select(p, p, p), ((2,), I1)),
    ("parts of complex", lambda b, x: b.complex(b.real(x), b.imag(x)), ((2,), C64)),
    ("imag of complex", lambda b, x: b.imag(b.complex(b.negate(x), x)), ((2,), F32)),
    ("reduce over nothing", lambda b, x: b.reduce(x, "maximum", ()), ((2,), F32)),
]


@pytest.mark.parametrize(("build", "type_"), [pytest.param(build, type_, id=label) for label, build, type_ in DISAPPEARING])
def test_operation_without_effect_disappears(build: Any, type_: Any) -> None:
    # Rules that first merge two operations leave one, which the second walk removes.
    run = lambda module: eliminate_dead_code(canonicalize(canonicalize(module)))  # noqa: E731
    assert after(run, module_of(build, type_)) == UNCHANGED


INEXACT: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("add +0 turns -0 into 0", lambda b, x: b.add(x, b.constant(0.0, F32, (2,))), ((2,), F32)),
    ("subtract -0 turns -0 into 0", lambda b, x: b.subtract(x, b.constant(-0.0, F32, (2,))), ((2,), F32)),
    ("0 - x is not -x at 0", lambda b, x: b.subtract(b.constant(0.0, F32, (2,)), x), ((2,), F32)),
    ("0 · nan", lambda b, x: b.multiply(x, b.constant(0.0, F32, (2,))), ((2,), F32)),
    ("nan is not equal to itself", lambda b, x: b.compare(x, x, "EQ"), ((2,), F32)),
    ("1 · complex infinity", lambda b, x: b.multiply(x, b.constant(1.0, C64, (2,))), ((2,), C64)),
    ("complex infinity / 1", lambda b, x: b.divide(x, b.constant(1.0, C64, (2,))), ((2,), C64)),
    ("division by 3", lambda b, x: b.divide(x, b.constant(3.0, F32, (2,))), ((2,), F32)),
    ("sum of one -0 is 0", lambda b, x: b.reduce(x, "add", (0,)), ((1,), F32)),
    ("rounding conversion", lambda b, x: b.convert(b.convert(x, BF16), F32), ((2,), F32)),
    ("wrapping conversion", lambda b, x: b.convert(b.convert(x, DType.I8), I64), ((2,), I64)),
    ("i64 does not fit f64", lambda b, x: b.convert(b.convert(x, DType.F64), I64), ((2,), I64)),
    ("square broadcast is a transpose", lambda b, x: b.broadcast_in_dim(x, (2, 2), (1, 0)), ((2, 2), F32)),
    ("interior padding", lambda b, x: b.pad(x, b.constant(0, F32), (0,), (0,), (1,)), ((2,), F32)),
    ("shifting pad", lambda b, x: b.pad(x, b.constant(0, F32), (1,), (-1,)), ((2,), F32)),
]


@pytest.mark.parametrize(("build", "type_"), [pytest.param(build, type_, id=label) for label, build, type_ in INEXACT])
def test_operation_with_an_effect_stays(build: Any, type_: Any) -> None:
    module = module_of(build, type_)
    assert canonicalize(module) is module


MERGING: list[tuple[Any, tuple[Any, ...], str]] = [
    (lambda b, x: b.reshape(b.reshape(x, (6,)), (3, 2)), ((2, 3), F32), "reshape(%0) : tensor<3x2xf32>"),
    (
        lambda b, x: b.transpose(b.transpose(x, (1, 2, 0)), (1, 0, 2)),
        ((2, 3, 4), F32),
        "transpose(%0) {permutation=(2, 1, 0)} : tensor<4x3x2xf32>",
    ),
    (
        lambda b, x: b.broadcast_in_dim(b.broadcast_in_dim(x, (4, 3), (1,)), (5, 3, 4), (2, 1)),
        ((3,), F32),
        "broadcast_in_dim(%0) {dims=(1)} : tensor<5x3x4xf32>",
    ),
    (
        lambda b, x: b.broadcast(b.reshape(x, (3, 1)), (2, 3, 4)),
        ((3,), F32),
        "broadcast_in_dim(%0) {dims=(1)} : tensor<2x3x4xf32>",
    ),
    (
        lambda b, x: b.slice(b.slice(x, (1,), (10,), (2,)), (1,), (5,), (3,)),
        ((10,), F32),
        "slice(%0) {limit=(10), start=(3), strides=(6)} : tensor<2xf32>",
    ),
    (lambda b, x: b.reverse(b.reverse(x, (0, 1)), (1, 2)), ((2, 2, 2), F32), "reverse(%0) {dims=(0, 2)} : tensor<2x2x2xf32>"),
    (
        lambda b, x: b.dynamic_slice(x, (b.constant(9, I64),), (2,)),
        ((5,), F32),
        "slice(%0) {limit=(5), start=(3), strides=(1)} : tensor<2xf32>",
    ),
    (lambda b, x: b.convert(b.convert(x, DType.F64), I64), ((2,), F32), "convert(%0) : tensor<2xi64>"),
    (lambda b, x: b.bitcast_convert(b.bitcast_convert(x, DType.I32), DType.UI32), ((2,), F32), "bitcast_convert(%0) : tensor<2xui32>"),
    (lambda b, x: b.compare(x, x, "LE"), ((2,), I64), "constant() {value=True} : tensor<2xi1>"),
    (lambda b, x: b.multiply(x, b.constant(0, I64, (2,))), ((2,), I64), "constant() {value=0} : tensor<2xi64>"),
    (lambda b, x: b.select(b.not_(x), b.constant(1, I64, (2,)), b.iota((2,), I64, 0)), ((2,), I1), "select(%0, %2, %1) : tensor<2xi64>"),
    (lambda b, x: b.reduce(x, "maximum", (1,)), ((2, 1), F32), "reshape(%0) : tensor<2xf32>"),
]


@pytest.mark.parametrize(("build", "type_", "expected"), MERGING, ids=[expected.split("(")[0] for *_, expected in MERGING])
def test_composition_becomes_one_operation(build: Any, type_: Any, expected: str) -> None:
    *_, line, _returned = rewritten(build, type_)
    assert line.split(" = ")[1] == expected


def test_division_by_a_power_of_two_is_a_multiplication() -> None:
    assert rewritten(lambda b, x: b.divide(x, b.constant(-8.0, F32, (2,))), ((2,), F32)) == [
        "%1 = constant() {value=-0.125} : tensor<2xf32>",
        "%2 = multiply(%0, %1) : tensor<2xf32>",
        "return %2",
    ]


def test_chains_collapse_in_one_walk() -> None:
    build = lambda b, x: b.convert(b.transpose(b.reshape(b.negate(b.negate(x)), (2, 3)), (0, 1)), F32)  # noqa: E731
    assert rewritten(build, ((2, 3), F32)) == UNCHANGED


def test_holding_all_values_is_what_numpy_says() -> None:
    numpy = {DType.I1: "?", DType.I8: "b", DType.I16: "h", DType.I32: "i", I64: "q", DType.UI8: "B", DType.UI16: "H", DType.UI32: "I"}
    numpy |= {DType.UI64: "Q", DType.F16: "e", F32: "f", DType.F64: "d"}
    for wide, to in numpy.items():
        for narrow, source in numpy.items():
            # NumPy calls these casts safe though they round.
            safe = np.can_cast(source, to) and (source, to) not in {("q", "d"), ("Q", "d")}
            assert holds_all_values(wide, narrow) == safe, (wide, narrow)
    assert holds_all_values(F32, BF16) and holds_all_values(BF16, DType.F8E5M2) and holds_all_values(DType.F16, DType.F8E4M3FN)
    assert not holds_all_values(DType.F16, BF16) and not holds_all_values(DType.F8E5M2, DType.F8E4M3FN)
