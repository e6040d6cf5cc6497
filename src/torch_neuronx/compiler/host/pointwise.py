"""Kernels without reductions: every element of the outputs by itself.

With one loop after collapsing, that loop is the parallel range. With more, the range runs over rows: all outer loops together, whose
counters are taken apart once per task and then stepped like an odometer; the innermost loop is left whole for the vectoriser.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from ..hlo.ir import Value
from . import vector_math
from .cost import nest_cost
from .expression_code import Counter, ExpressionCode
from .expressions import Check
from .kernel import BufferKey, Kernel, Nest, Store
from .llvm_text import KernelText
from .schedule import Schedule
from .target import Target


class Buffers:
    """The distinct buffers of a kernel, in order of first use."""

    def __init__(self, text: KernelText, key: BufferKey) -> None:
        self._text = text
        self._key = key
        self._pointers: dict[Hashable, str] = {}
        self.values: list[Value] = []

    def pointer(self, value: Value) -> str:
        key = self._key(value)
        if key not in self._pointers:
            self._pointers[key] = self._text.buffer()
            self.values.append(value)
        return self._pointers[key]


def emit_pointwise(nest: Nest, schedule: Schedule, key: BufferKey, messages: list[str], target: Target) -> Kernel:
    """The kernel of a nest without reductions. ``messages`` are the program's failure texts, extended by the nest's."""
    text = KernelText(target)
    buffers = Buffers(text, key)
    code = ExpressionCode(text, schedule, [None] * len(schedule.groups), buffers.pointer, no_state)
    with _elements(code, code.lanes(nest.roots(), [store.address for store in nest.stores], len(schedule.extents) - 1)):
        write_checks(code, nest.checks, messages)
        write_stores(code, nest.stores)
    range_ = prod(schedule.extents[:-1]) if len(schedule.extents) > 1 else schedule.size
    return finish_kernel(text, buffers, range_, nest_cost(nest))


def finish_kernel(text: KernelText, buffers: Buffers, range_: int, cost: float) -> Kernel:
    definitions = vector_math.definitions(text.emitter.vector_math) if text.emitter.vector_math else ""
    module = text.finish(definitions)
    return Kernel(module, tuple(buffers.values), tuple(text.params), range_, cost)


@contextmanager
def row_loop(text: KernelText, extents: Sequence[int]) -> Iterator[list[Counter]]:
    """The parallel loop over rows [begin, end) of the space of ``extents``. Yields one counter per extent."""
    sizes = [text.param(extent) for extent in extents]
    starts, rest = [""] * len(extents), "%begin"
    for loop in reversed(range(1, len(extents))):
        starts[loop] = text.define(f"urem i64 {rest}, {sizes[loop]}")
        rest = text.define(f"udiv i64 {rest}, {sizes[loop]}")
    starts[0] = rest
    with text.loop("%begin", "%end"):
        following = [f"%{text.fresh('d')}" for _ in extents]
        counters = [Counter(text.carried("i64", start, next_), text.depth) for start, next_ in zip(starts, following)]
        yield counters
        carry = "true"
        for loop in reversed(range(len(extents))):
            stepped = text.define(f"add nuw nsw i64 {counters[loop].register}, {text.define(f'zext i1 {carry} to i64')}")
            if loop > 0:
                carry = text.define(f"icmp eq i64 {stepped}, {sizes[loop]}")
                text.do(f"{following[loop]} = select i1 {carry}, i64 0, i64 {stepped}")
            else:
                text.do(f"{following[loop]} = add i64 {stepped}, 0")


@contextmanager
def rows(code: ExpressionCode, loops: Sequence[int]) -> Iterator[None]:
    """Opens the given loops of the schedule as the parallel range; without any, the body runs once."""
    if not loops:
        yield
        return
    with row_loop(code.text, [code.schedule.extents[loop] for loop in loops]) as counters:
        for loop, counter in zip(loops, counters):
            code.counters[loop] = counter
        yield
        code.close(code.text.depth)
        for loop in loops:
            code.counters[loop] = None


@contextmanager
def inner_loop(code: ExpressionCode, loop: int, begin: str, end: str, lanes: int = 0) -> Iterator[None]:
    """Opens one loop of the schedule over [begin, end). ``lanes``: see ``KernelText.loop``."""
    with code.text.loop(begin, end, lanes=lanes) as register:
        code.counters[loop] = Counter(register, code.text.depth)
        yield
        code.close(code.text.depth)
        code.counters[loop] = None


def write_stores(code: ExpressionCode, stores: Iterable[Store]) -> None:
    """Writes elements at the innermost level; all are computed before the first is written, as buffers may be updated in place."""
    for store, register in [(store, code.emit(store.expression)) for store in stores]:
        code.store(store, register)


def write_checks(code: ExpressionCode, checks: Sequence[Check], messages: list[str]) -> None:
    """Fails the launch where a check's condition holds: at once in an outer loop, at the end if found in the innermost."""
    for check in checks:
        if check.message not in messages:
            messages.append(check.message)
        condition, status = code.emit(check.condition), messages.index(check.message) + 1
        level = code.level(check.condition)
        if level == code.text.depth:
            code.text.note_failure(condition, status)
        else:
            with code.text.at(level):
                code.text.fail_when(condition, status)


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
        with rows(code, range(loops - 1)), inner_loop(code, loops - 1, "0", code.text.param(code.schedule.extents[-1]), lanes):
            yield


def no_state(state: tuple[Value, int]) -> tuple[str, int]:
    """For kernels whose expressions contain no finished reduction."""
    raise AssertionError(f"{state[0].type}: a kernel without reductions has no states")
