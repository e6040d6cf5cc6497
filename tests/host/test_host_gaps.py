"""Kernels whose elements lie a few places apart: collected and spread by whole vectors, and nothing between them is written."""

from __future__ import annotations

import numpy as np
import pytest
from host_launch import AVX2, run

from torch_neuronx.compiler import host_target
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature, Value
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.host import Target

DTYPES = (DType.F32, DType.BF16, DType.F64, DType.I1, DType.UI8, DType.I16)
# Around one vector, one chunk, and several.
LENGTHS = (31, 32, 33, 64, 65, 127, 511, 512, 513, 1500)
TARGETS = [pytest.param(host_target(), id="host"), pytest.param(AVX2, id="avx2")]


def numbers(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 2 if dtype is DType.I1 else 100, shape).astype(HELD_AS[dtype])


def copied(shape: tuple[int, ...], dtype: DType) -> Module:
    b = Builder("copy")
    x = b.parameter(TensorType(shape, dtype))
    return b.build([b.transpose(x, tuple(range(len(shape))))])


def agree(module: Module, inputs: list[np.ndarray], layouts: Signature, target: Target, parts: int = 1) -> None:
    for actual, expected in zip(run(module, inputs, layouts, parts, target), interpret(module, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_with_gaps_on_either_side(dtype: DType, step: int, target: Target) -> None:
    for length in LENGTHS:
        module, inputs = copied((length,), dtype), [numbers((length,), dtype)]
        for read, written in ((step, 1), (1, step), (step, step), (step, 2)):
            agree(module, inputs, Signature((Layout((read,)),), (Layout((written,)),), {}, "t"), target)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_with_gaps(target: Target) -> None:
    module, inputs = copied((5, 70), DType.F32), [numbers((5, 70), DType.F32)]
    for read, written in (((141, 2), (70, 1)), ((70, 1), (150, 2)), ((1, 5), (280, 4)), ((0, 3), (71, 1))):
        given = [np.broadcast_to(inputs[0][:1], (5, 70)).copy()] if read[0] == 0 else inputs
        agree(module, given, Signature((Layout(read),), (Layout(written),), {}, "t"), target, parts=2)


@pytest.mark.parametrize("target", TARGETS)
def test_interleaved_rows_do_not_overwrite_each_other(target: Target) -> None:
    """Each row lies in the gaps of the other, and both are written at the same time."""
    module, inputs = copied((2, 600), DType.F32), [numbers((2, 600), DType.F32)]
    agree(module, inputs, Signature((Layout((600, 1)),), (Layout((1, 2)),), {}, "t"), target, parts=2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [DType.C64, DType.C128], ids=str)
def test_complex_arithmetic(dtype: DType, target: Target) -> None:
    b = Builder("complex")
    x, y = (b.parameter(TensorType((3, 77), dtype)) for _ in range(2))
    product = b.multiply(x, y)
    module = b.build([product, b.real(product), b.complex(b.imag(x), b.real(y))])
    inputs = [numbers((3, 77), dtype) + 1j * numbers((3, 77), dtype)[::-1] for _ in range(2)]
    layouts = Signature((Layout((77, 1)),) * 2, (Layout((77, 1)),) * 3, {}, "t")
    agree(module, [x.astype(HELD_AS[dtype]) for x in inputs], layouts, target, parts=2)


@pytest.mark.parametrize("target", TARGETS)
def test_computed_with_gaps_on_both_sides_and_in_place(target: Target) -> None:
    b = Builder("update")
    x, y = (b.parameter(TensorType((4, 333), DType.F32)) for _ in range(2))
    module = b.build([b.add(x, y), b.convert(y, DType.BF16)])
    inputs = [numbers((4, 333), DType.F32) for _ in range(2)]
    layouts = Signature((Layout((666, 2)), Layout((999, 3))), (Layout((666, 2)), Layout((1332, 4))), {0: 0}, "t")
    agree(module, inputs, layouts, target, parts=2)


def test_failed_checks_are_noticed_in_a_chunk() -> None:
    b = Builder("take")
    x, index = b.parameter(TensorType((8,), DType.F32)), b.parameter(TensorType((100,), DType.I64))
    picked: Value = b.take(x, index, 0)
    module = b.build([picked])
    where = np.arange(100, dtype=np.int64) % 8
    layouts = Signature((Layout((1,)), Layout((2,))), (Layout((2,)),), {}, "t")
    agree(module, [numbers((8,), DType.F32), where], layouts, host_target())
