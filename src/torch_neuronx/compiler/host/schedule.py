"""The order and number of a kernel's loops.

Loops are put in the order in which memory is written (or, for reductions, read), loops of one iteration are dropped, and neighbours that
every access walks as one are collapsed: a contiguous elementwise operation of any rank becomes one loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from .affine import Affine, Extents


@dataclass(frozen=True, slots=True)
class Schedule:
    """``groups[k]`` are the original loops that loop k of the kernel runs through, outermost first; ``extents[k]`` their number of
    iterations.
    """

    groups: tuple[tuple[int, ...], ...]
    extents: Extents

    def coefficients(self, form: Affine) -> Extents:
        """A form's coefficient of each loop of the kernel."""
        return tuple(form.coefficients[group[-1]] for group in self.groups)

    @property
    def size(self) -> int:
        return prod(self.extents)


def schedule_loops(order: Sequence[int], extents: Extents, forms: Iterable[Affine], joinable: Sequence[int] | None = None) -> Schedule:
    """Collapses neighbours of ``order`` wherever all ``forms`` agree. Loops of different ``joinable`` class are never collapsed."""
    distinct = {form.coefficients for form in forms}
    groups: list[tuple[int, ...]] = []
    for loop in order:
        if extents[loop] == 1:
            continue
        if groups and (joinable is None or joinable[groups[-1][-1]] == joinable[loop]):
            outer = groups[-1][-1]
            if all(coefficients[outer] == coefficients[loop] * extents[loop] for coefficients in distinct):
                groups[-1] = (*groups[-1], loop)
                continue
        groups.append((loop,))
    return Schedule(tuple(groups), tuple(prod(extents[loop] for loop in group) for group in groups))


def memory_order(loops: Sequence[int], address: Affine, others: Iterable[Affine] = ()) -> list[int]:
    """``loops`` from the largest to the smallest step of ``address``; those that it does not depend on by the steps of the others,
    outermost.
    """
    weight = {loop: sum(abs(form.coefficients[loop]) for form in others) for loop in loops}
    return sorted(loops, key=lambda loop: (address.coefficients[loop] == 0, abs(address.coefficients[loop]), weight[loop]), reverse=True)
