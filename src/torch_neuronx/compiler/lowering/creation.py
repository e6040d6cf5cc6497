"""Tensors made from numbers. Eager reaches the forms without a tensor through ``out=`` and ``fill_``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering

Number = bool | int | float | complex


def _constant(b: LoweringBuilder, value: Number) -> Value:
    return b.scalar(value, b.output.dtype, b.output.shape)


@lowering("aten::zeros", "aten::new_zeros", "aten::zeros_like", exact=True)
def zeros(b: LoweringBuilder, *arguments: Any) -> Value:
    return _constant(b, 0)


@lowering("aten::ones", "aten::new_ones", "aten::ones_like", exact=True)
def ones(b: LoweringBuilder, *arguments: Any) -> Value:
    return _constant(b, 1)


@lowering(
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
    exact=True,
    native=False,
)
def empty(b: LoweringBuilder, *arguments: Any) -> Value:
    """Graphs only; any contents would do."""
    return _constant(b, 0)


@lowering("aten::full", exact=True)
def full(b: LoweringBuilder, size: Any, value: Value | Number, *options: Any) -> Value:
    return b.scalar(value, b.output.dtype, b.output.shape)


@lowering("aten::new_full", exact=True)
def new_full(b: LoweringBuilder, x: Value, size: Any, value: Value | Number, *options: Any) -> Value:
    return b.scalar(value, b.output.dtype, b.output.shape)


@lowering("aten::full_like", exact=True)
def full_like(b: LoweringBuilder, x: Value, value: Value | Number, *options: Any) -> Value:
    return b.scalar(value, b.output.dtype, b.output.shape)


@lowering("aten::scalar_tensor", exact=True)
def scalar_tensor(b: LoweringBuilder, value: Value | Number, *options: Any) -> Value:
    return b.scalar(value, b.output.dtype)


@lowering("aten::arange", static=("end",))
def arange(b: LoweringBuilder, end: Number, *options: Any) -> Value:
    return _progression(b, 0, 1)


@lowering("aten::arange.start", static=("start", "end"))
def arange_start(b: LoweringBuilder, start: Number, end: Number, *options: Any) -> Value:
    return _progression(b, start, 1)


@lowering("aten::arange.start_step", static=("start", "end", "step"))
def arange_step(b: LoweringBuilder, start: Number, end: Number, step: Number, *options: Any) -> Value:
    return _progression(b, start, step)


def _progression(b: LoweringBuilder, start: Number, step: Number) -> Value:
    """start, start + step, …, counted in whole numbers so that no rounding adds up."""
    dtype = b.output.dtype
    computed = dtype if dtype in (DType.F32, DType.F64) else DType.F32 if dtype.is_float else DType.I64
    position = b.cast(b.iota(b.output.shape, DType.I64, 0), computed)
    return b.add(b.multiply(position, b.like(step, position)), b.like(start, position))


@lowering("aten::linspace", static=("start", "end"))
def linspace(b: LoweringBuilder, start: Number, end: Number, steps: int, *options: Any) -> Value:
    """From both ends towards the middle, so that both are exact."""
    dtype = b.output.dtype
    computed = dtype if dtype in (DType.F32, DType.F64) or dtype.is_complex else DType.F32
    if steps == 1:
        return b.constant(start, computed, (1,))
    step = (end - start) / (steps - 1)
    position = b.iota((steps,), DType.I64, 0)
    from_start, from_end = (b.cast(p, computed) for p in (position, b.subtract(b.like(steps - 1, position), position)))
    rising = b.add(b.like(start, from_start), b.multiply(b.like(step, from_start), from_start))
    falling = b.subtract(b.like(end, from_end), b.multiply(b.like(step, from_end), from_end))
    return b.select(b.compare(position, b.like(steps // 2, position), "LT"), rising, falling)


@lowering("aten::logspace", static=("start", "end"))
def logspace(b: LoweringBuilder, start: Number, end: Number, steps: int, base: float, *options: Any) -> Value:
    exponents = linspace(b, start, end, steps)
    return b.power(b.like(base, exponents), exponents)


@lowering("aten::eye", "aten::eye.m", exact=True)
def eye(b: LoweringBuilder, *arguments: Any) -> Value:
    shape = b.output.shape
    rows, columns = (b.iota(shape, DType.I64, axis) for axis in (0, 1))
    return b.compare(rows, columns, "EQ")


def _triangle(b: LoweringBuilder, indices: tuple[np.ndarray[Any, Any], ...]) -> Value:
    return b.constant(np.stack(indices).astype(np.int64), DType.I64) if math.prod(b.output.shape) else _constant(b, 0)


@lowering("aten::tril_indices", exact=True)
def tril_indices(b: LoweringBuilder, rows: int, columns: int, offset: int, *options: Any) -> Value:
    return _triangle(b, np.tril_indices(rows, offset, columns))


@lowering("aten::triu_indices", exact=True)
def triu_indices(b: LoweringBuilder, rows: int, columns: int, offset: int, *options: Any) -> Value:
    return _triangle(b, np.triu_indices(rows, offset, columns))
