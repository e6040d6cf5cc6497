"""The two textual forms. That the StableHLO form is accepted and means the same is shown in test_hlo_xla.py."""

from __future__ import annotations

import numpy as np
import pytest
from hlo_modules import module_of
from hlo_samples import all_samples, is_expressible

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.printer import print_module, print_stablehlo
from torch_neuronx.compiler.hlo.printer.literals import dense_literal
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32, F64, I64 = DType.F32, DType.F64, DType.I64


def test_compact_form() -> None:
    b = Builder("step")
    x = b.parameter(TensorType((2, 3), F32))
    rate = b.parameter(TensorType((), F64), is_scalar=True)
    scaled = b.multiply(x, b.broadcast(b.convert(rate, F32), (2, 3)))
    values, indices = b.composite("sort", (scaled,), {"dim": 1, "descending": True, "stable": True}, (x.type, TensorType((2, 3), I64)))
    total = b.reduce(values, "add", (0, 1))
    limited = b.maximum(total, b.constant(-0.5, F32))
    assert (
        print_module(b.build([limited, indices]))
        == """\
module step(%0: tensor<2x3xf32>, %1: scalar tensor<f64>)
  %2 = convert(%1) : tensor<f32>
  %3 = broadcast_in_dim(%2) {dims=()} : tensor<2x3xf32>
  %4 = multiply(%0, %3) : tensor<2x3xf32>
  %5, %6 = sort(%4) {descending=True, dim=1, stable=True} : tensor<2x3xf32>, tensor<2x3xi64>
  %7 = reduce(%5) {dims=(0, 1), kind=add} : tensor<f32>
  %8 = constant() {value=-0.5} : tensor<f32>
  %9 = maximum(%7, %8) : tensor<f32>
  return %9, %6
"""
    )


def test_compact_form_tells_large_constants_apart() -> None:
    texts = {print_module(module_of(lambda b, end=end: b.constant(np.arange(end - 20, end), I64))) for end in (20, 21, 20)}
    assert len(texts) == 2 and all("<20 elements " in text for text in texts)


def test_stablehlo_form() -> None:
    module = module_of(lambda b, x, i: b.reduce(b.take(x, i, 0), "maximum", (0,)), ((4, 2), F32), ((3,), I64))
    assert (
        print_stablehlo(module)
        == """\
module @m {
  func.func public @main(%arg0: tensor<4x2xf32>, %arg1: tensor<3xi64>) -> (tensor<2xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>}> : \
(tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
"""
    )


def test_names_that_are_no_identifiers_are_quoted() -> None:
    text = print_stablehlo(Builder("aten::add.Tensor").build([]))
    assert text == 'module @"aten::add.Tensor" {\n  func.func public @main() -> () {\n    return\n  }\n}\n'


def test_narrow_sums_are_printed_in_f32() -> None:
    text = print_stablehlo(module_of(lambda b, x: b.reduce(x, "add", (0,)), ((4,), DType.BF16)))
    assert "stablehlo.convert %arg0 : (tensor<4xbf16>) -> tensor<4xf32>" in text
    assert "stablehlo.convert %2 : (tensor<f32>) -> tensor<bf16>" in text


def test_no_composite_is_left_in_the_text() -> None:
    for sample in all_samples():
        if is_expressible(sample):
            assert "composite" not in print_stablehlo(sample.module)


def test_what_stablehlo_lacks_is_named() -> None:
    module = module_of(lambda b, x: b.composite("matrix_exponential", (x,), {}, (x.type,))[0], ((3, 3), F32))
    with pytest.raises(NotImplementedError, match="'matrix_exponential'"):
        print_stablehlo(module)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.float32(1.5), F32, "dense<1.500000e+00>"),
        (np.float32(-0.0), F32, "dense<-0.000000e+00>"),
        (np.float32(0.1), F32, "dense<0x3DCCCCCD>"),
        (np.float32(np.inf), F32, "dense<0x7F800000>"),
        (np.float32(1.5), DType.BF16, "dense<1.500000e+00>"),
        (np.float32(np.inf), DType.BF16, "dense<0x7F80>"),
        (np.float64(1 / 3), F64, "dense<0x3FD5555555555555>"),
        (np.complex64(1 + 2j), DType.C64, "dense<(1.000000e+00, 2.000000e+00)>"),
        (np.array([[True], [False]]), DType.I1, "dense<[[true], [false]]>"),
        (np.array([-1, 2**63 - 1]), I64, "dense<[-1, 9223372036854775807]>"),
        (np.array([2**64 - 1], np.uint64), DType.UI64, "dense<[18446744073709551615]>"),
        (np.zeros((2, 0), np.float32), F32, "dense<>"),
        (np.arange(17, dtype=np.int8), DType.I8, 'dense<"0x000102030405060708090A0B0C0D0E0F10">'),
        (np.ones(17, np.float32), DType.BF16, f'dense<"0x{"803F" * 17}">'),
    ],
)
def test_literals_are_exact(value: np.ndarray, dtype: DType, expected: str) -> None:
    assert dense_literal(np.asarray(value), dtype) == expected
