"""Which values of a module are put into memory, before regions join; what is not is recomputed inside of its users.

In memory are: results, results and operands of operations that are no loop nests (an operand may be a strided view of something in
memory), results of reductions and concatenations, array constants, values that an index computation cannot look through, and values with
several users unless recomputing them is as cheap as loading them. Regions that join later may remove a value from memory again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..hlo.ir import Module, Operation, Value
from .cost import is_expensive
from .kernel import Nest
from .nests import REDUCTIONS, StridesOf, space_of, trace_copy, trace_nest, trace_pieces
from .scatter import ScatterNest, trace_scatter
from .trace import ELEMENTWISE, INLINE, MustRealise
from .views import view_of

# Up to so many cheap operations on one loaded element are recomputed rather than stored.
_FREE_OPERATIONS = 3
# A longer chain of operations is cut, so that no expression is too deep to walk.
_LONGEST_CHAIN = 64


def is_nest(operation: Operation) -> bool:
    """Whether its results can be computed in one loop nest, alone or with others."""
    return (operation.name in INLINE and operation.name != "concatenate") or operation.name in REDUCTIONS


def is_generated(operation: Operation) -> bool:
    """Whether generated loops compute it; everything else is a step of the library."""
    return operation.name in INLINE or operation.name in REDUCTIONS or operation.name == "scatter"


def trace_by_itself(value: Value, strides_of: StridesOf, scalar_slots: Mapping[Value, int]) -> tuple[list[Nest], ScatterNest | None]:
    """The loops that compute one value from others in memory: nests, and then the updates of a scatter. MustRealise passes through."""
    operation = value.producer
    assert operation is not None, "parameters are not computed"
    match operation.name:
        case "concatenate":
            return trace_pieces(operation, strides_of, scalar_slots), None
        case "scatter":
            operand, _, updates = operation.operands
            initial = trace_copy(value, operand, strides_of, scalar_slots)
            return [initial], trace_scatter(operation, strides_of, scalar_slots) if updates.type.size else None
        case _:
            nest = trace_nest(space_of(value), [value], [value], strides_of, scalar_slots)
            assert nest is not None, "a single value always has a loop nest"
            return [nest], None


Traces = dict[Value, tuple[list[Nest], ScatterNest | None]]


def choose_realised(module: Module, home_strides: StridesOf, scalar_slots: Mapping[Value, int]) -> tuple[set[Value], Traces]:
    """The values in memory, without parameters; and for each one that loops compute, its loops by itself."""
    choice = _Choice(module, home_strides, scalar_slots)
    for operation in module.operations:
        choice.visit(operation)
    return choice.realised, choice.trace()


@dataclass(frozen=True, slots=True)
class _Recomputation:
    """What computing one element anew takes: the values that it loads, its number of operations (at most), the longest chain of them,
    whether one of them is expensive.
    """

    loads: frozenset[Value] = frozenset()
    operations: int = 0
    depth: int = 0
    expensive: bool = False


class _Choice:
    def __init__(self, module: Module, home_strides: StridesOf, scalar_slots: Mapping[Value, int]) -> None:
        self._module = module
        self._home_strides = home_strides
        self._scalar_slots = scalar_slots
        self._users = _users(module)
        self._direct_users: dict[Value, list[Operation]] = {}
        for operation in module.operations:
            for operand in operation.operands:
                self._direct_users.setdefault(operand, []).append(operation)
        self._results = set(module.results)
        self._parameters = set(module.parameters)
        self._effort: dict[Value, _Recomputation] = {}
        self.realised: set[Value] = {value for value in module.results if value.producer is not None}

    def strides_of(self, value: Value) -> tuple[int, ...] | None:
        return self._home_strides(value) if value in self.realised or value in self._parameters else None

    def visit(self, operation: Operation) -> None:
        if operation.name == "constant":
            self.realised.update(result for result in operation.results if np.ndim(operation.attributes["value"]))
        elif operation.name in (*REDUCTIONS, "scatter"):
            self.realised.update(operation.results)
        elif operation.name == "concatenate":
            # Indices are read one component at a time, which picks the operand when the code is written.
            if any(user.name not in ("gather", "scatter") for user in self._direct_users.get(operation.result, ())):
                self.realised.add(operation.result)
            self._visit_inline(operation)
        elif not is_generated(operation):
            self.realised.update(operation.results)
            for operand in operation.operands:
                if not operand.is_scalar and self.strides_of(operand) is None and view_of(operand, self.strides_of) is None:
                    self.realised.add(operand)
        else:
            self._visit_inline(operation)

    def _visit_inline(self, operation: Operation) -> None:
        value = operation.result
        if operation.name == "broadcast_in_dim":
            self._visit_broadcast(operation)
        efforts = [self._effort_of(operand) for operand in dict.fromkeys(operation.operands)]
        own = int(operation.name in ELEMENTWISE)
        effort = _Recomputation(
            frozenset().union(*(e.loads for e in efforts)),
            sum(e.operations for e in efforts) + own,
            max((e.depth for e in efforts), default=0) + own,
            any(e.expensive for e in efforts) or is_expensive(operation.name),
        )
        self._effort[value] = effort
        free = value.type.size <= 1 or (len(effort.loads) <= 1 and effort.operations <= _FREE_OPERATIONS and not effort.expensive)
        if (len(self._users.get(value, ())) > 1 and not free) or effort.depth > _LONGEST_CHAIN:
            self.realised.add(value)

    def _visit_broadcast(self, operation: Operation) -> None:
        """An expensive value that is repeated along an outer dimension would be computed again in every row."""
        (operand,) = operation.operands
        dims = operation.attributes["dims"]
        varying = [dim for dim, extent in zip(dims, operand.shape) if extent > 1]
        repeated = [dim for dim, extent in enumerate(operation.result.shape) if extent > 1 and dim not in varying]
        if (
            varying
            and repeated
            and min(repeated) < max(varying)
            and self.strides_of(operand) is None
            and self._effort_of(operand).expensive
        ):
            self.realised.add(operand)

    def _effort_of(self, value: Value) -> _Recomputation:
        if value.is_scalar:
            return _Recomputation()
        if self.strides_of(value) is not None:
            return _Recomputation(frozenset([value]))
        return self._effort.get(value, _Recomputation())

    def trace(self) -> Traces:
        """Traces every value that loops compute, adding to the values in memory what cannot be computed inside of its users."""
        computed = [
            result
            for operation in self._module.operations
            if operation.name != "constant" and is_generated(operation)
            for result in operation.results
        ]
        while True:
            before = len(self.realised)
            traces = {value: self._trace(value) for value in computed if value in self.realised and value.type.size}
            if len(self.realised) == before:
                return traces

    def _trace(self, value: Value) -> tuple[list[Nest], ScatterNest | None]:
        while True:
            try:
                return trace_by_itself(value, self.strides_of, self._scalar_slots)
            except MustRealise as demand:
                assert demand.value not in self.realised, "a value in memory is loaded"
                self.realised.add(demand.value)


def _users(module: Module) -> dict[Value, set[Operation]]:
    """The operations that use each value in the end, looking through layout operations; the module's results count as one more."""
    users: dict[Value, set[Operation]] = {}
    export = Operation("return", ())
    for value in module.results:
        users.setdefault(value, set()).add(export)
    for operation in reversed(module.operations):
        through = operation.name in INLINE and operation.name not in ELEMENTWISE and operation.name != "concatenate"
        ends = set().union(*(users.get(result, set()) for result in operation.results)) if through else {operation}
        for operand in operation.operands:
            users.setdefault(operand, set()).update(ends)
    return users
