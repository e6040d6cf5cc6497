"""Shape rules: the result types of every plain op from its operand types and attributes.

A rule takes the operand types by position and the attributes by keyword and returns the result type, or raises ``ValueError`` that says
what is given and what is allowed; the caller adds the name of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .numerics import HELD_AS, Array
from .types import DType, TensorType

Rule = Callable[..., TensorType | tuple[TensorType, ...]]

# Groups of ``DType.kind``.
REAL_FLOAT, FLOAT, SIGNED, NUMBER, REAL, INTEGER, BITS, ANY = "f", "fc", "ifc", "iufc", "biuf", "iu", "biu", "biufc"

COMPARE_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
REDUCE_KINDS = ("add", "multiply", "maximum", "minimum", "and", "or")
ARGREDUCE_KINDS = ("maximum", "minimum")
SCATTER_KINDS = ("set", "add", "multiply", "maximum", "minimum")

_REDUCE_DTYPES = {"add": ANY, "multiply": ANY, "maximum": REAL, "minimum": REAL, "and": BITS, "or": BITS}
_COMPLEX_OF = {DType.F32: DType.C64, DType.F64: DType.C128}
_REAL_OF = {DType.C64: DType.F32, DType.C128: DType.F64}
_KIND_NAMES = {"b": "boolean", "i": "signed", "u": "unsigned", "f": "floating", "c": "complex"}


# Elementwise


def elementwise(kinds: str) -> Rule:
    """All operands of one type, whose dtype is of ``kinds``; the result has that type."""

    def rule(first: TensorType, *others: TensorType) -> TensorType:
        check_dtype(first, kinds)
        check_equal(first, *others)
        return first

    return rule


def predicate(kinds: str) -> Rule:
    """Like :func:`elementwise`, but the result is i1."""

    def rule(x: TensorType) -> TensorType:
        check_dtype(x, kinds)
        return TensorType(x.shape, DType.I1)

    return rule


def absolute(x: TensorType) -> TensorType:
    check_dtype(x, SIGNED)
    return TensorType(x.shape, _REAL_OF.get(x.dtype, x.dtype))


def complex_part(x: TensorType) -> TensorType:
    check_dtype(x, "c")
    return TensorType(x.shape, _REAL_OF[x.dtype])


def complex_of_parts(real: TensorType, imag: TensorType) -> TensorType:
    check_equal(real, imag)
    check_member("dtype", real.dtype, tuple(_COMPLEX_OF))
    return TensorType(real.shape, _COMPLEX_OF[real.dtype])


def order_or_equality(lhs: TensorType, rhs: TensorType, *, direction: str) -> TensorType:
    check_equal(lhs, rhs)
    check_member("direction", direction, COMPARE_DIRECTIONS[:2] if lhs.dtype.is_complex else COMPARE_DIRECTIONS)
    return TensorType(lhs.shape, DType.I1)


def select(pred: TensorType, on_true: TensorType, on_false: TensorType) -> TensorType:
    if pred != TensorType(on_true.shape, DType.I1):
        raise ValueError(f"the predicate is {pred}; it must be {TensorType(on_true.shape, DType.I1)} for {on_true}")
    check_equal(on_true, on_false)
    return on_true


def convert(x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(x.shape, dtype)


def bitcast_convert(x: TensorType, *, dtype: DType) -> TensorType:
    if (x.dtype is DType.I1) != (dtype is DType.I1) or x.dtype.itemsize != dtype.itemsize or x.dtype.is_complex or dtype.is_complex:
        raise ValueError(f"{x.dtype} cannot be reinterpreted as {dtype}; both must be real, not i1, and of one size")
    return TensorType(x.shape, dtype)


# Sources


def constant(*, value: Array, shape: tuple[int, ...], dtype: DType) -> TensorType:
    if not isinstance(value, np.ndarray) or value.dtype != HELD_AS[dtype] or value.shape not in ((), shape):
        given = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"value is {given}; for {dtype} it must be an array of {HELD_AS[dtype]} of shape () or {shape}")
    return TensorType(shape, dtype)


def iota(*, shape: tuple[int, ...], dtype: DType, dim: int) -> TensorType:
    result = TensorType(shape, dtype)
    check_dtype(result, NUMBER)
    check_dims("dim", (dim,), len(shape))
    return result


# Layout


def broadcast_in_dim(x: TensorType, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> TensorType:
    check_count("dims", dims, x.rank)
    check_dims("dims", dims, len(shape))
    for axis, dim in enumerate(dims):
        if x.shape[axis] not in (1, shape[dim]):
            raise ValueError(f"operand dimension {axis} has extent {x.shape[axis]}; result dimension {dim} allows 1 or {shape[dim]}")
    return TensorType(shape, x.dtype)


def reshape(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    result = TensorType(shape, x.dtype)
    if result.size != x.size:
        raise ValueError(f"{x} has {x.size} elements, shape {shape} has {result.size}; they must be equal")
    return result


def transpose(x: TensorType, *, permutation: tuple[int, ...]) -> TensorType:
    if sorted(permutation) != list(range(x.rank)):
        raise ValueError(f"permutation {permutation} is not a permutation of {tuple(range(x.rank))}")
    return TensorType(tuple(x.shape[axis] for axis in permutation), x.dtype)


def reverse(x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
    check_dims("dims", dims, x.rank)
    return x


def slice_(x: TensorType, *, start: tuple[int, ...], limit: tuple[int, ...], strides: tuple[int, ...]) -> TensorType:
    for name, numbers in (("start", start), ("limit", limit), ("strides", strides)):
        check_count(name, numbers, x.rank)
    shape = []
    for axis, (first, end, step) in enumerate(zip(start, limit, strides, strict=True)):
        if not (0 <= first <= end <= x.shape[axis] and step >= 1):
            raise ValueError(f"dimension {axis}: [{first}:{end}:{step}] must satisfy 0 ≤ start ≤ limit ≤ {x.shape[axis]} and stride ≥ 1")
        shape.append(-(-(end - first) // step))
    return TensorType(tuple(shape), x.dtype)


def pad(x: TensorType, value: TensorType, *, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]) -> TensorType:
    check_scalar("value", value, x.dtype)
    for name, numbers in (("low", low), ("high", high), ("interior", interior)):
        check_count(name, numbers, x.rank)
    shape = []
    for axis, extent in enumerate(x.shape):
        if interior[axis] < 0:
            raise ValueError(f"interior padding of dimension {axis} is {interior[axis]}; it must be ≥ 0")
        padded = low[axis] + extent + max(extent - 1, 0) * interior[axis] + high[axis]
        if padded < 0:
            raise ValueError(f"dimension {axis} of {x}, padded by {low[axis]} and {high[axis]}, has the extent {padded}; it must be ≥ 0")
        shape.append(padded)
    return TensorType(tuple(shape), x.dtype)


def concatenate(first: TensorType, *others: TensorType, dim: int) -> TensorType:
    check_dims("dim", (dim,), first.rank)
    total = first.shape[dim]
    for position, other in enumerate(others, start=1):
        expected = list(first.shape)
        expected[dim : dim + 1] = other.shape[dim : dim + 1]
        if other.dtype is not first.dtype or list(other.shape) != expected:
            raise ValueError(f"operand {position} is {other}; it must equal {first} but for dimension {dim}")
        total += other.shape[dim]
    return TensorType((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype)


def dynamic_slice(x: TensorType, *starts: TensorType, sizes: tuple[int, ...]) -> TensorType:
    _check_starts(x, starts)
    check_count("sizes", sizes, x.rank)
    if any(not 0 <= size <= extent for size, extent in zip(sizes, x.shape, strict=True)):
        raise ValueError(f"sizes {sizes} must lie within shape {x.shape}")
    return TensorType(sizes, x.dtype)


def dynamic_update_slice(x: TensorType, update: TensorType, *starts: TensorType) -> TensorType:
    _check_starts(x, starts)
    if update.dtype is not x.dtype or update.rank != x.rank or any(u > extent for u, extent in zip(update.shape, x.shape, strict=True)):
        raise ValueError(f"the update is {update}; it must have the dtype and rank of {x} and fit into it")
    return x


def _check_starts(x: TensorType, starts: tuple[TensorType, ...]) -> None:
    check_count("starts", starts, x.rank)
    for start in starts:
        check_scalar("a start", start, DType.I64)


# Reductions


def reduce(x: TensorType, *, kind: str, dims: tuple[int, ...]) -> TensorType:
    check_reduction(x, kind)
    check_dims("dims", dims, x.rank)
    return TensorType(tuple(extent for axis, extent in enumerate(x.shape) if axis not in dims), x.dtype)


def argreduce(x: TensorType, *, kind: str, dim: int) -> TensorType:
    check_member("kind", kind, ARGREDUCE_KINDS)
    check_dtype(x, REAL)
    check_dims("dim", (dim,), x.rank)
    if x.shape[dim] == 0:
        raise ValueError(f"dimension {dim} of {x} is empty; it must have at least one element")
    return TensorType((*x.shape[:dim], *x.shape[dim + 1 :]), DType.I64)


def reduce_window(
    x: TensorType,
    *,
    kind: str,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
) -> TensorType:
    check_reduction(x, kind)
    for name, numbers in (("window", window), ("strides", strides), ("padding", padding), ("dilation", dilation)):
        check_count(name, numbers, x.rank)
    shape = (window_extent(*each) for each in zip(x.shape, window, strides, padding, dilation, strict=True))
    return TensorType(tuple(shape), x.dtype)


def check_reduction(x: TensorType, kind: str) -> None:
    """``kind`` is a reduction defined for ``x.dtype``."""
    check_member("kind", kind, REDUCE_KINDS)
    check_dtype(x, _REDUCE_DTYPES[kind])


def window_extent(extent: int, window: int, stride: int, padding: tuple[int, int], dilation: int) -> int:
    """How many windows fit into one padded dimension."""
    if window < 1 or stride < 1 or dilation < 1:
        raise ValueError(f"window {window}, stride {stride} and dilation {dilation} must be ≥ 1")
    room = padding[0] + extent + padding[1] - ((window - 1) * dilation + 1)
    return room // stride + 1 if room >= 0 else 0


# Contractions


def dot_general(
    lhs: TensorType,
    rhs: TensorType,
    *,
    lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...],
    lhs_contract: tuple[int, ...],
    rhs_contract: tuple[int, ...],
    dtype: DType,
) -> TensorType:
    check_dtype(lhs, NUMBER)
    if lhs.dtype is not rhs.dtype:
        raise ValueError(f"operands are {lhs} and {rhs}; their dtypes must be equal")
    if dtype.kind != lhs.dtype.kind or dtype.itemsize < lhs.dtype.itemsize:
        raise ValueError(f"result dtype {dtype} must be {lhs.dtype} or wider, of the same kind")
    check_dims("lhs_batch and lhs_contract", (*lhs_batch, *lhs_contract), lhs.rank)
    check_dims("rhs_batch and rhs_contract", (*rhs_batch, *rhs_contract), rhs.rank)
    for role, of_lhs, of_rhs in (("batch", lhs_batch, rhs_batch), ("contracting", lhs_contract, rhs_contract)):
        if [lhs.shape[axis] for axis in of_lhs] != [rhs.shape[axis] for axis in of_rhs]:
            raise ValueError(f"{role} dimensions {of_lhs} of {lhs} and {of_rhs} of {rhs} differ in extent")
    batch = tuple(lhs.shape[axis] for axis in lhs_batch)
    return TensorType((*batch, *_free(lhs, (*lhs_batch, *lhs_contract)), *_free(rhs, (*rhs_batch, *rhs_contract))), dtype)


def _free(x: TensorType, taken: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for axis, extent in enumerate(x.shape) if axis not in taken)


def convolution(
    x: TensorType,
    weight: TensorType,
    *,
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    groups: int,
) -> TensorType:
    check_dtype(x, NUMBER)
    spatial = x.rank - 2
    if spatial < 0 or weight.rank != x.rank or weight.dtype is not x.dtype:
        raise ValueError(f"input {x} and weight {weight} must have one dtype and one rank ≥ 2")
    for name, numbers in (("strides", strides), ("padding", padding), ("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation)):
        check_count(name, numbers, spatial)
    channels, out_channels = x.shape[1], weight.shape[0]
    if groups < 1 or channels != groups * weight.shape[1] or out_channels % groups:
        raise ValueError(f"groups is {groups}; input {x} and weight {weight} need I = groups × weight[1] and O a multiple of groups")
    shape = []
    for axis in range(spatial):
        if lhs_dilation[axis] < 1:
            raise ValueError(f"lhs_dilation {lhs_dilation} must be ≥ 1")
        dilated = max((x.shape[2 + axis] - 1) * lhs_dilation[axis] + 1, 0)
        shape.append(window_extent(dilated, weight.shape[2 + axis], strides[axis], padding[axis], rhs_dilation[axis]))
    return TensorType((x.shape[0], out_channels, *shape), x.dtype)


# Indexing


def gather(
    operand: TensorType,
    indices: TensorType,
    *,
    offset_dims: tuple[int, ...],
    collapsed_slice_dims: tuple[int, ...],
    start_index_map: tuple[int, ...],
    index_vector_dim: int,
    slice_sizes: tuple[int, ...],
    fail: str | None,
) -> TensorType:
    batch = index_batch(indices, start_index_map, index_vector_dim)
    check_dims("start_index_map", start_index_map, operand.rank)
    check_dims("collapsed_slice_dims", collapsed_slice_dims, operand.rank)
    check_count("slice_sizes", slice_sizes, operand.rank)
    if any(not 0 <= size <= extent for size, extent in zip(slice_sizes, operand.shape, strict=True)):
        raise ValueError(f"slice_sizes {slice_sizes} must lie within shape {operand.shape}")
    if any(slice_sizes[axis] > 1 for axis in collapsed_slice_dims):
        raise ValueError(f"slice_sizes {slice_sizes} must be ≤ 1 at the collapsed dimensions {collapsed_slice_dims}")
    offsets = [size for axis, size in enumerate(slice_sizes) if axis not in collapsed_slice_dims]
    return TensorType(_interleave(batch, offsets, offset_dims, "offset_dims"), operand.dtype)


def scatter(
    operand: TensorType,
    indices: TensorType,
    updates: TensorType,
    *,
    kind: str,
    update_window_dims: tuple[int, ...],
    inserted_window_dims: tuple[int, ...],
    scatter_dims_to_operand_dims: tuple[int, ...],
    index_vector_dim: int,
    fail: str | None,
) -> TensorType:
    check_member("kind", kind, SCATTER_KINDS)
    check_dtype(operand, REAL if kind in ("maximum", "minimum") else ANY)
    batch = index_batch(indices, scatter_dims_to_operand_dims, index_vector_dim)
    check_dims("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims, operand.rank)
    check_dims("inserted_window_dims", inserted_window_dims, operand.rank)
    check_count("update_window_dims", update_window_dims, operand.rank - len(inserted_window_dims))
    check_dims("update_window_dims", update_window_dims, updates.rank)
    window = [updates.shape[dim] for dim in update_window_dims]
    expected = TensorType(_interleave(batch, window, update_window_dims, "update_window_dims"), operand.dtype)
    if updates != expected:
        raise ValueError(f"updates are {updates}; for the indices {indices} they must be {expected}")
    bounds = [extent for axis, extent in enumerate(operand.shape) if axis not in inserted_window_dims]
    if any(size > bound for size, bound in zip(window, bounds, strict=True)):
        raise ValueError(f"the update window {tuple(window)} must lie within {tuple(bounds)} of {operand}")
    return operand


def index_batch(indices: TensorType, index_map: tuple[int, ...], index_vector_dim: int) -> list[int]:
    """The extents of ``indices`` without those of the index vector, which has one component per entry of ``index_map``."""
    check_dtype(indices, INTEGER)
    if not 0 <= index_vector_dim <= indices.rank:
        raise ValueError(f"index_vector_dim {index_vector_dim} must lie in [0, {indices.rank}] for indices {indices}")
    length = indices.shape[index_vector_dim] if index_vector_dim < indices.rank else 1
    check_count("the index map", index_map, length)
    return [extent for axis, extent in enumerate(indices.shape) if axis != index_vector_dim]


def _interleave(batch: list[int], window: list[int], window_dims: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape with the extents of ``window`` at ``window_dims`` and those of ``batch`` at the other places, both in order."""
    rank = len(batch) + len(window)
    check_count(name, window_dims, len(window))
    check_dims(name, window_dims, rank)
    if list(window_dims) != sorted(window_dims):
        raise ValueError(f"{name} {window_dims} must be sorted")
    rest, placed = iter(batch), dict(zip(window_dims, window, strict=True))
    return tuple(placed[axis] if axis in placed else next(rest) for axis in range(rank))


