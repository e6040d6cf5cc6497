"""Reductions over dimensions. Half-precision inputs are accumulated in float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

Dims = int | Sequence[int] | None


def all_dims(x: Value, dim: Dims) -> tuple[int, ...]:
    """The dimensions meant, not negative; None and an empty list mean all of them. A 0-d tensor has none."""
    rank = len(x.shape)
    if rank == 0:
        return ()
    given = (dim,) if isinstance(dim, int) else tuple(dim or range(rank))
    return tuple(sorted(axis % rank for axis in given))


def reduced(b: LoweringBuilder, x: Value, kind: str, dims: tuple[int, ...], keepdim: bool) -> Value:
    """``x`` reduced over ``dims``, with extents of 1 in their place if ``keepdim``."""
    return restored(b, b.reduce(x, kind, dims), x, dims, keepdim)


def restored(b: LoweringBuilder, result: Value, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    if not keepdim:
        return result
    return b.reshape(result, [1 if axis in dims else extent for axis, extent in enumerate(x.shape)])


def counted(x: Value, dims: tuple[int, ...]) -> int:
    """How many elements meet in one result."""
    return math.prod(x.shape[axis] for axis in dims)


def _accumulated(b: LoweringBuilder, x: Value) -> Value:
    """The input of a sum or product: integers in the result's dtype, half precision in float32."""
    target = b.output.dtype
    return widened(b, b.cast(x, target) if target.is_integer or target.is_complex else b.cast(widened(b, x), _float_of(target)))


def _float_of(dtype: DType) -> DType:
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype


