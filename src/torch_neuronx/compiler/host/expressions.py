"""What one element of a kernel's output is, as a graph of scalar expressions over the loops.

Made by ``trace.py`` from HLO, turned into LLVM IR by ``scalar_code.py``. Nodes are compared by identity; the tracer makes one node per
distinct expression, so that what is written twice is computed once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from ..hlo.ir import Value
from ..hlo.types import DType
from .affine import Affine

Number = bool | int | float | complex


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The element of a value in memory at ``address`` (elements from its first). Where ``guard`` is false: zero, and memory is not
    touched.
    """

    value: Value
    address: Affine
    guard: Expression | None
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    value: Number
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class ScalarArgument:
    """The launch's scalar in ``slot``."""

    slot: int
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """An affine form as an i64 number."""

    index: Affine
    dtype: DType = DType.I64


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The finished result of one of the kernel's own reductions, at the kernel's own outer index. ``part``: 1 for the imaginary part of a
    complex one.
    """

    value: Value
    dtype: DType
    part: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An elementwise HLO operation. ``attribute`` is compare's direction, else empty."""

    op: str
    operands: tuple[Expression, ...]
    dtype: DType
    attribute: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A complex number as two real expressions. Only at the roots of what is traced; kernels compute the parts."""

    real: Expression
    imag: Expression
    dtype: DType


Expression = Load | Literal | ScalarArgument | Position | State | Apply | Complex


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that makes the launch fail with ``message`` where it is true."""

    condition: Expression
    message: str


def children(expression: Expression) -> Iterator[Expression]:
    """The expressions that one is made of, index terms and guards included."""
    match expression:
        case Apply():
            yield from expression.operands
        case Load():
            if expression.guard is not None:
                yield expression.guard
            yield from (term for term, _ in expression.address.terms)
        case Position():
            yield from (term for term, _ in expression.index.terms)
        case Complex():
            yield from (expression.real, expression.imag)
        case _:
            return


def walk(roots: Iterable[Expression], known: Container[Expression] = (), leaves: Container[Expression] = ()) -> list[Expression]:
    """Every expression reachable from the roots, once, children first: without those in ``known``, and without what is below those in
    ``leaves``.
    """
    order: list[Expression] = []
    seen: set[Expression] = set()
    stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        expression, finished = stack.pop()
        if finished:
            order.append(expression)
        elif expression not in seen and expression not in known:
            seen.add(expression)
            stack.append((expression, True))
            if expression not in leaves:
                stack.extend((child, False) for child in children(expression) if child not in seen)
    return order


def form_of(expression: Expression) -> Affine | None:
    """The affine form that an expression evaluates itself, if any."""
    match expression:
        case Load():
            return expression.address
        case Position():
            return expression.index
        case _:
            return None
