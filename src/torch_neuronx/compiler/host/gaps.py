"""Elementwise kernels with operands whose elements lie a few places apart along the innermost loop: x[:, ::2], parts of complex numbers.

LLVM's vectoriser makes one scalar access per element of them. Here a chunk of the loop is collected into a contiguous array on the stack,
with loads of whole vectors and permutations, then computed with contiguous accesses only, and what is to be written with gaps is spread
from such an array by stores under a mask. Masks, since what lies in the gaps may be another program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from ..hlo.ir import Value
from ..hlo.types import DType
from . import scalar_code
from .affine import Affine
from .cost import nest_cost
from .expression_code import Counter, ExpressionCode
from .expressions import Load
from .kernel import Kernel, Nest, Program, Store
from .llvm_text import SCALAR
from .loops import finish_kernel, inner_loop, rows, write_checks
from .schedule import Schedule

# Iterations at a time: the arrays stay in the L1 cache.
_CHUNK = 512
_STEPS = (2, 3, 4)
# Loops shorter than this are not worth the arrays.
_MIN_EXTENT = 32


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is read and written with gaps."""

    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def find_gaps(nest: Nest, schedule: Schedule) -> Gaps | None:
    """The accesses of a nest with a small step along the innermost loop, if that is long enough."""
    if not schedule.extents or schedule.extents[-1] < _MIN_EXTENT:
        return None

    def has_gaps(address: Affine) -> bool:
        return not address.terms and schedule.coefficients(address)[-1] in _STEPS

    loads = tuple(load for load in nest.loads() if load.guard is None and has_gaps(load.address))
    stores = tuple(store for store in nest.stores if has_gaps(store.address))
    return Gaps(loads, stores) if loads or stores else None


def emit_gapped(nest: Nest, schedule: Schedule, gaps: Gaps, program: Program) -> Kernel:
    """The kernel of a nest with ``gaps``. The parallel range is that of pointwise kernels."""
    code = ExpressionCode(schedule, program)
    outer = range(len(schedule.extents) - 1)
    extent = code.text.param(schedule.extents[-1])
    with rows(code, outer):
        begin, end = ("0", extent) if outer else ("%begin", "%end")
        with code.text.loop(begin, end, str(_CHUNK)) as first:
            chunk = _Chunk(code, first, end, extent)
            if _is_plain_copy(nest, schedule):
                chunk.copy(nest.stores[0], gaps)
            else:
                for load in gaps.loads:
                    chunk.load(load)
                chunk.compute(nest, gaps.stores)
            code.kept.clear()
            code.close(code.text.depth)
    return finish_kernel(code, prod(schedule.extents[:-1]) if outer else schedule.size, nest_cost(nest))


def _is_plain_copy(nest: Nest, schedule: Schedule) -> bool:
    """Whether elements only move, and lie without gaps on one side."""
    if nest.checks or len(nest.stores) > 1 or not isinstance(nest.stores[0].expression, Load):
        return False
    addresses = (nest.stores[0].address, nest.stores[0].expression.address)
    return any(not address.terms and schedule.coefficients(address)[-1] == 1 for address in addresses)


# The pointer to where an iteration's element is.
Place = Callable[[str], str]


