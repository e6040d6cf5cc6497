"""From HLO values to scalar expressions: the element of a value at an index, by recursion through the operations that make it.

Layout operations only change the index. Values in memory (parameters, results of other kernels) become loads. Whatever a kernel may not
compute by itself, a reduction over other loops or a reshape that is no affine function of them, is reported by an exception that names
the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..hlo.ir import Operation, Value
from ..hlo.types import DType, contiguous_strides
from .affine import Affine, Extents, Index, NotAffineError, constant, linearise, reshape_index
from .complex_rules import PART, apply_complex
from .expressions import Apply, Check, Complex, Expression, Literal, Load, Number, Position, ScalarArgument, State

Strides = tuple[int, ...]


class MustRealise(Exception):  # noqa: N818 - a request to the caller, not an error
    """``value`` has to be in memory before this kernel can run."""

    def __init__(self, value: Value) -> None:
        super().__init__(f"{value.type} has to be in memory")
        self.value = value


class NotFusible(Exception):  # noqa: N818 - an answer, not an error
    """A value of this kernel is needed at another index than the one at which the kernel computes it."""


@dataclass(slots=True)
class Tracer:
    """Traces values over the loops of one kernel.

    ``strides_of`` gives the element strides of every value in memory and None for the others. ``members`` are the values that the kernel
    computes itself, with the only index at which it does. ``scalar_slots``: slot of each scalar parameter.
    """

    extents: Extents
    strides_of: Callable[[Value], Strides | None]
    scalar_slots: Mapping[Value, int]
    members: Mapping[Value, Index] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    _traced: dict[tuple[Value, Index, Expression | None], Expression] = field(default_factory=dict)
    _nodes: dict[tuple[Any, ...], Expression] = field(default_factory=dict)

    def trace(self, value: Value, index: Index, guard: Expression | None = None) -> Expression:
        """The element of ``value`` at ``index``; where ``guard`` is false it is any number, and no memory is read for it."""
        key = (value, index, guard)
        if key not in self._traced:
            self._traced[key] = self._trace(value, index, guard)
        return self._traced[key]

    def _trace(self, value: Value, index: Index, guard: Expression | None) -> Expression:
        if value.is_scalar:
            argument: Expression = self.node(ScalarArgument, self.scalar_slots[value], value.dtype)
            return argument
        if value in self.members:
            if self.members[value] != index:
                raise NotFusible
            if value.producer is not None and value.producer.name in ("reduce", "reduce_window"):
                return self.state(value)
        strides = self.strides_of(value)
        if strides is not None:
            return self.load(value, flatten(index, strides, len(self.extents)), guard)
        operation = value.producer
        assert operation is not None, "parameters are in memory"
        rule = _RULES.get(operation.name)
        if rule is not None:
            return rule(self, operation, index, guard)
        if operation.name in ELEMENTWISE:
            operands = tuple(self.trace(operand, index, guard) for operand in operation.operands)
            return self.apply(operation.name, operands, value.dtype, operation.attributes.get("direction", ""))
        raise MustRealise(value)

    def member(self, value: Value) -> Expression:
        """The element of a member at its index."""
        return self.trace(value, self.members[value])

    # Nodes, one per distinct expression

    def node(self, kind: type[Any], *fields: Any) -> Any:
        # A bool, an int and a float that compare equal are different literals, and so are 0.0 and -0.0.
        key = (kind, *((type(f), repr(f)) if isinstance(f, bool | int | float | complex) else f for f in fields))
        if key not in self._nodes:
            self._nodes[key] = kind(*fields)
        return self._nodes[key]

    def load(self, value: Value, address: Affine, guard: Expression | None) -> Expression:
        if value.dtype.is_complex:
            # The parts of element k are at 2k and 2k + 1.
            part, first = PART[value.dtype], address.scaled(2)
            pair: Expression = self.node(
                Complex, self.node(Load, value, first, guard, part), self.node(Load, value, first.shifted(1), guard, part), value.dtype
            )
            return pair
        node: Expression = self.node(Load, value, address, guard, value.dtype)
        return node

    def state(self, value: Value) -> Expression:
        if value.dtype.is_complex:
            part = PART[value.dtype]
            pair: Expression = self.node(Complex, self.node(State, value, part, 0), self.node(State, value, part, 1), value.dtype)
            return pair
        node: Expression = self.node(State, value, value.dtype, 0)
        return node

    def apply(self, op: str, operands: tuple[Expression, ...], dtype: DType, attribute: str = "") -> Expression:
        if dtype.is_complex or any(operand.dtype.is_complex for operand in operands):
            return apply_complex(self, op, operands, dtype, attribute)
        node: Expression = self.node(Apply, op, operands, dtype, attribute)
        return node

    def literal(self, value: Number, dtype: DType) -> Expression:
        if dtype.is_complex:
            number, part = complex(value), PART[dtype]
            pair: Expression = self.node(Complex, self.literal(number.real, part), self.literal(number.imag, part), dtype)
            return pair
        node: Expression = self.node(Literal, value, dtype)
        return node

    def position(self, index: Affine) -> Expression:
        node: Expression = self.node(Position, index)
        return node

    # Conditions on indices

    def inside(self, position: Affine, extent: int) -> Expression | None:
        """Whether 0 ≤ position < extent; None if it always is."""
        bounds = position.bounds(self.extents)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < extent:
            return None
        return self.apply("in_range", (self.position(position), self.literal(extent, DType.I64)), DType.I1)

    def as_position(self, index: Expression) -> Affine:
        """An index read at run time (of any integer type) as an index expression; one that is itself affine stays so."""
        if isinstance(index, Position):
            return index.index
        if isinstance(index, Apply) and index.op == "convert" and isinstance(index.operands[0], Position) and index.dtype.itemsize >= 4:
            return index.operands[0].index
        if index.dtype is not DType.I64:
            index = self.apply("convert", (index,), DType.I64)
        return constant(0, len(self.extents)).with_term(index)

    def failing_unless(self, condition: Expression, message: str) -> Check:
        return Check(self.apply("not", (condition,), DType.I1), message)

    def both(self, first: Expression | None, second: Expression | None) -> Expression | None:
        if first is None or second is None:
            return first or second
        return self.apply("and", (first, second), DType.I1)

    def choose(self, condition: Expression | None, on_true: Expression, on_false: Expression) -> Expression:
        """``on_true`` where the condition holds; None is always true."""
        return on_true if condition is None else self.apply("select", (condition, on_true, on_false), on_true.dtype)


def flatten(index: Index, strides: Strides, loops: int) -> Affine:
    """Element address of an index."""
    address = constant(0, loops)
    for position, stride in zip(index, strides):
        address = address + position.scaled(stride)
    return address


# One rule per operation that is not elementwise: (tracer, operation, index of its result, guard) → expression.

Rule = Callable[[Tracer, Operation, Index, Expression | None], Expression]


def _constant(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    value = operation.attributes["value"]
    if np.ndim(value):
        raise MustRealise(operation.result)
    return tracer.literal(literal_of(value, operation.result.dtype), operation.result.dtype)


def literal_of(value: Any, dtype: DType) -> Number:
    """A 0-d array or NumPy scalar as the Python number of its kind."""
    number = np.asarray(value).item()
    match dtype.kind:
        case "b":
            return bool(number)
        case "f":
            return float(number)
        case "c":
            return complex(number)
        case _:
            return int(number)


def _iota(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    position = tracer.position(index[operation.attributes["dim"]])
    dtype = operation.result.dtype
    return position if dtype is DType.I64 else tracer.apply("convert", (position,), dtype)


def _broadcast(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    (operand,) = operation.operands
    zero = constant(0, len(tracer.extents))
    dims = operation.attributes["dims"]
    return tracer.trace(operand, tuple(zero if extent == 1 else index[dim] for extent, dim in zip(operand.shape, dims)), guard)


def _transpose(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    operand_index = list(index)
    for dim, source in enumerate(operation.attributes["permutation"]):
        operand_index[source] = index[dim]
    return tracer.trace(operation.operands[0], tuple(operand_index), guard)


def _reshape(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    (operand,) = operation.operands
    if tracer.strides_of(operand) == contiguous_strides(operand.shape):
        return tracer.load(operand, linearise(index, operation.result.shape, len(tracer.extents)), guard)
    try:
        operand_index = reshape_index(index, operation.result.shape, operand.shape, tracer.extents)
    except NotAffineError:
        raise MustRealise(operand) from None
    return tracer.trace(operand, operand_index, guard)


def _reverse(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    dims, shape = operation.attributes["dims"], operation.result.shape
    flipped = tuple(p.scaled(-1).shifted(shape[dim] - 1) if dim in dims else p for dim, p in enumerate(index))
    return tracer.trace(operation.operands[0], flipped, guard)


def _slice(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    start = operation.attributes["start"]
    strides = operation.attributes["strides"] or (1,) * len(start)
    return tracer.trace(operation.operands[0], tuple(p.scaled(by).shifted(at) for p, at, by in zip(index, start, strides)), guard)


def _pad(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    operand, filler = operation.operands
    interior = operation.attributes["interior"] or (0,) * operand.type.rank
    inside: Expression | None = None
    operand_index: list[Affine] = []
    for position, extent, low, gap in zip(index, operand.shape, operation.attributes["low"], interior):
        place, step = position.shifted(-low), gap + 1
        inside = tracer.both(inside, tracer.inside(place, (extent - 1) * step + 1))
        if step > 1:
            place, on_element = _undilate(tracer, place, step)
            inside = tracer.both(inside, on_element)
        operand_index.append(place)
    padding = tracer.trace(filler, (), guard)
    return tracer.choose(inside, tracer.trace(operand, tuple(operand_index), tracer.both(guard, inside)), padding)


def _undilate(tracer: Tracer, place: Affine, step: int) -> tuple[Affine, Expression]:
    """A place divided by a step, and whether the division is exact."""
    position, divisor = tracer.position(place), tracer.literal(step, DType.I64)
    quotient = tracer.apply("divide", (position, divisor), DType.I64)
    remainder = tracer.apply("remainder", (position, divisor), DType.I64)
    exact = tracer.apply("compare", (remainder, tracer.literal(0, DType.I64)), DType.I1, "EQ")
    return constant(0, len(tracer.extents)).with_term(quotient), exact


def _concatenate(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    dim = operation.attributes["dim"]
    end = operation.result.shape[dim]
    chosen: Expression | None = None
    for operand in reversed(operation.operands):
        start = end - operand.shape[dim]
        place = index[dim].shifted(-start)
        bounds = place.bounds(tracer.extents)
        outside = bounds is not None and (bounds[1] < 0 or bounds[0] >= operand.shape[dim])
        if operand.shape[dim] and not outside:
            inside = tracer.inside(place, operand.shape[dim])
            element = tracer.trace(operand, (*index[:dim], place, *index[dim + 1 :]), tracer.both(guard, inside))
            chosen = element if chosen is None else tracer.choose(inside, element, chosen)
        end = start
    assert chosen is not None, "kernels are made for tensors with elements only"
    return chosen


def _clamped_start(tracer: Tracer, start: Expression, limit: int) -> Expression:
    """A run-time start index brought into [0, limit]."""
    if start.dtype is not DType.I64:
        start = tracer.apply("convert", (start,), DType.I64)
    return tracer.apply("clamp", (tracer.literal(0, DType.I64), start, tracer.literal(limit, DType.I64)), DType.I64)


def _dynamic_slice(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    operand, *starts = operation.operands
    sizes = operation.attributes["sizes"]
    places = tuple(
        position.with_term(_clamped_start(tracer, tracer.trace(start, (), guard), extent - size))
        for position, start, extent, size in zip(index, starts, operand.shape, sizes)
    )
    return tracer.trace(operand, places, guard)


def _dynamic_update_slice(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    operand, update, *starts = operation.operands
    inside: Expression | None = None
    places: list[Affine] = []
    for position, start, extent, size in zip(index, starts, operand.shape, update.shape):
        negated = tracer.apply("negate", (_clamped_start(tracer, tracer.trace(start, (), guard), extent - size),), DType.I64)
        place = position.with_term(negated)
        if size < extent:
            inside = tracer.both(inside, tracer.inside(place, size))
        places.append(place)
    if 0 in update.shape:
        return tracer.trace(operand, index, guard)
    return tracer.choose(inside, tracer.trace(update, tuple(places), tracer.both(guard, inside)), tracer.trace(operand, index, guard))


def _gather(tracer: Tracer, operation: Operation, index: Index, guard: Expression | None) -> Expression:
    operand, indices = operation.operands
    attributes = operation.attributes
    if not _is_view_of_memory(tracer, operand):
        raise MustRealise(operand)
    offset_dims, vector_dim = attributes["offset_dims"], attributes["index_vector_dim"]
    batch = [position for dim, position in enumerate(index) if dim not in offset_dims]
    kept = [dim for dim in range(operand.type.rank) if dim not in attributes["collapsed_slice_dims"]]
    zero = constant(0, len(tracer.extents))
    places = [zero] * operand.type.rank
    for dim, offset_dim in zip(kept, offset_dims):
        places[dim] = index[offset_dim]
    for component, dim in enumerate(attributes["start_index_map"]):
        here = list(batch)
        if vector_dim < indices.type.rank:
            here.insert(vector_dim, zero.shifted(component))
        start = tracer.trace(indices, tuple(here), guard)
        limit = operand.shape[dim] - attributes["slice_sizes"][dim]
        if attributes["fail"] is not None:
            _check_start(tracer, start, limit, guard, attributes["fail"])
        places[dim] = places[dim].with_term(_clamped_start(tracer, start, limit))
    return tracer.trace(operand, tuple(places), guard)


def _check_start(tracer: Tracer, start: Expression, limit: int, guard: Expression | None, message: str) -> None:
    if start.dtype is not DType.I64:
        start = tracer.apply("convert", (start,), DType.I64)
    fine = tracer.apply("in_range", (start, tracer.literal(limit + 1, DType.I64)), DType.I1)
    wrong: Expression | None = tracer.apply("not", (fine,), DType.I1)
    wrong = tracer.both(wrong, guard)
    assert wrong is not None
    check = Check(wrong, message)
    if check not in tracer.checks:
        tracer.checks.append(check)


_VIEWS = ("broadcast_in_dim", "transpose", "reverse", "slice", "reshape", "convert")


def _is_view_of_memory(tracer: Tracer, value: Value) -> bool:
    """Whether an element of the value costs no more than a load and a conversion."""
    while tracer.strides_of(value) is None:
        if value.producer is None or value.producer.name not in _VIEWS:
            return False
        value = value.producer.operands[0]
    return True


_RULES: dict[str, Rule] = {
    "constant": _constant,
    "iota": _iota,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
}

ELEMENTWISE = frozenset(
    [
        "abs",
        "negate",
        "sign",
        "floor",
        "ceil",
        "round_nearest_even",
        "round_nearest_afz",
        "exponential",
        "exponential_minus_one",
        "log",
        "log_plus_one",
        "logistic",
        "tanh",
        "sine",
        "cosine",
        "tan",
        "sqrt",
        "rsqrt",
        "cbrt",
        "not",
        "popcnt",
        "count_leading_zeros",
        "is_finite",
        "is_nan",
        "is_inf",
        "real",
        "imag",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "convert",
        "bitcast_convert",
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "power",
        "atan2",
        "maximum",
        "minimum",
        "and",
        "or",
        "xor",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "complex",
        "compare",
        "select",
        "clamp",
    ]
)

# Operations that a kernel can compute at any index by itself.
INLINE = ELEMENTWISE | frozenset(_RULES)
