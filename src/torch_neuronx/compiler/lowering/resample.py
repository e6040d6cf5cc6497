"""Resizing of the last one to three dimensions: nearest, linear and cubic interpolation, and their derivatives.

Interpolation is separable and linear in the image: along each axis the result is W · x with a matrix W of few entries per row, which are
read; the derivative is the transpose. Matrices of many entries per row are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

Matrix = np.ndarray[Any, np.dtype[np.float64]]
# (input extent, output extent, align_corners, scale factor or None) → W[output, input].
Weights = Callable[[int, int, bool, float | None], Matrix]

# Coefficients of the cubic convolution kernel: PyTorch's for plain and for antialiased resizing.
_CUBIC, _CUBIC_ANTIALIASED = -0.75, -0.5
_LANCZOS_LOBES = 3.0
# Up to so many entries per row they are read one by one instead of multiplying matrices.
_MAX_TAPS = 4


def _one_hot(positions: np.ndarray[Any, Any], extent: int) -> Matrix:
    return np.asarray(positions[:, None] == np.arange(extent)[None, :], dtype=np.float64)


def _nearest_positions(extent: int, out: int, scale: float | None, shift: float) -> np.ndarray[Any, Any]:
    """PyTorch finds the source in float32, which decides ties."""
    step = np.float32(1.0 / scale) if scale else np.float32(extent) / np.float32(out)
    source = np.floor((np.arange(out, dtype=np.float32) + np.float32(shift)) * step)
    return np.asarray(np.minimum(source, extent - 1), dtype=np.int64)


def _nearest(extent: int, out: int, align: bool, scale: float | None) -> Matrix:
    return _one_hot(_nearest_positions(extent, out, scale, 0.0), extent)


def _nearest_exact(extent: int, out: int, align: bool, scale: float | None) -> Matrix:
    return _one_hot(_nearest_positions(extent, out, scale, 0.5), extent)


def _sources(extent: int, out: int, align: bool, scale: float | None) -> np.ndarray[Any, Any]:
    """Where each result lies on the input's axis."""
    if align:
        return np.asarray(np.arange(out) * ((extent - 1) / (out - 1) if out > 1 else 0.0))
    return np.asarray((np.arange(out) + 0.5) * (1.0 / scale if scale else extent / out) - 0.5)


def _linear(extent: int, out: int, align: bool, scale: float | None) -> Matrix:
    source = np.maximum(_sources(extent, out, align, scale), 0.0)
    low = np.minimum(np.floor(source).astype(np.int64), extent - 1)
    part = (source - low)[:, None]
    return np.asarray(_one_hot(low, extent) * (1 - part) + _one_hot(np.minimum(low + 1, extent - 1), extent) * part)


