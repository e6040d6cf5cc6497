"""The loops that kernels of all forms are made of, and what is written in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from . import vector_math
from .expression_code import Counter, ExpressionCode
from .expressions import Check
from .kernel import Kernel, Store
from .llvm_text import KernelText


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


def write_checks(code: ExpressionCode, checks: Sequence[Check]) -> None:
    """Fails the launch where a check's condition holds: at once in an outer loop, at the end if found in the innermost."""
    for check in checks:
        condition, status = code.emit(check.condition), code.program.status(check.message)
        level = code.level(check.condition)
        if level == code.text.depth:
            code.text.note_failure(condition, status)
        else:
            with code.text.at(level):
                code.text.fail_when(condition, status)


def finish_kernel(code: ExpressionCode, range_: int, cost: float) -> Kernel:
    """The kernel whose text is complete; ``cost`` is nanoseconds of the whole ``range_``."""
    text = code.text
    definitions = vector_math.definitions(text.emitter.vector_math) if text.emitter.vector_math else ""
    values = tuple(value for _, value in code.buffers.values())
    return Kernel(text.finish(definitions), values, tuple(text.params), range_, cost)
