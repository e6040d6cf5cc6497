"""The interpreter's meaning of every plain operation, against values worked out by hand, NumPy, mpmath or PyTorch."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hlo_modules import run
from hlo_samples import all_samples

from torch_neuronx.compiler.hlo.interpreter import LaunchError, interpret
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.ops import COMPOSITES, OPS
from torch_neuronx.compiler.hlo.types import DType

INF, NAN = math.inf, math.nan
I8, U8 = np.int8, np.uint8


def same(actual: Any, expected: Any) -> None:
    """Equal to the last bit, signs of zeros included; nan is nan."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        number = ~np.isnan(actual)
        np.testing.assert_array_equal(np.signbit(actual)[number], np.signbit(expected)[number])


def test_samples_cover_every_operation_and_have_the_inferred_types() -> None:
    seen = set()
    for sample in all_samples():
        results = interpret(sample.module, sample.inputs)
        for value, result in zip(sample.module.results, results, strict=True):
            assert result.shape == value.shape and result.dtype == HELD_AS[value.dtype], sample.label
        for operation in sample.module.operations:
            seen.add(operation.attributes["name"] if operation.name == "composite" else operation.name)
    assert seen == {*OPS, *COMPOSITES} - {"composite"}


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_elementwise_operations_take_any_shape(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 2.0, np.float32)
    for name, spec in OPS.items():
        if spec.attributes or spec.operands not in (("x",), ("lhs", "rhs")):
            continue
        for array in (x, x.astype(np.int32), x > 0, x.astype(np.complex64)):
            try:
                result = run(lambda b, *values, name=name: b.operation(name, values, {}), *[array] * len(spec.operands))
            except ValueError as error:
                assert "is not allowed" in str(error) or "must be one of" in str(error)
                continue
            assert np.asarray(result).shape == shape


EXACT: dict[str, tuple[list[Any], Any]] = {
    "negate": ([[0.0, -1.5, INF]], [-0.0, 1.5, -INF]),
    "abs": ([[-0.0, -1.5, NAN]], [0.0, 1.5, NAN]),
    "sign": ([[-0.0, 0.0, -7.0, INF, NAN]], [-0.0, 0.0, -1.0, 1.0, NAN]),
    "floor": ([[-0.5, 1.7, -0.0]], [-1.0, 1.0, -0.0]),
    "ceil": ([[-0.5, 1.2, -2.0]], [-0.0, 2.0, -2.0]),
    "round_nearest_even": ([[0.5, 1.5, -0.5, 2.5]], [0.0, 2.0, -0.0, 2.0]),
    "round_nearest_afz": ([[0.5, 1.5, -0.5, 2.5, 0.49999999999999994, -0.2]], [1.0, 2.0, -1.0, 3.0, 0.0, -0.0]),
    "rsqrt": ([[4.0, 0.0, -0.0, -1.0, INF]], [0.5, INF, -INF, NAN, 0.0]),
    "cbrt": ([[-8.0, 27.0]], [-2.0, 3.0]),
    "logistic": ([[0.0, -INF, INF, 800.0]], [0.5, 0.0, 1.0, 1.0]),
    "is_finite": ([[1.0, INF, NAN]], [True, False, False]),
    "is_nan": ([[1.0, INF, NAN]], [False, False, True]),
    "is_inf": ([[1.0, -INF, NAN]], [False, True, False]),
    "maximum": ([[1.0, NAN, 2.0], [3.0, 1.0, NAN]], [3.0, NAN, NAN]),
    "minimum": ([[1.0, NAN, 2.0], [3.0, 1.0, NAN]], [1.0, NAN, NAN]),
    "remainder": ([[7.5, -7.5, 1.0, -6.0], [2.0, 2.0, 0.0, 3.0]], [1.5, -1.5, NAN, -0.0]),
    "power": ([[2.0, -2.0, -2.0, 0.0, NAN], [3.0, 3.0, 0.5, 0.0, 0.0]], [8.0, -8.0, NAN, 1.0, 1.0]),
    "atan2": ([[0.0, -0.0], [-1.0, -1.0]], [math.pi, -math.pi]),
}


@pytest.mark.parametrize("name", EXACT)
def test_floating_values(name: str) -> None:
    inputs, expected = EXACT[name]
    same(run(lambda b, *x: b.operation(name, x, {}), *(np.array(each, np.float64) for each in inputs)), expected)