@lowering("aten::sum", "aten::sum.dim_IntList")
def sum(b: LoweringBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    dims, keepdim = _dims_and_keepdim(x, dim, keepdim)
    return reduced(b, _accumulated(b, x), "add", dims, keepdim)


def _dims_and_keepdim(x: Value, dim: Any, keepdim: bool) -> tuple[tuple[int, ...], bool]:
    """Overloads over all elements have the dtype where the others have the dimensions."""
    return all_dims(x, None if isinstance(dim, torch.dtype) else dim), keepdim


@lowering("aten::mean", "aten::mean.dim")
def mean(b: LoweringBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    dims, keepdim = _dims_and_keepdim(x, dim, keepdim)
    total = reduced(b, _accumulated(b, x), "add", dims, keepdim)
    return b.divide(total, b.like(counted(x, dims), total))


@lowering("aten::nansum")
def nansum(b: LoweringBuilder, x: Value, dim: Dims, keepdim: bool, dtype: torch.dtype | None) -> Value:
    if x.dtype.is_float:
        x = b.select(b.is_nan(x), b.like(0, x), x)
    return reduced(b, _accumulated(b, x), "add", all_dims(x, dim), keepdim)


@lowering("aten::prod", "aten::prod.dim_int")
def prod(b: LoweringBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    dims, keepdim = _dims_and_keepdim(x, dim, keepdim)
    return reduced(b, _accumulated(b, x), "multiply", dims, keepdim)


@lowering("aten::amax", exact=True)
def amax(b: LoweringBuilder, x: Value, dim: Dims, keepdim: bool) -> Value:
    return reduced(b, x, "maximum", all_dims(x, dim), keepdim)


@lowering("aten::amin", exact=True)
def amin(b: LoweringBuilder, x: Value, dim: Dims, keepdim: bool) -> Value:
    return reduced(b, x, "minimum", all_dims(x, dim), keepdim)


@lowering("aten::max", exact=True)
def max_all(b: LoweringBuilder, x: Value) -> Value:
    return b.reduce(x, "maximum", all_dims(x, None))


@lowering("aten::min", exact=True)
def min_all(b: LoweringBuilder, x: Value) -> Value:
    return b.reduce(x, "minimum", all_dims(x, None))


@lowering("aten::aminmax", exact=True)
def aminmax(b: LoweringBuilder, x: Value, dim: int | None, keepdim: bool) -> tuple[Value, Value]:
    dims = all_dims(x, dim)
    if dim is None and keepdim:
        return reduced(b, x, "minimum", dims, True), reduced(b, x, "maximum", dims, True)
    return reduced(b, x, "minimum", dims, keepdim), reduced(b, x, "maximum", dims, keepdim)


@lowering("aten::max.dim", exact=True)
def max_dim(b: LoweringBuilder, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme_with_index(b, x, "maximum", dim, keepdim)


@lowering("aten::min.dim", exact=True)
def min_dim(b: LoweringBuilder, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme_with_index(b, x, "minimum", dim, keepdim)


def _extreme_with_index(b: LoweringBuilder, x: Value, kind: str, dim: int, keepdim: bool) -> tuple[Value, Value]:
    if not x.shape:
        return x, b.constant(0, DType.I64)
    dims = all_dims(x, dim)
    comparable = b.cast(x, DType.UI8) if x.dtype is DType.I1 else x
    return reduced(b, x, kind, dims, keepdim), restored(b, b.argreduce(comparable, kind, dims[0]), x, dims, keepdim)


@lowering("aten::argmax", exact=True)
def argmax(b: LoweringBuilder, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _arg_extreme(b, x, "maximum", dim, keepdim)


@lowering("aten::argmin", exact=True)
def argmin(b: LoweringBuilder, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _arg_extreme(b, x, "minimum", dim, keepdim)


def _arg_extreme(b: LoweringBuilder, x: Value, kind: str, dim: int | None, keepdim: bool) -> Value:
    if not x.shape:
        return b.constant(0, DType.I64)
    if dim is None:
        index = b.argreduce(b.reshape(x, (math.prod(x.shape),)), kind, 0)
        return restored(b, index, x, all_dims(x, None), keepdim)
    dims = all_dims(x, dim)
    return restored(b, b.argreduce(x, kind, dims[0]), x, dims, keepdim)


@lowering("aten::any", "aten::any.dim", "aten::any.dims", exact=True)
def any_(b: LoweringBuilder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return reduced(b, b.is_nonzero(x), "or", all_dims(x, dim), keepdim)


@lowering("aten::all", "aten::all.dim", "aten::all.dims", exact=True)
def all_(b: LoweringBuilder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return reduced(b, b.is_nonzero(x), "and", all_dims(x, dim), keepdim)


@lowering("aten::count_nonzero", "aten::count_nonzero.dim_IntList", exact=True)
def count_nonzero(b: LoweringBuilder, x: Value, dim: Dims = None) -> Value:
    return b.reduce(b.cast(b.is_nonzero(x), DType.I64), "add", all_dims(x, dim))


def moments(b: LoweringBuilder, x: Value, dims: tuple[int, ...], correction: float | None) -> tuple[Value, Value]:
    """Variance and mean with kept dimensions, in two passes: the mean first, then the mean of squared distances from it."""
    x = widened(b, x)
    count = counted(x, dims)
    total = reduced(b, x, "add", dims, True)
    center = b.divide(total, b.like(count, total))
    distance = b.subtract(x, b.broadcast(center, x.shape))
    if x.dtype.is_complex:
        real, imag = b.real(distance), b.imag(distance)
        squared = b.add(b.multiply(real, real), b.multiply(imag, imag))
    else:
        squared = b.multiply(distance, distance)
    squares = reduced(b, squared, "add", dims, True)
    divisor = max(0.0, count - (1.0 if correction is None else float(correction)))
    return b.divide(squares, b.like(divisor, squares)), center


@lowering("aten::var.correction", static=("correction",))
def var(b: LoweringBuilder, x: Value, dim: Dims, correction: float | None, keepdim: bool) -> Value:
    return b.reshape(moments(b, x, all_dims(x, dim), correction)[0], b.output.shape)


@lowering("aten::std.correction", static=("correction",))
def std(b: LoweringBuilder, x: Value, dim: Dims, correction: float | None, keepdim: bool) -> Value:
    return b.sqrt(var(b, x, dim, correction, keepdim))


@lowering("aten::var_mean.correction", static=("correction",))
def var_mean(b: LoweringBuilder, x: Value, dim: Dims, correction: float | None, keepdim: bool) -> tuple[Value, Value]:
    variance, center = moments(b, x, all_dims(x, dim), correction)
    shape = b.outputs[0].shape
    return b.reshape(variance, shape), b.reshape(center, shape)


@lowering("aten::std_mean.correction", static=("correction",))
def std_mean(b: LoweringBuilder, x: Value, dim: Dims, correction: float | None, keepdim: bool) -> tuple[Value, Value]:
    variance, center = var_mean(b, x, dim, correction, keepdim)
    return b.sqrt(variance), center


def vector_norm(b: LoweringBuilder, x: Value, order: float, dims: tuple[int, ...], keepdim: bool) -> Value:
    """The p-norm: largest and smallest magnitude for ±inf, the number of nonzero elements for 0."""
    magnitude = b.abs(x) if x.dtype.is_complex or order != 2 else x
    if order == math.inf:
        return reduced(b, magnitude, "maximum", dims, keepdim) if counted(x, dims) else _zeros(b)
    if order == -math.inf:
        return reduced(b, magnitude, "minimum", dims, keepdim)
    if order == 0:
        return reduced(b, b.cast(b.is_nonzero(magnitude), magnitude.dtype), "add", dims, keepdim)
    if order == 1:
        return reduced(b, magnitude, "add", dims, keepdim)
    if order == 2:
        return b.sqrt(reduced(b, b.multiply(magnitude, magnitude), "add", dims, keepdim))
    total = reduced(b, b.power(magnitude, b.like(order, magnitude)), "add", dims, keepdim)
    return b.power(total, b.like(1 / order, total))


def _zeros(b: LoweringBuilder) -> Value:
    return b.constant(0, b.output.dtype, b.output.shape)


@lowering("aten::linalg_vector_norm", static=("ord",))
def linalg_vector_norm(b: LoweringBuilder, x: Value, order: float, dim: Dims, keepdim: bool, dtype: torch.dtype | None) -> Value:
    x = b.cast(x, b.dtype(dtype)) if dtype is not None else x
    return vector_norm(b, widened(b, x), float(order), all_dims(x, dim), keepdim)


@lowering("aten::norm.Scalar", "aten::norm.ScalarOpt_dim", static=("p",))
def norm(b: LoweringBuilder, x: Value, order: float | None, dim: Dims = None, keepdim: bool = False) -> Value:
    return vector_norm(b, widened(b, x), 2.0 if order is None else float(order), all_dims(x, dim), keepdim)


@lowering("aten::norm.ScalarOpt_dim_dtype", static=("p",))
def norm_dtype(b: LoweringBuilder, x: Value, order: float | None, dim: Dims, keepdim: bool, dtype: torch.dtype) -> Value:
    return norm(b, b.cast(x, b.dtype(dtype)), order, dim, keepdim)


@lowering("aten::logsumexp")
def logsumexp(b: LoweringBuilder, x: Value, dim: Dims, keepdim: bool) -> Value:
    """Shifted by the largest element, unless that is infinite."""
    b.require_real(x)
    x = widened(b, x) if x.dtype.is_float or x.dtype.is_complex else b.cast(x, b.output.dtype)
    dims = all_dims(x, dim)
    if counted(x, dims) == 0:
        return b.constant(-math.inf, b.output.dtype, b.output.shape)
    largest = reduced(b, x, "maximum", dims, True)
    shift = b.select(b.is_finite(largest), largest, b.like(0, largest))
    total = reduced(b, b.exponential(b.subtract(x, b.broadcast(shift, x.shape))), "add", dims, True)
    return b.reshape(b.add(b.log(total), shift), b.output.shape)


@lowering("aten::trace")
def trace(b: LoweringBuilder, x: Value) -> Value:
    rows, columns = (b.iota(x.shape, DType.I64, axis) for axis in (0, 1))
    x = _accumulated(b, x)
    return b.reduce(b.select(b.compare(rows, columns, "EQ"), x, b.like(0, x)), "add", (0, 1))


@lowering("aten::_trilinear")
def trilinear(
    b: LoweringBuilder,
    first: Value,
    second: Value,
    third: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sum_dims: Sequence[int],
    unroll_dim: int,
) -> Value:
    """The product of three tensors, each with extents of 1 put in at its ``expand`` dimensions, summed over ``sum_dims``."""
    factors = [_expanded(b, x, dims) for x, dims in ((first, expand1), (second, expand2), (third, expand3))]
    shape = torch.broadcast_shapes(*(x.shape for x in factors))
    whole = [b.broadcast(widened(b, x), tuple(shape)) for x in factors]
    return b.reduce(b.multiply(b.multiply(whole[0], whole[1]), whole[2]), "add", sum_dims)


def _expanded(b: LoweringBuilder, x: Value, dims: Sequence[int]) -> Value:
    shape = list(x.shape)
    for dim in sorted(dims):
        shape.insert(dim, 1)
    return b.reshape(x, shape)
