"""A module as a program: regions, buffers, kernels and library calls put together into an executable image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..executable import BufferRef, ExecutableImage, KernelStep, Space, Step, TensorRef
from ..hlo.ir import Module, Operation, Signature, Value
from ..hlo.types import contiguous_strides
from .affine import linear_form
from .buffers import ConstantPool, Homes, extent_bytes, lifetimes, pack_scratch
from .cost import TASK_NANOSECONDS, grain
from .expressions import Load
from .hazards import overwrites_safely
from .kernel import Kernel, Nest, Program, stores_of
from .kernel_cache import ENTRY, compile_kernel
from .library import accepts_result, library_step
from .nest_code import emit_nest
from .realise import is_generated
from .regions import Partition, Region, partition
from .scatter import ScatterNest, emit_scatter
from .target import Target
from .trace import Tracer, flatten
from .views import View, view_of


@dataclass(frozen=True, slots=True)
class Task:
    """One step before buffers are known, and what it reads and writes."""

    what: Nest | ScatterNest | Operation
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]


def plan_program(module: Module, signature: Signature, target: Target) -> ExecutableImage:
    """The image of a module that is legalised and has its contractions canonicalised."""
    return _Planner(module, signature, target).run()


class _Planner:
    def __init__(self, module: Module, signature: Signature, target: Target) -> None:
        self._module = module
        self._signature = signature
        self._slots = {parameter: slot for slot, parameter in enumerate(p for p in module.parameters if p.is_scalar)}
        self._inputs = {parameter: number for number, parameter in enumerate(p for p in module.parameters if not p.is_scalar)}
        self._homes = Homes(module, signature)
        self._constants = ConstantPool()
        self._program = Program(self._place, [], target)
        # Stand-ins for what copies write: of a result, or (None) a temporary.
        self._copies: dict[Value, int | None] = {}
        self._offsets: dict[Value, int] = {}

    def run(self) -> ExecutableImage:
        self._homes.detached |= self._unwritable_by_library()
        divided = partition(self._module, self._homes.strides, self._slots)
        hazards = self._hazards(divided)
        if hazards:
            self._homes.detached |= hazards
            divided = partition(self._module, self._homes.strides, self._slots)
        first, last = self._result_copies()
        tasks = [*first, *(task for region in divided.regions for task in self._tasks(region)), *last]
        tasks = [task for task in tasks if any(value.type.size for value in task.writes)]
        scratch_bytes = self._place_temporaries(tasks)
        return self._generate(tasks, divided, scratch_bytes)

    # Results and donations

    def _unwritable_by_library(self) -> set[Value]:
        """Results of library operations that the library cannot write in place: of unsuitable strides, or into a donated operand."""
        return {
            value
            for value in self._module.results
            if (operation := value.producer) is not None
            and (result := self._homes.result_of(value)) is not None
            and _is_library(operation)
            and (result in self._signature.donations or not accepts_result(operation, self._signature.results[result].strides))
        }

    def _hazards(self, divided: Partition) -> set[Value]:
        """Donated results that would overwrite what is still to be read."""
        hazards: set[Value] = set()
        if not self._signature.donations:
            return hazards
        last_readers = {value: number for number, region in enumerate(divided.regions) for value in region.loads()}
        writers = {member: number for number, region in enumerate(divided.regions) for member in region.members}
        for result, parameter in self._signature.donations.items():
            value, old = self._module.results[result], self._module.parameters[parameter]
            writer = writers.get(value)
            if writer is None or self._homes.result_of(value) != result:
                continue
            if last_readers.get(old, -1) > writer or not overwrites_safely(divided.regions[writer], old, value):
                hazards.add(value)
        return hazards

    def _result_copies(self) -> tuple[list[Task], list[Task]]:
        """Copies for results that are not computed in their buffer: parameters, constants, a value for the second time, detached ones.

        Parameters are copied before anything is computed, as their buffers may be donated; into a donated buffer by way of a temporary.
        """
        first: list[Task] = []
        last: list[Task] = []
        for result, value in enumerate(self._module.results):
            donated = self._signature.donations.get(result)
            if self._homes.result_of(value) == result or (donated is not None and self._module.parameters[donated] is value):
                continue
            strides = self._signature.results[result].strides
            if value not in self._inputs:
                last.append(self._copy(value, strides, result))
            elif donated is None:
                first.append(self._copy(value, strides, result))
            else:
                first.append(self._copy(value, contiguous_strides(value.shape), None))
                last.append(self._copy(first[-1].writes[0], strides, result))
        return first, last

    def _copy(self, source: Value, strides: tuple[int, ...], result: int | None) -> Task:
        target = Value(source.type)
        self._copies[target] = result
        index = tuple(linear_form(source.shape, tuple(k == dim for k in range(source.type.rank))) for dim in range(source.type.rank))
        expression = Tracer(source.shape, self._strides_of_source, self._slots).trace(source, index)
        stores = stores_of(target, flatten(index, strides, source.type.rank), expression)
        return _nest_task(Nest(source.shape, (False,) * source.type.rank, stores))

    def _strides_of_source(self, value: Value) -> tuple[int, ...] | None:
        if value.producer is not None and value.producer.name == "constant" and not value.producer.attributes["value"].shape:
            return None
        return self._homes.strides(value)

    def _tasks(self, region: Region) -> list[Task]:
        if not region.nests:
            assert region.operation is not None
            return [Task(region.operation, tuple(region.reads), region.operation.results)]
        tasks = [_nest_task(nest) for nest in region.nests if not self._is_in_place(nest)]
        if region.scatter is not None:
            value = region.scatter.value
            tasks.append(Task(region.scatter, (*dict.fromkeys(load.value for load in region.scatter.loads()), value), (value,)))
        return tasks

    def _is_in_place(self, nest: Nest) -> bool:
        """Whether a nest only copies a donated buffer onto itself."""
        result = self._homes.result_of(nest.stores[0].value)
        donated = self._signature.donations.get(-1 if result is None else result)
        return donated is not None and all(
            isinstance(store.expression, Load)
            and store.expression.guard is None
            and store.expression.address == store.address
            and store.expression.value is self._module.parameters[donated]
            for store in nest.stores
        )

    # Buffers

    def _place_temporaries(self, tasks: Sequence[Task]) -> int:
        written = dict.fromkeys(value for task in tasks for value in task.writes)
        temporaries = [
            value
            for value in written
            if self._copies.get(value, -1) is None or (value not in self._copies and self._homes.result_of(value) is None)
        ]
        alive = lifetimes(((task.reads, task.writes) for task in tasks), temporaries)
        self._offsets, size = pack_scratch(alive, {value: self._homes.bytes_of(value) for value in alive})
        return size

    def _place(self, value: Value) -> BufferRef:
        """Where a value in memory is."""
        result = self._copies[value] if value in self._copies else self._homes.result_of(value)
        if result is not None:
            donated = self._signature.donations.get(result)
            return BufferRef(Space.OUTPUT, result) if donated is None else self._place(self._module.parameters[donated])
        if value in self._inputs:
            return BufferRef(Space.INPUT, self._inputs[value])
        if value.producer is not None and value.producer.name == "constant":
            return self._constants.place(value)
        # A value of no elements has no place, and nobody reads it.
        return BufferRef(Space.SCRATCH, 0, self._offsets.get(value, 0))

    # Steps

    def _generate(self, tasks: Sequence[Task], divided: Partition, scratch_bytes: int) -> ExecutableImage:
        code = _CodeBlock(self._program.target)
        steps: list[Step] = []
        work, parallel = 0.0, False
        for task in tasks:
            if isinstance(task.what, Operation):
                call, cost = library_step(task.what, lambda value: self._tensor(value, divided), self._slots)
                steps.append(call)
                parallel = parallel or cost > TASK_NANOSECONDS
            else:
                kernel = self._kernel(task.what)
                step = self._kernel_step(kernel, code.entry(kernel.text), task)
                steps.append(step)
                cost, parallel = kernel.cost, parallel or step.range_ > step.grain
            work += cost
        inputs, outputs = self._edge_bytes()
        donations = tuple(
            self._inputs[self._module.parameters[self._signature.donations[result]]] if result in self._signature.donations else -1
            for result in range(len(self._module.results))
        )
        return ExecutableImage(
            name=self._module.name, signature=self._signature.text, input_bytes=inputs, output_bytes=outputs, donations=donations,
            scalar_count=len(self._slots), scratch_bytes=scratch_bytes, work=round(work), parallel=parallel, steps=tuple(steps),
            constants=bytes(self._constants.data), code=bytes(code.data), messages=tuple(self._program.messages),
        )  # fmt: skip

    def _kernel(self, nest: Nest | ScatterNest) -> Kernel:
        if isinstance(nest, ScatterNest):
            return emit_scatter(nest, self._program)
        return emit_nest(nest, self._program)

    def _kernel_step(self, kernel: Kernel, entry: int, task: Task) -> KernelStep:
        buffers = tuple(self._place(value) for value in kernel.buffers)
        name = "+".join(dict.fromkeys(_name_of(value) for value in task.writes))
        return KernelStep(name, entry, buffers, kernel.params, kernel.range, grain(kernel.range, kernel.cost))

    def _tensor(self, value: Value, divided: Partition) -> TensorRef:
        """A result of a library operation, or an operand as a view of memory."""
        strides = self._homes.strides(value)
        assert strides is not None, "scalars are passed by slot"
        itself = View(value, 0, value.shape, strides)
        computed = value.producer is not None and _is_library(value.producer)
        view = itself if computed else view_of(value, lambda v: self._homes.strides(v) if v in divided.in_memory else None) or itself
        place = self._place(view.base)
        place = BufferRef(place.space, place.index, place.offset + view.offset * value.dtype.itemsize)
        return TensorRef(place, value.dtype.code, view.sizes, view.strides)

    def _edge_bytes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        inputs = tuple(self._homes.bytes_of(parameter) for parameter in self._inputs)
        results = zip(self._module.results, self._signature.results)
        return inputs, tuple(extent_bytes(value.shape, layout.strides, value.dtype.itemsize) for value, layout in results)


class _CodeBlock:
    """The code of a program's kernels, equal ones once."""

    def __init__(self, target: Target) -> None:
        self.data = bytearray()
        self._target = target
        self._entries: dict[str, int] = {}

    def entry(self, text: str) -> int:
        if text not in self._entries:
            flat = compile_kernel(text, self._target)
            self._entries[text] = len(self.data) + flat.entries[ENTRY]
            self.data += flat.code
        return self._entries[text]


def _nest_task(nest: Nest) -> Task:
    return Task(nest, tuple(dict.fromkeys(load.value for load in nest.loads())), tuple(dict.fromkeys(store.value for store in nest.stores)))


def _is_library(operation: Operation) -> bool:
    return not is_generated(operation)


def _name_of(value: Value) -> str:
    return value.producer.name if value.producer is not None else "copy"
