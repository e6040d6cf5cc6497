"""Which values are computed together: a module cut into regions, in execution order.

At first every value in memory (see ``realise.py``) has a region of its own. Then regions join, as long as one loop nest can compute them:
consumers join their producers, and readers of the same memory join each other. What only its own region needs never reaches memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..hlo.ir import Module, Operation, Value
from .kernel import Nest
from .nests import Space, StridesOf, is_reduction, space_of, trace_nest
from .realise import choose_realised, is_generated, is_nest
from .scatter import ScatterNest
from .trace import MustRealise
from .views import view_of

# Limits of one kernel: streams that the CPU's prefetchers follow, and code size.
MAX_STREAMS = 16
MAX_MEMBERS = 48
MAX_OPERATIONS = 512
# A region with reductions runs its rows in parallel; with fewer rows than this, only small work may be in it beside the reductions.
MIN_ROWS = 8
SMALL_SIZE = 32 * 1024


@dataclass(slots=True, eq=False)
class Region:
    """Values computed by one loop nest; or the results of one operation that is something else (``operation``): a concatenation, a
    scatter, or a step of the library.
    """

    number: int
    members: list[Value]
    reads: set[Value] = field(default_factory=set)
    operation: Operation | None = None
    # How many different elements one iteration loads.
    load_count: int = 0
    # Bit k: region k runs before this one.
    ancestors: int = 0
    # What is generated in the end: the nests in order, with the stores of what others need, and a scatter's updates after them.
    nests: list[Nest] = field(default_factory=list)
    scatter: ScatterNest | None = None

    def loads(self) -> set[Value]:
        """What the region reads in its final form."""
        if not self.nests:
            return self.reads
        loads = [load for nest in self.nests for load in nest.loads()] + (self.scatter.loads() if self.scatter is not None else [])
        return {load.value for load in loads}

    @property
    def space(self) -> Space:
        """The loops of its nest, before splits: those of a reduction if there is one, else of the member with the most dimensions."""
        reduction = next((member for member in self.members if is_reduction(member)), None)
        return space_of(reduction if reduction is not None else max(self.members, key=lambda member: member.type.rank))


@dataclass(slots=True)
class Partition:
    """``regions`` in execution order; ``in_memory`` are the values that have a buffer."""

    regions: list[Region]
    in_memory: set[Value]


def partition(module: Module, home_strides: StridesOf, scalar_slots: Mapping[Value, int]) -> Partition:
    """``home_strides`` are the strides that a value has once it is in memory."""
    return _Joining(module, home_strides, scalar_slots).run()


class _Joining:
    def __init__(self, module: Module, home_strides: StridesOf, scalar_slots: Mapping[Value, int]) -> None:
        self._module = module
        self._home_strides = home_strides
        self._slots = scalar_slots
        self._order = {result: number for number, operation in enumerate(module.operations) for result in operation.results}
        realised, self._traces = choose_realised(module, home_strides, scalar_slots)
        self._in_memory = {*module.parameters, *realised}
        self._regions: dict[int, Region] = {}
        self._owner: dict[Value, Region] = {}
        self._readers: dict[Value, list[Region]] = {}

    def run(self) -> Partition:
        for number, operation in enumerate(self._module.operations):
            if is_nest(operation):
                for value in operation.results:
                    if value in self._in_memory and operation.name != "constant" and value.type.size:
                        self._add_nest(number, value)
            elif any(result in self._in_memory and result.type.size for result in operation.results):
                self._add_operation(number, operation)
        return self._finish()

    def strides_of(self, value: Value) -> tuple[int, ...] | None:
        return self._home_strides(value) if value in self._in_memory else None

    # Growing the graph of regions

    def _add_operation(self, number: int, operation: Operation) -> None:
        region = Region(number, list(operation.results), operation=operation)
        if is_generated(operation):
            region.nests, region.scatter = self._traces[operation.result]
            region.reads = region.loads()
        else:
            for operand in operation.operands:
                if not operand.is_scalar:
                    view = view_of(operand, self.strides_of)
                    region.reads.add(operand if view is None else view.base)
        self._insert(region)

    def _add_nest(self, number: int, value: Value) -> None:
        (nest,) = self._traces[value][0]
        region = Region(number, [value], {load.value for load in nest.loads()}, load_count=len(nest.loads()))
        self._insert(region)
        for candidate in self._candidates(region):
            joined = self._join(candidate, region)
            if joined is not None:
                region = joined

    def _insert(self, region: Region) -> None:
        for value in region.reads:
            producer = self._owner.get(value)
            if producer is not None:
                region.ancestors |= producer.ancestors | 1 << producer.number
            self._readers.setdefault(value, []).append(region)
        for member in region.members:
            self._owner[member] = region
        self._regions[region.number] = region

    def _candidates(self, region: Region) -> list[Region]:
        """Regions that share data with one: first the producers of what it reads, then other readers of it; the latest first."""
        producers = {self._owner[value] for value in region.reads if value in self._owner}
        size = region.space.size
        siblings = {
            reader for value in region.reads if value.type.size * 4 >= size for reader in self._readers[value] if reader is not region
        } - producers
        latest = [sorted(group, key=lambda r: r.number, reverse=True) for group in (producers, siblings)]
        return [candidate for group in latest for candidate in group if candidate.operation is None]

    # Joining

    def _join(self, first: Region, second: Region) -> Region | None:
        """Makes one region of two if a single loop nest can compute both and nothing has to run between them."""
        if first.number not in self._regions or second.number not in self._regions or not self._may_join(first, second):
            return None
        members = sorted({*first.members, *second.members}, key=self._order.__getitem__)
        try:
            nest = trace_nest(Region(first.number, members).space, members, members, self.strides_of, self._slots)
        except MustRealise:
            # What each can compute by itself, they cannot in common loops.
            return None
        if nest is None or not _runs_well(nest) or nest.operation_count() > MAX_OPERATIONS:
            return None
        produces = not first.reads.isdisjoint(second.members) or not second.reads.isdisjoint(first.members)
        if not produces and len(nest.loads()) == first.load_count + second.load_count:
            # They read the same memory in different orders.
            return None
        self._replace(first, second, members)
        first.load_count = len(nest.loads())
        return first

    def _may_join(self, first: Region, second: Region) -> bool:
        if (
            len(first.members) + len(second.members) > MAX_MEMBERS
            or len((first.reads | second.reads) - {*first.members, *second.members}) > MAX_STREAMS
        ):
            return False
        sizes = {first.space.size, second.space.size}
        reduced = [region.space for region in (first, second) if any(region.space.reduced)]
        if len(sizes) > 1 and not any(space.kept_size in sizes for space in reduced):
            return False
        return not self._path_between(first, second) and not self._path_between(second, first)

    def _path_between(self, start: Region, end: Region) -> bool:
        """Whether a third region runs after ``start`` and before ``end``."""
        if not end.ancestors >> start.number & 1:
            return False
        return any(
            end.ancestors >> number & 1 and region.ancestors >> start.number & 1
            for number, region in self._regions.items()
            if number != start.number
        )

    def _replace(self, first: Region, second: Region, members: list[Value]) -> None:
        """``first`` takes over ``second``, and whatever runs after either of them runs after both."""
        both = 1 << first.number | 1 << second.number
        first.members = members
        first.reads |= second.reads
        first.ancestors = (first.ancestors | second.ancestors) & ~both
        del self._regions[second.number]
        for value in second.reads:
            readers = self._readers[value]
            readers.remove(second)
            if first not in readers:
                readers.append(first)
        for member in members:
            self._owner[member] = first
        for region in self._regions.values():
            if region.ancestors & both:
                region.ancestors = (region.ancestors & ~(1 << second.number)) | first.ancestors | 1 << first.number

    # The end

    def _finish(self) -> Partition:
        """Orders the regions, and finds backwards what each has to store: what later regions and the caller read."""
        needed = set(self._module.results)
        ordered = list(self._topological())
        kept: list[Region] = []
        for region in reversed(ordered):
            stored = [member for member in region.members if member in needed]
            if not stored:
                continue
            if region.operation is None:
                region.nests = [self._final_nest(region, stored)]
            needed |= region.loads()
            kept.append(region)
        return Partition(kept[::-1], {value for value in self._in_memory if value in needed})

    def _final_nest(self, region: Region, stored: list[Value]) -> Nest:
        if len(region.members) == 1:
            return self._traces[stored[0]][0][0]
        nest = trace_nest(region.space, region.members, stored, self.strides_of, self._slots)
        assert nest is not None, "regions join only if one nest computes them"
        return nest

    def _topological(self) -> Iterator[Region]:
        """Regions after all their ancestors, otherwise in the module's order."""
        done = 0
        waiting = dict(sorted(self._regions.items()))
        while waiting:
            ready = next(region for region in waiting.values() if not region.ancestors & ~done)
            del waiting[ready.number]
            done |= 1 << ready.number
            yield ready


def _runs_well(nest: Nest) -> bool:
    """Whether joining costs no parallelism: few rows mean few threads."""
    if not any(nest.reduced):
        return True
    space = Space(nest.extents, nest.reduced)
    return space.kept_size >= MIN_ROWS or space.size <= SMALL_SIZE or all(store.per_row for store in nest.stores)
