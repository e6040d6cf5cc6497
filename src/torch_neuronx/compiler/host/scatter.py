"""Scatter: updates combined into elements whose place is known at run time only, in row-major order of the updates, so that results are
definite.

A loop over the updates may be shared between threads if it alone decides one coordinate of the place: different iterations then write
different elements. That holds for a window along a dimension that is not indexed (the columns of an embedding's gradient) and for an
index that is an iota (the planes of a pooling gradient). The other loops run in order within each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

from ..hlo.ir import Operation, Value
from ..hlo.types import DType
from . import scalar_code
from .accumulators import Accumulator
from .affine import Extents, Index, SplitRequest, constant, delinearise, linear_form
from .cost import LAUNCH_NANOSECONDS, element_cost
from .expression_code import ExpressionCode
from .expressions import Check, Expression, Load, form_of, walk
from .kernel import Kernel, Program, Store, stores_of
from .llvm_text import KernelText
from .loops import finish_kernel, inner_loop, row_loop, write_checks
from .nests import StridesOf, space_of_elements
from .scalar_code import UnsupportedError
from .schedule import Schedule
from .trace import Tracer, flatten

# Neighbouring columns that one task updates together.
_BLOCK_WIDTH = 256


@dataclass(frozen=True, slots=True)
class ScatterNest:
    """For every iteration of ``extents``: combine ``updates`` (one, or the parts of a complex one) into ``value``, where ``inside``
    holds (None: always).

    ``index`` is the place by dimension; ``window_loops`` are the loops that run within one window.
    """

    value: Value
    kind: str
    extents: Extents
    index: Index
    inside: Expression | None
    updates: tuple[Store, ...]
    checks: tuple[Check, ...]
    window_loops: frozenset[int]

    def roots(self) -> list[Expression]:
        conditions = [check.condition for check in self.checks] + ([self.inside] if self.inside is not None else [])
        return [*conditions, *self.terms(), *(update.expression for update in self.updates)]

    def terms(self) -> list[Expression]:
        """The run-time numbers that the places are made of."""
        return [term for term, _ in self.updates[0].address.terms]

    def loads(self) -> list[Load]:
        return [expression for expression in walk(self.roots()) if isinstance(expression, Load)]


def trace_scatter(operation: Operation, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> ScatterNest:
    """The updates of a scatter whose result already holds the operand. MustRealise passes through."""
    updates = operation.operands[2]
    space = space_of_elements(updates)
    while True:
        try:
            return _trace(operation, space.extents, strides_of, scalar_slots)
        except SplitRequest as request:
            space = space.split(request.loop, request.inner)


def _trace(operation: Operation, extents: Extents, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> ScatterNest:
    updates, attributes = operation.operands[2], operation.attributes
    if updates.dtype.is_complex and attributes["kind"] not in ("set", "add"):
        raise UnsupportedError(
            f"scatter {attributes['kind']} of {updates.dtype}: the host target combines complex numbers by set and add only"
        )
    tracer = Tracer(extents, strides_of, scalar_slots)
    here = delinearise(linear_form(extents), updates.shape, extents)
    index, inside = _places(tracer, operation, here)
    strides = strides_of(operation.result)
    assert strides is not None, "the result of a scatter is in memory"
    address = flatten(index, strides, len(extents))
    places = stores_of(operation.result, address, tracer.trace(updates, here, inside))
    window_loops = frozenset(
        loop for dim in attributes["update_window_dims"] for loop, coefficient in enumerate(here[dim].coefficients) if coefficient
    )
    return ScatterNest(operation.result, attributes["kind"], extents, index, inside, places, tuple(tracer.checks), window_loops)


def _places(tracer: Tracer, operation: Operation, here: Index) -> tuple[Index, Expression | None]:
    """The index into the operand for each update, and whether it is one."""
    operand, indices, _ = operation.operands
    attributes = operation.attributes
    window_dims, vector_dim = attributes["update_window_dims"], attributes["index_vector_dim"]
    batch = [position for dim, position in enumerate(here) if dim not in window_dims]
    zero = constant(0, len(tracer.extents))
    index = [zero] * operand.type.rank
    sizes = [1] * operand.type.rank
    for dim, window_dim in zip((d for d in range(operand.type.rank) if d not in attributes["inserted_window_dims"]), window_dims):
        index[dim] = here[window_dim]
        sizes[dim] = operation.operands[2].shape[window_dim]
    inside: Expression | None = None
    for component, dim in enumerate(attributes["scatter_dims_to_operand_dims"]):
        place = list(batch)
        if vector_dim < indices.type.rank:
            place.insert(vector_dim, zero.shifted(component))
        start = tracer.as_position(tracer.trace(indices, tuple(place)))
        # A window that does not fit is dropped as a whole.
        inside = tracer.both(inside, tracer.inside(start, operand.shape[dim] - sizes[dim] + 1))
        index[dim] = index[dim] + start
    if attributes["fail"] is not None and inside is not None:
        tracer.checks.append(tracer.failing_unless(inside, attributes["fail"]))
    return tuple(index), inside


def emit_scatter(nest: ScatterNest, program: Program) -> Kernel:
    """The kernel of a scatter's updates."""
    loops = [loop for loop, extent in enumerate(nest.extents) if extent > 1]
    schedule = Schedule(tuple((loop,) for loop in loops), tuple(nest.extents[loop] for loop in loops))
    shared = [k for k, loop in enumerate(loops) if _decides_a_coordinate(nest, loop)]
    column = len(loops) - 1 if shared and shared[-1] == len(loops) - 1 else None
    outer = [k for k in shared if k != column]
    # One index after the other, whole windows: duplicates meet in the order of the indices.
    inner = sorted((k for k in range(len(loops)) if k not in shared), key=lambda k: (loops[k] in nest.window_loops, k))
    code = ExpressionCode(schedule, program)
    text = code.text
    blocks = 1 if column is None else -(-schedule.extents[column] // _BLOCK_WIDTH)
    extents = [*(schedule.extents[k] for k in outer), blocks]
    with row_loop(text, extents) as counters, ExitStack() as opened:
        for k, counter in zip(outer, counters):
            code.counters[k] = counter
        block = None if column is None else _block_bounds(text, counters[-1].register, schedule.extents[column])
        for k in inner:
            opened.enter_context(inner_loop(code, k, "0", text.param(schedule.extents[k])))
        _write_updates(code, nest, column, block)
    cost = prod(nest.extents) * (element_cost(nest.roots(), 2 * nest.value.dtype.itemsize) + 1.0) + LAUNCH_NANOSECONDS
    return finish_kernel(code, prod(extents), cost)


def _decides_a_coordinate(nest: ScatterNest, loop: int) -> bool:
    return any(
        not position.terms and [k for k, coefficient in enumerate(position.coefficients) if coefficient] == [loop]
        for position in nest.index
    )


def _block_bounds(text: KernelText, block: str, width: int) -> tuple[str, str]:
    begin = text.define(f"mul i64 {block}, {_BLOCK_WIDTH}")
    return begin, text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {begin}, {_BLOCK_WIDTH}"), text.param(width))


def _write_updates(code: ExpressionCode, nest: ScatterNest, column: int | None, block: tuple[str, str] | None) -> None:
    """The updates of one position of the serial loops: as a loop over the block's columns, inside of the bounds test where that is the
    same for all.
    """
    by_column = column is not None and nest.inside is not None and _varies(nest.inside, code.schedule.groups[column][0])
    with ExitStack() as opened:
        if not by_column:
            opened.enter_context(_where_inside(code, nest))
        if column is not None:
            assert block is not None
            opened.enter_context(inner_loop(code, column, *block))
        if by_column:
            opened.enter_context(_where_inside(code, nest))
        for update, register in [(update, code.emit(update.expression)) for update in nest.updates]:
            if nest.kind == "set":
                code.store(update, register)
            else:
                code.update(update, partial(_combined, code.text, nest.kind, update.expression.dtype, register))


def _combined(text: KernelText, kind: str, dtype: DType, register: str, before: str) -> str:
    type_ = scalar_code.register_type(dtype)
    return Accumulator(kind, dtype, type_, type_).combine_exactly(text, before, register)


@contextmanager
def _where_inside(code: ExpressionCode, nest: ScatterNest) -> Iterator[None]:
    write_checks(code, nest.checks)
    for term in nest.terms():
        code.emit(term)
    if nest.inside is None:
        yield
        return
    with code.text.when(code.emit(nest.inside)):
        yield


def _varies(root: Expression, loop: int) -> bool:
    forms = (form_of(expression) for expression in walk([root]))
    return any(form is not None and form.coefficients[loop] for form in forms)