INTEGERS: list[tuple[str, list[Any], Any]] = [
    ("add", [I8([127, -128]), I8([1, -1])], I8([-128, 127])),
    ("multiply", [U8([200]), U8([2])], U8([144])),
    ("negate", [I8([-128, 3])], I8([-128, -3])),
    ("abs", [I8([-128, -3])], I8([-128, 3])),
    ("divide", [I8([7, -7, 7, -7, 5, -128]), I8([2, 2, -2, -2, 0, -1])], I8([3, -3, -3, 3, -1, -128])),
    ("divide", [U8([7, 5]), U8([2, 0])], U8([3, 255])),
    ("remainder", [I8([7, -7, 7, 5, -128]), I8([4, 4, -4, 0, -1])], I8([3, -3, 3, 5, 0])),
    ("power", [I8([3, -2, 2, 5, -1, 1, 0]), I8([4, 3, 8, -1, -3, -9, -1])], I8([81, -8, 0, 0, -1, 1, 0])),
    ("power", [U8([255, 3]), U8([3, 5])], U8([255, 243])),
    ("not", [I8([0, 5])], I8([-1, -6])),
    ("not", [np.array([True, False])], [False, True]),
    ("xor", [U8([0b1100]), U8([0b1010])], U8([0b0110])),
    ("shift_left", [I8([1, 1, 65, -1]), I8([7, 8, 1, -1])], I8([-128, 0, -126, 0])),
    ("shift_right_logical", [I8([-128, -1, 4]), I8([7, 9, 1])], I8([1, 0, 2])),
    ("shift_right_arithmetic", [I8([-128, -1, 4, 64]), I8([7, 9, 1, 8])], I8([-1, -1, 2, 0])),
    ("shift_right_arithmetic", [U8([128]), U8([7])], U8([255])),
    ("popcnt", [I8([-1, 0, 6])], I8([8, 0, 2])),
    ("count_leading_zeros", [I8([-1, 0, 1, 16])], I8([0, 8, 7, 3])),
    ("sign", [I8([-9, 0, 4])], I8([-1, 0, 1])),
    ("add", [np.array([True, True]), np.array([True, False])], [True, True]),
    ("multiply", [np.array([True, True]), np.array([True, False])], [True, False]),
    ("maximum", [np.array([True, False]), np.array([False, False])], [True, False]),
]


@pytest.mark.parametrize(("name", "inputs", "expected"), INTEGERS)
def test_integer_and_boolean_values(name: str, inputs: list[Any], expected: Any) -> None:
    same(run(lambda b, *x: b.operation(name, x, {}), *inputs), expected)


