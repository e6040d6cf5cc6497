"""Kernels that reduce along memory: per row of the kept loops, one or more passes over the reduced loops.

The rows are the parallel range. Within a row each pass runs over the reduced loops with the innermost one vectorised; finished reductions
are registers that later passes and the stores of the row use. What an earlier pass computed at some expense (softmax's exponentials) is
kept in a scratch row on the stack, as far as rows fit there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from ..hlo.ir import Value
from ..hlo.types import DType
from . import scalar_code
from .accumulators import ROW_BLOCK, Accumulator, accumulator_of
from .cost import nest_cost
from .expression_code import ExpressionCode
from .expressions import Expression, walk
from .kernel import Kernel, Nest, Program, Reduction
from .llvm_text import KernelText
from .loops import finish_kernel, inner_loop, rows, write_checks, write_stores
from .schedule import Schedule
from .stages import Stage, Variation, shared_expressions, stages_of

# Elements that a scratch row may have: one of these sizes is reserved on the stack.
_SCRATCH_SIZES = (1024, 4096, 16384)
# Threads have stacks of a few megabytes.
_MAX_SCRATCH_ROWS = 4


def emit_rows(nest: Nest, schedule: Schedule, kept: Sequence[int], reduced: Sequence[int], program: Program) -> Kernel:
    """The kernel of a nest with reductions whose innermost loop is reduced. ``kept`` and ``reduced`` are the loops of the schedule,
    outermost first.
    """
    states: dict[tuple[Value, int], tuple[str, int]] = {}
    code = ExpressionCode(schedule, program, states.__getitem__)
    writer = _RowWriter(code, nest, reduced, states)
    with rows(code, kept):
        writer.write()
    return finish_kernel(code, prod(schedule.extents[loop] for loop in kept), nest_cost(nest))


class _RowWriter:
    """Writes the body of one row."""

    def __init__(self, code: ExpressionCode, nest: Nest, reduced: Sequence[int], states: dict[tuple[Value, int], tuple[str, int]]) -> None:
        self._code = code
        self._text = code.text
        self._nest = nest
        self._reduced = reduced
        self._states = states
        extents = [code.schedule.extents[loop] for loop in reduced]
        self._extents = [*(code.text.param(extent) for extent in extents[:-1]), *(code.text.extent(extent) for extent in extents[-1:])]
        self._row_size = prod(code.schedule.extents[loop] for loop in reduced)

    def write(self) -> None:
        varies = Variation(self._nest.reduced)
        stages = stages_of(self._nest)
        scratch: dict[Expression, str] = {}
        for number, stage in enumerate(stages):
            later = [root for following in stages[number + 1 :] for root in following.roots()]
            keep = self._worth_keeping(stage, later, scratch, varies)
            self._write_stage(stage, keep)
            scratch |= keep
            self._code.kept.update({expression: self._reader(expression, slot) for expression, slot in keep.items()})
        write_stores(self._code, [store for store in self._nest.stores if store.per_row])
        self._code.kept.clear()
        self._states.clear()

    def _worth_keeping(
        self, stage: Stage, later: list[Expression], scratch: dict[Expression, str], varies: Variation
    ) -> dict[Expression, str]:
        """New scratch rows for what this pass computes and a later one needs."""
        size = next((size for size in _SCRATCH_SIZES if self._row_size <= size), None)
        if size is None or not later:
            return {}
        shared = shared_expressions(later, set(walk(stage.roots(), (), scratch)), varies)
        new = [expression for expression in shared if expression not in scratch][: _MAX_SCRATCH_ROWS - len(scratch)]
        return {expression: self._text.slot(_scratch_type(expression.dtype), size) for expression in new}

    def _write_stage(self, stage: Stage, keep: dict[Expression, str]) -> None:
        text, code = self._text, self._code
        accumulators = [(reduction, accumulator_of(reduction, self._row_size)) for reduction in stage.reductions]
        totals = [_start(text, accumulator, accumulator.total) for _, accumulator in accumulators]
        with self._outer_loops(), self._blocks(accumulators, totals, self._lanes(stage)) as slots:
            write_checks(code, stage.checks)
            for expression, slot in keep.items():
                self._write_scratch(expression, slot)
            for (reduction, accumulator), slot in zip(accumulators, slots):
                element = code.emit(reduction.expression)
                before = text.define(f"load {accumulator.block}, ptr {slot}")
                text.do(f"store {accumulator.block} {accumulator.combine(text, before, element)}, ptr {slot}")
            write_stores(code, stage.stores)
        for (reduction, accumulator), total in zip(accumulators, totals):
            result = accumulator.finish(text, text.define(f"load {accumulator.total}, ptr {total}"))
            self._states[reduction.key] = (result, text.depth)

    def _lanes(self, stage: Stage) -> int:
        return self._code.lanes(stage.roots(), [store.address for store in stage.stores], self._reduced[-1]) if self._reduced else 0

    @contextmanager
    def _outer_loops(self) -> Iterator[None]:
        """All reduced loops but the innermost."""
        loops = list(zip(self._reduced, self._extents))[:-1]
        with ExitStack() as opened:
            for loop, extent in loops:
                opened.enter_context(inner_loop(self._code, loop, "0", extent))
            yield

    @contextmanager
    def _blocks(self, accumulators: list[tuple[Reduction, Accumulator]], totals: list[str], lanes: int) -> Iterator[list[str]]:
        """The innermost loop, in blocks if something is summed in blocks. Yields the slots to accumulate in."""
        text = self._text
        if not self._reduced:
            yield [*self._open_blocks(accumulators, totals)]
            self._close_blocks(accumulators, totals)
        elif not any(accumulator.is_blocked for _, accumulator in accumulators):
            with inner_loop(self._code, self._reduced[-1], "0", self._extents[-1], lanes):
                yield totals
        else:
            with text.loop("0", self._extents[-1], str(ROW_BLOCK)) as begin:
                end = text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {begin}, {ROW_BLOCK}"), self._extents[-1])
                slots = self._open_blocks(accumulators, totals)
                with inner_loop(self._code, self._reduced[-1], begin, end, lanes):
                    yield slots
                self._close_blocks(accumulators, totals)

    def _open_blocks(self, accumulators: list[tuple[Reduction, Accumulator]], totals: list[str]) -> list[str]:
        self._slots = [
            _start(self._text, accumulator, accumulator.block) if accumulator.is_blocked else total
            for (_, accumulator), total in zip(accumulators, totals)
        ]
        return self._slots

    def _close_blocks(self, accumulators: list[tuple[Reduction, Accumulator]], totals: list[str]) -> None:
        text = self._text
        for (_, accumulator), slot, total in zip(accumulators, self._slots, totals):
            if accumulator.is_blocked:
                block = text.define(f"load float, ptr {slot}")
                sum_ = accumulator.add_block(text, text.define(f"load double, ptr {total}"), block)
                text.do(f"store double {sum_}, ptr {total}")

    # Scratch rows

    def _write_scratch(self, expression: Expression, slot: str) -> None:
        register, type_ = self._code.emit(expression), _scratch_type(expression.dtype)
        if expression.dtype is DType.I1:
            register = self._text.define(f"zext i1 {register} to i8")
        self._text.do(f"store {type_} {register}, ptr {self._scratch_place(slot, type_)}")

    def _reader(self, expression: Expression, slot: str) -> Callable[[], tuple[str, int]]:
        def read() -> tuple[str, int]:
            type_ = _scratch_type(expression.dtype)
            loaded = self._text.define(f"load {type_}, ptr {self._scratch_place(slot, type_)}")
            if expression.dtype is DType.I1:
                loaded = self._text.define(f"icmp ne i8 {loaded}, 0")
            return loaded, self._text.depth

        return read

    def _scratch_place(self, slot: str, type_: str) -> str:
        place = "0"
        for loop, extent in zip(self._reduced, self._extents):
            counter = self._code.counters[loop]
            assert counter is not None, "scratch rows are used inside of the reduced loops"
            with self._text.at(counter.level):
                outer = self._text.define(f"mul i64 {place}, {extent}") if place != "0" else place
                place = self._text.define(f"add i64 {outer}, {counter.register}") if outer != "0" else counter.register
        return self._text.define(f"getelementptr {type_}, ptr {slot}, i64 {place}")


def _scratch_type(dtype: DType) -> str:
    return "i8" if dtype is DType.I1 else scalar_code.register_type(dtype)


def _start(text: KernelText, accumulator: Accumulator, type_: str) -> str:
    """A slot that holds the identity from here on."""
    slot = text.slot(type_)
    text.do(f"store {type_} {accumulator.identity(type_)}, ptr {slot}")
    return slot
