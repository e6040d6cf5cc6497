"""dot_general as the matrix products that the library has: [M, K] × [K, N], or batches of them.

Operands are brought into this form by a transpose and a reshape, which cost nothing where strides allow it: the library reads strided
views. What ``biased_products`` finds to be added is handed to the library as well. The result keeps its shape; the library step writes it
through a view of two or three dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any

from ..hlo.ir import Module, Operation, Value
from ..hlo.types import TensorType
from ..passes.dce import eliminate_dead_code
from .biased_products import Bias, LibraryProduct, biased_convolutions, library_products

# Operations of this target only: operands (lhs, rhs) and (bias, lhs, rhs); attribute "shape": the result's as the library sees it. The
# second computes beta * bias + alpha * lhs rhs with its attributes "beta" and "alpha".
MATMUL, ADDMM = "host.matmul", "host.addmm"


def canonicalise_contractions(module: Module) -> Module:
    """``module`` with every dot_general as a MATMUL or ADDMM, and the bias of a convolution as its third operand. The result is for this
    target only; it is not in the op table's terms.
    """
    if not any(operation.name in ("dot_general", "convolution") for operation in module.operations):
        return module
    return _Rewriting(module).run()


class _Rewriting:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._copies: dict[Value, Value] = {parameter: parameter for parameter in module.parameters}
        self._operations: list[Operation] = []
        self._products = library_products(module)
        self._convolutions = biased_convolutions(module)
        self._inner = {operation for product in self._products.values() for operation in product.inner}
        self._inner |= {convolution for convolution, _ in self._convolutions.values()}

    def run(self) -> Module:
        for operation in self._module.operations:
            if (product := self._products.get(operation)) is not None:
                copies = self._product(product, operation.result.type)
            elif operation in self._convolutions:
                convolution, bias = self._convolutions[operation]
                operands = [self._copies[value] for value in (*convolution.operands, bias)]
                copies = self._emit("convolution", operands, convolution.attributes, [operation.result.type])
            elif operation in self._inner:
                continue
            else:
                types = [result.type for result in operation.results]
                copies = self._emit(operation.name, [self._copies[v] for v in operation.operands], operation.attributes, types)
            self._copies.update(zip(operation.results, copies))
        module = self._module
        results = tuple(self._copies[result] for result in module.results)
        return eliminate_dead_code(Module(module.name, module.parameters, tuple(self._operations), results))

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

    def _product(self, product: LibraryProduct, result: TensorType) -> tuple[Value, ...]:
        dot = product.dot
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
        if product.bias is None:
            return self._emit(MATMUL, [lhs, rhs], MappingProxyType({"shape": shape}), [result])
        scales = MappingProxyType({"shape": shape, "beta": product.bias.factor, "alpha": product.alpha})
        return self._emit(ADDMM, [self._reshape(self._bias(product.bias), shape), lhs, rhs], scales, [result])

    def _bias(self, bias: Bias) -> Value:
        """The bias in the product's shape and in its own dtype, not scaled."""
        value, spread = self._copies[bias.value], bias.spread
        if spread is None:
            return value
        return self._emit("broadcast_in_dim", [value], spread.attributes, [TensorType(spread.result.shape, value.dtype)])[0]


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
