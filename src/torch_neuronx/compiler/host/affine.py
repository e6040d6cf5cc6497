"""Index expressions: what an element's place is as a function of the loops of a kernel.

A kernel has a list of loops with extents. An :class:`Affine` is ``offset + Σ coefficient[k] · loop k + Σ factor · term`` where the terms
are run-time numbers (a gather's index). Layout operations only compose such forms, so that a chain of transposes, slices and broadcasts
costs nothing at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .expressions import Expression

Extents = tuple[int, ...]
T = TypeVar("T")


class NotAffineError(Exception):
    """An index that is no affine function of the loops, however they are split."""


class SplitRequest(Exception):  # noqa: N818 - a request to the caller, not an error
    """Loop ``loop`` must become two, the inner one of extent ``inner``, for an index to be affine."""

    def __init__(self, loop: int, inner: int) -> None:
        super().__init__(f"split loop {loop} by {inner}")
        self.loop = loop
        self.inner = inner


@dataclass(frozen=True, slots=True)
class Affine:
    """See the module. Loops of extent 1 always have coefficient 0."""

    coefficients: tuple[int, ...]
    offset: int = 0
    terms: tuple[tuple[Expression, int], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Affine(tuple(a + b for a, b in pairs), self.offset + other.offset, self.terms + other.terms)

    def shifted(self, offset: int) -> Affine:
        return Affine(self.coefficients, self.offset + offset, self.terms)

    def scaled(self, factor: int) -> Affine:
        terms = tuple((term, weight * factor) for term, weight in self.terms)
        return Affine(tuple(c * factor for c in self.coefficients), self.offset * factor, terms)

    def with_term(self, term: Expression) -> Affine:
        return Affine(self.coefficients, self.offset, (*self.terms, (term, 1)))

    def bounds(self, extents: Extents) -> tuple[int, int] | None:
        """Smallest and largest value over the loops; None if it has run-time terms."""
        if self.terms:
            return None
        spans = [coefficient * (extent - 1) for coefficient, extent in zip(self.coefficients, extents)]
        return self.offset + sum(min(span, 0) for span in spans), self.offset + sum(max(span, 0) for span in spans)


Index = tuple[Affine, ...]


def constant(value: int, loops: int) -> Affine:
    return Affine((0,) * loops, value)


def linear_form(extents: Extents, chosen: tuple[bool, ...] | None = None) -> Affine:
    """The row-major position in the space of the ``chosen`` loops (default: all)."""
    coefficients, step = [0] * len(extents), 1
    for loop in reversed(range(len(extents))):
        if chosen is None or chosen[loop]:
            coefficients[loop] = step if extents[loop] > 1 else 0
            step *= extents[loop]
    return Affine(tuple(coefficients))


def linearise(index: Index, shape: Extents, loops: int) -> Affine:
    """The row-major position of an element of a tensor of ``shape``."""
    total = constant(0, loops)
    for position, extent in zip(index, shape):
        total = total.scaled(extent) + position
    return total


def delinearise(position: Affine, shape: Extents, extents: Extents) -> Index:
    """The index of the element at a row-major position. SplitRequest or NotAffineError if loops would have to be split."""
    reversed_index: list[Affine] = []
    for extent in reversed(shape[1:]):
        position, within = _divide(position, extent, extents)
        reversed_index.append(within)
    return (position, *reversed(reversed_index)) if shape else ()


def reshape_index(index: Index, shape: Extents, operand_shape: Extents, extents: Extents) -> Index:
    """The index into a tensor of ``operand_shape`` for ``index`` into its reshape to ``shape`` (no extent is 0)."""
    result: list[Affine] = []
    for dims, operand_dims in _matching_groups(shape, operand_shape):
        group, operand_group = shape[dims], operand_shape[operand_dims]
        if len(group) == len(operand_group) == 1:
            result.append(index[dims][0])
        else:
            result.extend(delinearise(linearise(index[dims], group, len(extents)), operand_group, extents))
    return tuple(result)


def split_loops(items: tuple[T, ...], loop: int, outer: T, inner: T) -> tuple[T, ...]:
    """``items``, one per loop, after a split."""
    return (*items[:loop], outer, inner, *items[loop + 1 :])


def _matching_groups(shape: Extents, other: Extents) -> list[tuple[slice, slice]]:
    """The finest grouping of consecutive dimensions of two shapes such that corresponding groups have equal sizes."""
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(shape) or j < len(other):
        first_i, first_j = i, j
        size = other_size = 1
        if i < len(shape):
            size, i = shape[i], i + 1
        if j < len(other):
            other_size, j = other[j], j + 1
        while size != other_size:
            if size < other_size:
                size, i = size * shape[i], i + 1
            else:
                other_size, j = other_size * other[j], j + 1
        groups.append((slice(first_i, i), slice(first_j, j)))
    return groups


def _divide(position: Affine, divisor: int, extents: Extents) -> tuple[Affine, Affine]:
    """Quotient and remainder of a form that is never negative by a positive number, exactly."""
    if divisor == 1:
        return position, constant(0, len(extents))
    if any(factor % divisor for _, factor in position.terms):
        raise NotAffineError
    quotient = [c // divisor if c % divisor == 0 else 0 for c in position.coefficients]
    remainder = [c if c % divisor else 0 for c in position.coefficients]
    quotient_offset, remainder_offset = divmod(position.offset, divisor)
    within = Affine(tuple(remainder), remainder_offset)
    low, high = within.bounds(extents) or (0, 0)
    if low < 0 or high >= divisor:
        raise _split_for(remainder, divisor, extents)
    terms = tuple((term, factor // divisor) for term, factor in position.terms)
    return Affine(tuple(quotient), quotient_offset, terms), within


def _split_for(coefficients: list[int], divisor: int, extents: Extents) -> Exception:
    """The split that makes the loop that crosses a multiple of ``divisor`` divisible, or NotAffineError."""
    for loop, coefficient in enumerate(coefficients):
        if coefficient > 0 and divisor % coefficient == 0:
            inner = divisor // coefficient
            if extents[loop] > inner and extents[loop] % inner == 0:
                return SplitRequest(loop, inner)
    return NotAffineError()
