"""Rewrites of a module into what this target has loops or library kernels for; HLO in, HLO out.

* composites without a library kernel: their decomposition
* sorting and scanning of 8-bit floats: the same of f32
* scatters that add or multiply narrow floats: the same of f32, as they accumulate in memory
* argreduce: two reductions, the extremum and the first index where it is
* reductions of a lot to very little: two reductions, so that several threads can share the first. How they are cut depends on sizes
  only, and so do the results.
* reductions of nothing: the identity
* products of complex numbers: running products
* reshapes of buffers that are not contiguous: an operation between, whose result can be put into memory where no strides
  describe the reshape
* convolutions with asymmetric padding or dilated input: a padded input
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..hlo.builder import Builder
from ..hlo.composites import DECOMPOSITIONS, decompose
from ..hlo.ir import Module, Operation, Signature, Value
from ..hlo.numerics import highest, identity_element
from ..hlo.rebuild import rebuild
from ..hlo.types import DType, TensorType, contiguous_strides
from .library import has_kernel

# A reduction with fewer results than this has too few rows for several threads.
_FEW_RESULTS = 16
_LONG = 64 * 1024
# Elements of one part of a divided reduction, and how many parts there may be.
_PART = 16 * 1024
_MAX_PARTS = 64
_ORDERING = ("sort", "topk", "scan")
_EIGHT_BITS = (DType.F8E4M3FN, DType.F8E5M2)
_NARROW = (DType.BF16, DType.F16, *_EIGHT_BITS)


def legalise(module: Module, signature: Signature) -> Module:
    """``module`` in operations that the host target implements; types and meaning stay."""
    while True:
        before = module
        module = rebuild(module, _replace)
        if module is before:
            return _separate_strided_reshapes(module, signature)


def _separate_strided_reshapes(module: Module, signature: Signature) -> Module:
    edges = (*zip(module.parameters, signature.parameters), *zip(module.results, signature.results))
    strided = {value for value, layout in edges if layout is not None and layout.strides != contiguous_strides(value.shape)}

    def separate(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if operation.name != "reshape" or operation.operands[0] not in strided:
            return None
        (x,) = operands
        return (b.reshape(b.transpose(x, tuple(range(x.type.rank))), operation.result.shape),)

    return rebuild(module, separate)


def _replace(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    match operation.name:
        case "composite":
            return _composite(b, operation, operands)
        case "argreduce":
            return (_argreduce(b, operands[0], operation.attributes["kind"], operation.attributes["dim"]),)
        case "reduce":
            return _reduce(b, operands[0], operation.attributes["kind"], tuple(operation.attributes["dims"]))
        case "reduce_window" if operands[0].type.size == 0 and operation.result.type.size:
            value = identity_element(operation.attributes["kind"], operation.result.dtype)
            return (b.constant(value, operation.result.dtype, operation.result.shape),)
        case "dot_general" if operands[0].type.size == 0 and operation.result.type.size:
            return (b.constant(0, operation.result.dtype, operation.result.shape),)
        case "scatter" if operation.result.dtype in _NARROW and operation.attributes["kind"] in ("add", "multiply"):
            return (_wide_scatter(b, operation, operands),)
        case "convolution":
            return _convolution(b, operation, operands)
        case _:
            return None


def _composite(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    name = operation.attributes["name"]
    if name in _ORDERING and operands[0].dtype in _EIGHT_BITS:
        own = {key: value for key, value in operation.attributes.items() if key != "name"}
        types = [TensorType(r.shape, DType.F32 if r.dtype in _EIGHT_BITS else r.dtype) for r in operation.results]
        wide = b.composite(name, [b.convert(operands[0], DType.F32)], own, types)
        return [b.convert(value, result.dtype) for value, result in zip(wide, operation.results, strict=True)]
    return decompose(operation, b, operands) if name in DECOMPOSITIONS and not has_kernel(operation) else None


def _complex_product(b: Builder, x: Value, dims: tuple[int, ...]) -> Value:
    """The last of the running products, one dimension after the other."""
    for dim in sorted(dims, reverse=True):
        running = b.scan(x, "multiply", dim)
        start = [extent - 1 if axis == dim else 0 for axis, extent in enumerate(x.shape)]
        last = b.slice(running, start, x.shape)
        x = b.reshape(last, [extent for axis, extent in enumerate(x.shape) if axis != dim])
    return x


def _wide_scatter(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Value:
    x, index, updates = operands
    wide = b.scatter(b.convert(x, DType.F32), index, b.convert(updates, DType.F32), **operation.attributes)
    return b.convert(wide, x.dtype)


def _argreduce(b: Builder, x: Value, kind: str, dim: int) -> Value:
    """The least index at which the extremum is; a nan is the extremum wherever there is one."""
    if x.dtype is DType.I1:
        x = b.convert(x, DType.UI8)
    dims = tuple(axis for axis in range(x.type.rank) if axis != dim)
    extremum = b.broadcast_in_dim(b.reduce(x, kind, (dim,)), x.shape, dims)
    found = b.compare(x, extremum, "EQ")
    if x.dtype.is_float:
        found = b.or_(found, b.is_nan(x))
    nowhere = b.constant(highest(DType.I64), DType.I64, x.shape)
    return b.reduce(b.select(found, b.iota(x.shape, DType.I64, dim), nowhere), "minimum", (dim,))


def _reduce(b: Builder, x: Value, kind: str, dims: tuple[int, ...]) -> Sequence[Value] | None:
    shape = tuple(extent for dim, extent in enumerate(x.shape) if dim not in dims)
    if x.type.size == 0:
        return (b.constant(identity_element(kind, x.dtype), x.dtype, shape),) if prod(shape) else None
    if not dims:
        return (x,)
    if x.dtype.is_complex and kind == "multiply":
        return (_complex_product(b, x, dims),)
    length = prod(x.shape[dim] for dim in dims)
    if prod(shape) >= _FEW_RESULTS or length < _LONG:
        return None
    wide = b.convert(x, DType.F32) if x.dtype in (DType.BF16, DType.F16) else x
    result = _divided(b, wide, kind, dims, min(_MAX_PARTS, length // _PART))
    return (result if wide is x else b.convert(result, x.dtype),)


_COMBINE = {"add": "add", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum", "and": "and_", "or": "or_"}


def _divided(b: Builder, x: Value, kind: str, dims: tuple[int, ...], parts: int) -> Value:
    """A reduction in ``parts`` parts of one dimension, their results reduced in turn, and what remains of the dimension."""
    dim = next((dim for dim in dims if x.shape[dim] >= parts), max(dims, key=lambda dim: x.shape[dim]))
    parts = min(parts, x.shape[dim])
    # Rather a few parts less than a remainder.
    parts = next((number for number in range(parts, parts // 2, -1) if x.shape[dim] % number == 0), parts)
    each = x.shape[dim] // parts
    covered = parts * each
    inner = tuple(axis + (axis >= dim) for axis in dims)
    main = b.reshape(_along(b, x, dim, 0, covered), (*x.shape[:dim], parts, each, *x.shape[dim + 1 :]))
    partial = b.reduce(main, kind, inner)
    result = b.reduce(partial, kind, (dim - sum(axis < dim for axis in dims),))
    if covered == x.shape[dim]:
        return result
    combined: Value = getattr(b, _COMBINE[kind])(result, b.reduce(_along(b, x, dim, covered, x.shape[dim]), kind, dims))
    return combined


def _along(b: Builder, x: Value, dim: int, start: int, limit: int) -> Value:
    """x[start:limit] of one dimension."""
    if (start, limit) == (0, x.shape[dim]):
        return x
    starts, limits = [0] * x.type.rank, list(x.shape)
    starts[dim], limits[dim] = start, limit
    return b.slice(x, starts, limits)


def _convolution(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    x, weight = operands
    attributes = operation.attributes
    padding = attributes["padding"]
    dilation = attributes["lhs_dilation"]
    if all(low == high >= 0 for low, high in padding) and all(step == 1 for step in dilation):
        return None
    none = (0, 0)
    low, high = ((*none, *(pair[side] for pair in padding)) for side in (0, 1))
    padded = b.pad(x, b.constant(0, x.dtype), low, high, (*none, *(step - 1 for step in dilation)))
    rank = len(padding)
    return (
        b.convolution(padded, weight, attributes["strides"], [(0, 0)] * rank, [1] * rank, attributes["rhs_dilation"], attributes["groups"]),
    )
