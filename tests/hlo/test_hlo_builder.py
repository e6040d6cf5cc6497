"""The builder infers result types and says what is wrong with operands and attributes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.composite_rules import pooled_shape
from torch_neuronx.compiler.hlo.ir import Value
from torch_neuronx.compiler.hlo.ops import COMPOSITES, OPS
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32, I64, I1, C64 = DType.F32, DType.I64, DType.I1, DType.C64
Build = Callable[[Builder, Callable[..., Value]], Value]


def run(build: Build) -> Value:
    b = Builder("test")
    return build(b, lambda *shape, dtype=F32: b.parameter(TensorType(shape, dtype)))


RESULT_TYPES: list[tuple[str, Build, TensorType]] = [
    ("add", lambda b, p: b.add(p(2, 3), p(2, 3)), TensorType((2, 3), F32)),
    ("add 0-d", lambda b, p: b.add(p(), p()), TensorType((), F32)),
    ("abs of complex", lambda b, p: b.abs(p(2, dtype=C64)), TensorType((2,), F32)),
    ("real", lambda b, p: b.real(p(2, dtype=DType.C128)), TensorType((2,), DType.F64)),
    ("complex", lambda b, p: b.complex(p(2), p(2)), TensorType((2,), C64)),
    ("is_nan", lambda b, p: b.is_nan(p(0, 2)), TensorType((0, 2), I1)),
    ("compare", lambda b, p: b.compare(p(2), p(2), "LT"), TensorType((2,), I1)),
    ("select", lambda b, p: b.select(p(2, dtype=I1), p(2), p(2)), TensorType((2,), F32)),
    ("convert", lambda b, p: b.convert(p(2), DType.BF16), TensorType((2,), DType.BF16)),
    ("bitcast_convert", lambda b, p: b.bitcast_convert(p(2), DType.UI32), TensorType((2,), DType.UI32)),
    ("constant", lambda b, p: b.constant(2, F32, (3,)), TensorType((3,), F32)),
    ("constant array", lambda b, p: b.constant(np.zeros((2, 0)), F32), TensorType((2, 0), F32)),
    ("iota", lambda b, p: b.iota((2, 3), I64, 1), TensorType((2, 3), I64)),
    ("broadcast", lambda b, p: b.broadcast(p(3, 1), (2, 3, 4)), TensorType((2, 3, 4), F32)),
    ("reshape", lambda b, p: b.reshape(p(2, 3), (6, 1)), TensorType((6, 1), F32)),
    ("transpose", lambda b, p: b.transpose(p(2, 3, 4), (1, 2, 0)), TensorType((3, 4, 2), F32)),
    ("slice", lambda b, p: b.slice(p(7), (1,), (7,), (4,)), TensorType((2,), F32)),
    ("pad", lambda b, p: b.pad(p(3), p(), (1,), (-2,), (2,)), TensorType((6,), F32)),
    ("concatenate", lambda b, p: b.concatenate((p(2, 3), p(2, 1)), 1), TensorType((2, 4), F32)),
    ("dynamic_slice", lambda b, p: b.dynamic_slice(p(4, 5), (p(dtype=I64), p(dtype=I64)), (1, 5)), TensorType((1, 5), F32)),
    ("reduce", lambda b, p: b.reduce(p(2, 3, 4), "add", (2, 0)), TensorType((3,), F32)),
    ("argreduce", lambda b, p: b.argreduce(p(2, 3), "maximum", 0), TensorType((3,), I64)),
    ("reduce_window", lambda b, p: b.reduce_window(p(5), "add", (2,), (2,), [(1, 1)], (2,)), TensorType((3,), F32)),
    ("reduce_window none fits", lambda b, p: b.reduce_window(p(1), "add", (3,), (1,), [(0, 0)]), TensorType((0,), F32)),
    ("dot_general", lambda b, p: b.dot_general(p(5, 2, 3), p(4, 3, 5), (0,), (2,), (2,), (1,)), TensorType((5, 2, 4), F32)),
    (
        "dot_general wide",
        lambda b, p: b.dot_general(p(2, dtype=DType.F16), p(2, dtype=DType.F16), (), (), (0,), (0,), F32),
        TensorType((), F32),
    ),
    (
        "convolution",
        lambda b, p: b.convolution(p(1, 4, 8), p(6, 2, 3), (2,), [(1, 0)], (2,), (3,), 2),
        TensorType((1, 6, 5), F32),
    ),
    ("take", lambda b, p: b.take(p(4, 5, 6), p(2, 3, dtype=I64), 1), TensorType((4, 2, 3, 6), F32)),
    (
        "gather",
        lambda b, p: b.gather(p(4, 5, 6), p(2, 7, dtype=I64), (0, 2), (1,), (0, 1), 0, (2, 1, 3)),
        TensorType((2, 7, 3), F32),
    ),
    (
        "scatter",
        lambda b, p: b.scatter(p(4, 5), p(3, 1, dtype=I64), p(3, 5), "add", (1,), (0,), (0,), 1),
        TensorType((4, 5), F32),
    ),
    ("scan", lambda b, p: b.scan(p(4, 5), "add", 1), TensorType((4, 5), F32)),
]


@pytest.mark.parametrize(("build", "expected"), [pytest.param(build, type_, id=label) for label, build, type_ in RESULT_TYPES])
def test_result_type_is_inferred(build: Build, expected: TensorType) -> None:
    assert run(build).type == expected


REJECTIONS: list[tuple[Build, str]] = [
    (
        lambda b, p: b.add(p(2), p(3)),
        r"add: operand 1 is tensor<3xf32>, operand 0 is tensor<2xf32>; they must be equal \(there is no implicit",
    ),
    (lambda b, p: b.add(p(2), p(2, dtype=I64)), "add: operand 1 is tensor<2xi64>"),
    (lambda b, p: b.exponential(p(2, dtype=I64)), "exponential: dtype i64 of tensor<2xi64> is not allowed; it must be floating or complex"),
    (lambda b, p: b.not_(p(2)), "not: dtype f32 .* must be boolean or signed or unsigned"),
    (lambda b, p: b.compare(p(2), p(2), "lt"), "compare: direction is lt; it must be one of EQ, NE, LT, LE, GT, GE"),
    (lambda b, p: b.compare(p(2, dtype=C64), p(2, dtype=C64), "LT"), "compare: direction is LT; it must be one of EQ, NE"),
    (lambda b, p: b.select(p(2), p(2), p(2)), r"select: the predicate is tensor<2xf32>; it must be tensor<2xi1>"),
    (lambda b, p: b.bitcast_convert(p(2), I64), "bitcast_convert: f32 cannot be reinterpreted as i64"),
    (lambda b, p: b.complex(p(2, dtype=DType.F16), p(2, dtype=DType.F16)), "complex: dtype is f16; it must be one of f32, f64"),
    (lambda b, p: b.constant(300, DType.UI8), "constant: 300 is not a value of ui8"),
    (lambda b, p: b.constant(1.5, I64), "constant: 1.5 is not a value of i64"),
    (lambda b, p: b.iota((2,), I64, 1), r"iota: dim \(1,\) must be distinct and lie in \[0, 1\)"),
    (lambda b, p: b.broadcast(p(2), (3,)), "broadcast_in_dim: operand dimension 0 has extent 2; result dimension 0 allows 1 or 3"),
    (lambda b, p: b.reshape(p(2, 3), (5,)), r"reshape: tensor<2x3xf32> has 6 elements, shape \(5,\) has 5"),
    (lambda b, p: b.transpose(p(2, 3), (0, 0)), r"transpose: permutation \(0, 0\) is not a permutation of \(0, 1\)"),
    (lambda b, p: b.reverse(p(2), (-1,)), r"reverse: dims \(-1,\) must be distinct and lie in \[0, 1\)"),
    (lambda b, p: b.slice(p(4), (2,), (5,)), r"slice: dimension 0: \[2:5:1\] must satisfy 0 ≤ start ≤ limit ≤ 4 and stride ≥ 1"),
    (lambda b, p: b.slice(p(4), (0,), (4,), (0,)), "slice: dimension 0: .* stride ≥ 1"),
    (lambda b, p: b.slice(p(4), (0, 0), (4,)), "slice: start has 2 entries; it must have 1"),
    (lambda b, p: b.pad(p(2), p(1), (0,), (0,)), "pad: value is tensor<1xf32>; it must be tensor<f32>"),
    (
        lambda b, p: b.pad(p(2), p(), (-3,), (0,)),
        "pad: dimension 0 of tensor<2xf32>, padded by -3 and 0, has the extent -1; it must be ≥ 0",
    ),
    (lambda b, p: b.concatenate((p(2, 3), p(3, 3)), 1), "concatenate: operand 1 is tensor<3x3xf32>; it must equal tensor<2x3xf32> but for"),
    (lambda b, p: b.concatenate((), 0), r"concatenate: got 0 operands; the operands are \(first, \*others\)"),
    (lambda b, p: b.dynamic_slice(p(2), (p(dtype=F32),), (1,)), "dynamic_slice: a start is tensor<f32>; it must be tensor<i64>"),
    (lambda b, p: b.dynamic_update_slice(p(2), p(3), (p(dtype=I64),)), "dynamic_update_slice: the update is tensor<3xf32>"),
    (lambda b, p: b.reduce(p(2), "mean", (0,)), "reduce: kind is mean; it must be one of add, multiply, maximum, minimum, and, or"),
    (lambda b, p: b.reduce(p(2), "and", (0,)), "reduce: dtype f32 .* must be boolean or signed or unsigned"),
    (lambda b, p: b.reduce(p(2, 2), "add", (0, 0)), r"reduce: dims \(0, 0\) must be distinct"),
    (lambda b, p: b.argreduce(p(0), "maximum", 0), "argreduce: dimension 0 of tensor<0xf32> is empty"),
    (lambda b, p: b.reduce_window(p(2), "add", (0,), (1,), [(0, 0)]), "reduce_window: window 0, stride 1 and dilation 1 must be ≥ 1"),
    (lambda b, p: b.dot_general(p(2, 3), p(2, 3), (), (), (1,), (0,)), r"dot_general: contracting dimensions \(1,\) of tensor<2x3xf32>"),
    (
        lambda b, p: b.dot_general(p(2), p(2), (), (), (0,), (0,), I64),
        "dot_general: result dtype i64 must be f32 or wider, of the same kind",
    ),
    (
        lambda b, p: b.convolution(p(1, 3, 4), p(2, 2, 2), (1,), [(0, 0)], (1,), (1,), 1),
        "convolution: groups is 1; input tensor<1x3x4xf32>",
    ),
    (lambda b, p: b.gather(p(4), p(2, dtype=F32), (), (0,), (0,), 1, (1,)), "gather: dtype f32 of tensor<2xf32> is not allowed"),
    (lambda b, p: b.gather(p(4), p(2, dtype=I64), (), (0,), (0,), 1, (2,)), r"gather: slice_sizes \(2,\) must be ≤ 1 at the collapsed"),
    (lambda b, p: b.gather(p(4), p(2, dtype=I64), (), (0,), (0,), 2, (1,)), r"gather: index_vector_dim 2 must lie in \[0, 1\]"),
    (lambda b, p: b.scatter(p(4), p(2, dtype=I64), p(3), "add", (), (0,), (0,), 1), "scatter: updates are tensor<3xf32>; .* tensor<2xf32>"),
    (lambda b, p: b.scatter(p(4), p(2, dtype=I64), p(2), "max", (), (0,), (0,), 1), "scatter: kind is max; it must be one of set, add"),
    (lambda b, p: b.parameter(TensorType((2,), F32), is_scalar=True), "parameter: a scalar must be 0-d and of f64, i64, ui64, got"),
    (lambda b, p: b.negate(Builder("other").constant(1, F32)), "negate: operand 0 is .* must be a value of the builder of module 'test'"),
    (lambda b, p: b.operation("fused", (p(2),), {})[0], "unknown operation 'fused'; known are abs, acos, "),
    (lambda b, p: b.operation("negate", (p(2),), {"dim": 0})[0], r"negate: got the attributes \{dim\}; they must be \{\}"),
    (lambda b, p: b.composite("softmax", (p(2),), {}, ())[0], "unknown composite 'softmax'; known are attention"),
    (
        lambda b, p: b.composite("scan", (p(2),), {"kind": "add", "dim": 0}, (TensorType((3,), F32),))[0],
        "scan: the result types are tensor<2xf32>, not tensor<3xf32>",
    ),
]


@pytest.mark.parametrize(("build", "message"), REJECTIONS, ids=[message[:30] for _, message in REJECTIONS])
def test_wrong_operand_or_attribute_is_named(build: Build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(build)


COMPOSITE_REJECTIONS: list[tuple[str, list[tuple[tuple[int, ...], DType]], dict[str, object], str]] = [
    ("attention", [((1, 3, 2, 4), F32), ((1, 2, 5, 4), F32), ((1, 2, 5, 4), F32)], {"causal": False, "scale": 1.0}, "a multiple of Hkv"),
    (
        "attention",
        [((1, 2, 2, 4), F32), ((1, 2, 5, 4), F32), ((1, 2, 5, 4), F32), ((1, 1, 2, 4), F32)],
        {"causal": False, "scale": 1.0},
        "broadcasts to",
    ),
    ("topk", [((4,), F32)], {"k": 5, "dim": 0, "largest": True}, r"k is 5; it must lie in \[0, 4\]"),
    ("sort", [((4,), C64)], {"dim": 0, "descending": True, "stable": True}, "dtype complex<f32>"),
    ("philox", [((), I64), ((), I64)], {"count": 4}, "seed is tensor<i64>; it must be tensor<ui64>"),
    (
        "max_pool",
        [((1, 1, 4), F32)],
        {"window": (2,), "strides": (1,), "padding": (2,), "dilation": (1,)},
        r"padding \(2,\) must lie in \[0, window / 2\]",
    ),
    ("max_pool", [((4, 4), F32)], {"window": (2,), "strides": (1,), "padding": (0,), "dilation": (1,)}, "needs an operand"),
    ("max_pool_backward", [((1, 1, 2), F32), ((1, 1, 2), F32)], {"input_shape": (1, 1, 4)}, "indices are tensor<1x1x2xf32>"),
    (
        "convolution_input_grad",
        [((1, 2, 5), F32), ((2, 1, 3), F32)],
        {
            "strides": (1,),
            "padding": (0,),
            "dilation": (1,),
            "groups": 1,
            "transposed": False,
            "output_padding": (0,),
            "input_shape": (1, 1, 5),
        },
        "make tensor<1x2x3xf32>; dout is tensor<1x2x5xf32>",
    ),
]


@pytest.mark.parametrize(("name", "types", "attributes", "message"), COMPOSITE_REJECTIONS)
def test_wrong_composite_is_named(
    name: str, types: list[tuple[tuple[int, ...], DType]], attributes: dict[str, object], message: str
) -> None:
    b = Builder("test")
    operands = [b.parameter(TensorType(*type_)) for type_ in types]
    with pytest.raises(ValueError, match=f"^{name}: .*{message}"):
        b.composite(name, operands, attributes, ())


@pytest.mark.parametrize(
    ("extent", "window", "stride", "pad", "dilation", "ceil", "expected"),
    [(7, 3, 2, 0, 1, False, 3), (8, 3, 2, 0, 1, True, 4), (8, 3, 2, 0, 1, False, 3), (2, 2, 3, 1, 1, True, 1), (7, 2, 1, 1, 3, False, 6)],
)
def test_pooled_extent_is_that_of_pytorch(
    extent: int, window: int, stride: int, pad: int, dilation: int, ceil: bool, expected: int
) -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(1, 1, extent)
    assert torch.nn.functional.max_pool1d(x, window, stride, pad, dilation, ceil).shape[2] == expected
    assert pooled_shape(TensorType((1, 1, extent), F32), (window,), (stride,), (pad,), (dilation,), ceil) == (1, 1, expected)


def test_take_with_full_broadcast_needs_no_operation() -> None:
    b = Builder("test")
    x = b.parameter(TensorType((2, 3), F32))
    assert b.broadcast(x, (2, 3)) is x


def test_constants_are_rounded_and_read_only() -> None:
    b = Builder("test")
    value = b.constant(1.00390625, DType.BF16).producer.attributes["value"]
    assert value.dtype == np.float32 and value == 1.0 and not value.flags.writeable


def test_composite_fills_in_defaults() -> None:
    b = Builder("test")
    x = b.parameter(TensorType((1, 1, 4), F32))
    shape = (1, 1, 2)
    attributes = {"window": [2], "strides": [2], "padding": [0], "dilation": [1]}
    values, _ = b.composite("max_pool", (x,), attributes, (TensorType(shape, F32), TensorType(shape, I64)))
    assert values.producer.attributes["ceil_mode"] is False
    assert values.producer.attributes["window"] == (2,)


def test_every_operation_has_a_builder_method() -> None:
    helpers = {"not": "not_", "and": "and_", "or": "or_"}
    assert [name for name in OPS if not callable(getattr(Builder, helpers.get(name, name), None))] == []


def test_every_row_says_what_it_means() -> None:
    for spec in (*OPS.values(), *COMPOSITES.values()):
        assert spec.meaning and len(spec.meaning) < 250
