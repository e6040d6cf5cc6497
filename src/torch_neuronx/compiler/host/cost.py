"""Rough single-thread times, for deciding what is worth a thread, a fusion or a buffer. Nanoseconds on a current server core."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from .expressions import Apply, Expression, Load, walk
from .kernel import Nest

NANOSECONDS_PER_BYTE = 0.08
# What one task should have at least, so that handing it to another thread pays.
TASK_NANOSECONDS = 30_000
LAUNCH_NANOSECONDS = 100

# Time of one element in a vectorised f32 loop.
_CHEAP = 0.05
_DEAR = {
    **dict.fromkeys(
        ("exponential", "logistic", "tanh", "log", "log_plus_one", "exponential_minus_one", "erf", "sine", "cosine", "sinh", "cosh"), 0.5
    ),
    **dict.fromkeys(("divide", "sqrt", "rsqrt", "cbrt"), 0.3),
    **dict.fromkeys(("power", "erfc", "erf_inv", "atan2", "asin", "acos", "atan", "asinh", "acosh", "atanh", "tan", "remainder"), 1.5),
    **dict.fromkeys(("lgamma", "digamma"), 4.0),
}


def operation_cost(op: str) -> float:
    return _DEAR.get(op, _CHEAP)


def is_expensive(op: str) -> bool:
    """Whether recomputing it costs more than a store and a load."""
    return op in _DEAR and op != "divide"


def element_cost(roots: Iterable[Expression], stored_bytes: int) -> float:
    """Time of evaluating the roots once and storing so many bytes."""
    cost = stored_bytes * NANOSECONDS_PER_BYTE
    for expression in walk(roots):
        if isinstance(expression, Load):
            cost += expression.dtype.itemsize * NANOSECONDS_PER_BYTE
        elif isinstance(expression, Apply):
            cost += operation_cost(expression.op)
    return cost


def nest_cost(nest: Nest) -> float:
    """Time of a whole nest on one thread, with its launch."""
    stored = sum(store.value.dtype.itemsize for store in nest.stores if not store.per_row)
    return prod(nest.extents) * element_cost(nest.roots(), stored) + LAUNCH_NANOSECONDS


def grain(range_: int, cost: float) -> int:
    """The least number of iterations for one task, when the whole range costs ``cost``."""
    return max(1, min(range_, round(TASK_NANOSECONDS * range_ / max(cost, 1.0))))