# Checks shared by the rules


def check_dtype(x: TensorType, kinds: str) -> None:
    """``x.dtype.kind`` is one of ``kinds``."""
    if x.dtype.kind not in kinds:
        raise ValueError(f"dtype {x.dtype} of {x} is not allowed; it must be {' or '.join(_KIND_NAMES[kind] for kind in kinds)}")


def check_equal(first: TensorType, *others: TensorType) -> None:
    """All types are equal."""
    for position, other in enumerate(others, start=1):
        if other != first:
            raise ValueError(f"operand {position} is {other}, operand 0 is {first}; they must be equal (there is no implicit broadcast)")


def check_member(name: str, value: object, allowed: Sequence[object]) -> None:
    """``value`` is one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value}; it must be one of {', '.join(map(str, allowed))}")


def check_count(name: str, items: Sequence[Any], count: int) -> None:
    """There are ``count`` items."""
    if len(items) != count:
        raise ValueError(f"{name} has {len(items)} entries; it must have {count}")


def check_dims(name: str, dims: tuple[int, ...], rank: int) -> None:
    """``dims`` are distinct dimensions of a tensor of ``rank``."""
    if len(set(dims)) != len(dims) or any(not 0 <= dim < rank for dim in dims):
        raise ValueError(f"{name} {dims} must be distinct and lie in [0, {rank})")


def check_scalar(name: str, x: TensorType, dtype: DType) -> None:
    """``x`` is a 0-d tensor of ``dtype``."""
    if x != TensorType((), dtype):
        raise ValueError(f"{name} is {x}; it must be {TensorType((), dtype)}")
