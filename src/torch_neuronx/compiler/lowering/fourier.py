"""Discrete Fourier transforms: the composite ``fft`` along the last dimensions, between transpositions that are views."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..hlo.ir import Value
from ..hlo.library_rules import COMPLEX_OF, REAL_OF
from ..hlo.types import TensorType
from .context import LoweringBuilder
from .registry import lowering

# StableHLO's fft takes at most this many dimensions; transforms of more are done in parts.
_DIMS_AT_ONCE = 3


@lowering("aten::_fft_c2c", exact=True)
def c2c(b: LoweringBuilder, x: Value, dims: Sequence[int], normalization: int, forward: bool) -> Value:
    return _scaled(b, _complex_transform(b, x, dims, forward), _count(x.shape, dims), normalization, inverse=not forward)


@lowering("aten::_fft_r2c", exact=True)
def r2c(b: LoweringBuilder, x: Value, dims: Sequence[int], normalization: int, onesided: bool) -> Value:
    """The last of ``dims`` is transformed first, from real numbers to half of a spectrum."""
    if onesided:
        *others, last = dims
        spectrum = _complex_transform(b, _transform(b, x, (last,), "RFFT"), others, forward=True)
    else:
        spectrum = _complex_transform(b, b.convert(x, COMPLEX_OF[x.dtype]), dims, forward=True)
    return _scaled(b, spectrum, _count(x.shape, dims), normalization, inverse=False)


@lowering("aten::_fft_c2r", exact=True)
def c2r(b: LoweringBuilder, x: Value, dims: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    *others, last = dims
    result = _transform(b, _complex_transform(b, x, others, forward=False), (last,), "IRFFT", last_dim_size)
    return _scaled(b, result, _count(result.shape, dims), normalization, inverse=True)


def _complex_transform(b: LoweringBuilder, x: Value, dims: Sequence[int], forward: bool) -> Value:
    for first in range(0, len(dims), _DIMS_AT_ONCE):
        x = _transform(b, x, dims[first : first + _DIMS_AT_ONCE], "FFT" if forward else "IFFT")
    return x


def _transform(b: LoweringBuilder, x: Value, dims: Sequence[int], kind: str, last_length: int | None = None) -> Value:
    rank = len(x.shape)
    along = [dim % rank for dim in dims]
    order = [dim for dim in range(rank) if dim not in along] + along
    moved = b.transpose(x, order)
    length = list(moved.shape[rank - len(along) :])
    if last_length is not None:
        length[-1] = last_length
    extents = list(moved.shape)
    extents[-1] = {"RFFT": length[-1] // 2 + 1, "IRFFT": length[-1]}.get(kind, extents[-1])
    dtype = {"RFFT": COMPLEX_OF, "IRFFT": REAL_OF}.get(kind, {}).get(x.dtype, x.dtype)
    (result,) = b.composite("fft", (moved,), {"kind": kind, "length": tuple(length)}, (TensorType(tuple(extents), dtype),))
    return b.transpose(result, [order.index(dim) for dim in range(rank)])


def _count(shape: Sequence[int], dims: Sequence[int]) -> int:
    return math.prod(shape[dim] for dim in dims)


def _scaled(b: LoweringBuilder, x: Value, count: int, normalization: int, inverse: bool) -> Value:
    """``normalization`` is ATen's: 0 none, 1 by the root of the count, 2 by the count. The inverse transforms have divided by it."""
    factor = (1.0, 1 / math.sqrt(count), 1 / count)[normalization]
    if inverse:
        factor = (float(count), math.sqrt(count), 1.0)[normalization]
    return x if factor == 1.0 else b.multiply(x, b.like(factor, x))
