"""Max, average and adaptive pooling over the last one to three dimensions, and their gradients."""

from __future__ import annotations

import numpy as np

from ..hlo.ir import Value
from ..hlo.types import TensorType
from .context import LoweringBuilder
from .convolution import Ints, per_dim
from .precision import widened
from .registry import lowering


def _max_pool(spatial: int, name: str) -> None:
    @lowering(name)
    def max_pool(
        b: LoweringBuilder, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Value, ...]:
        """Values, and the positions they come from: flat indices into the pooled dimensions."""
        attributes = {
            "window": per_dim(kernel_size, spatial),
            "strides": per_dim(stride or kernel_size, spatial),
            "padding": per_dim(padding, spatial),
            "dilation": per_dim(dilation, spatial),
            "ceil_mode": ceil_mode,
        }
        return _composite(b, "max_pool", spatial, (self,), attributes)

    @lowering(f"{name}_backward")
    def max_pool_backward(
        b: LoweringBuilder,
        grad_output: Value,
        self: Value,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        ceil_mode: bool,
        indices: Value,
    ) -> Value:
        (grad,) = _composite(b, "max_pool_backward", spatial, (grad_output, indices), {"input_shape": _batched(self.shape, spatial)})
        return grad


def _avg_pool(spatial: int, name: str) -> None:
    def attributes(
        kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool, divisor: int | None
    ) -> dict[str, object]:
        return {
            "window": per_dim(kernel_size, spatial),
            "strides": per_dim(stride or kernel_size, spatial),
            "padding": per_dim(padding, spatial),
            "ceil_mode": ceil_mode,
            "count_include_pad": count_include_pad,
            "divisor": divisor,
        }

    @lowering(name)
    def avg_pool(
        b: LoweringBuilder,
        self: Value,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        own = attributes(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        (result,) = _composite(b, "avg_pool", spatial, (self,), own)
        return result

    @lowering(f"{name}_backward")
    def avg_pool_backward(
        b: LoweringBuilder,
        grad_output: Value,
        self: Value,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        own = attributes(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        (grad,) = _composite(b, "avg_pool_backward", spatial, (grad_output,), own | {"input_shape": _batched(self.shape, spatial)})
        return grad


def _batched(shape: tuple[int, ...], spatial: int) -> tuple[int, ...]:
    """[N, C, spatial…]; a shape without N has N = 1."""
    return (1, *shape) if len(shape) == spatial + 1 else shape


def _composite(
    b: LoweringBuilder, name: str, spatial: int, operands: tuple[Value, ...], attributes: dict[str, object]
) -> tuple[Value, ...]:
    """A pooling composite, which wants a batch, applied to operands that may have none."""
    types = [TensorType(_batched(output.shape, spatial), output.dtype) for output in b.outputs]
    lifted = [b.reshape(operand, _batched(operand.shape, spatial)) for operand in operands]
    results = b.composite(name, lifted, attributes, types)
    return tuple(b.reshape(result, output.shape) for result, output in zip(results, b.outputs, strict=True))


_max_pool(2, "aten::max_pool2d_with_indices")
_max_pool(3, "aten::max_pool3d_with_indices")
_avg_pool(2, "aten::avg_pool2d")
_avg_pool(3, "aten::avg_pool3d")


@lowering("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def adaptive_avg_pool(b: LoweringBuilder, self: Value, output_size: Ints) -> Value:
    """The mean over each of ``output_size`` windows that cover a dimension evenly, overlapping where it does not divide."""
    result = widened(b, self)
    for dim, windows in enumerate(output_size, len(self.shape) - len(output_size)):
        result = _window_means(b, result, dim, windows)
    return result


@lowering("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(b: LoweringBuilder, grad_output: Value, self: Value) -> Value:
    result = widened(b, grad_output)
    for dim, extent in enumerate(self.shape):
        result = _window_means_backward(b, result, dim, extent)
    return result


def _window_means(b: LoweringBuilder, x: Value, dim: int, windows: int) -> Value:
    extent = x.shape[dim]
    if windows == extent:
        return x
    if windows == 0 or extent % windows:
        return _apply_along(b, x, adaptive_matrix(extent, windows), dim)
    size = extent // windows
    total = b.reduce(b.reshape(x, (*x.shape[:dim], windows, size, *x.shape[dim + 1 :])), "add", (dim + 1,))
    return b.divide(total, b.constant(size, total.dtype, total.shape))


def _window_means_backward(b: LoweringBuilder, grad: Value, dim: int, extent: int) -> Value:
    windows = grad.shape[dim]
    if windows == extent:
        return grad
    if windows == 0 or extent % windows:
        return _apply_along(b, grad, adaptive_matrix(extent, windows).T, dim)
    size = extent // windows
    share = b.divide(grad, b.constant(size, grad.dtype, grad.shape))
    wide = (*grad.shape[: dim + 1], size, *grad.shape[dim + 1 :])
    spread = b.broadcast_in_dim(share, wide, [*range(dim + 1), *range(dim + 2, len(wide))])
    return b.reshape(spread, (*grad.shape[:dim], extent, *grad.shape[dim + 1 :]))


Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def adaptive_matrix(extent: int, windows: int) -> Matrix:
    """[windows, extent]: window i is the mean over ⌊i·extent/windows⌋ up to ⌈(i + 1)·extent/windows⌉."""
    matrix = np.zeros((windows, extent))
    for window in range(windows):
        start, end = window * extent // windows, -(-(window + 1) * extent // windows)
        matrix[window, start:end] = 1 / (end - start)
    return matrix


def _apply_along(b: LoweringBuilder, x: Value, matrix: Matrix, dim: int) -> Value:
    """``matrix`` applied to every line of ``x`` along ``dim``."""
    product = b.dot_general(x, b.constant(matrix, x.dtype), (), (), (dim,), (1,))
    last = len(x.shape) - 1
    return b.transpose(product, [*range(dim), last, *range(dim, last)])
