"""Buffers of any layout at the edge of a module."""

from __future__ import annotations

import numpy as np
import pytest
from host_launch import compile_image, contiguous_signature, run

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32 = DType.F32


def signature(parameters: list[tuple[int, ...]], results: list[tuple[int, ...]]) -> Signature:
    return Signature(tuple(map(Layout, parameters)), tuple(map(Layout, results)))


def agree(module: Module, inputs: list[np.ndarray], layouts: Signature, parts: int = 1) -> None:
    for actual, expected in zip(run(module, inputs, layouts, parts), interpret(module, inputs)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


LAYOUTS = {
    "contiguous": (30, 6, 1),
    "transposed": (1, 4, 20),
    "permuted": (6, 24, 1),
    "padded": (100, 12, 2),
    "row repeated": (0, 6, 1),
    "column repeated": (5, 1, 0),
    "one element": (0, 0, 0),
}


@pytest.mark.parametrize("lhs", LAYOUTS)
@pytest.mark.parametrize("out", ["contiguous", "transposed", "padded"])
def test_elementwise_reads_and_writes_any_strides(lhs: str, out: str) -> None:
    b = Builder("sum")
    x, y = (b.parameter(TensorType((4, 5, 6), F32)) for _ in range(2))
    module = b.build([b.add(x, b.exponential(y))])
    x_values, y_values = normal(4, 5, 6), normal(4, 5, 6)
    for dim, stride in enumerate(LAYOUTS[lhs]):
        if stride == 0:
            x_values = np.repeat(x_values.take([0], dim), (4, 5, 6)[dim], dim)
    agree(module, [x_values, y_values], signature([LAYOUTS[lhs], (1, 4, 20)], [LAYOUTS[out]]), parts=3)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "permuted", "padded"])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_reductions_read_any_strides(layout: str, dims: tuple[int, ...]) -> None:
    b = Builder("reduce")
    x = b.parameter(TensorType((4, 5, 6), F32))
    module = b.build([b.reduce(x, "add", dims), b.reduce(x, "maximum", dims)])
    results = list(contiguous_signature(module).results)
    agree(module, [normal(4, 5, 6)], Signature((Layout(LAYOUTS[layout]),), tuple(results)), parts=2)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_empty_tensors_need_no_code(shape: tuple[int, ...]) -> None:
    b = Builder("empty")
    x = b.parameter(TensorType(shape, F32))
    module = b.build([b.negate(x), b.reduce(x, "add", tuple(range(len(shape))))])
    image = compile_image(module)
    assert len(image.steps) == 1
    negated, total = run(module, [np.zeros(shape, np.float32)])
    assert negated.shape == shape
    assert total == 0


def test_zero_dimensional_tensors() -> None:
    b = Builder("scalar")
    x = b.parameter(TensorType((), F32))
    factor = b.parameter(TensorType((), DType.F64), is_scalar=True)
    module = b.build([b.multiply(x, b.convert(factor, F32))])
    (result,) = run(module, [np.array(3, np.float32), np.array(0.5)])
    assert result == 1.5


def test_reshape_of_a_strided_parameter_is_read_in_place() -> None:
    b = Builder("reshape")
    x = b.parameter(TensorType((4, 6), F32))
    module = b.build([b.negate(b.reshape(x, (2, 2, 3, 2)))])
    layouts = signature([(1, 4)], [(12, 6, 2, 1)])
    assert len(compile_image(module, layouts).steps) == 1
    agree(module, [normal(4, 6)], layouts)


def test_reshape_that_no_strides_describe_goes_through_memory() -> None:
    b = Builder("reshape")
    x = b.parameter(TensorType((4, 6), F32))
    module = b.build([b.negate(b.reshape(b.transpose(x, (1, 0)), (8, 3)))])
    agree(module, [normal(4, 6)], contiguous_signature(module))


def test_results_that_are_parameters_or_constants_or_the_same_value_are_copied() -> None:
    b = Builder("copies")
    x = b.parameter(TensorType((3, 4), F32))
    y = b.negate(x)
    module = b.build([x, y, y, b.constant(2.5, F32, (3, 4)), b.constant(normal(3, 4), F32)])
    agree(module, [normal(3, 4)], signature([(1, 3)], [(4, 1), (1, 3), (4, 1), (1, 3), (4, 1)]))


def test_contractions_read_transposed_operands_in_place_and_write_strided_results() -> None:
    b = Builder("product")
    x, w = b.parameter(TensorType((5, 7), F32)), b.parameter(TensorType((9, 7), F32))
    module = b.build([b.dot_general(x, w, (), (), (1,), (1,))])
    layouts = signature([(1, 5), (7, 1)], [(1, 5)])
    assert len(compile_image(module, layouts).steps) == 1
    agree(module, [normal(5, 7), normal(9, 7)], layouts)


def test_batched_contraction_of_permuted_heads() -> None:
    b = Builder("heads")
    q, k = (b.parameter(TensorType((2, 5, 3, 4), F32)) for _ in range(2))
    module = b.build([b.dot_general(q, k, (0, 2), (0, 2), (3,), (3,))])
    agree(module, [normal(2, 5, 3, 4), normal(2, 5, 3, 4) + 1], contiguous_signature(module))


def test_bias_of_a_product_is_added_by_the_library() -> None:
    b = Builder("linear")
    x, w, bias = (b.parameter(TensorType(shape, F32)) for shape in ((2, 5, 7), (9, 7), (9,)))
    module = b.build([b.add(b.dot_general(x, w, (), (), (2,), (1,)), b.broadcast(bias, (2, 5, 9)))])
    (step,) = compile_image(module).steps
    assert step.symbol == "addmm"
    agree(module, [normal(2, 5, 7), normal(9, 7), normal(9)], contiguous_signature(module))
