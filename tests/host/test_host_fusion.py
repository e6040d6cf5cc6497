"""What becomes one kernel, and that sharing one changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from host_launch import compile_image, contiguous_signature, run

from torch_neuronx.compiler.executable import KernelStep, LibraryStep
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32 = DType.F32
Build = Callable[..., Value | Sequence[Value]]


def module_of(build: Build, *shapes: tuple[int, ...]) -> Module:
    b = Builder("m")
    results = build(b, *(b.parameter(TensorType(shape, F32)) for shape in shapes))
    return b.build([results] if isinstance(results, Value) else results)


def steps_of(module: Module) -> list[str]:
    """Symbols of library steps and names of kernels."""
    return [step.symbol if isinstance(step, LibraryStep) else step.name for step in compile_image(module).steps]


def agree(module: Module, parts: int = 2, tolerance: float = 1e-5) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(p.shape, dtype=np.float32) for p in module.parameters]
    for actual, expected in zip(run(module, inputs, contiguous_signature(module), parts), interpret(module, inputs)):
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def over_rows(b: Builder, x: Value, dim: int, kind: str) -> Value:
    """A reduction of one dimension, broadcast back."""
    rest = tuple(d for d in range(x.type.rank) if d != dim)
    return b.broadcast_in_dim(b.reduce(x, kind, (dim,)), x.shape, rest)


def softmax(b: Builder, x: Value, dim: int) -> Value:
    e = b.exponential(b.subtract(x, over_rows(b, x, dim, "maximum")))
    return b.divide(e, over_rows(b, e, dim, "add"))


def layer_norm(b: Builder, x: Value, weight: Value, bias: Value) -> list[Value]:
    rows, width = x.shape
    size = b.constant(float(width), F32, (rows,))
    mean = b.divide(b.reduce(x, "add", (1,)), size)
    centred = b.subtract(x, b.broadcast_in_dim(mean, x.shape, (0,)))
    variance = b.divide(b.reduce(b.multiply(centred, centred), "add", (1,)), size)
    scale = b.rsqrt(b.add(variance, b.constant(1e-5, F32, (rows,))))
    normal = b.multiply(centred, b.broadcast_in_dim(scale, x.shape, (0,)))
    return [b.add(b.multiply(normal, b.broadcast(weight, x.shape)), b.broadcast(bias, x.shape)), mean, scale]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 40, 70), (20, 9, 300), (9, 17000, 2)])
def test_softmax_is_one_kernel(shape: tuple[int, ...], dim: int) -> None:
    module = module_of(lambda b, x: softmax(b, x, dim), shape)
    assert len(steps_of(module)) == 1
    agree(module)


def test_layer_norm_is_one_kernel() -> None:
    module = module_of(layer_norm, (64, 96), (96,), (96,))
    assert len(steps_of(module)) == 1
    agree(module)


def test_several_uses_of_an_expensive_value_are_one_kernel() -> None:
    def gelu(b: Builder, x: Value, bias: Value) -> Value:
        h = b.tanh(b.add(x, b.broadcast(bias, x.shape)))
        return b.add(b.multiply(h, h), b.multiply(h, b.exponential(h)))

    module = module_of(gelu, (40, 33), (33,))
    assert len(steps_of(module)) == 1
    agree(module)


def test_reductions_over_the_same_rows_share_a_kernel_with_what_follows() -> None:
    def statistics(b: Builder, x: Value) -> list[Value]:
        total, largest = b.reduce(x, "add", (1,)), b.reduce(x, "maximum", (1,))
        return [b.add(total, largest), b.negate(largest), b.subtract(x, b.broadcast_in_dim(total, x.shape, (0,)))]

    module = module_of(statistics, (50, 64))
    assert len(steps_of(module)) == 1
    agree(module)


def test_batch_statistics_over_planes_are_one_kernel() -> None:
    def normalise(b: Builder, x: Value) -> Value:
        mean = b.multiply(b.reduce(x, "add", (0, 2, 3)), b.constant(1 / (4 * 7 * 9), F32, (16,)))
        return b.subtract(x, b.broadcast_in_dim(mean, x.shape, (1,)))

    module = module_of(normalise, (4, 16, 7, 9))
    assert len(steps_of(module)) == 1
    agree(module)


def test_elementwise_work_around_a_product_is_fused_on_both_sides() -> None:
    def block(b: Builder, x: Value, w: Value, y: Value) -> Value:
        product = b.dot_general(b.tanh(b.add(x, x)), w, (), (), (1,), (0,))
        return b.multiply(b.tanh(product), b.add(product, y))

    module = module_of(block, (20, 30), (30, 10), (20, 10))
    assert [step == "matmul" for step in steps_of(module)] == [False, True, False]
    agree(module)


def test_a_region_is_not_entered_from_behind() -> None:
    """The last addition reads the product and what the product was made of; it cannot join the first kernel."""

    def diamond(b: Builder, x: Value, w: Value) -> Value:
        e = b.exponential(b.tanh(x))
        return b.add(e, b.dot_general(e, w, (), (), (1,), (0,)))

    module = module_of(diamond, (12, 12), (12, 12))
    assert steps_of(module)[1] == "matmul"
    agree(module)


def test_transposed_intermediate_goes_through_memory_or_is_recomputed() -> None:
    agree(module_of(lambda b, x: b.add(b.exponential(x), b.transpose(b.exponential(x), (1, 0))), (33, 33)))


@pytest.mark.parametrize("shape", [(130, 75), (8, 8), (70, 3, 200)])
def test_transposed_operand_is_read_in_tiles(shape: tuple[int, ...]) -> None:
    order = tuple(reversed(range(len(shape))))
    module = module_of(lambda b, x, y: b.add(b.transpose(x, order), y), shape, tuple(reversed(shape)))
    (step,) = compile_image(module).steps
    assert isinstance(step, KernelStep)
    agree(module, parts=3)


def test_concatenation_writes_each_part_where_it_belongs() -> None:
    module = module_of(lambda b, x, y: b.concatenate([b.negate(x), b.add(y, y), x], 1), (5, 3), (5, 4))
    assert len(steps_of(module)) == 3
    agree(module)


def test_full_reduction_is_divided_for_several_threads() -> None:
    module = module_of(lambda b, x: b.reduce(b.multiply(x, x), "add", (0, 1)), (317, 1000))
    steps = [step for step in compile_image(module).steps if isinstance(step, KernelStep)]
    assert max(step.range_ for step in steps) >= 16
    agree(module)


def test_a_very_long_chain_of_operations_is_cut_into_kernels() -> None:
    def chain(b: Builder, x: Value, y: Value) -> Value:
        for number in range(1500):
            x = b.add(x, y) if number % 2 else b.subtract(x, y)
        return x

    agree(module_of(chain, (20, 30), (20, 30)))


def test_scalar_arithmetic_needs_no_memory() -> None:
    def chain(b: Builder, x: Value) -> Value:
        factor = b.slice(b.reshape(x, (600,)), (0,), (1,))
        for _ in range(25):
            factor = b.multiply(b.add(factor, factor), b.constant(0.5, F32, (1,)))
        return b.multiply(x, b.broadcast_in_dim(factor, (20, 30), (1,)))

    module = module_of(chain, (20, 30))
    assert len(steps_of(module)) == 1
    agree(module)
