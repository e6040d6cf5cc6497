"""Layer, group and RMS norm, and softmax, with their gradients.

Written the plain way (sum, divide, subtract, multiply), which a target recognises and fuses per row. Sums are formed in at least f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from ..hlo.ir import Value
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

Dims = Sequence[int]


# Softmax


@lowering("aten::_softmax")
def softmax(b: LoweringBuilder, self: Value, dim: int, half_to_float: bool) -> Value:
    if not self.shape:
        return b.reshape(softmax(b, b.reshape(self, (1,)), 0, half_to_float), ())
    x = widened(b, self)
    dims = (dim % len(x.shape),)
    powers = b.exponential(b.subtract(x, spread(b, b.reduce(x, "maximum", dims), x.shape, dims)))
    return b.divide(powers, spread(b, b.reduce(powers, "add", dims), x.shape, dims))


@lowering("aten::_log_softmax")
def log_softmax(b: LoweringBuilder, self: Value, dim: int, half_to_float: bool) -> Value:
    if not self.shape:
        return b.reshape(log_softmax(b, b.reshape(self, (1,)), 0, half_to_float), ())
    x = widened(b, self)
    dims = (dim % len(x.shape),)
    shifted = b.subtract(x, spread(b, b.reduce(x, "maximum", dims), x.shape, dims))
    total = b.reduce(b.exponential(shifted), "add", dims)
    return b.subtract(shifted, spread(b, b.log(total), x.shape, dims))


@lowering("aten::_softmax_backward_data")
def softmax_backward(b: LoweringBuilder, grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype) -> Value:
    if not output.shape:
        lifted = softmax_backward(b, b.reshape(grad_output, (1,)), b.reshape(output, (1,)), 0, input_dtype)
        return b.reshape(lifted, ())
    grad, y = widened(b, grad_output), widened(b, output)
    dims = (dim % len(y.shape),)
    total = b.reduce(b.multiply(grad, y), "add", dims)
    return b.multiply(b.subtract(grad, spread(b, total, y.shape, dims)), y)


@lowering("aten::_log_softmax_backward_data")
def log_softmax_backward(b: LoweringBuilder, grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype) -> Value:
    if not output.shape:
        lifted = log_softmax_backward(b, b.reshape(grad_output, (1,)), b.reshape(output, (1,)), 0, input_dtype)
        return b.reshape(lifted, ())
    grad, y = widened(b, grad_output), widened(b, output)
    dims = (dim % len(y.shape),)
    total = b.reduce(grad, "add", dims)
    return b.subtract(grad, b.multiply(b.exponential(y), spread(b, total, y.shape, dims)))


# Layer norm and RMS norm: statistics over the last dimensions


@lowering("aten::native_layer_norm")
def layer_norm(
    b: LoweringBuilder, input: Value, normalized_shape: Dims, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """The result, and mean and reciprocal standard deviation with extent 1 in the normalized dimensions."""
    x = widened(b, input)
    dims = range(len(x.shape) - len(normalized_shape), len(x.shape))
    mean, rstd = _statistics(b, x, dims, eps)
    normal = b.multiply(b.subtract(x, spread(b, mean, x.shape, dims)), spread(b, rstd, x.shape, dims))
    kept = b.outputs[1].shape
    return affine(b, normal, weight, bias, dims), b.reshape(mean, kept), b.reshape(rstd, kept)


@lowering("aten::native_layer_norm_backward")
def layer_norm_backward(
    b: LoweringBuilder,
    grad_out: Value,
    input: Value,
    normalized_shape: Dims,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    grad, x = widened(b, grad_out), widened(b, input)
    rank = len(x.shape)
    dims = range(rank - len(normalized_shape), rank)
    rows = range(dims.start)
    scale = b.broadcast(widened(b, rstd), x.shape)
    normal = b.multiply(b.subtract(x, b.broadcast(widened(b, mean), x.shape)), scale)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = grad if weight is None else b.multiply(grad, b.broadcast(b.cast(weight, x.dtype), x.shape))
        grad_input = normal_backward(b, scaled, normal, scale, dims)
    if output_mask[1] and weight is not None:
        grad_weight = b.reduce(b.multiply(grad, normal), "add", rows)
    if output_mask[2] and bias is not None:
        grad_bias = b.reduce(grad, "add", rows)
    return grad_input, grad_weight, grad_bias


@lowering("aten::_fused_rms_norm")
def rms_norm(b: LoweringBuilder, input: Value, normalized_shape: Dims, weight: Value | None, eps: float | None) -> tuple[Value, Value]:
    """The result, and the reciprocal root mean square with extent 1 in the normalized dimensions."""
    x = widened(b, input)
    dims = range(len(x.shape) - len(normalized_shape), len(x.shape))
    mean_square = mean_over(b, b.multiply(x, x), dims)
    # Without an eps PyTorch takes that of the type it computes in, not of the input's.
    computed = torch.promote_types(b.metas["input"].dtype, torch.float32)
    epsilon = torch.finfo(computed).eps if eps is None else eps
    rstd = b.rsqrt(b.add(mean_square, b.constant(epsilon, x.dtype, mean_square.shape)))
    normal = b.multiply(x, spread(b, rstd, x.shape, dims))
    return affine(b, normal, weight, None, dims), b.reshape(rstd, b.outputs[1].shape)


@lowering("aten::_fused_rms_norm_backward")
def rms_norm_backward(
    b: LoweringBuilder,
    grad_out: Value,
    input: Value,
    normalized_shape: Dims,
    rstd: Value,
    weight: Value | None,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None]:
    grad, x = widened(b, grad_out), widened(b, input)
    dims = range(len(x.shape) - len(normalized_shape), len(x.shape))
    scale = b.broadcast(widened(b, rstd), x.shape)
    normal = b.multiply(x, scale)
    grad_input = grad_weight = None
    if output_mask[0]:
        scaled = grad if weight is None else b.multiply(grad, b.broadcast(b.cast(weight, x.dtype), x.shape))
        along = spread(b, mean_over(b, b.multiply(scaled, normal), dims), x.shape, dims)
        grad_input = b.multiply(b.subtract(scaled, b.multiply(normal, along)), scale)
    if output_mask[1] and weight is not None:
        grad_weight = b.reduce(b.multiply(grad, normal), "add", range(dims.start))
    return grad_input, grad_weight


# Group norm: [N, C, …] seen as [N, groups, C / groups, …], statistics over all but the first two


@lowering("aten::native_group_norm")
def group_norm(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    samples: int,
    channels: int,
    extent: int,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    x = b.reshape(widened(b, input), (samples, group, channels // group, extent))
    mean, rstd = _statistics(b, x, (2, 3), eps)
    normal = b.multiply(b.subtract(x, spread(b, mean, x.shape, (2, 3))), spread(b, rstd, x.shape, (2, 3)))
    result = affine(b, b.reshape(normal, (samples, channels, extent)), weight, bias, (1,))
    return b.reshape(result, input.shape), mean, rstd


@lowering("aten::native_group_norm_backward")
def group_norm_backward(
    b: LoweringBuilder,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    samples: int,
    channels: int,
    extent: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    grouped, flat = (samples, group, channels // group, extent), (samples, channels, extent)
    x, grad = b.reshape(widened(b, input), grouped), b.reshape(widened(b, grad_out), flat)
    scale = spread(b, widened(b, rstd), grouped, (2, 3))
    normal = b.multiply(b.subtract(x, spread(b, widened(b, mean), grouped, (2, 3))), scale)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = b.reshape(affine(b, grad, weight, None, (1,)), grouped)
        grad_input = b.reshape(normal_backward(b, scaled, normal, scale, (2, 3)), input.shape)
    if output_mask[1]:
        grad_weight = b.reduce(b.multiply(grad, b.reshape(normal, flat)), "add", (0, 2))
    if output_mask[2]:
        grad_bias = b.reduce(grad, "add", (0, 2))
    return grad_input, grad_weight, grad_bias


# Parts


def spread(b: LoweringBuilder, statistic: Value, shape: Dims, dims: Dims) -> Value:
    """A reduced value broadcast back over the reduced ``dims``."""
    return b.broadcast_in_dim(statistic, shape, [axis for axis in range(len(shape)) if axis not in dims])


def mean_over(b: LoweringBuilder, x: Value, dims: Dims) -> Value:
    total = b.reduce(x, "add", dims)
    return b.divide(total, b.constant(prod(x.shape[axis] for axis in dims), x.dtype, total.shape))


def _statistics(b: LoweringBuilder, x: Value, dims: Dims, eps: float) -> tuple[Value, Value]:
    """Mean and 1 / √(variance + eps) over ``dims``, by two passes."""
    mean, variance = mean_and_variance(b, x, dims)
    return mean, b.rsqrt(b.add(variance, b.constant(eps, x.dtype, variance.shape)))


def mean_and_variance(b: LoweringBuilder, x: Value, dims: Dims) -> tuple[Value, Value]:
    """Mean and biased variance over ``dims``, by two passes."""
    mean = mean_over(b, x, dims)
    centered = b.subtract(x, spread(b, mean, x.shape, dims))
    return mean, mean_over(b, b.multiply(centered, centered), dims)


def affine(b: LoweringBuilder, normal: Value, weight: Value | None, bias: Value | None, dims: Dims) -> Value:
    """``normal * weight + bias``, the two of the extents that ``dims`` have."""
    if weight is not None:
        normal = b.multiply(normal, b.broadcast_in_dim(b.cast(weight, normal.dtype), normal.shape, tuple(dims)))
    if bias is not None:
        normal = b.add(normal, b.broadcast_in_dim(b.cast(bias, normal.dtype), normal.shape, tuple(dims)))
    return normal


def normal_backward(b: LoweringBuilder, grad: Value, normal: Value, scale: Value, dims: Dims) -> Value:
    """The gradient through x → (x − mean) · rstd: what is left of ``grad`` after its mean and its part along ``normal``, times rstd."""
    mean = spread(b, mean_over(b, grad, dims), grad.shape, dims)
    along = spread(b, mean_over(b, b.multiply(grad, normal), dims), grad.shape, dims)
    return b.multiply(b.subtract(b.subtract(grad, mean), b.multiply(normal, along)), scale)
