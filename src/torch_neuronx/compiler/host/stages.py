"""In which pass over the reduced loops each part of a nest is computed.

A reduction that needs the result of another one runs in a later pass; softmax has three: maximum, sum of exponentials, quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..hlo.ir import Value
from .cost import is_expensive
from .expressions import Apply, Check, Expression, Load, State, children, form_of, walk
from .kernel import Nest, Reduction, Store


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass: what is reduced, stored and checked in it."""

    reductions: tuple[Reduction, ...]
    stores: tuple[Store, ...]
    checks: tuple[Check, ...]

    def roots(self) -> list[Expression]:
        return [*(reduction.expression for reduction in self.reductions), *(store.expression for store in self.stores)]

    def loaded(self) -> set[Value]:
        """The values in memory that the pass reads."""
        return {expression.value for expression in walk(self.roots()) if isinstance(expression, Load)}


def stages_of(nest: Nest) -> list[Stage]:
    """The passes of a nest, in order. Stores per row are in none of them: they follow all passes."""
    number: dict[tuple[Value, int], int] = {}

    def first_possible(expression: Expression) -> int:
        return max((number[e.value, e.part] + 1 for e in walk([expression]) if isinstance(e, State)), default=0)

    for reduction in nest.reductions:
        number[reduction.key] = first_possible(reduction.expression)
    full = [(first_possible(store.expression), store) for store in nest.stores if not store.per_row]
    checks = [(first_possible(check.condition), check) for check in nest.checks]
    count = 1 + max([*number.values(), *(stage for stage, _ in (*full, *checks))])
    return [
        Stage(
            tuple(reduction for reduction in nest.reductions if number[reduction.key] == stage),
            tuple(store for at, store in full if at == stage),
            tuple(check for at, check in checks if at == stage),
        )
        for stage in range(count)
    ]


class Variation:
    """Which loops expressions vary with."""

    def __init__(self, loops: Iterable[bool]) -> None:
        self._loops = tuple(loops)
        self._memo: dict[Expression, bool] = {}

    def __call__(self, root: Expression) -> bool:
        """Whether ``root`` varies with one of the chosen loops."""
        for expression in walk([root], self._memo):
            form = form_of(expression)
            here = form is not None and any(c and chosen for c, chosen in zip(form.coefficients, self._loops))
            self._memo[expression] = here or any(self._memo[child] for child in children(expression))
        return self._memo[root]


def shared_expressions(roots: Iterable[Expression], earlier: set[Expression], varies: Callable[[Expression], bool]) -> list[Expression]:
    """The largest expressions among what the roots need that an earlier pass has computed, too, and that are dear enough to be kept."""
    return list(_topmost(roots, lambda expression: expression in earlier and varies(expression) and _is_dear(expression)))


def invariant_expressions(roots: Iterable[Expression], varies: Callable[[Expression], bool]) -> list[Expression]:
    """The largest operations among what the roots need that do not vary."""
    return list(_topmost(roots, lambda expression: isinstance(expression, Apply) and not varies(expression)))


def _topmost(roots: Iterable[Expression], wanted: Callable[[Expression], bool]) -> Iterator[Expression]:
    seen: set[Expression] = set()
    stack = list(roots)
    while stack:
        expression = stack.pop()
        if expression in seen:
            continue
        seen.add(expression)
        if wanted(expression):
            yield expression
        else:
            stack.extend(children(expression))


# So many operations cost more than a load.
_MANY = 10


def _is_dear(root: Expression) -> bool:
    operations = [expression.op for expression in walk([root]) if isinstance(expression, Apply)]
    return len(operations) >= _MANY or any(is_expensive(op) for op in operations)
