"""Elementwise kernels with operands that are contiguous along another loop than the result: transposed reads.

The two loops are cut into tiles. Per tile, each transposed operand is first copied into a small array on the stack in the result's order,
in square blocks that are transposed in vector registers; then the tile is computed with contiguous loads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from . import scalar_code
from .cost import nest_cost
from .expression_code import Counter, ExpressionCode
from .expressions import Load
from .kernel import Kernel, Nest, Program
from .llvm_text import SCALAR, KernelText
from .loops import finish_kernel, inner_loop, row_loop, write_checks, write_stores
from .schedule import Schedule

# Iterations of each of the two loops in a tile: 16 KiB of f32.
_TILE = 64
# Largest block: larger ones are no faster, and take LLVM longer.
_BLOCK = 8
# Loops shorter than this are not worth a tile.
_MIN_EXTENT = 8


@dataclass(frozen=True, slots=True)
class Transposition:
    """The loop along which ``loads`` are contiguous, where the result is along the innermost."""

    loop: int
    loads: tuple[Load, ...]


def find_transposition(nest: Nest, schedule: Schedule) -> Transposition | None:
    """The transposed reads of a nest that are worth tiles."""
    if len(schedule.extents) < 2 or schedule.extents[-1] < _MIN_EXTENT:
        return None
    found: dict[int, list[Load]] = {}
    for load in nest.loads():
        steps = schedule.coefficients(load.address)
        if load.guard is None and not load.address.terms and steps[-1] not in (0, 1, -1):
            for loop, step in enumerate(steps[:-1]):
                if step == 1 and schedule.extents[loop] >= _MIN_EXTENT:
                    found.setdefault(loop, []).append(load)
    if not found:
        return None
    loop = max(found, key=lambda loop: len(found[loop]))
    return Transposition(loop, tuple(found[loop]))


def emit_tiles(nest: Nest, schedule: Schedule, transposition: Transposition, program: Program) -> Kernel:
    """The kernel of a nest with transposed reads. The parallel range is the other loops and the tiles."""
    code = ExpressionCode(schedule, program)
    text = code.text
    across, along = transposition.loop, len(schedule.extents) - 1
    outer = [loop for loop in range(along) if loop != across]
    tiles = [-(-schedule.extents[loop] // _TILE) for loop in (across, along)]
    extents = [*(schedule.extents[loop] for loop in outer), *tiles]
    sizes = [text.param(schedule.extents[loop]) for loop in (across, along)]
    with row_loop(text, extents) as counters:
        for loop, counter in zip(outer, counters):
            code.counters[loop] = counter
        bounds = [_bounds(text, counter, size) for counter, size in zip(counters[-2:], sizes)]
        for load in transposition.loads:
            _Staging(code, load, across, along, bounds).write()
        lanes = code.lanes(nest.roots(), [store.address for store in nest.stores], along)
        with inner_loop(code, across, *bounds[0]), inner_loop(code, along, *bounds[1], lanes):
            write_checks(code, nest.checks)
            write_stores(code, nest.stores)
        code.kept.clear()
        code.close(text.depth)
    return finish_kernel(code, prod(extents), nest_cost(nest))


def _bounds(text: KernelText, tile: Counter, size: str) -> tuple[str, str]:
    begin = text.define(f"mul i64 {tile.register}, {_TILE}")
    return begin, text.emitter.intrinsic("smin", "i64", text.define(f"add i64 {begin}, {_TILE}"), size)


class _Staging:
    """Copies one operand's part of a tile into an array with ``_TILE`` elements per row of the result."""

    def __init__(self, code: ExpressionCode, load: Load, across: int, along: int, bounds: Sequence[tuple[str, str]]) -> None:
        self._code = code
        self._text = code.text
        self._load = load
        self._across = across
        self._along = along
        self._bounds = bounds
        self._type = scalar_code.memory_type(load.dtype)
        self._block = min(_BLOCK, code.text.target.vector_bits // (8 * load.dtype.itemsize))
        self._array = code.text.slot(self._type, _TILE * _TILE)

    def write(self) -> None:
        (first, last), (left, right) = self._bounds
        # Whole blocks end here; what is beyond is copied element by element.
        below, beside = self._whole(first, last), self._whole(left, right)
        with self._if_any(first, below, left, beside):
            self._blocks(first, below, left, beside)
        with self._if_any(first, last, beside, right):
            self._elements(first, last, beside, right)
        with self._if_any(below, last, left, beside):
            self._elements(below, last, left, beside)
        self._code.kept[self._load] = self._read

    def _read(self) -> tuple[str, int]:
        counters = [self._code.counters[loop] for loop in (self._across, self._along)]
        assert counters[0] is not None and counters[1] is not None, "tiles are read inside of their loops"
        loaded = self._text.define(f"load {self._type}, ptr {self._place(counters[0], counters[1].register)}")
        return scalar_code.from_memory(self._text.emitter, self._load.dtype, loaded), self._text.depth

    def _place(self, row: Counter, column: str) -> str:
        """The array's element for a place in the tile's loops."""
        with self._text.at(row.level):
            within = self._text.define(f"sub i64 {row.register}, {self._bounds[0][0]}")
            start = self._text.define(
                f"getelementptr {self._type}, ptr {self._array}, i64 {self._text.define(f'mul i64 {within}, {_TILE}')}"
            )
        return self._text.define(
            f"getelementptr {self._type}, ptr {start}, i64 {self._text.define(f'sub i64 {column}, {self._bounds[1][0]}')}"
        )

    def _whole(self, begin: str, end: str) -> str:
        length = self._text.define(f"and i64 {self._text.define(f'sub i64 {end}, {begin}')}, {-self._block}")
        return self._text.define(f"add i64 {begin}, {length}")

    @contextmanager
    def _if_any(self, first: str, last: str, left: str, right: str) -> Iterator[None]:
        rows = self._text.define(f"icmp slt i64 {first}, {last}")
        columns = self._text.define(f"icmp slt i64 {left}, {right}")
        with self._text.when(self._text.define(f"and i1 {rows}, {columns}")):
            yield

    def _elements(self, first: str, last: str, left: str, right: str) -> None:
        """Column by column, as the operand lies in memory."""
        text, code = self._text, self._code
        with inner_loop(code, self._along, left, right), inner_loop(code, self._across, first, last, SCALAR):
            row, column = code.counters[self._across], code.counters[self._along]
            assert row is not None and column is not None
            pointer = code.pointer(self._load.value, self._load.address, self._load.dtype)
            text.do(f"store {self._type} {text.define(f'load {self._type}, ptr {pointer}')}, ptr {self._place(row, column.register)}")

    def _blocks(self, first: str, last: str, left: str, right: str) -> None:
        """Square blocks: as many vectors along the operand as a vector has elements, transposed by exchanging halves, quarters, ..."""
        text, code, size = self._text, self._code, self._block
        vector = f"<{size} x i{8 * self._load.dtype.itemsize}>"
        with text.loop(first, last, str(size)) as row, text.loop(left, right, str(size)) as column:
            code.counters[self._across], code.counters[self._along] = Counter(row, text.depth - 1), Counter(column, text.depth)
            vectors = []
            corner = code.pointer(self._load.value, self._load.address, self._load.dtype)
            step = text.param(self._code.schedule.coefficients(self._load.address)[self._along])
            for lane in range(size):
                source = text.define(f"getelementptr {self._type}, ptr {corner}, i64 {text.define(f'mul i64 {step}, {lane}')}")
                vectors.append(text.define(f"load {vector}, ptr {source}, align {self._load.dtype.itemsize}"))
            start = self._place(Counter(row, text.depth), column)
            for lane, transposed in enumerate(_transpose(text, vector, vectors)):
                target = text.define(f"getelementptr {self._type}, ptr {start}, i64 {lane * _TILE}")
                text.do(f"store {vector} {transposed}, ptr {target}, align {self._load.dtype.itemsize}")
            code.close(text.depth - 1)
            code.counters[self._across] = code.counters[self._along] = None


def _transpose(text: KernelText, type_: str, rows: list[str]) -> list[str]:
    """The columns of a square matrix of vectors. Each step exchanges the off-diagonal quarters of all blocks of twice its distance."""
    size = len(rows)
    rows = list(rows)
    distance = 1
    while distance < size:
        low = [lane if not lane & distance else size + lane - distance for lane in range(size)]
        high = [lane + distance if not lane & distance else size + lane for lane in range(size)]
        for row in (row for row in range(size) if not row & distance):
            pair = f"{type_} {rows[row]}, {type_} {rows[row + distance]}"
            rows[row], rows[row + distance] = (
                text.define(f"shufflevector {pair}, <{size} x i32> <{', '.join(f'i32 {lane}' for lane in mask)}>") for mask in (low, high)
            )
        distance *= 2
    return rows
