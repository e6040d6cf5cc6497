"""Expressions to instructions: each at the loop level in which it varies, each once.

Numbers that depend on a tensor's shape or strides never appear in the text; they are parameters of the launch. Only which steps are 0 and
1 is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from ..hlo.ir import Value
from ..hlo.types import DType
from . import scalar_code
from .affine import Affine
from .expressions import Apply, Complex, Expression, Literal, Load, Position, ScalarArgument, State, form_of, walk
from .kernel import Program, Store
from .llvm_text import KernelText
from .schedule import Schedule

# Values worth their own code: they fold, or are what code commonly tests for. All other numbers may depend on shapes.
_SIMPLE = {0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("-inf")}
_STRENGTH_REDUCED = {"divide", "remainder", "shift_left", "shift_right_arithmetic", "shift_right_logical"}


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop that is open: its register, the level of its body."""

    register: str
    level: int


# The register of a finished reduction (or of its part, if complex) and its level.
StateOf = Callable[[tuple[Value, int]], tuple[str, int]]


def no_state(state: tuple[Value, int]) -> tuple[str, int]:
    """For kernels whose expressions contain no finished reduction."""
    raise AssertionError(f"{state[0].type}: a kernel without reductions has no states")


class ExpressionCode:
    """A kernel's text, and the expressions written into it so far.

    ``counters`` has one entry per loop of the schedule while that loop is open, else None. ``kept`` are expressions that an earlier loop
    has put into a scratch array, and how to read them back.
    """

    def __init__(self, schedule: Schedule, program: Program, state_of: StateOf = no_state) -> None:
        self.schedule = schedule
        self.program = program
        self.text = KernelText(program.target)
        self.counters: list[Counter | None] = [None] * len(schedule.groups)
        self.kept: dict[Expression, Callable[[], tuple[str, int]]] = {}
        self.known: dict[Expression, tuple[str, int]] = {}
        self.buffers: dict[Hashable, tuple[str, Value]] = {}
        self._state_of = state_of

    def emit(self, root: Expression) -> str:
        """The register with the value of ``root``."""
        for expression in walk([root], self.known, self.kept):
            read_back = self.kept.get(expression)
            self.known[expression] = read_back() if read_back is not None else self._emit(expression)
        return self.known[root][0]

    def level(self, expression: Expression) -> int:
        """The level of an expression that has been emitted."""
        return self.known[expression][1]

    def close(self, level: int) -> None:
        """Forgets what was computed in levels from ``level`` on, whose loops are closed."""
        for expression in [e for e, (_, at) in self.known.items() if at >= level]:
            del self.known[expression]

    def pointer(self, value: Value, address: Affine, dtype: DType) -> str:
        """The pointer to an element; ``address`` counts elements of ``dtype``."""
        return self._pointer(self._base(value), dtype, address)[0]

    def store(self, store: Store, register: str) -> None:
        """Writes the element of ``store`` at the innermost open level."""
        self._write(self.pointer(store.value, store.address, store.expression.dtype), store.expression.dtype, register)

    def update(self, store: Store, combine: Callable[[str], str]) -> None:
        """Replaces the element of ``store``, as it is now, by what ``combine`` makes of it.

        By one pointer: of two that are computed apart the vectoriser cannot tell that they are equal, and keeps the loop scalar.
        """
        dtype = store.expression.dtype
        pointer = self.pointer(store.value, store.address, dtype)
        loaded = self.text.define(f"load {scalar_code.memory_type(dtype)}, ptr {pointer}")
        self._write(pointer, dtype, combine(scalar_code.from_memory(self.text.emitter, dtype, loaded)))

    def _write(self, pointer: str, dtype: DType, register: str) -> None:
        stored = scalar_code.to_memory(self.text.emitter, dtype, register)
        self.text.do(f"store {scalar_code.memory_type(dtype)} {stored}, ptr {pointer}")

    def _emit(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Literal():
                return self._literal(expression), 0
            case ScalarArgument():
                return self.text.scalar(expression.slot, scalar_code.register_type(expression.dtype)), 0
            case State():
                return self._state_of((expression.value, expression.part))
            case Position():
                return self._position(expression.index)
            case Load():
                return self._load(expression)
            case Apply():
                return self._apply(expression)
            case Complex():
                raise AssertionError("kernels compute the parts of complex numbers")

    def _literal(self, expression: Literal) -> str:
        if expression.dtype is DType.I1 or expression.value in _SIMPLE or expression.value != expression.value:
            return scalar_code.literal(expression.value, expression.dtype)
        type_ = scalar_code.register_type(expression.dtype)
        with self.text.at(0):
            if isinstance(expression.value, float):
                exact = scalar_code.rounded_number(expression.value, expression.dtype)
                bits = self.text.param(struct.unpack("<q", struct.pack("<d", exact))[0])
                double = self.text.define(f"bitcast i64 {bits} to double")
                return double if type_ == "double" else self.text.define(f"fptrunc double {double} to float")
            param = self.text.param(int(scalar_code.literal(expression.value, DType.I64)))
            return param if type_ == "i64" else self.text.define(f"trunc i64 {param} to {type_}")

    def _apply(self, expression: Apply) -> tuple[str, int]:
        registers = [self.known[operand][0] for operand in expression.operands]
        if expression.op in _STRENGTH_REDUCED:
            divisor = expression.operands[1]
            if isinstance(divisor, Literal) and divisor.dtype.is_integer:
                registers[1] = scalar_code.literal(divisor.value, divisor.dtype)
        level = max(self.known[operand][1] for operand in expression.operands)
        with self.text.at(level):
            return scalar_code.apply(self.text.emitter, expression, registers), level

    def _load(self, expression: Load) -> tuple[str, int]:
        pointer, level = self._pointer(self._base(expression.value), expression.dtype, expression.address)
        type_ = scalar_code.memory_type(expression.dtype)
        if expression.guard is None:
            with self.text.at(level):
                loaded = self.text.define(f"load {type_}, ptr {pointer}")
                return scalar_code.from_memory(self.text.emitter, expression.dtype, loaded), level
        guard, guard_level = self.known[expression.guard]
        level = max(level, guard_level)
        with self.text.at(level):
            loaded = self.text.load_guarded(guard, type_, pointer)
            return scalar_code.from_memory(self.text.emitter, expression.dtype, loaded), level

    def lanes(self, roots: Iterable[Expression], addresses: Iterable[Affine], loop: int) -> int:
        """How many iterations of a loop of the schedule fill the vector registers; 0 (for LLVM to choose) if its memory is not
        contiguous.
        """
        if not self.schedule.groups:
            return 0
        innermost = self.schedule.groups[loop][-1]
        widest, forms = 1, list(addresses)
        for expression in walk(roots, (), self.kept):
            form = form_of(expression)
            if isinstance(expression, Load) and expression not in self.kept:
                if expression.guard is not None or expression.address.terms:
                    return 0
                forms.append(expression.address)
            if isinstance(expression, Apply) and scalar_code.calls_out_of_line(expression):
                return 0
            # The launch's scalars are read and converted before the loop.
            in_loop = not isinstance(expression, ScalarArgument | Position) or (form is not None and form.coefficients[innermost])
            if in_loop:
                widest = max(widest, scalar_code.register_bits(expression.dtype))
        if any(form.terms or form.coefficients[innermost] not in (0, 1, -1) for form in forms):
            return 0
        return self.text.target.vector_bits // max(widest, 8)

    # Affine forms

    def _base(self, value: Value) -> str:
        """The pointer to the memory that a value is in."""
        place = self.program.place(value)
        if place not in self.buffers:
            self.buffers[place] = (self.text.buffer(), value)
        return self.buffers[place][0]

    def _steps(self, form: Affine) -> list[tuple[int, str]]:
        """The summands of a form that are not constant, each with its level, outermost first."""
        steps: list[tuple[int, str]] = []
        for coefficient, counter in zip(self.schedule.coefficients(form), self.counters):
            if coefficient:
                assert counter is not None, "an expression is needed outside of a loop that it depends on"
                steps.append(
                    (counter.level, self._scaled(counter.register, coefficient, counter.level, unit_only=counter.level < self._deepest))
                )
        for term, factor in form.terms:
            register, level = self.known[term]
            steps.append((level, self._scaled(register, factor, level, unit_only=False)))
        return sorted(steps, key=lambda step: step[0])

    @property
    def _deepest(self) -> int:
        return max((counter.level for counter in self.counters if counter is not None), default=0)

    def _scaled(self, register: str, factor: int, level: int, unit_only: bool) -> str:
        """register · factor. A step of 1 or -1 is structure in the innermost loop, where the vectoriser has to see it."""
        if factor == 1 and not unit_only:
            return register
        if factor == -1 and not unit_only:
            with self.text.at(level):
                return self.text.define(f"sub nsw i64 0, {register}")
        with self.text.at(level):
            return self.text.define(f"mul nsw i64 {register}, {self.text.param(factor)}")

    def _position(self, form: Affine) -> tuple[str, int]:
        total, level = (self.text.param(form.offset) if form.offset else "0"), 0
        for level, step in self._steps(form):
            with self.text.at(level):
                total = self.text.define(f"add nsw i64 {total}, {step}")
        return total, level

    def _pointer(self, base: str, dtype: DType, form: Affine) -> tuple[str, int]:
        """The pointer to an element, and the level in which it varies. One addition per level, so that each loop sees a base and a step."""
        type_ = scalar_code.memory_type(dtype)
        pointer, level = base, 0
        if form.offset:
            with self.text.at(0):
                pointer = self.text.define(f"getelementptr {type_}, ptr {base}, i64 {self.text.param(form.offset)}")
        for level, step in self._steps(form):
            with self.text.at(level):
                pointer = self.text.define(f"getelementptr {type_}, ptr {pointer}, i64 {step}")
        return pointer, level
