"""dot_general as the matrix products that the library has: [M, K] × [K, N], or batches of them.

Operands are brought into this form by a transpose and a reshape, which cost nothing where strides allow it: the library reads strided
views. A bias that is added to a product which nothing else needs is handed to the library as well. The result keeps its shape; the
library step writes it through a view of two or three dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any

from ..hlo.ir import Module, Operation, Value
from ..hlo.types import TensorType

# Operations of this target only: operands (lhs, rhs) and (bias, lhs, rhs); attribute "shape": the result's as the library sees it.
MATMUL, ADDMM = "host.matmul", "host.addmm"


def canonicalise_contractions(module: Module) -> Module:
    """``module`` with every dot_general as a MATMUL or ADDMM. The result is for this target only; it is not in the op table's terms."""
    if not any(operation.name == "dot_general" for operation in module.operations):
        return module
    return _Rewriting(module).run()


class _Rewriting:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._copies: dict[Value, Value] = {parameter: parameter for parameter in module.parameters}
        self._operations: list[Operation] = []
        self._users: dict[Value, list[Operation]] = {}
        for operation in module.operations:
            for operand in operation.operands:
                self._users.setdefault(operand, []).append(operation)
        self._biased = {id(operation): match for operation in module.operations if (match := self._biased_product(operation)) is not None}
        self._absorbed = {id(dot) for dot, _ in self._biased.values()}

    def run(self) -> Module:
        for operation in self._module.operations:
            if id(operation) in self._absorbed:
                continue
            if id(operation) in self._biased:
                dot, bias = self._biased[id(operation)]
                results = self._product(dot, operation.result, self._copies[bias])
            elif operation.name == "dot_general":
                results = self._product(operation, operation.result, None)
            else:
                types = [result.type for result in operation.results]
                results = self._emit(operation.name, [self._copies[v] for v in operation.operands], operation.attributes, types)
            self._copies.update(zip(operation.results, results))
        module = self._module
        return Module(module.name, module.parameters, tuple(self._operations), tuple(self._copies[result] for result in module.results))

    def _emit(self, name: str, operands: Sequence[Value], attributes: Mapping[str, Any], types: Sequence[TensorType]) -> tuple[Value, ...]:
        operation = Operation(name, tuple(operands), attributes)
        operation.results = tuple(Value(type_, operation, index) for index, type_ in enumerate(types))
        self._operations.append(operation)
        return operation.results

    def _reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self._emit("reshape", [x], MappingProxyType({"shape": shape}), [TensorType(shape, x.dtype)])[0]

    def _transpose(self, x: Value, order: tuple[int, ...]) -> Value:
        if order == tuple(range(len(order))):
            return x
        shape = tuple(x.shape[dim] for dim in order)
        return self._emit("transpose", [x], MappingProxyType({"permutation": order}), [TensorType(shape, x.dtype)])[0]

    # Products

    def _biased_product(self, operation: Operation) -> tuple[Operation, Value] | None:
        """The product and the bias that an addition adds, where the library should do both: nothing else uses the product, nothing is
        left to fuse the addition with, and the bias is a broadcast.
        """
        if operation.name != "add" or any(user.name not in ("dot_general", "return") for user in self._users.get(operation.result, [])):
            return None
        for product, bias in (operation.operands, operation.operands[::-1]):
            dot, spread = product.producer, bias.producer
            if dot is None or dot.name != "dot_general" or len(self._users[product]) != 1 or product in self._module.results:
                continue
            if dot.operands[0].dtype is product.dtype and spread is not None and spread.name == "broadcast_in_dim" and product.type.size:
                return dot, bias
        return None

    def _product(self, dot: Operation, result: Value, bias: Value | None) -> tuple[Value, ...]:
        lhs, rhs = (self._copies[operand] for operand in dot.operands)
        attributes = dot.attributes
        lhs_batch, rhs_batch = tuple(attributes["lhs_batch"]), tuple(attributes["rhs_batch"])
        lhs_contract, rhs_contract = tuple(attributes["lhs_contract"]), tuple(attributes["rhs_contract"])
        lhs_free = tuple(dim for dim in range(lhs.type.rank) if dim not in lhs_batch + lhs_contract)
        rhs_free = tuple(dim for dim in range(rhs.type.rank) if dim not in rhs_batch + rhs_contract)
        batch, rows, columns = (_size(lhs, lhs_batch), _size(lhs, lhs_free), _size(rhs, rhs_free))
        depth = _size(lhs, lhs_contract)
        batches = (batch,) if lhs_batch else ()
        lhs = self._reshape(self._transpose(lhs, lhs_batch + lhs_free + lhs_contract), (*batches, rows, depth))
        rhs = self._reshape(self._transpose(rhs, rhs_batch + rhs_contract + rhs_free), (*batches, depth, columns))
        shape = (*batches, rows, columns)
        operands = [lhs, rhs] if bias is None else [self._reshape(bias, shape), lhs, rhs]
        return self._emit(MATMUL if bias is None else ADDMM, operands, MappingProxyType({"shape": shape}), [result.type])


def _size(x: Value, dims: tuple[int, ...]) -> int:
    return prod(x.shape[dim] for dim in dims)


def merged_strides(shape: Sequence[int], strides: Sequence[int], merged: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of a reshape of a strided tensor without a copy, or None. Every dimension of ``merged`` must be a product of neighbours in
    ``shape``.
    """
    result: list[int] = []
    dims = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    for size in merged:
        taken: list[tuple[int, int]] = []
        while prod(extent for extent, _ in taken) < size:
            taken.append(dims.pop(0))
        if prod(extent for extent, _ in taken) != size:
            return None
        if any(outer_stride != stride * extent for (_, outer_stride), (extent, stride) in pairwise(taken)):
            return None
        result.append(taken[-1][1] if taken else 1)
    return tuple(result)
