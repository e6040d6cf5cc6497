"""Precision, special values and independence of the number of tasks."""

from __future__ import annotations

import numpy as np
import pytest
from host_launch import AVX2, KernelFailedError, run

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32 = DType.F32


def reduction(shape: tuple[int, ...], kind: str, dims: tuple[int, ...], dtype: DType = F32) -> Module:
    b = Builder("reduce")
    x = b.parameter(TensorType(shape, dtype))
    return b.build([b.reduce(x, kind, dims)])


@pytest.mark.parametrize(("shape", "dims"), [((1_000_000,), (0,)), ((20, 50_000), (1,)), ((50_000, 20), (0,)), ((20_000, 3, 17), (0, 2))])
def test_sum_of_many_numbers_is_as_exact_as_pairwise_summation(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    (total,) = run(reduction(shape, "add", dims), [x])
    np.testing.assert_allclose(total, x.sum(axis=dims, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("target", [None, AVX2])
def test_result_does_not_depend_on_the_number_of_tasks(target: object) -> None:
    x = np.random.default_rng(1).standard_normal((300, 1001)).astype(np.float32)
    for dims in ((0,), (1,), (0, 1)):
        one, many = (run(reduction(x.shape, "add", dims), [x], parts=parts, target=target)[0] for parts in (1, 7))  # type: ignore[arg-type]
        assert np.array_equal(one, many)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_extremum_of_numbers_with_a_nan_is_nan(dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).standard_normal((33, 70)).astype(np.float32)
    x[20, 50] = np.nan
    for kind, reference in (("maximum", np.max), ("minimum", np.min)):
        np.testing.assert_array_equal(run(reduction(x.shape, kind, dims), [x])[0], reference(x, axis=dims))


def test_argmax_takes_the_first_of_equals_and_any_nan_first() -> None:
    b = Builder("argmax")
    x = b.parameter(TensorType((4, 100), F32))
    module = b.build([b.argreduce(x, "maximum", 1)])
    values = np.zeros((4, 100), np.float32)
    values[1, [7, 60]] = 3
    values[2, [9, 50]] = np.nan
    values[3] = -np.inf
    assert run(module, [values])[0].tolist() == [0, 7, 9, 0]


def test_integer_division_never_traps() -> None:
    b = Builder("divide")
    x, y = (b.parameter(TensorType((5,), DType.I32)) for _ in range(2))
    module = b.build([b.divide(x, y), b.remainder(x, y)])
    low = np.iinfo(np.int32).min
    quotient, remainder = run(module, [np.array([7, -7, low, 5, low], np.int32), np.array([-2, 2, -1, 0, 0], np.int32)])
    assert quotient.tolist() == [-3, -3, low, -1, -1]
    assert remainder.tolist() == [1, -1, 0, 5, low]


def test_float_remainder_is_exact_for_any_quotient() -> None:
    b = Builder("remainder")
    x, y = (b.parameter(TensorType((2000,), F32)) for _ in range(2))
    rng = np.random.default_rng(5)
    dividends, divisors = (rng.standard_normal(2000) * 10.0 ** rng.uniform(-30, 30, 2000) for _ in range(2))
    inputs = [dividends.astype(np.float32), divisors.astype(np.float32)]
    np.testing.assert_array_equal(run(b.build([b.remainder(x, y)]), inputs)[0], np.fmod(*inputs))


def test_bfloat16_rounds_to_nearest_even_after_every_operation() -> None:
    b = Builder("bf16")
    x = b.parameter(TensorType((4,), F32))
    module = b.build([b.convert(x, DType.BF16)])
    # One, one and half a step, one and three halves, and a nan whose payload is in the lower half.
    values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 0], np.float32)
    values.view(np.uint32)[3] = 0x7F800001
    result = run(module, [values])[0]
    assert result[:3].tolist() == [1, 1, 1 + 2**-6]
    assert np.isnan(result[3])


def test_index_outside_fails_the_launch_with_its_message() -> None:
    for indices in ([1, 5], [-1, 0]):
        b = Builder("embedding")
        table, i = b.parameter(TensorType((5, 8), F32)), b.parameter(TensorType((2,), DType.I64))
        module = b.build([b.take(table, i, 0, fail="index out of range in self")])
        with pytest.raises(KernelFailedError, match="index out of range in self"):
            run(module, [np.zeros((5, 8), np.float32), np.array(indices)])


def test_index_outside_fails_in_a_vectorised_loop_too() -> None:
    b = Builder("take")
    table, i = b.parameter(TensorType((5,), F32)), b.parameter(TensorType((1000,), DType.I64))
    module = b.build([b.take(table, i, 0, fail="index out of range")])
    indices = np.arange(1000) % 5
    np.testing.assert_array_equal(run(module, [np.arange(5, dtype=np.float32), indices])[0], indices)
    indices[777] = 9
    with pytest.raises(KernelFailedError, match="index out of range"):
        run(module, [np.zeros(5, np.float32), indices])


@pytest.mark.parametrize("dim", [0, 1])
def test_a_check_of_a_reduction_comes_after_it(dim: int) -> None:
    """Rows (dim 1) and columns (dim 0) whose sums are positive are divided by them; another sum fails the launch."""
    b = Builder("normalise")
    x = b.parameter(TensorType((40, 50), F32))
    sums = b.reduce(x, "add", (dim,))
    valid = b.broadcast_in_dim(b.compare(sums, b.constant(0, F32, sums.shape), "GT"), x.shape, (1 - dim,))
    place = b.select(valid, b.constant(0, DType.I64, x.shape), b.constant(-1, DType.I64, x.shape))
    nothing = b.take(b.constant(0, F32, (1,)), place, 0, fail="a sum is not positive")
    module = b.build([b.divide(b.add(x, nothing), b.broadcast_in_dim(sums, x.shape, (1 - dim,)))])
    values = np.random.default_rng(0).random((40, 50), dtype=np.float32)
    np.testing.assert_allclose(run(module, [values])[0], values / values.sum(axis=dim, keepdims=True), rtol=1e-6)
    with pytest.raises(KernelFailedError, match="a sum is not positive"):
        run(module, [np.where(np.arange(2000).reshape(40, 50) % 50 == 7, -values, values) if dim == 0 else -values])


def test_scatter_add_of_duplicates_is_the_same_for_any_number_of_tasks() -> None:
    b = Builder("embedding gradient")
    g, i = b.parameter(TensorType((500, 600), F32)), b.parameter(TensorType((500,), DType.I64))
    zeros = b.constant(0, F32, (7, 600))
    module = b.build([b.scatter(zeros, i, g, "add", (1,), (0,), (0,), 1)])
    rng = np.random.default_rng(4)
    inputs = [rng.standard_normal((500, 600), dtype=np.float32), rng.integers(0, 7, 500)]
    one, many = run(module, inputs, parts=1)[0], run(module, inputs, parts=3)[0]
    assert np.array_equal(one, many)
    expected = np.zeros((7, 600))
    np.add.at(expected, inputs[1], inputs[0])
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
