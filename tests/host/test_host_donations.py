"""Results written into the buffers of parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from host_launch import compile_image, contiguous_signature, run

from torch_neuronx.compiler.executable import KernelStep, Space
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.types import DType, TensorType

F32 = DType.F32
SQUARE = TensorType((6, 6), F32)


def build(body, count: int = 1) -> Module:
    b = Builder("donation")
    results = body(b, *(b.parameter(SQUARE) for _ in range(count)))
    return b.build([results] if isinstance(results, Value) else results)


def values(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(seed).standard_normal((6, 6), dtype=np.float32) for seed in range(count)]


def agree(module: Module, donations: dict[int, int], count: int = 1, parts: int = 1) -> None:
    expected = interpret(module, values(count))
    actual = run(module, values(count), contiguous_signature(module, donations), parts)
    for result, reference in zip(actual, expected):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


def steps_of(module: Module, donations: dict[int, int]) -> Sequence[object]:
    return compile_image(module, contiguous_signature(module, donations)).steps


def test_elementwise_update_is_in_place() -> None:
    module = build(lambda b, x, y: b.add(x, y), 2)
    (step,) = steps_of(module, {0: 0})
    assert isinstance(step, KernelStep)
    assert {ref.space for ref in step.buffers} == {Space.INPUT}
    agree(module, {0: 0}, 2, parts=2)


@pytest.mark.parametrize(
    "body",
    [
        lambda b, x: b.add(x, b.transpose(x, (1, 0))),
        lambda b, x: b.reverse(x, (0,)),
        lambda b, x: b.subtract(x, b.broadcast_in_dim(b.reduce(x, "maximum", (0,)), (6, 6), (1,))),
        lambda b, x: b.subtract(x, b.broadcast_in_dim(b.reduce(x, "add", (1,)), (6, 6), (0,))),
        lambda b, x: b.dot_general(x, x, (), (), (1,), (0,)),
        lambda b, x: b.concatenate([b.slice(x, (3, 0), (6, 6)), b.slice(x, (0, 0), (3, 6))], 0),
        lambda b, x: b.pad(b.slice(x, (1, 0), (6, 6)), b.constant(0, F32), (0, 0), (1, 0)),
    ],
)
def test_old_contents_are_read_before_they_are_overwritten(body) -> None:
    agree(build(body), {0: 0}, parts=3)


def test_two_results_that_swap_two_buffers() -> None:
    agree(build(lambda b, x, y: [y, x], 2), {0: 0, 1: 1}, 2)


def test_a_later_reader_of_the_old_contents_forces_a_copy() -> None:
    def body(b: Builder, x: Value, y: Value) -> list[Value]:
        new = b.add(x, y)
        return [new, b.dot_general(x, new, (), (), (1,), (0,))]

    agree(build(body, 2), {0: 0}, 2)


def test_optimizer_step_updates_all_its_buffers_in_one_kernel() -> None:
    def body(b: Builder, parameter: Value, gradient: Value, momentum: Value) -> list[Value]:
        moved = b.add(b.multiply(momentum, b.constant(0.9, F32, (6, 6))), gradient)
        return [b.subtract(parameter, b.multiply(moved, b.constant(0.1, F32, (6, 6)))), moved]

    module = build(body, 3)
    assert len(steps_of(module, {0: 0, 1: 2})) == 1
    agree(module, {0: 0, 1: 2}, 3)


def test_softmax_in_place_keeps_to_one_kernel() -> None:
    def body(b: Builder, x: Value) -> Value:
        e = b.exponential(b.subtract(x, b.broadcast_in_dim(b.reduce(x, "maximum", (1,)), (6, 6), (0,))))
        return b.divide(e, b.broadcast_in_dim(b.reduce(e, "add", (1,)), (6, 6), (0,)))

    module = build(body)
    assert len(steps_of(module, {0: 0})) == 1
    agree(module, {0: 0}, parts=2)


def test_scatter_into_a_donated_operand_copies_nothing() -> None:
    b = Builder("scatter")
    x, i, u = b.parameter(SQUARE), b.parameter(TensorType((2,), DType.I64)), b.parameter(TensorType((2, 6), F32))
    module = b.build([b.scatter(x, i, u, "add", (1,), (0,), (0,), 1)])
    signature = contiguous_signature(module, {0: 0})
    assert len(compile_image(module, signature).steps) == 1
    inputs = [values(1)[0], np.array([4, 4]), np.ones((2, 6), np.float32)]
    np.testing.assert_allclose(run(module, inputs, signature)[0], interpret(module, inputs)[0], rtol=1e-6)


def test_a_result_that_is_the_parameter_of_its_buffer_needs_no_step() -> None:
    module = build(lambda b, x: [x, b.negate(x)])
    assert len(steps_of(module, {0: 0})) == 1
    agree(module, {0: 0})