def _cubic_kernel(x: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Keys' kernel (1981): two cubic pieces on [0, 1) and [1, 2)."""
    x = np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * a
    return np.asarray(np.where(x < 1, inner, np.where(x < 2, outer, 0.0)))


def _cubic(extent: int, out: int, align: bool, scale: float | None) -> Matrix:
    source = _sources(extent, out, align, scale)
    base = np.floor(source).astype(np.int64)
    taps = [_one_hot(np.clip(base + i, 0, extent - 1), extent) * _cubic_kernel(source - (base + i), _CUBIC)[:, None] for i in (-1, 0, 1, 2)]
    return np.asarray(np.sum(taps, axis=0))


def _lanczos_kernel(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """sinc in a window that is the main lobe of a sinc three times as wide."""
    return np.asarray(np.where(np.abs(x) < _LANCZOS_LOBES, np.sinc(x) * np.sinc(x / _LANCZOS_LOBES), 0.0))


def _antialiased(kernel: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], radius: float) -> Weights:
    """The kernel stretched over all inputs that shrink into one result, normalised."""

    def weights(extent: int, out: int, align: bool, scale: float | None) -> Matrix:
        if align:
            step = (extent - 1) / (out - 1) if out > 1 else 0.0
        else:
            step = 1.0 / scale if scale else extent / out
        stretch = max(step, 1.0)
        center = (np.arange(out) + 0.5) * step
        first = np.maximum((center - radius * stretch + 0.5).astype(np.int64), 0)
        last = np.minimum((center + radius * stretch + 0.5).astype(np.int64), extent)
        place = np.arange(extent)[None, :]
        values = kernel((place - center[:, None] + 0.5) / stretch)
        values = np.where((place >= first[:, None]) & (place < last[:, None]), values, 0.0)
        return np.asarray(values / values.sum(axis=1, keepdims=True))

    return weights


def _register(name: str, weights: Weights, spatial: int, has_corners: bool) -> None:
    @lowering(f"aten::{name}")
    def forward(b: LoweringBuilder, x: Value, output_size: Sequence[int], *options: Any) -> Value:
        align, scales = (options[0], options[1:]) if has_corners else (False, options)
        x = widened(b, x) if x.dtype.is_float else b.cast(x, DType.F32)
        for i, (out, scale) in enumerate(zip(output_size, scales, strict=True)):
            axis = len(x.shape) - spatial + i
            matrix = weights(x.shape[axis], out, align, scale)
            x = _apply(b, x, matrix, axis)
        return x if b.output.dtype.is_float else b.cast(b.round_nearest_even(x), b.output.dtype)

    @lowering(f"aten::{name}_backward")
    def backward(b: LoweringBuilder, grad: Value, output_size: Sequence[int], input_size: Sequence[int], *options: Any) -> Value:
        align, scales = (options[0], options[1:]) if has_corners else (False, options)
        grad = widened(b, grad)
        for i, scale in enumerate(scales):
            axis = len(grad.shape) - spatial + i
            grad = _apply(b, grad, weights(input_size[axis], output_size[i], align, scale).T, axis)
        return grad


def _apply(b: LoweringBuilder, x: Value, matrix: Matrix, axis: int) -> Value:
    taps = int((matrix != 0).sum(axis=1).max(initial=0))
    if taps > _MAX_TAPS:
        return _multiply(b, x, matrix, axis)
    order = np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps]
    total: Value | None = None
    for tap in range(taps):
        taken = b.take(x, b.constant(order[:, tap], DType.I64), axis)
        weight = np.take_along_axis(matrix, order[:, tap : tap + 1], axis=1)[:, 0]
        if not np.all(weight == 1):
            taken = b.multiply(taken, b.broadcast_in_dim(b.constant(weight, x.dtype), taken.shape, (axis,)))
        total = taken if total is None else b.add(total, taken)
    return b.constant(0, x.dtype, (*x.shape[:axis], len(matrix), *x.shape[axis + 1 :])) if total is None else total


def _multiply(b: LoweringBuilder, x: Value, matrix: Matrix, axis: int) -> Value:
    """``matrix`` times ``x`` along ``axis``."""
    rank = len(x.shape)
    product = b.dot_general(x, b.constant(matrix, x.dtype), (), (), (axis,), (1,))
    return b.transpose(product, [*range(axis), rank - 1, *range(axis, rank - 1)])


for _spatial in (1, 2, 3):
    _register(f"upsample_nearest{_spatial}d", _nearest, _spatial, has_corners=False)
    _register(f"_upsample_nearest_exact{_spatial}d", _nearest_exact, _spatial, has_corners=False)
for _spatial, _name in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d")):
    _register(_name, _linear, _spatial, has_corners=True)
_register("upsample_bicubic2d", _cubic, 2, has_corners=True)
_register("_upsample_bilinear2d_aa", _antialiased(lambda x: np.maximum(1 - np.abs(x), 0.0), 1.0), 2, has_corners=True)
_register("_upsample_bicubic2d_aa", _antialiased(lambda x: _cubic_kernel(x, _CUBIC_ANTIALIASED), 2.0), 2, has_corners=True)
_register("_upsample_lanczos2d_aa", _antialiased(_lanczos_kernel, _LANCZOS_LOBES), 2, has_corners=True)
