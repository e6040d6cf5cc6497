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
from .cost import nest_cost, operation_cost
from .expression_code import Counter, ExpressionCode
from .expressions import Apply, Expression, State, walk
from .kernel import Kernel, Nest, Program, Reduction, Store
from .llvm_text import SHORT
from .loops import finish_kernel, inner_loop, row_loop, write_checks, write_stores
from .schedule import Schedule
from .stages import Stage, Variation, invariant_expressions, stages_of

# Columns of one block: as many as its accumulators have (they stay in the first-level cache), unless that makes too few tasks for several
# threads.
_BLOCK_WIDTH = 256
_BLOCK_WIDTHS = (_BLOCK_WIDTH, 128, 64)
_MIN_TASKS = 8
# Rows that are added to the accumulators at once, for cheap elements: of short rows more, as their loop costs more than the sum.
_ROWS_AT_ONCE, _SHORT_ROWS_AT_ONCE = 4, 8
_CHEAP_NANOSECONDS = 0.4


def emit_columns(nest: Nest, schedule: Schedule, kept: Sequence[int], reduced: Sequence[int], program: Program) -> Kernel:
    """The kernel of a nest with reductions whose innermost loop is kept: the last of ``kept``."""
    *outer, column = kept
    extents = [schedule.extents[loop] for loop in outer]
    columns = schedule.extents[column]
    width = next((width for width in _BLOCK_WIDTHS if prod(extents) * -(-columns // width) >= _MIN_TASKS), _BLOCK_WIDTHS[-1])
    blocks = -(-columns // width)
    writer = _ColumnWriter(nest, schedule, column, width, reduced, program)
    with row_loop(writer.code.text, [*extents, blocks]) as counters:
        writer.write(outer, counters)
    return finish_kernel(writer.code, prod(extents) * blocks, nest_cost(nest))


_Target = tuple[Reduction, Accumulator, str]


class _ColumnWriter:
    """Writes the body for one block of columns."""

    def __init__(self, nest: Nest, schedule: Schedule, column: int, block: int, reduced: Sequence[int], program: Program) -> None:
        self.code = ExpressionCode(schedule, program, self._state)
        self._text = text = self.code.text
        self._nest = nest
        self._column = column
        self._reduced = reduced
        self._extents = [text.param(schedule.extents[loop]) for loop in reduced]
        self._is_short = schedule.extents[column] <= SHORT
        self._width = text.extent(schedule.extents[column])
        self._block = SHORT if self._is_short else _BLOCK_WIDTH
        self._step = text.param(block)
        self._rows = prod(schedule.extents[loop] for loop in reduced[1:])
        self._row_count = self._rows * (schedule.extents[reduced[0]] if reduced else 1)
        self._arrays: dict[tuple[Value, int], tuple[Accumulator, str]] = {}

    def write(self, outer: Sequence[int], counters: Sequence[Counter]) -> None:
        code, text = self.code, self._text
        for loop, counter in zip(outer, counters):
            code.counters[loop] = counter
        self._begin, self._end = "0", self._width
        if not self._is_short:
            self._begin = text.define(f"mul i64 {counters[-1].register}, {self._step}")
            self._end = text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {self._begin}, {self._step}"), self._width)
        varies = Variation(self._nest.reduced)
        for stage in stages_of(self._nest):
            self._keep_invariants(stage, varies)
            self._write_stage(stage)
        per_row = [store for store in self._nest.stores if store.per_row]
        if per_row:
            with self._columns(self._lanes([store.expression for store in per_row], per_row)):
                write_stores(code, per_row)
        code.kept.clear()
        code.close(text.depth)

    def _write_stage(self, stage: Stage) -> None:
        text = self._text
        accumulators = [accumulator_of(reduction, self._row_count) for reduction in stage.reductions]
        totals = [text.slot(_array_type(accumulator.total), self._block) for accumulator in accumulators]
        self._fill(list(zip(accumulators, totals, (accumulator.total for accumulator in accumulators))))
        with self._blocks(accumulators, totals) as (slots, begin, end):
            targets = list(zip(stage.reductions, accumulators, slots))
            if not self._reduced:
                self._write_row(stage, targets)
            else:
                self._write_rows(stage, targets, begin, end)
        for reduction, accumulator, total in zip(stage.reductions, accumulators, totals):
            self._arrays[reduction.key] = (accumulator, total)

    def _write_rows(self, stage: Stage, targets: list[_Target], begin: str, end: str) -> None:
        """The innermost reduced loop: several rows at once as long as there are enough, then one by one."""
        text, code, loop = self._text, self.code, self._reduced[-1]
        cost = sum(operation_cost(e.op) for e in walk(stage.roots(), (), code.kept) if isinstance(e, Apply))
        if stage.stores or stage.checks or cost > _CHEAP_NANOSECONDS:
            with inner_loop(code, loop, begin, end):
                self._write_row(stage, targets)
            return
        count = _SHORT_ROWS_AT_ONCE if self._is_short else _ROWS_AT_ONCE
        length = text.define(f"sub i64 {end}, {begin}")
        whole = text.define(f"add i64 {begin}, {text.define(f'and i64 {length}, {-count}')}")
        with text.when(text.define(f"icmp slt i64 {begin}, {whole}")), text.loop(begin, whole, str(count)) as row:
            rows = [Counter(text.define(f"add i64 {row}, {number}"), text.depth) for number in range(count)]
            with self._columns(self._lanes(stage.roots())):
                for reduction, accumulator, slot in targets:
                    elements = [self._element(reduction.expression, counter) for counter in rows]
                    while len(elements) > 1:
                        elements = [accumulator.combine(text, first, second) for first, second in zip(elements[::2], elements[1::2])]
                    self._put(slot, accumulator.block, accumulator.combine(text, self._get(slot, accumulator.block), elements[0]))
            code.counters[loop] = None
        with text.when(text.define(f"icmp slt i64 {whole}, {end}")), inner_loop(code, loop, whole, end):
            self._write_row(stage, targets)

    def _element(self, expression: Expression, row: Counter) -> str:
        """An expression in a given row, without remembering it for the next."""
        before = dict(self.code.known)
        self.code.counters[self._reduced[-1]] = row
        register = self.code.emit(expression)
        self.code.known = before
        return register

    def _write_row(self, stage: Stage, targets: list[_Target]) -> None:
        text, code = self._text, self.code
        with self._columns(self._lanes(stage.roots(), stage.stores)):
            write_checks(code, stage.checks)
            for reduction, accumulator, slot in targets:
                element = code.emit(reduction.expression)
                self._put(slot, accumulator.block, accumulator.combine(text, self._get(slot, accumulator.block), element))
            write_stores(code, stage.stores)

    @contextmanager
    def _blocks(self, accumulators: list[Accumulator], totals: list[str]) -> Iterator[tuple[list[str], str, str]]:
        """All reduced loops but the innermost, in blocks of rows if something is summed in blocks. Yields the arrays to accumulate in and
        the bounds of the innermost loop.

        The outermost reduced loop is the one that is cut, into parts of so many iterations that a block has about COLUMN_BLOCK rows.
        """
        text, blocked = self._text, [(a, total) for a, total in zip(accumulators, totals) if a.is_blocked]
        with ExitStack() as opened:
            begin, end = "0", self._extents[0] if self._reduced else "1"
            slots = totals
            if blocked:
                step = text.param(max(1, COLUMN_BLOCK // self._rows))
                begin = opened.enter_context(text.loop("0", self._extents[0], step))
                end = text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {begin}, {step}"), self._extents[0])
                parts = {total: text.slot("float", self._block) for _, total in blocked}
                self._fill([(a, parts[total], "float") for a, total in blocked])
                slots = [parts.get(total, total) for total in totals]
            bounds = list(zip([begin, *["0"] * (len(self._reduced) - 1)], [end, *self._extents[1:]]))
            with ExitStack() as loops:
                for loop, bound in zip(self._reduced[:-1], bounds):
                    loops.enter_context(inner_loop(self.code, loop, *bound))
                yield slots, *bounds[-1]
            for accumulator, total in blocked:
                accumulator.add_block_array(text, total, parts[total], self._block)

    @contextmanager
    def _columns(self, lanes: int) -> Iterator[None]:
        """The loop over the block's columns."""
        with inner_loop(self.code, self._column, self._begin, self._end, lanes):
            yield

    def _lanes(self, roots: Iterable[Expression], stores: Iterable[Store] = ()) -> int:
        return self.code.lanes(roots, [store.address for store in stores], self._column)

    # One element per column

    def _fill(self, arrays: list[tuple[Accumulator, str, str]]) -> None:
        """Sets whole arrays to the identity; they are short enough for one (wide) store each."""
        for accumulator, slot, type_ in arrays:
            element = accumulator.identity(type_)
            wide = _array_type(type_)
            self._text.do(f"store <{self._block} x {wide}> splat ({wide} {_AS_BYTE.get(element, element)}), ptr {slot}")

    def _place(self, slot: str, type_: str) -> str:
        counter = self.code.counters[self._column]
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
        wanted = [e for e in invariant_expressions(stage.roots(), varies) if e not in self.code.kept and self._varies_by_column(e)]
        if not wanted or not self._reduced:
            return
        slots = {e: self._text.slot(_array_type(scalar_code.register_type(e.dtype)), self._block) for e in wanted}
        with self._columns(self._lanes(slots)):
            for expression, slot in slots.items():
                self._put(slot, scalar_code.register_type(expression.dtype), self.code.emit(expression))
        self.code.kept.update({e: self._reader(slot, e.dtype) for e, slot in slots.items()})

    def _reader(self, slot: str, dtype: DType) -> Callable[[], tuple[str, int]]:
        return lambda: (self._get(slot, scalar_code.register_type(dtype)), self._text.depth)

    def _varies_by_column(self, expression: Expression) -> bool:
        column = self.code.schedule.groups[self._column]
        in_column = Variation(loop in column for loop in range(len(self._nest.extents)))
        return in_column(expression) or any(isinstance(e, State) for e in walk([expression]))


_AS_BYTE = {"true": "1", "false": "0"}


def _array_type(type_: str) -> str:
    return "i8" if type_ == "i1" else type_