SPECIAL = {
    "erf": (mpmath.erf, [-3.0, -0.5, 0.0, 1e-9, 0.5, 2.0]),
    "erfc": (mpmath.erfc, [-3.0, 0.0, 0.5, 5.0, 20.0]),
    "erf_inv": (mpmath.erfinv, [-0.999999999999, -0.9, -0.3, 0.0, 1e-12, 0.5, 0.51, 0.99, 0.9999999999]),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), [-3.7, -0.5, 0.1, 1.5, 30.0, 150.0]),
    "digamma": (mpmath.digamma, [-3.7, -0.5, 1e-3, 0.1, 1.4616321449683622, 3.0, 9.9, 10.0, 1e6]),
    "log_plus_one": (mpmath.log1p, [1e-12, 0.5]),
    "exponential_minus_one": (mpmath.expm1, [1e-12, 0.5]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_to_1e_14(name: str) -> None:
    function, points = SPECIAL[name]
    expected = [float(function(mpmath.mpf(point))) for point in points]
    np.testing.assert_allclose(run(lambda b, x: b.operation(name, (x,), {}), np.array(points)), expected, rtol=1e-13, atol=1e-15)


def test_special_functions_at_their_edges() -> None:
    edges = np.array([-INF, -2.0, -1.0, -0.0, 0.0, 1.0, INF, NAN])
    same(run(lambda b, x: b.erf_inv(x), edges), [NAN, NAN, -INF, -0.0, 0.0, INF, NAN, NAN])
    same(run(lambda b, x: b.lgamma(x), edges), [INF, INF, INF, INF, INF, 0.0, INF, NAN])
    expected = torch.digamma(torch.from_numpy(edges)).numpy()
    np.testing.assert_allclose(run(lambda b, x: b.digamma(x), edges), expected, rtol=1e-14)


def test_narrow_results_are_rounded_once() -> None:
    x = np.float32([1, 1 + 2**-7])
    same(run(lambda b, x, y: b.add(x, y), x, np.float32([2**-8, 2**-8]), dtype=DType.BF16), np.float32([1, 1 + 2**-6]))
    same(run(lambda b, x: b.multiply(x, x), np.float16([300, 0.1])), np.float16([INF, np.float16(0.1) ** 2]))


def test_complex_values() -> None:
    z = np.array([3 + 4j, -1j, 0], np.complex64)
    same(run(lambda b, z: b.abs(z), z), np.float32([5, 1, 0]))
    same(run(lambda b, z: b.sign(z), z), np.complex64([0.6 + 0.8j, -1j, 0]))
    same(run(lambda b, z: [b.real(z), b.imag(z)], z)[1], np.float32([4, -1, 0]))
    built = run(lambda b, x, y: b.complex(x, y), np.float32([1, INF]), np.float32([INF, -0.0]))
    same(built.real, np.float32([1, INF]))
    same(built.imag, np.float32([INF, -0.0]))
    same(run(lambda b, z: b.compare(z, z, "EQ"), z), [True] * 3)


def test_compare_with_nan() -> None:
    x, y = np.float32([1, NAN, 2]), np.float32([1, NAN, 1])
    expected = {"EQ": [1, 0, 0], "NE": [0, 1, 1], "LT": [0, 0, 0], "LE": [1, 0, 0], "GT": [0, 0, 1], "GE": [1, 0, 1]}
    for direction, values in expected.items():
        same(run(lambda b, x, y, how=direction: b.compare(x, y, how), x, y), np.array(values, bool))


def test_select_and_clamp() -> None:
    same(run(lambda b, p, x, y: b.select(p, x, y), [True, False], I8([1, 2]), I8([3, 4])), I8([1, 4]))
    lo, x, hi = np.float32([0, 0, 0, 2]), np.float32([-1, 9, NAN, 0]), np.float32([1, 1, 1, 1])
    same(run(lambda b, *v: b.clamp(*v), lo, x, hi), np.float32([0, 1, NAN, 1]))


@pytest.mark.parametrize(
    "target", [dtype for dtype in DType if dtype in (DType.F16, DType.BF16, DType.F32, DType.F64, DType.I32, DType.I1)], ids=str
)
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_convert_is_that_of_pytorch(source: str, target: DType) -> None:
    values = np.array([0, 1, 2.75, 70, 33, 8388609 if source in ("float64", "int64") else 5, 0.4]).astype(source)
    torch_target = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f32": torch.float32,
        "f64": torch.float64,
        "i32": torch.int32,
        "i1": torch.bool,
    }
    expected = torch.from_numpy(values).to(torch_target[target.label])
    expected = expected.float() if target is DType.BF16 else expected
    same(run(lambda b, x: b.convert(x, target), values), expected.numpy())


def test_convert_truncates_and_wraps() -> None:
    same(run(lambda b, x: b.convert(x, DType.I32), np.float32([-1.9, 1.9])), np.int32([-1, 1]))
    same(run(lambda b, x: b.convert(x, DType.UI8), np.int64([-1, 257])), U8([255, 1]))
    same(run(lambda b, x: b.convert(x, DType.I1), np.float32([0.3, -0.0, NAN])), [True, False, True])
    same(run(lambda b, x: b.convert(x, DType.F32), np.complex64([2 + 1j])), np.float32([2]))
    same(run(lambda b, x: b.convert(x, DType.C64), np.float32([2])), np.complex64([2]))
    same(run(lambda b, x: b.convert(x, DType.F32), np.int64([2**62 + 1])), np.float32([2**62]))


def test_bitcast_convert() -> None:
    same(run(lambda b, x: b.bitcast_convert(x, DType.UI32), np.float32([1, -0.0])), np.uint32([0x3F800000, 0x80000000]))
    same(run(lambda b, x: b.bitcast_convert(x, DType.UI16), np.float32([1]), dtype=DType.BF16), np.uint16([0x3F80]))
    same(run(lambda b, x: b.bitcast_convert(x, DType.BF16), np.uint16(0xC000)), np.float32(-2))