class _Chunk:
    """The iterations [first, stop) of the innermost loop, which has ``extent`` iterations in all."""

    def __init__(self, code: ExpressionCode, first: str, end: str, extent: str) -> None:
        self._code = code
        self._text = code.text
        self._loop = len(code.schedule.extents) - 1
        self._first = first
        self._stop = self._least(code.text.define(f"add i64 {first}, {_CHUNK}"), end)
        self._extent = extent

    def copy(self, store: Store, gaps: Gaps) -> None:
        """A plain copy, straight from memory to memory."""
        assert isinstance(store.expression, Load)
        if gaps.loads:
            self._collect(store.expression, self._memory(store.value, store.address, store.expression.dtype))
        else:
            load = store.expression
            self._spread(store, self._memory(load.value, load.address, load.dtype))

    def load(self, load: Load) -> None:
        """Reads what ``load`` reads in this chunk into an array, in place of it."""
        place = self._array(load.dtype)
        self._collect(load, place)

        def read() -> tuple[str, int]:
            type_ = scalar_code.memory_type(load.dtype)
            loaded = self._text.define(f"load {type_}, ptr {place(self._counter())}")
            return scalar_code.from_memory(self._text.emitter, load.dtype, loaded), self._text.depth

        self._code.kept[load] = read

    def compute(self, nest: Nest, gapped: tuple[Store, ...]) -> None:
        """All results of the chunk; those of ``gapped`` by way of an array."""
        code, text = self._code, self._text
        places = {store: self._array(store.expression.dtype) for store in gapped}
        lanes = code.lanes(nest.roots(), [store.address for store in nest.stores if store not in places], self._loop)
        with inner_loop(code, self._loop, self._first, self._stop, lanes):
            write_checks(code, nest.checks)
            for store, register in [(store, code.emit(store.expression)) for store in nest.stores]:
                if store in places:
                    dtype = store.expression.dtype
                    stored = scalar_code.to_memory(text.emitter, dtype, register)
                    text.do(f"store {scalar_code.memory_type(dtype)} {stored}, ptr {places[store](self._counter())}")
                else:
                    code.store(store, register)
        for store, place in places.items():
            self._spread(store, place)

    def _collect(self, load: Load, target: Place) -> None:
        """The last iteration of all is left to the elements: behind its element there may be no memory for a whole vector."""
        text, type_ = self._text, scalar_code.memory_type(load.dtype)
        step, size = self._code.schedule.coefficients(load.address)[-1], self._size(load.dtype)
        vector, align = f"<{size} x i{8 * load.dtype.itemsize}>", f"align {load.dtype.itemsize}"
        source = self._memory(load.value, load.address, load.dtype)
        whole = self._whole(self._least(self._stop, text.define(f"add i64 {self._extent}, -1")), size)
        with self._blocks(whole, size) as at:
            first = source(at)
            parts = [text.define(f"load {vector}, ptr {self._element(first, vector, part)}, {align}") for part in range(step)]
            collected = parts[0]
            for number, part in enumerate(parts[1:], start=1):
                lanes = [_collected_lane(lane * step, number, size, lane) for lane in range(size)]
                collected = self._shuffled(vector, collected, part, lanes)
            text.do(f"store {vector} {collected}, ptr {target(at)}, {align}")
        with self._elements(whole) as at:
            text.do(f"store {type_} {text.define(f'load {type_}, ptr {source(at)}')}, ptr {target(at)}")

    def _spread(self, store: Store, source: Place) -> None:
        text, dtype = self._text, store.expression.dtype
        step, size = self._code.schedule.coefficients(store.address)[-1], self._size(dtype)
        type_, vector = scalar_code.memory_type(dtype), f"<{size} x i{8 * dtype.itemsize}>"
        target = self._memory(store.value, store.address, dtype)
        whole = self._first
        # Before AVX-512 there are no masked stores of all widths, and those of AMD's are slower than elements.
        if text.target.vector_bits == 512:
            whole = self._whole(self._stop, size)
            with self._blocks(whole, size) as at:
                block = text.define(f"load {vector}, ptr {source(at)}, align {dtype.itemsize}")
                first = target(at)
                for part in range(step):
                    lanes = [place // step if place % step == 0 else -1 for place in range(part * size, (part + 1) * size)]
                    value = self._shuffled(vector, block, "poison", lanes)
                    text.masked_store(vector, value, self._element(first, vector, part), dtype.itemsize, [lane >= 0 for lane in lanes])
        with self._elements(whole) as at:
            text.do(f"store {type_} {text.define(f'load {type_}, ptr {source(at)}')}, ptr {target(at)}")

    def _memory(self, value: Value, address: Affine, dtype: DType) -> Place:
        return lambda at: self._code.pointer(value, address, dtype)

    def _array(self, dtype: DType) -> Place:
        """A new array for the chunk's elements."""
        type_ = scalar_code.memory_type(dtype)
        array = self._text.slot(type_, _CHUNK)
        return lambda at: self._text.define(f"getelementptr {type_}, ptr {array}, i64 {self._text.define(f'sub i64 {at}, {self._first}')}")

    def _counter(self) -> str:
        counter = self._code.counters[self._loop]
        assert counter is not None, "arrays are used inside of the chunk's loop"
        return counter.register

    def _size(self, dtype: DType) -> int:
        """Elements of a vector."""
        return self._text.target.vector_bits // (8 * dtype.itemsize)

    def _whole(self, bound: str, size: int) -> str:
        """Where the whole blocks of [first, bound) end."""
        length = self._text.define(f"sub i64 {bound}, {self._first}")
        return self._text.define(f"add i64 {self._first}, {self._text.define(f'and i64 {length}, {-size}')}")

    @contextmanager
    def _blocks(self, end: str, size: int) -> Iterator[str]:
        """The iterations [first, end) by ``size`` at a time."""
        some = self._text.define(f"icmp slt i64 {self._first}, {end}")
        with self._text.when(some), self._text.loop(self._first, end, str(size)) as at:
            self._code.counters[self._loop] = Counter(at, self._text.depth)
            yield at
            self._code.close(self._text.depth)
            self._code.counters[self._loop] = None

    @contextmanager
    def _elements(self, begin: str) -> Iterator[str]:
        """The iterations from ``begin`` on, one by one."""
        some = self._text.define(f"icmp slt i64 {begin}, {self._stop}")
        with self._text.when(some), inner_loop(self._code, self._loop, begin, self._stop, SCALAR):
            yield self._counter()

    def _element(self, pointer: str, type_: str, number: int) -> str:
        return self._text.define(f"getelementptr {type_}, ptr {pointer}, i64 {number}") if number else pointer

    def _shuffled(self, vector: str, first: str, second: str, lanes: list[int]) -> str:
        mask = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in lanes)
        return self._text.define(f"shufflevector {vector} {first}, {vector} {second}, <{len(lanes)} x i32> <{mask}>")

    def _least(self, first: str, second: str) -> str:
        return self._text.emitter.intrinsic("smin", "i64", first, second)


def _collected_lane(place: int, number: int, size: int, lane: int) -> int:
    """Where lane ``lane`` comes from when vector ``number`` of several is added to what was collected of those before it.

    ``place`` is the element's among all vectors. The first vector is the one before number 1 as it was read.
    """
    vector, within = divmod(place, size)
    if vector == number:
        return size + within
    if vector > number:
        return -1
    return within if number == 1 else lane
