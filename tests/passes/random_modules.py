"""Random well-formed modules with inputs: a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.numerics import HELD_AS, Array, from_storage
from torch_neuronx.compiler.hlo.types import DType, TensorType

Draw = Callable[[st.SearchStrategy[Any]], Any]

SHAPES = st.lists(st.sampled_from((0, 1, 1, 2, 3)), max_size=3).map(tuple)
# Numbers at which rules and neutral elements have their edges.
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -448.0, float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True)
class Program:
    module: Module
    inputs: list[Array]


@st.composite
def programs(draw: Draw) -> Program:
    """A module of up to a dozen operations on one to three parameters, mostly on values made before."""
    b = Builder("random")
    values = [b.parameter(TensorType(draw(SHAPES), draw(st.sampled_from(tuple(DType))))) for _ in range(draw(st.integers(1, 3)))]
    inputs = [draw(arrays(value.type)) for value in values]
    for _ in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from(STEPS))
        values.extend(step(draw, b, values[-draw(st.integers(1, len(values)))]))
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return Program(b.build([*results, values[-1]]), inputs)


@st.composite
def arrays(draw: Draw, type_: TensorType) -> Array:
    """Any bit pattern, or edge numbers."""
    dtype = type_.dtype
    if dtype.is_float and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(NUMBERS), min_size=type_.size, max_size=type_.size))
        return np.array(chosen, HELD_AS[dtype]).reshape(type_.shape)
    data = draw(st.binary(min_size=type_.size * dtype.itemsize, max_size=type_.size * dtype.itemsize))
    bits = np.frombuffer(data, np.uint8)
    if dtype is DType.I1:
        return (bits % 2 == 1).reshape(type_.shape)
    stored = bits.view(f"u{dtype.itemsize}" if dtype in (DType.BF16, DType.F8E4M3FN, DType.F8E5M2) else HELD_AS[dtype])
    return from_storage(stored, dtype).reshape(type_.shape)


def constant(draw: Draw, b: Builder, like: TensorType) -> Value:
    """A splat or a full constant of a type."""
    if draw(st.booleans()):
        numbers: Sequence[Any] = NUMBERS if like.dtype.kind in "fc" else ((False, True) if like.dtype is DType.I1 else (0, 1, 2))
        return b.constant(draw(st.sampled_from(numbers)), like.dtype, like.shape)
    return b.constant(draw(arrays(like)), like.dtype, like.shape)


def operand_like(draw: Draw, b: Builder, x: Value) -> Value:
    return draw(st.sampled_from([x, constant(draw, b, x.type), b.reverse(x, range(len(x.shape)))]))


# Steps: (draw, builder, a value) → new values. A step that does not fit the value makes none.


def unary(draw: Draw, b: Builder, x: Value) -> list[Value]:
    names = {"b": ("not",), "i": ("negate", "abs", "not"), "u": ("negate", "not"), "c": ("negate", "real", "imag")}
    return list(b.operation(draw(st.sampled_from(names.get(x.dtype.kind, ("negate", "abs", "floor", "sqrt", "is_nan")))), (x,), {}))


def binary(draw: Draw, b: Builder, x: Value) -> list[Value]:
    names = {
        "b": ("add", "multiply", "maximum", "and", "or", "xor"),
        "c": ("add", "subtract", "multiply", "divide"),
        "f": ("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    }
    integers = ("add", "subtract", "multiply", "divide", "and", "or", "xor", "shift_left", "shift_right_logical", "minimum")
    operands = [x, operand_like(draw, b, x)]
    return list(b.operation(draw(st.sampled_from(names.get(x.dtype.kind, integers))), draw(st.permutations(operands)), {}))


def choose(draw: Draw, b: Builder, x: Value) -> list[Value]:
    other = operand_like(draw, b, x)
    pred = b.compare(x, other, draw(st.sampled_from(("EQ", "NE") if x.dtype.is_complex else ("EQ", "NE", "LT", "GE"))))
    if draw(st.booleans()):
        pred = draw(st.sampled_from([b.not_(pred), constant(draw, b, pred.type)]))
    return [pred, b.select(pred, x, other)]


def convert(draw: Draw, b: Builder, x: Value) -> list[Value]:
    # Float → integer is unspecified out of range, so that two orders of conversion may differ.
    targets = [dtype for dtype in DType if x.dtype.kind in "biu" or not dtype.is_integer]
    return [b.convert(x, draw(st.sampled_from(targets)))]


def rearrange(draw: Draw, b: Builder, x: Value) -> list[Value]:
    axes = draw(st.permutations(range(len(x.shape))))
    turned = b.transpose(x, axes)
    shape = draw(st.permutations(turned.shape))
    return [turned, b.reshape(turned, [*shape, 1] if draw(st.booleans()) else shape)]


def broadcast(draw: Draw, b: Builder, x: Value) -> list[Value]:
    if prod(x.shape) > 40 or len(x.shape) > 4:
        return []
    grown = tuple(draw(st.sampled_from((1, 2))) if extent == 1 else extent for extent in x.shape)
    return [b.broadcast(x, (*draw(st.sampled_from(((), (1,), (2,)))), *grown))]


def cut(draw: Draw, b: Builder, x: Value) -> list[Value]:
    starts = [draw(st.integers(0, extent)) for extent in x.shape]
    limits = [draw(st.integers(start, extent)) for start, extent in zip(starts, x.shape, strict=True)]
    return [b.slice(x, starts, limits, [draw(st.integers(1, 2)) for _ in x.shape])]


def extend(draw: Draw, b: Builder, x: Value) -> list[Value]:
    fill = constant(draw, b, TensorType((), x.dtype))
    padding = [[draw(st.integers(0, 1)) for _ in x.shape] for _ in range(3)]
    padded = b.pad(x, fill, *padding)
    return [padded, *([b.concatenate((x, x), 0)] if x.shape else [])] if padded.type.size < 200 else []


def index(draw: Draw, b: Builder, x: Value) -> list[Value]:
    if not x.shape or 0 in x.shape:
        return []
    start = b.constant(draw(st.integers(-2, 4)), DType.I64)
    taken = b.take(x, b.constant(np.array(draw(st.lists(st.integers(-1, 3), max_size=3)), np.int64), DType.I64), 0)
    return [b.dynamic_slice(x, [start] * len(x.shape), [max(extent - 1, 1) for extent in x.shape]), taken]


def reduce(draw: Draw, b: Builder, x: Value) -> list[Value]:
    kinds = {"c": ("add", "multiply"), "f": ("add", "multiply", "maximum")}.get(x.dtype.kind, ("add", "maximum", "and", "or"))
    return [b.reduce(x, draw(st.sampled_from(kinds)), [axis for axis in range(len(x.shape)) if draw(st.booleans())])]


def scan(draw: Draw, b: Builder, x: Value) -> list[Value]:
    if not x.shape or x.dtype.kind == "b":
        return []
    return [b.scan(x, draw(st.sampled_from(("add", "multiply"))), draw(st.integers(0, len(x.shape) - 1)))]


STEPS = (unary, binary, choose, convert, rearrange, broadcast, cut, extend, index, reduce, scan)