def test_sources() -> None:
    same(run(lambda b: b.iota((2, 3), DType.F32, 1)), np.float32([[0, 1, 2]] * 2))
    same(run(lambda b: b.constant(7, DType.I8, (2, 2))), np.full((2, 2), 7, I8))
    same(run(lambda b: b.constant(np.array([[1.5], [2]]), DType.F64)), [[1.5], [2.0]])


def test_layout() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    same(run(lambda b, x: b.broadcast_in_dim(x, (3, 4, 2), (2, 0)), x), np.broadcast_to(x.T[:, np.newaxis], (3, 4, 2)))
    same(run(lambda b, x: b.broadcast(x, (2, 2, 3)), x), np.stack([x, x]))
    same(run(lambda b, x: b.reshape(x, (3, 2)), x), x.reshape(3, 2))
    same(run(lambda b, x: b.transpose(x, (1, 0)), x), x.T)
    same(run(lambda b, x: b.reverse(x, (1,)), x), x[:, ::-1])
    same(run(lambda b, x: b.slice(x, (0, 0), (2, 3), (1, 2)), x), x[:, ::2])
    same(run(lambda b, x: b.concatenate((x, x), 0), x), np.concatenate([x, x]))


def test_pad_spreads_adds_and_crops() -> None:
    pad = lambda low, high, gap: run(lambda b, x, v: b.pad(x, v, (low,), (high,), (gap,)), I8([1, 2, 3]), I8(9))  # noqa: E731
    same(pad(1, 2, 0), I8([9, 1, 2, 3, 9, 9]))
    same(pad(0, 0, 1), I8([1, 9, 2, 9, 3]))
    same(pad(-1, -1, 1), I8([9, 2, 9]))
    same(pad(-2, 1, 2), I8([9, 2, 9, 9, 3, 9]))


def test_dynamic_slices_move_inside() -> None:
    x = np.arange(5, dtype=I8)
    cut = lambda start: run(lambda b, x, s: b.dynamic_slice(x, (s,), (2,)), x, np.int64(start))  # noqa: E731
    same(cut(1), I8([1, 2]))
    same(cut(-4), I8([0, 1]))
    same(cut(4), I8([3, 4]))
    same(run(lambda b, x, u, s: b.dynamic_update_slice(x, u, (s,)), x, I8([8, 9]), np.int64(9)), I8([0, 1, 2, 8, 9]))


def test_reduce_of_nothing_is_the_identity() -> None:
    empty = np.zeros((0, 2), np.float32)
    for kind, expected in {"add": 0, "multiply": 1, "maximum": -INF, "minimum": INF}.items():
        same(run(lambda b, x, kind=kind: b.reduce(x, kind, (0,)), empty), np.float32([expected] * 2))
    for kind, expected in {"and": -1, "or": 0, "maximum": -128, "minimum": 127}.items():
        same(run(lambda b, x, kind=kind: b.reduce(x, kind, (0,)), empty.astype(I8)), I8([expected] * 2))


def test_reduce() -> None:
    x = np.float32([[1, NAN, 3], [4, 5, 6]])
    same(run(lambda b, x: b.reduce(x, "add", (0,)), x), np.float32([5, NAN, 9]))
    same(run(lambda b, x: b.reduce(x, "maximum", (0, 1)), x), np.float32(NAN))
    same(run(lambda b, x: b.reduce(x, "add", (0,)), I8([100, 100])), I8(-56))
    same(run(lambda b, x: b.reduce(x, "add", (0,)), [False, True]), True)
    # Summed in the wide type: in f16 every further 1 would be lost.
    same(run(lambda b, x: b.reduce(x, "add", (0,)), np.float16([2048] + [1] * 4)), np.float16(2052))


def test_argreduce_takes_the_first_and_nan_before_all() -> None:
    x = np.float32([[1, 3, 3], [NAN, 9, NAN], [-INF, -INF, 0]])
    same(run(lambda b, x: b.argreduce(x, "maximum", 1), x), [1, 0, 2])
    same(run(lambda b, x: b.argreduce(x, "minimum", 1), x), [0, 0, 0])


def test_reduce_window() -> None:
    x = np.float32([1, -2, 3, 4])
    window = lambda *a: run(lambda b, x: b.reduce_window(x, *a), x)  # noqa: E731
    same(window("add", (2,), (1,), [(0, 0)]), np.float32([-1, 1, 7]))
    same(window("maximum", (2,), (2,), [(1, 1)]), np.float32([1, 3, 4]))
    same(window("add", (2,), (1,), [(0, 0)], (2,)), np.float32([4, 2]))
    same(window("add", (2,), (1,), [(-1, 0)]), np.float32([1, 7]))


