"""Random programs against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from host_launch import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature, Value
from torch_neuronx.compiler.hlo.types import DType, TensorType, contiguous_strides

F32 = DType.F32


@st.composite
def programs(draw: Any) -> tuple[Module, Signature]:
    """Up to a dozen operations on f32 tensors of rank 0 to 3; parameters have any layout, and some results go into their buffers."""
    b = Builder("random")
    values = [b.parameter(TensorType(draw(_shapes()), F32)) for _ in range(draw(st.integers(1, 3)))]
    layouts = [draw(_layouts(value)) for value in values]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(values))
        values.append(draw(st.sampled_from(_STEPS))(draw, b, x, values))
    results = [*draw(st.lists(st.sampled_from(values[len(layouts) :]), min_size=1, max_size=3)), values[-1]]
    result_layouts = [Layout(contiguous_strides(result.shape)) for result in results]
    donations: dict[int, int] = {}
    for number, result in enumerate(results):
        takers = [k for k in range(len(layouts)) if values[k].shape == result.shape and k not in donations.values()]
        if takers and draw(st.booleans()):
            donations[number] = draw(st.sampled_from(takers))
            result_layouts[number] = layouts[donations[number]]
    return b.build(results), Signature(tuple(layouts), tuple(result_layouts), donations)


@st.composite
def _shapes(draw: Any) -> tuple[int, ...]:
    """Short dimensions, of which one may be long enough for vectors, tiles and blocks with remainders."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    if draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.sampled_from([17, 70, 300]))
    return tuple(shape)


@st.composite
def _layouts(draw: Any, value: Value) -> Layout:
    order = draw(st.permutations(range(value.type.rank)))
    strides, step = [0] * value.type.rank, draw(st.integers(1, 2))
    for dim in order:
        strides[dim] = step
        step *= value.shape[dim] + draw(st.integers(0, 1))
    return Layout(tuple(strides))


def _unary(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    return getattr(b, draw(st.sampled_from(["negate", "abs", "tanh", "logistic", "cosine"])))(x)


def _binary(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    y = draw(st.sampled_from([v for v in values if v.shape == x.shape]))
    return getattr(b, draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"])))(x, y)


def _select(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    y = draw(st.sampled_from([v for v in values if v.shape == x.shape]))
    return b.select(b.compare(x, y, draw(st.sampled_from(["LT", "GE"]))), y, x)


def _reduce(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    dims = draw(st.sets(st.integers(0, x.type.rank - 1))) if x.shape else set()
    return b.reduce(x, draw(st.sampled_from(["add", "maximum", "minimum"])), tuple(sorted(dims)))


def _normalise(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    if not x.shape:
        return x
    dim = draw(st.integers(0, x.type.rank - 1))
    rest = tuple(d for d in range(x.type.rank) if d != dim)
    return b.subtract(x, b.broadcast_in_dim(b.reduce(x, "maximum", (dim,)), x.shape, rest))


def _broadcast(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    if x.type.rank == 3:
        return x
    return b.broadcast(x, (draw(st.integers(1, 4)), *x.shape))


def _transpose(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    return b.transpose(x, tuple(draw(st.permutations(range(x.type.rank)))))


def _reshape(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    shapes = {(x.type.size,), (1, x.type.size), (*x.shape[:1], x.type.size // x.shape[0]) if x.shape else (1,), tuple(reversed(x.shape))}
    return b.reshape(x, draw(st.sampled_from(sorted(shapes))))


def _slice(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    start = [draw(st.integers(0, extent - 1)) for extent in x.shape]
    limit = [draw(st.integers(low + 1, extent)) for low, extent in zip(start, x.shape)]
    return b.slice(x, start, limit, [draw(st.integers(1, 2)) for _ in x.shape])


def _pad(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    low, high = ([draw(st.integers(0, 2)) for _ in x.shape] for _ in range(2))
    return b.pad(x, b.constant(0.25, F32), low, high, [draw(st.integers(0, 1)) for _ in x.shape])


def _reverse(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    return b.reverse(x, tuple(sorted(draw(st.sets(st.integers(0, x.type.rank - 1)))))) if x.shape else x


def _concatenate(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    if not x.shape:
        return x
    return b.concatenate([x, b.negate(x)], draw(st.integers(0, x.type.rank - 1)))


def _take(draw: Any, b: Builder, x: Value, values: list[Value]) -> Value:
    if not x.shape:
        return x
    dim = draw(st.integers(0, x.type.rank - 1))
    return b.take(x, b.constant(np.array(draw(st.lists(st.integers(-1, 5), min_size=1, max_size=4))), DType.I64), dim)


_STEPS = [
    _unary, _unary, _binary, _binary, _select, _reduce, _normalise, _broadcast, _transpose, _reshape, _slice, _pad, _reverse, _concatenate,
    _take,
]  # fmt: skip


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 3))
def test_random_program_agrees_with_the_interpreter(program: tuple[Module, Signature], parts: int) -> None:
    module, signature = program
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(p.shape).astype(np.float32) for p in module.parameters]
    for actual, expected in zip(run(module, inputs, signature, parts), interpret(module, inputs)):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
