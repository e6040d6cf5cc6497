"""Chooses the form of a nest's kernel: elementwise, elementwise in tiles or with gaps, along rows or down columns."""

from __future__ import annotations

from collections.abc import Sequence

from .affine import Affine
from .columns import emit_columns
from .gaps import emit_gapped, find_gaps
from .kernel import Kernel, Nest, Program
from .pointwise import emit_pointwise
from .rows import emit_rows
from .schedule import memory_order, schedule_loops
from .tiles import emit_tiles, find_transposition


def emit_nest(nest: Nest, program: Program) -> Kernel:
    """The kernel of a nest."""
    if not nest.reductions:
        return _emit_elements(nest, program)
    full = _full_forms(nest)
    primary = max(full, key=lambda form: sum(coefficient != 0 for coefficient in form.coefficients))
    loops = range(len(nest.extents))
    order = [
        *memory_order([loop for loop in loops if not nest.reduced[loop]], primary, full),
        *memory_order([loop for loop in loops if nest.reduced[loop]], primary, full),
    ]
    schedule = schedule_loops(order, nest.extents, nest.forms(), [int(reduced) for reduced in nest.reduced])
    kept = [loop for loop, group in enumerate(schedule.groups) if not nest.reduced[group[0]]]
    reduced = [loop for loop, group in enumerate(schedule.groups) if nest.reduced[group[0]]]
    steps = [[abs(c) for c in schedule.coefficients(form)] for form in full]
    if kept and reduced and _reads_columns(steps, kept[-1], reduced[-1]):
        return emit_columns(nest, schedule, kept, reduced, program)
    return emit_rows(nest, schedule, kept, reduced, program)


def _emit_elements(nest: Nest, program: Program) -> Kernel:
    """Loops in the order in which the largest result lies in memory."""
    primary = max(nest.stores, key=lambda store: store.value.dtype.itemsize)
    order = memory_order(range(len(nest.extents)), primary.address, nest.forms())
    schedule = schedule_loops(order, nest.extents, nest.forms())
    transposition = find_transposition(nest, schedule)
    if transposition is not None:
        return emit_tiles(nest, schedule, transposition, program)
    gaps = find_gaps(nest, schedule)
    if gaps is not None:
        return emit_gapped(nest, schedule, gaps, program)
    return emit_pointwise(nest, schedule, program)


def _full_forms(nest: Nest) -> list[Affine]:
    """The addresses of what is read and written once per iteration; the reduced loops' own forms if nothing is."""
    forms = [load.address for load in nest.loads()] + [store.address for store in nest.stores if not store.per_row]
    full = [form for form in forms if any(c and reduced for c, reduced in zip(form.coefficients, nest.reduced))]
    return full or list(nest.forms())


def _reads_columns(steps: Sequence[Sequence[int]], column: int, row: int) -> bool:
    """Whether memory is contiguous along the innermost kept loop rather than along the innermost reduced one."""
    return sum(step[column] == 1 for step in steps) > sum(step[row] == 1 for step in steps)