def test_dot_general() -> None:
    rng = np.random.default_rng(0)
    lhs, rhs = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(5, 2, 6, 3))
    got = run(lambda b, x, y: b.dot_general(x, y, (0,), (1,), (3, 1), (0, 3)), lhs, rhs)
    np.testing.assert_allclose(got, np.einsum("bijk,kbni->bjn", lhs, rhs), rtol=1e-12)
    same(run(lambda b, x, y: b.dot_general(x, y, (), (), (0,), (0,)), np.int64([2**62, 3]), np.int64([4, 5])), np.int64(15))
    half = np.float16([2048, 1])
    same(run(lambda b, x: b.dot_general(x, x, (), (), (0,), (0,), DType.F32), half), np.float32(2048**2 + 1))
    same(run(lambda b, x: b.dot_general(x, x, (), (), (0,), (0,), DType.I32), I8([100, 100])), np.int32(20000))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_is_that_of_pytorch(rank: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(2, 4, *(7, 6, 5)[:rank], generator=generator, dtype=torch.float64)
    weight = torch.randn(6, 2, *(3, 2, 2)[:rank], generator=generator, dtype=torch.float64)
    stride, padding, dilation = (2, 1, 1)[:rank], (1, 0, 1)[:rank], (1, 2, 1)[:rank]
    expected = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1](x, weight, None, stride, padding, dilation, 2)
    ones = (1,) * rank
    got = run(lambda b, x, w: b.convolution(x, w, stride, [(p, p) for p in padding], ones, dilation, 2), x.numpy(), weight.numpy())
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12, atol=1e-12)


def test_gather_clamps_or_fails() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    take = lambda indices, fail=None: run(lambda b, x, i: b.take(x, i, 1, fail), x, np.int64(indices))  # noqa: E731
    same(take([[3, 0], [-5, 9]]), x[:, [[3, 0], [0, 3]]])
    same(take([1, 2], "index out of range"), x[:, [1, 2]])
    with pytest.raises(LaunchError, match="index out of range"):
        take([1, 4], "index out of range")


def test_gather_places_window_dimensions() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    starts = np.array([[0, 1], [1, 2]])
    got = run(lambda b, x, i: b.gather(x, i, (0, 2), (0,), (0, 2), 1, (1, 3, 2)), x, starts)
    same(got, np.stack([x[0, :, 1:3], x[1, :, 2:4]], axis=1))


def test_scatter_combines_all_and_drops_outside() -> None:
    x = np.float32([10, 20, 30])
    where, updates = np.int64([1, 1, 7, -1, 0]), np.float32([1, 2, 3, 4, 5])
    put = lambda kind, fail=None: run(lambda b, *v: b.scatter(*v, kind, (), (0,), (0,), 1, fail), x, where, updates)  # noqa: E731
    same(put("add"), np.float32([15, 23, 30]))
    same(put("set"), np.float32([5, 2, 30]))
    same(put("multiply"), np.float32([50, 40, 30]))
    same(put("minimum"), np.float32([5, 1, 30]))
    with pytest.raises(LaunchError, match="out of range"):
        put("add", "out of range")


def test_scatter_of_windows() -> None:
    x = np.zeros((3, 4), np.int32)
    updates = np.arange(1, 5, dtype=np.int32).reshape(2, 2)
    got = run(lambda b, x, i, u: b.scatter(x, i, u, "add", (0,), (0,), (0, 1), 0), x, np.int64([[0, 2], [1, 1]]), updates)
    same(got, np.int32([[0, 1, 3, 0], [0, 0, 0, 0], [0, 2, 4, 0]]))


def test_inputs_are_checked_and_rounded() -> None:
    same(run(lambda b, x: b.negate(x), np.float32(1 + 2**-9), dtype=DType.BF16), np.float32(-1))
    sample = all_samples()[0]
    with pytest.raises(ValueError, match="'abs' takes 1 inputs, got 0"):
        interpret(sample.module, [])
    with pytest.raises(ValueError, match=r"input 0 is float64\[2\]; tensor<8xi8> is held as int8"):
        interpret(sample.module, [np.zeros(2)])
