"""Kernels that reduce across memory: per block of neighbouring columns, one or more passes over the reduced loops.

The innermost loop runs over the columns of a block and is the vectorised one; running results are arrays of one element per column on the
stack. The parallel range is the kept loops, with the columns cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from ..hlo.ir import Value
from ..hlo.types import DType
from . import scalar_code
from .accumulators import COLUMN_BLOCK, Accumulator, accumulator_of
from .cost import nest_cost
from .expression_code import Counter, ExpressionCode
from .expressions import Expression, State, walk
from .kernel import BufferKey, Kernel, Nest, Store
from .llvm_text import KernelText
from .pointwise import Buffers, finish_kernel, inner_loop, row_loop, write_checks, write_stores
from .schedule import Schedule
from .stages import Stage, Variation, invariant_expressions, stages_of
from .target import Target

# Columns of one block: its accumulators stay in the first-level cache.
BLOCK_WIDTH = 256


def emit_columns(
    nest: Nest, schedule: Schedule, kept: Sequence[int], reduced: Sequence[int], key: BufferKey, messages: list[str], target: Target
) -> Kernel:
    """The kernel of a nest with reductions whose innermost loop is kept: the last of ``kept``."""
    text = KernelText(target)
    buffers = Buffers(text, key)
    *outer, column = kept
    extents = [schedule.extents[loop] for loop in outer]
    blocks = -(-schedule.extents[column] // BLOCK_WIDTH)
    writer = _ColumnWriter(text, schedule, nest, buffers, column, reduced, messages)
    with row_loop(text, [*extents, blocks]) as counters:
        writer.write(outer, counters)
    return finish_kernel(text, buffers, prod(extents) * blocks, nest_cost(nest))


class _ColumnWriter:
    """Writes the body for one block of columns."""

    def __init__(
        self, text: KernelText, schedule: Schedule, nest: Nest, buffers: Buffers, column: int, reduced: Sequence[int], messages: list[str]
    ) -> None:
        self._text = text
        self._nest = nest
        self._column = column
        self._reduced = reduced
        self._messages = messages
        self._extents = [text.param(schedule.extents[loop]) for loop in reduced]
        self._width = text.param(schedule.extents[column])
        self._rows = prod(schedule.extents[loop] for loop in reduced[1:])
        self._arrays: dict[tuple[Value, int], tuple[Accumulator, str]] = {}
        self._code = ExpressionCode(text, schedule, [None] * len(schedule.groups), buffers.pointer, self._state)

    def write(self, outer: Sequence[int], counters: Sequence[Counter]) -> None:
        code, text = self._code, self._text
        for loop, counter in zip(outer, counters):
            code.counters[loop] = counter
        self._begin = text.define(f"mul i64 {counters[-1].register}, {BLOCK_WIDTH}")
        self._end = text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {self._begin}, {BLOCK_WIDTH}"), self._width)
        varies = Variation(self._nest.reduced)
        for number, stage in enumerate(stages_of(self._nest)):
            self._keep_invariants(stage, varies)
            self._write_stage(stage, number == 0)
        per_row = [store for store in self._nest.stores if store.per_row]
        if per_row:
            with self._columns(self._lanes([store.expression for store in per_row], per_row)):
                write_stores(code, per_row)
        code.kept.clear()
        code.close(text.depth)

    def _write_stage(self, stage: Stage, is_first: bool) -> None:
        text, code = self._text, self._code
        accumulators = [accumulator_of(reduction) for reduction in stage.reductions]
        totals = [text.slot(_array_type(accumulator.total), BLOCK_WIDTH) for accumulator in accumulators]
        self._fill(list(zip(accumulators, totals, (accumulator.total for accumulator in accumulators))))
        with self._blocks(accumulators, totals) as slots, self._columns(self._lanes(stage.roots(), stage.stores)):
            if is_first:
                write_checks(code, self._nest.checks, self._messages)
            for reduction, accumulator, slot in zip(stage.reductions, accumulators, slots):
                element = code.emit(reduction.expression)
                self._put(slot, accumulator.block, accumulator.combine(text, self._get(slot, accumulator.block), element))
            write_stores(code, stage.stores)
        for reduction, accumulator, total in zip(stage.reductions, accumulators, totals):
            self._arrays[reduction.key] = (accumulator, total)

    @contextmanager
    def _blocks(self, accumulators: list[Accumulator], totals: list[str]) -> Iterator[list[str]]:
        """All reduced loops, in blocks of rows if something is summed in blocks. Yields the arrays to accumulate in.

        The outermost reduced loop is the one that is cut, into parts of so many iterations that a block has about COLUMN_BLOCK rows.
        """
        text, blocked = self._text, [(a, total) for a, total in zip(accumulators, totals) if a.is_blocked]
        with ExitStack() as opened:
            begin, end = "0", self._extents[0] if self._reduced else "1"
            slots = totals
            if blocked and self._reduced:
                step = text.param(max(1, COLUMN_BLOCK // self._rows))
                begin = opened.enter_context(text.loop("0", self._extents[0], step))
                end = text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {begin}, {step}"), self._extents[0])
            if blocked:
                parts = {total: text.slot("float", BLOCK_WIDTH) for _, total in blocked}
                self._fill([(a, parts[total], "float") for a, total in blocked])
                slots = [parts.get(total, total) for total in totals]
            with ExitStack() as loops:
                for loop, extent in zip(self._reduced, [end, *self._extents[1:]]):
                    loops.enter_context(inner_loop(self._code, loop, begin if loop == self._reduced[0] else "0", extent))
                yield slots
            for accumulator, total in blocked:
                accumulator.add_block_array(text, total, parts[total], BLOCK_WIDTH)

    @contextmanager
    def _columns(self, lanes: int) -> Iterator[None]:
        """The loop over the block's columns."""
        with inner_loop(self._code, self._column, self._begin, self._end, lanes):
            yield

    def _lanes(self, roots: Iterable[Expression], stores: Iterable[Store] = ()) -> int:
        return self._code.lanes(roots, [store.address for store in stores], self._column)

    # One element per column

    def _fill(self, arrays: list[tuple[Accumulator, str, str]]) -> None:
        """Sets whole arrays to the identity; they are short enough for one (wide) store each."""
        for accumulator, slot, type_ in arrays:
            element = accumulator.identity(type_)
            wide = _array_type(type_)
            self._text.do(f"store <{BLOCK_WIDTH} x {wide}> splat ({wide} {_AS_BYTE.get(element, element)}), ptr {slot}")

    def _place(self, slot: str, type_: str) -> str:
        counter = self._code.counters[self._column]
        assert counter is not None, "columns are accessed inside of their loop"
        return self._text.define(
            f"getelementptr {type_}, ptr {slot}, i64 {self._text.define(f'sub i64 {counter.register}, {self._begin}')}"
        )

    def _get(self, slot: str, type_: str) -> str:
        loaded = self._text.define(f"load {_array_type(type_)}, ptr {self._place(slot, _array_type(type_))}")
        return self._text.define(f"icmp ne i8 {loaded}, 0") if type_ == "i1" else loaded

    def _put(self, slot: str, type_: str, register: str) -> None:
        if type_ == "i1":
            register = self._text.define(f"zext i1 {register} to i8")
        self._text.do(f"store {_array_type(type_)} {register}, ptr {self._place(slot, _array_type(type_))}")

    def _state(self, key: tuple[Value, int]) -> tuple[str, int]:
        accumulator, slot = self._arrays[key]
        return accumulator.finish(self._text, self._get(slot, accumulator.total)), self._text.depth

    def _keep_invariants(self, stage: Stage, varies: Variation) -> None:
        """Computes what does not change from row to row once per column, before the pass."""
        wanted = [e for e in invariant_expressions(stage.roots(), varies) if e not in self._code.kept and self._varies_by_column(e)]
        if not wanted or not self._reduced:
            return
        slots = {e: self._text.slot(_array_type(scalar_code.register_type(e.dtype)), BLOCK_WIDTH) for e in wanted}
        with self._columns(self._lanes(slots)):
            for expression, slot in slots.items():
                self._put(slot, scalar_code.register_type(expression.dtype), self._code.emit(expression))
        self._code.kept.update({e: self._reader(slot, e.dtype) for e, slot in slots.items()})

    def _reader(self, slot: str, dtype: DType) -> Callable[[], tuple[str, int]]:
        return lambda: (self._get(slot, scalar_code.register_type(dtype)), self._text.depth)

    def _varies_by_column(self, expression: Expression) -> bool:
        column = self._code.schedule.groups[self._column]
        in_column = Variation(loop in column for loop in range(len(self._nest.extents)))
        return in_column(expression) or any(isinstance(e, State) for e in walk([expression]))


_AS_BYTE = {"true": "1", "false": "0"}


def _array_type(type_: str) -> str:
    return "i8" if type_ == "i1" else type_
