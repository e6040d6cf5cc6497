"""Writing one kernel's LLVM IR as text: nested loops whose bodies are filled level by level.

Level 0 is the function's entry, every open loop is one more level. An instruction goes to the level that its operands vary in, and not
deeper: what does not depend on a loop is outside of it by construction. A loop's text is inserted into its parent when it is closed.
Loops run at least once.

Mutable scalars (accumulators, the status) are stack slots; LLVM's first pass turns them into registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .emitter import Emitter
from .target import Target

# Innermost loops up to this many iterations have their extent in the code.
SHORT = 64
# For loops that are not to be vectorised, as if a vector had one element.
SCALAR = 1
# Loops up to this many iterations are unrolled; no vector has two elements, so that number is free to say it.
_UNROLLED, _UNROLL = 8, 2
PARAMETERS = "ptr %buffers, ptr %params, ptr %scalars, i64 %begin, i64 %end"


@dataclass(slots=True)
class Level:
    """The body of a loop that is being written. ``label`` is the basic block that the next instruction belongs to."""

    label: str
    lines: list[str] = field(default_factory=list)
    phis: list[str] = field(default_factory=list)


class KernelText:
    """The text of a kernel under construction: its body, what it needs from the launch, and the entry that passes it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.levels = [Level("entry")]
        self.emitter = Emitter(self.define)
        self.params: list[int] = []
        self.buffer_count = 0
        self._allocas: list[str] = []
        self._names = 0
        self._status: str | None = None
        self._hints: set[int] = set()

    # Instructions

    def fresh(self, prefix: str = "t") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def define(self, text: str) -> str:
        """An instruction with a result, at the innermost open level unless redirected by ``at``."""
        name = f"%{self.fresh()}"
        self.levels[-1].lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.levels[-1].lines.append(f"  {text}")

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Sends instructions to an outer level for a while."""
        inner = self.levels[level + 1 :]
        del self.levels[level + 1 :]
        try:
            yield
        finally:
            self.levels.extend(inner)

    @property
    def depth(self) -> int:
        """The innermost open level."""
        return len(self.levels) - 1

    # What the launch gives

    def extent(self, value: int) -> str:
        """The number of iterations of an innermost loop. A small one is part of the code: without the vectoriser's tests and remainders,
        rows of a few elements take a fraction of the time.
        """
        return str(value) if value <= SHORT else self.param(value)

    def param(self, value: int) -> str:
        """A number that is passed at each launch; loaded in the entry."""
        self.params.append(value)
        return f"%p{len(self.params) - 1}"

    def buffer(self) -> str:
        """The next buffer's pointer. Different buffers never overlap."""
        self.buffer_count += 1
        return f"%b{self.buffer_count - 1}"

    def scalar(self, slot: int, type_: str) -> str:
        """The launch's scalar in a slot. The slot is a parameter, so that one kernel serves many tensors of a program."""
        with self.at(0):
            return self.define(f"load {type_}, ptr {self.define(f'getelementptr i64, ptr %scalars, i64 {self.param(slot)}')}")

    # Control flow

    def slot(self, type_: str, count: int = 1) -> str:
        """Stack memory of the kernel for ``count`` elements, aligned for vectors."""
        name = f"%{self.fresh('slot')}"
        self._allocas.append(f"  {name} = alloca {type_}, i64 {count}, align 64" if count > 1 else f"  {name} = alloca {type_}")
        return name

    @contextmanager
    def loop(self, begin: str, end: str, step: str = "1", lanes: int = 0) -> Iterator[str]:
        """A counting loop over [begin, end), which is not empty. Yields the counter. ``lanes``: the vectoriser need consider no other
        width.

        A very short loop of a known number of iterations is unrolled.
        """
        counter, following = f"%{self.fresh('i')}", f"%{self.fresh('n')}"
        head, after = self.fresh("loop"), self.fresh("after")
        self.levels.append(Level(head))
        yield counter
        body = self.levels.pop()
        parent = self.levels[-1]
        parent.lines += [
            f"  br label %{head}",
            f"{head}:",
            f"  {counter} = phi i64 [ {begin}, %{parent.label} ], [ {following}, %{body.label} ]",
            *(phi.replace("@before", f"%{parent.label}").replace("@latch", f"%{body.label}") for phi in body.phis),
            *body.lines,
            f"  {following} = add nuw nsw i64 {counter}, {step}",
            f"  {self._more(following, end, head, after)}{self._hint(lanes, begin, end)}",
            f"{after}:",
        ]
        parent.label = after

    def _more(self, counter: str, end: str, head: str, after: str) -> str:
        condition = f"%{self.fresh('c')}"
        return f"{condition} = icmp slt i64 {counter}, {end}\n  br i1 {condition}, label %{head}, label %{after}"

    def _hint(self, lanes: int, begin: str, end: str) -> str:
        if begin == "0" and end.isdigit():
            # LLVM sees the number of iterations and knows best, if only it unrolls what is too short for a vector.
            lanes = _UNROLL if int(end) <= _UNROLLED else 0
        if not lanes:
            return ""
        self._hints.add(lanes)
        return f", !llvm.loop !{lanes}"

    def carried(self, type_: str, initial: str, following: str) -> str:
        """A loop-carried register of the innermost loop: ``initial`` at first, then ``following`` (which may be defined later)."""
        name = f"%{self.fresh('c')}"
        self.levels[-1].phis.append(f"  {name} = phi {type_} [ {initial}, @before ], [ {following}, @latch ]")
        return name

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Instructions that run only where the condition holds."""
        then, join = self.fresh("then"), self.fresh("join")
        self.do(f"br i1 {condition}, label %{then}, label %{join}")
        self._start_block(then)
        yield
        self.do(f"br label %{join}")
        self._start_block(join)

    def load_guarded(self, condition: str, type_: str, pointer: str) -> str:
        """A load where the condition holds, else zero."""
        before = self.levels[-1].label
        with self.when(condition):
            loaded = self.define(f"load {type_}, ptr {pointer}")
            then = self.levels[-1].label
        zero = "0.0" if type_ in ("float", "double", "half") else "0"
        return self.define(f"phi {type_} [ {zero}, %{before} ], [ {loaded}, %{then} ]")

    def masked_store(self, vector: str, value: str, pointer: str, align: int, mask: Sequence[bool]) -> None:
        """Stores the lanes of a vector, written ``<lanes x type>``, whose mask is set."""
        lanes, _, element = vector.strip("<>").split()
        name = f"@llvm.masked.store.v{lanes}{element}.p0"
        self.emitter.declarations[f"declare void {name}({vector}, ptr, i32 immarg, <{lanes} x i1>)"] = None
        bits = ", ".join(f"i1 {str(bit).lower()}" for bit in mask)
        self.do(f"call void {name}({vector} {value}, ptr {pointer}, i32 {align}, <{lanes} x i1> <{bits}>)")

    def fail_when(self, condition: str, status: int) -> None:
        """Leaves the kernel with a status where the condition holds."""
        with self.when(condition):
            self.do(f"ret i32 {status}")
            self._start_block(self.fresh("dead"))

    def note_failure(self, condition: str, status: int) -> None:
        """Makes the kernel return a status at its end where the condition held; the loop stays free of exits, so that it can be
        vectorised.
        """
        if self._status is None:
            self._status = self.slot("i32")
            with self.at(0):
                self.do(f"store i32 0, ptr {self._status}")
        before = self.define(f"load i32, ptr {self._status}")
        self.do(f"store i32 {self.define(f'select i1 {condition}, i32 {status}, i32 {before}')}, ptr {self._status}")

    def _start_block(self, label: str) -> None:
        level = self.levels[-1]
        level.lines.append(f"{label}:")
        level.label = label

    # The module

    def finish(self, definitions: str) -> str:
        """The module's text, with the definitions of the functions it calls."""
        target = self.target
        (entry,) = self.levels
        self.do(f"ret i32 {self.define(f'load i32, ptr {self._status}') if self._status else 0}")
        pointers = "".join(f"ptr noalias %b{number}, " for number in range(self.buffer_count))
        params = [
            line
            for number in range(len(self.params))
            for line in (
                f"  %p{number}.at = getelementptr i64, ptr %params, i64 {number}",
                f"  %p{number} = load i64, ptr %p{number}.at",
            )
        ]
        # Without builtins LLVM makes no calls of memset and memcpy, which kernels do not have.
        tuning = f'"prefer-vector-width"="{target.vector_bits}" "no-builtins"'
        attributes = f'nounwind "target-cpu"="{target.cpu}" "target-features"="{target.features}" {tuning}'
        arguments = f"{pointers}ptr noalias readonly %params, ptr noalias readonly %scalars, i64 %begin, i64 %end"
        return "\n".join(
            [
                f'target triple = "{target.triple}"',
                *_once(self.emitter.declarations, definitions),
                f"define internal i32 @body({arguments}) noinline #0 {{",
                "entry:",
                *self._allocas,
                *params,
                *entry.lines,
                "}",
                *self._entry_lines(),
                f"attributes #0 = {{ {attributes} }}",
                *(line for lanes in sorted(self._hints) for line in _hint_metadata(lanes)),
                "",
            ]
        )

    def _entry_lines(self) -> list[str]:
        lines = [f"define i32 @kernel({PARAMETERS}) #0 {{"]
        for number in range(self.buffer_count):
            lines += [f"  %b{number}.at = getelementptr ptr, ptr %buffers, i64 {number}", f"  %b{number} = load ptr, ptr %b{number}.at"]
        pointers = "".join(f"ptr %b{number}, " for number in range(self.buffer_count))
        return [
            *lines,
            f"  %status = call i32 @body({pointers}ptr %params, ptr %scalars, i64 %begin, i64 %end)",
            "  ret i32 %status",
            "}",
        ]


def _hint_metadata(lanes: int) -> list[str]:
    """Metadata node number ``lanes``, for all loops of that width (or that are to be unrolled)."""
    if lanes == _UNROLL:
        properties = ['!"llvm.loop.unroll.full"']
    else:
        properties = [f'!"llvm.loop.vectorize.width", i32 {lanes}'] + ['!"llvm.loop.interleave.count", i32 1'] * (lanes == SCALAR)
    numbers = range(100 * lanes, 100 * lanes + len(properties))
    node = f"!{lanes} = distinct !{{!{lanes}, {', '.join(f'!{number}' for number in numbers)}}}"
    return [node, *(f"!{number} = !{{{text}}}" for number, text in zip(numbers, properties))]


def _once(declarations: dict[str, None], definitions: str) -> list[str]:
    """Declarations and definitions together, each intrinsic declared once."""
    lines = dict.fromkeys(declarations)
    rest = []
    for line in definitions.splitlines():
        if line.startswith("declare "):
            lines[line] = None
        else:
            rest.append(line)
    return [*lines, *rest]
