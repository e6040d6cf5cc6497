"""Kernels without reductions: every element of the outputs by itself.

With one loop after collapsing, that loop is the parallel range. With more, the range runs over rows: all outer loops together, whose
counters are taken apart once per task and then stepped like an odometer; the innermost loop is left whole for the vectoriser.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from .cost import nest_cost
from .expression_code import ExpressionCode
from .kernel import Kernel, Nest, Program
from .loops import finish_kernel, inner_loop, rows, write_checks, write_stores
from .schedule import Schedule


def emit_pointwise(nest: Nest, schedule: Schedule, program: Program) -> Kernel:
    """The kernel of a nest without reductions."""
    code = ExpressionCode(schedule, program)
    with _elements(code, code.lanes(nest.roots(), [store.address for store in nest.stores], len(schedule.extents) - 1)):
        write_checks(code, nest.checks)
        write_stores(code, nest.stores)
    range_ = prod(schedule.extents[:-1]) if len(schedule.extents) > 1 else schedule.size
    return finish_kernel(code, range_, nest_cost(nest))


@contextmanager
def _elements(code: ExpressionCode, lanes: int) -> Iterator[None]:
    """Opens all loops of the schedule."""
    loops = len(code.schedule.extents)
    if loops == 0:
        yield
    elif loops == 1:
        with inner_loop(code, 0, "%begin", "%end", lanes):
            yield
    else:
        with rows(code, range(loops - 1)), inner_loop(code, loops - 1, "0", code.text.extent(code.schedule.extents[-1]), lanes):
            yield
