"""From a set of HLO values that one kernel shall compute to its loop nest, or the answer that they do not fit into one.

All members share the loops. A *full* member has one element per iteration of all loops; when there are reductions, a *row* member has one
element per iteration of the kept loops. A member is computed at one index only, its canonical one: the row-major position in the space of
its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..hlo.ir import Operation, Value
from ..hlo.numerics import identity_element
from ..hlo.types import DType
from .affine import Extents, Index, NotAffineError, SplitRequest, delinearise, linear_form, split_loops
from .expressions import Complex, Expression, Number
from .kernel import Nest, Reduction, Store, stores_of
from .scalar_code import UnsupportedError
from .trace import NotFusible, Strides, Tracer, flatten, literal_of

StridesOf = Callable[[Value], Strides | None]

REDUCTIONS = ("reduce", "reduce_window")


@dataclass(frozen=True, slots=True)
class Space:
    """Loops with their extents; ``reduced`` says which."""

    extents: Extents
    reduced: tuple[bool, ...]

    @property
    def kept(self) -> tuple[bool, ...]:
        return tuple(not reduced for reduced in self.reduced)

    @property
    def size(self) -> int:
        return prod(self.extents)

    @property
    def kept_size(self) -> int:
        return prod(extent for extent, reduced in zip(self.extents, self.reduced) if not reduced)

    def split(self, loop: int, inner: int) -> Space:
        extents = split_loops(self.extents, loop, self.extents[loop] // inner, inner)
        return Space(extents, split_loops(self.reduced, loop, self.reduced[loop], self.reduced[loop]))


def is_reduction(value: Value) -> bool:
    return value.producer is not None and value.producer.name in REDUCTIONS


def space_of(value: Value) -> Space:
    """The loops over which a value is computed by itself."""
    operation = value.producer
    if operation is None or not is_reduction(value):
        return space_of_elements(value)
    if operation.name == "reduce":
        shape = operation.operands[0].shape
        return Space(shape, tuple(dim in operation.attributes["dims"] for dim in range(len(shape))))
    window = tuple(operation.attributes["window"])
    return Space(value.shape + window, (False,) * value.type.rank + (True,) * len(window))


def trace_nest(
    space: Space, members: Sequence[Value], stored: Collection[Value], strides_of: StridesOf, scalar_slots: Mapping[Value, int]
) -> Nest | None:
    """The nest that computes ``members`` (in an order where uses follow definitions) and writes those in ``stored``; None if they do not
    fit.

    ``strides_of`` knows the stored members, too. MustRealise passes through.
    """
    while True:
        try:
            return _trace(space, members, stored, strides_of, scalar_slots)
        except SplitRequest as request:
            space = space.split(request.loop, request.inner)
        except (NotFusible, NotAffineError):
            return None


def _trace(
    space: Space, members: Sequence[Value], stored: Collection[Value], strides_of: StridesOf, scalar_slots: Mapping[Value, int]
) -> Nest:
    canonical = {member: _canonical_index(member, space) for member in members}
    inside = frozenset(members)
    tracer = Tracer(space.extents, lambda value: None if value in inside else strides_of(value), scalar_slots, canonical)
    stores: list[Store] = []
    reductions: list[Reduction] = []
    for member in members:
        index = canonical[member]
        if is_reduction(member):
            reductions += _reduction(tracer, member, space)
        # In order, so that each starts from the expressions of those before.
        expression = tracer.member(member)
        if member in stored:
            strides = strides_of(member)
            assert strides is not None, "a stored value has a layout"
            address = flatten(index, strides, len(space.extents))
            stores += stores_of(member, address, expression, _is_row(member, space))
    return Nest(space.extents, space.reduced, tuple(stores), tuple(reductions), tuple(tracer.checks))


def trace_pieces(concatenation: Operation, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> list[Nest]:
    """One nest per operand, which writes its part of the result."""
    result, dim = concatenation.result, concatenation.attributes["dim"]
    strides = strides_of(result)
    assert strides is not None, "a concatenation that is computed in pieces is in memory"
    nests: list[Nest] = []
    start = 0
    for operand in concatenation.operands:
        if operand.type.size:
            nests.append(_piece(result, operand, strides, start * strides[dim], strides_of, scalar_slots))
        start += operand.shape[dim]
    return nests


def trace_copy(result: Value, source: Value, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> Nest:
    """The nest that writes the elements of ``source`` to ``result``, which is in memory and of the same shape."""
    strides = strides_of(result)
    assert strides is not None, "what is written has a layout"
    return _piece(result, source, strides, 0, strides_of, scalar_slots)


def _piece(result: Value, operand: Value, strides: Strides, offset: int, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> Nest:
    """A nest that writes ``operand`` into ``result``, ``offset`` elements from its first."""
    space = space_of_elements(operand)
    while True:
        tracer = Tracer(space.extents, strides_of, scalar_slots)
        try:
            index = delinearise(linear_form(space.extents), operand.shape, space.extents)
            stores = stores_of(result, flatten(index, strides, len(space.extents)).shifted(offset), tracer.trace(operand, index))
        except SplitRequest as request:
            space = space.split(request.loop, request.inner)
        else:
            return Nest(space.extents, space.reduced, stores, (), tuple(tracer.checks))


def space_of_elements(value: Value) -> Space:
    """One loop per dimension."""
    return Space(value.shape, (False,) * value.type.rank)


def _is_row(member: Value, space: Space) -> bool:
    return any(space.reduced) and member.type.size == space.kept_size and (is_reduction(member) or member.type.size != space.size)


def _canonical_index(member: Value, space: Space) -> Index:
    if _is_row(member, space):
        return delinearise(linear_form(space.extents, space.kept), member.shape, space.extents)
    if member.type.size != space.size:
        raise NotFusible
    return delinearise(linear_form(space.extents), member.shape, space.extents)


def _reduction(tracer: Tracer, value: Value, space: Space) -> list[Reduction]:
    operation = value.producer
    assert operation is not None
    own = space_of(value)
    if own.size != space.size:
        raise NotFusible
    index = delinearise(linear_form(space.extents), own.extents, space.extents)
    for position, reduced in zip(index, own.reduced):
        if any(coefficient and space.reduced[loop] != reduced for loop, coefficient in enumerate(position.coefficients)):
            raise NotFusible
    if tuple(position for position, reduced in zip(index, own.reduced) if not reduced) != tracer.members[value]:
        raise NotFusible
    kind = operation.attributes["kind"]
    expression = tracer.trace(operation.operands[0], index) if operation.name == "reduce" else _window(tracer, operation, index)
    if not isinstance(expression, Complex):
        return [Reduction(value, kind, expression)]
    if kind != "add":
        raise UnsupportedError(f"reduce {kind} of {value.dtype}: the host target reduces complex numbers by add only")
    return [Reduction(value, kind, part, number) for number, part in enumerate((expression.real, expression.imag))]


def _window(tracer: Tracer, operation: Operation, index: Index) -> Expression:
    """The element of a window: at out · stride + offset · dilation - low, or the identity where that is padding."""
    (operand,) = operation.operands
    attributes = operation.attributes
    rank = operand.type.rank
    dilation = attributes["dilation"] or (1,) * rank
    inside: Expression | None = None
    place = []
    for dim, (stride, step, (low, _)) in enumerate(zip(attributes["strides"], dilation, attributes["padding"])):
        position = (index[dim].scaled(stride) + index[rank + dim].scaled(step)).shifted(-low)
        inside = tracer.both(inside, tracer.inside(position, operand.shape[dim]))
        place.append(position)
    filler = tracer.literal(identity_of(attributes["kind"], operand.dtype), operand.dtype)
    return tracer.choose(inside, tracer.trace(operand, tuple(place), inside), filler)


def identity_of(kind: str, dtype: DType) -> Number:
    """The number that a reduction of nothing gives, of the Python type of ``dtype``."""
    return literal_of(identity_element(kind, dtype), dtype)
