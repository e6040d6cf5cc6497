"""Chooses the form of a nest's kernel: elementwise, elementwise in tiles, along rows or down columns."""

from __future__ import annotations

from collections.abc import Sequence

from .affine import Affine
from .columns import emit_columns
from .kernel import BufferKey, Kernel, Nest
from .pointwise import emit_pointwise
from .rows import emit_rows
from .schedule import memory_order, schedule_loops
from .target import Target
from .tiles import emit_tiles, find_transposition

# Fewer neighbouring columns than this are no vector: their rows are reduced with strided loads.
_MIN_COLUMNS = 8


def emit_nest(nest: Nest, key: BufferKey, messages: list[str], target: Target) -> Kernel:
    """The kernel of a nest. ``key`` tells which values share memory; ``messages`` are the program's failure texts, extended by the
    nest's.
    """
    if not nest.reductions:
        return _emit_elements(nest, key, messages, target)
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
    if kept and reduced and _reads_columns(steps, kept[-1], reduced[-1], schedule.extents):
        return emit_columns(nest, schedule, kept, reduced, key, messages, target)
    return emit_rows(nest, schedule, kept, reduced, key, messages, target)


def _emit_elements(nest: Nest, key: BufferKey, messages: list[str], target: Target) -> Kernel:
    """Loops in the order in which the largest result lies in memory."""
    primary = max(nest.stores, key=lambda store: store.value.dtype.itemsize)
    order = memory_order(range(len(nest.extents)), primary.address, nest.forms())
    schedule = schedule_loops(order, nest.extents, nest.forms())
    transposition = find_transposition(nest, schedule)
    if transposition is not None:
        return emit_tiles(nest, schedule, transposition, key, messages, target)
    return emit_pointwise(nest, schedule, key, messages, target)


def _full_forms(nest: Nest) -> list[Affine]:
    """The addresses of what is read and written once per iteration; the reduced loops' own forms if nothing is."""
    forms = [load.address for load in nest.loads()] + [store.address for store in nest.stores if not store.per_row]
    full = [form for form in forms if any(c and reduced for c, reduced in zip(form.coefficients, nest.reduced))]
    return full or list(nest.forms())


def _reads_columns(steps: Sequence[Sequence[int]], column: int, row: int, extents: Sequence[int]) -> bool:
    """Whether memory is contiguous along the innermost kept loop rather than along the innermost reduced one."""
    if extents[column] < _MIN_COLUMNS:
        return False
    return sum(step[column] == 1 for step in steps) > sum(step[row] == 1 for step in steps)
