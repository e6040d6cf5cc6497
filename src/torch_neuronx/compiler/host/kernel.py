"""What a kernel has to compute (`Nest`) and what comes out of generating it (`Kernel`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from ..hlo.ir import Value
from .affine import Affine, Extents
from .expressions import Check, Expression, Load, form_of, walk

# Two values with the same key are in the same memory.
BufferKey = Callable[[Value], Hashable]


@dataclass(frozen=True, slots=True)
class Store:
    """One element of ``value`` is written at ``address``; ``per_row``: once for all iterations of the reduced loops."""

    value: Value
    address: Affine
    expression: Expression
    per_row: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """``value`` is the combination by ``kind`` of ``expression`` over the reduced loops."""

    value: Value
    kind: str
    expression: Expression


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

    def loads(self) -> list[Load]:
        return [expression for expression in walk(self.roots()) if isinstance(expression, Load)]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Generated: LLVM text, and what one launch passes to it. ``buffers`` has one value per buffer; ``cost`` is nanoseconds of the whole range."""

    text: str
    buffers: tuple[Value, ...]
    params: tuple[int, ...]
    range: int
    cost: float
