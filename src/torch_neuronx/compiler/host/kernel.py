"""What a kernel has to compute (`Nest`) and what comes out of generating it (`Kernel`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from ..hlo.ir import Value
from .affine import Affine, Extents
from .expressions import Apply, Check, Complex, Expression, Load, form_of, walk
from .target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """What the kernels of one program share: where values are (equal places are the same memory), the texts of failures, which kernels
    extend, and the machine.
    """

    place: Callable[[Value], Hashable]
    messages: list[str]
    target: Target

    def status(self, message: str) -> int:
        """The kernel status that stands for a failure."""
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message) + 1


@dataclass(frozen=True, slots=True)
class Store:
    """One element (or part of a complex one) of ``value`` is written at ``address``, which counts elements of the expression's type.

    ``per_row``: once for all iterations of the reduced loops.
    """

    value: Value
    address: Affine
    expression: Expression
    per_row: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """``value`` (or its ``part``, if complex) is the combination by ``kind`` of ``expression`` over the reduced loops."""

    value: Value
    kind: str
    expression: Expression
    part: int = 0

    @property
    def key(self) -> tuple[Value, int]:
        return self.value, self.part


def stores_of(value: Value, address: Affine, expression: Expression, per_row: bool = False) -> tuple[Store, ...]:
    """The store of an element of any type; ``address`` counts elements of ``value``."""
    if not isinstance(expression, Complex):
        return (Store(value, address, expression, per_row),)
    first = address.scaled(2)
    return Store(value, first, expression.real, per_row), Store(value, first.shifted(1), expression.imag, per_row)


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest: ``extents`` of its loops, which of them are reduced, and what happens in it. At least one of stores is not empty."""

    extents: Extents
    reduced: tuple[bool, ...]
    stores: tuple[Store, ...]
    reductions: tuple[Reduction, ...] = ()
    checks: tuple[Check, ...] = ()

    def roots(self) -> list[Expression]:
        """Every expression that the nest evaluates."""
        return [
            *(check.condition for check in self.checks),
            *(reduction.expression for reduction in self.reductions),
            *(store.expression for store in self.stores),
        ]

    def forms(self) -> Iterator[Affine]:
        """Every affine form that is evaluated."""
        yield from (store.address for store in self.stores)
        for expression in walk(self.roots()):
            form = form_of(expression)
            if form is not None:
                yield form

    def operation_count(self) -> int:
        return sum(isinstance(expression, Apply) for expression in walk(self.roots()))

    def loads(self) -> list[Load]:
        return [expression for expression in walk(self.roots()) if isinstance(expression, Load)]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Generated: LLVM text, and what one launch passes to it. ``buffers`` has one value per buffer; ``cost`` is nanoseconds of the whole
    range.
    """

    text: str
    buffers: tuple[Value, ...]
    params: tuple[int, ...]
    range: int
    cost: float
