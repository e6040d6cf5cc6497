"""Numbers rounded as if they were stored as integers, q = zero point + round(x / scale) between two bounds, and the gradients.

A not-a-number becomes the lowest integer, as on the CPU. What the CPU checks of the *values* of tensors (that a zero point lies between the
bounds) is not checked: a program does not read them on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

# PyTorch's choice of quantization parameters: no scale below this one, and this instead of 0.
_SMALLEST_SCALE, _SCALE_OF_NOTHING = 6.1e-5, 0.1


def _and_mask(metas: Mapping[str, Any], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return outputs[0], torch.empty_like(outputs[1], dtype=torch.bool)


@lowering("aten::fake_quantize_per_tensor_affine_cachemask", outputs_like=("self", "self"), layout=_and_mask)
def per_tensor_cachemask(b: LoweringBuilder, self: Value, scale: float, zero_point: int, low: int, high: int) -> tuple[Value, Value]:
    """The rounded numbers, and where they are between the bounds."""
    _check_bounds(low, high)
    if not low <= zero_point <= high:
        raise ValueError(f"fake_quantize: the zero point is {zero_point}, allowed are {low} to {high}")
    x = widened(b, self)
    return _rounded(b, x, b.like(scale, x), b.like(zero_point, x), low, high)


@lowering("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", outputs_like=("self", "self"), layout=_and_mask)
def per_tensor_cachemask_of_tensors(
    b: LoweringBuilder, self: Value, scale: Value, zero_point: Value, enabled: Value, low: int, high: int
) -> tuple[Value, Value]:
    _check_bounds(low, high)
    x = widened(b, self)
    return _if_on(b, enabled, self, _rounded(b, x, _spread(b, scale, x), _spread(b, zero_point, x), low, high))


@lowering("aten::fake_quantize_per_channel_affine_cachemask", outputs_like=("self", "self"), layout=_and_mask)
def per_channel_cachemask(
    b: LoweringBuilder, self: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int
) -> tuple[Value, Value]:
    """A zero point that is no integer is added before rounding."""
    _check_bounds(low, high)
    _check_channels(b, self, scale, zero_point, axis)
    x = widened(b, self)
    scales, points = _along(b, scale, x, axis), _along(b, zero_point, x, axis)
    return _rounded(b, x, scales, points, low, high, point_within=zero_point.dtype.is_float)


@lowering("aten::_fake_quantize_learnable_per_tensor_affine", outputs_like=("self",))
def learnable_per_tensor(
    b: LoweringBuilder, self: Value, scale: Value, zero_point: Value, low: int, high: int, grad_factor: float
) -> Value:
    _check_bounds(low, high)
    x = widened(b, self)
    return _rounded(b, x, _spread(b, scale, x), _learned_point(b, _spread(b, zero_point, x), low, high), low, high)[0]


@lowering("aten::_fake_quantize_learnable_per_channel_affine", outputs_like=("self",))
def learnable_per_channel(
    b: LoweringBuilder, self: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int, grad_factor: float
) -> Value:
    _check_bounds(low, high)
    _check_channels(b, self, scale, zero_point, axis)
    x = widened(b, self)
    return _rounded(b, x, _along(b, scale, x, axis), _learned_point(b, _along(b, zero_point, x, axis), low, high), low, high)[0]


@lowering("aten::_fake_quantize_learnable_per_tensor_affine_backward", outputs_like=("self", "scale", "zero_point"))
def learnable_per_tensor_backward(
    b: LoweringBuilder, grad: Value, self: Value, scale: Value, zero_point: Value, low: int, high: int, grad_factor: float
) -> tuple[Value, Value, Value]:
    x = widened(b, self)
    point = _cut_point(b, _spread(b, zero_point, x), low, high)
    parts = _learned_gradients(b, widened(b, grad), x, _spread(b, scale, x), point, low, high)
    totals = [b.reduce(part, "add", range(len(x.shape))) for part in parts[1:]]
    of_scale, of_point = (b.reshape(b.multiply(total, b.like(grad_factor, total)), (1,)) for total in totals)
    return parts[0], of_scale, of_point


@lowering("aten::_fake_quantize_learnable_per_channel_affine_backward", outputs_like=("self", "scale", "zero_point"))
def learnable_per_channel_backward(
    b: LoweringBuilder, grad: Value, self: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int, grad_factor: float
) -> tuple[Value, Value, Value]:
    x = widened(b, self)
    point = _learned_point(b, _along(b, zero_point, x, axis), low, high)
    parts = _learned_gradients(b, widened(b, grad), x, _along(b, scale, x, axis), point, low, high)
    others = [dim for dim in range(len(x.shape)) if dim != axis]
    totals = [b.reduce(part, "add", others) for part in parts[1:]]
    of_scale, of_point = (b.multiply(total, b.like(grad_factor, total)) for total in totals)
    return parts[0], of_scale, of_point


@lowering("aten::_fused_moving_avg_obs_fq_helper_functional")
def moving_average_observer(
    b: LoweringBuilder,
    self: Value,
    observer_on: Value,
    fake_quant_on: Value,
    running_min: Value,
    running_max: Value,
    scale: Value,
    zero_point: Value,
    averaging: float,
    low: int,
    high: int,
    axis: int,
    per_row: bool,
    symmetric: bool,
) -> tuple[Value, ...]:
    """Observes the range of a tensor, or of each slice along ``axis``, moves the running range and the parameters after it, and rounds."""
    x = widened(b, self)
    others = [dim for dim in range(len(x.shape)) if not per_row or dim != axis]
    channels = (x.shape[axis],) if per_row else (1,)
    states = (running_min, running_max, scale, zero_point)
    if any(state.type.size != prod(channels) for state in states):
        raise NotImplementedError(f"the running range is {running_min.type}; the CPU resizes it to {channels}, a program cannot")
    observed = [b.reshape(b.reduce(x, kind, others), channels) for kind in ("minimum", "maximum")]
    running_min, running_max, scale, zero_point = (b.reshape(state, channels) for state in states)
    observing, rounding = (b.broadcast(_is_on(b, flag), channels) for flag in (observer_on, fake_quant_on))
    least, most = (
        b.select(observing, _moved(b, running, new, averaging), running)
        for running, new in zip((running_min, running_max), observed, strict=True)
    )
    chosen = zip(_chosen_parameters(b, least, most, low, high, symmetric), (scale, zero_point), strict=True)
    parameters = [b.select(rounding, b.cast(new, old.dtype), old) for new, old in chosen]
    scales, points = (_along(b, new, x, axis) if per_row else _spread(b, new, x) for new in parameters)
    out, mask = _if_on(b, fake_quant_on, self, _rounded(b, x, scales, points, low, high))
    return out, mask, *(b.reshape(new, old.shape) for new, old in zip((least, most, *parameters), states, strict=True))


def _moved(b: LoweringBuilder, running: Value, observed: Value, averaging: float) -> Value:
    """A running bound that is infinite has seen nothing yet."""
    new = b.cast(observed, running.dtype)
    step = b.multiply(b.subtract(new, running), b.like(averaging, running))
    return b.select(b.is_inf(running), new, b.add(running, step))


def _chosen_parameters(b: LoweringBuilder, least: Value, most: Value, low: int, high: int, symmetric: bool) -> tuple[Value, Value]:
    """The scale and zero point for numbers from ``least`` to ``most``; 0 is always one of them. In float64, as PyTorch does."""
    least, most = (b.cast(bound, DType.F64) for bound in (least, most))
    zero, one = b.like(0, least), b.like(1, least)
    least, most = b.minimum(least, zero), b.maximum(most, zero)
    around = b.and_(b.compare(least, zero, "LT"), b.compare(most, zero, "GT"))
    if symmetric:
        lowest, highest = -((high - low) // 2 + 1), (high - low) // 2
        widest = b.maximum(b.divide(least, b.like(lowest, least)), b.divide(most, b.like(highest, most)))
        least = b.select(around, b.multiply(widest, b.like(lowest, widest)), least)
        most = b.select(around, b.multiply(widest, b.like(highest, widest)), most)
    steps = b.like(high - low, least)
    scale = b.divide(b.subtract(most, least), steps)
    single = b.cast(scale, DType.F32)
    useless = b.or_(b.is_zero(single), b.is_inf(b.divide(b.like(1, single), single)))
    scale = b.select(useless, b.like(_SCALE_OF_NOTHING, scale), scale)
    small = b.compare(scale, b.like(_SMALLEST_SCALE, scale), "LT")
    smallest = b.like(_SMALLEST_SCALE, scale)
    larger = b.select(small, b.divide(smallest, scale), one)
    scale = b.select(small, smallest, scale)
    from_least, from_most = (b.divide(b.multiply(bound, larger), scale) for bound in (least, most))
    nearer = b.compare(b.add(b.like(abs(low), zero), b.abs(from_least)), b.add(b.like(abs(high), zero), b.abs(from_most)), "LT")
    point = b.select(nearer, b.subtract(b.like(low, zero), from_least), b.subtract(b.like(high, zero), from_most))
    if symmetric:
        point = b.select(around, b.like((low + high) / 2, point), point)
    return scale, b.round_nearest_even(b.clamp(b.like(low, point), point, b.like(high, point)))


def _rounded(
    b: LoweringBuilder, x: Value, scale: Value, point: Value, low: int, high: int, point_within: bool = False
) -> tuple[Value, Value]:
    steps = b.multiply(x, b.divide(b.like(1, scale), scale))
    q = b.round_nearest_even(b.add(steps, point)) if point_within else b.add(b.round_nearest_even(steps), point)
    inside = _inside(b, q, low, high)
    return b.multiply(b.subtract(_bounded(b, q, low, high), point), scale), inside


def _inside(b: LoweringBuilder, q: Value, low: int, high: int) -> Value:
    return b.and_(b.compare(q, b.like(low, q), "GE"), b.compare(q, b.like(high, q), "LE"))


def _bounded(b: LoweringBuilder, q: Value, low: int, high: int) -> Value:
    lowest = b.like(low, q)
    return b.select(b.is_nan(q), lowest, b.clamp(lowest, q, b.like(high, q)))


def _learned_point(b: LoweringBuilder, point: Value, low: int, high: int) -> Value:
    """A learned zero point as an integer between the bounds."""
    return b.clamp(b.like(low, point), b.round_nearest_even(point), b.like(high, point))


def _cut_point(b: LoweringBuilder, point: Value, low: int, high: int) -> Value:
    """The same where PyTorch adds a half and cuts the fraction: in the gradient of one scale for a whole tensor."""
    bounded = b.clamp(b.like(low, point), b.add(point, b.like(0.5, point)), b.like(high, point))
    return b.select(b.compare(bounded, b.like(0, bounded), "LT"), b.ceil(bounded), b.floor(bounded))


def _learned_gradients(
    b: LoweringBuilder, grad: Value, x: Value, scale: Value, point: Value, low: int, high: int
) -> tuple[Value, Value, Value]:
    """By x, and each element's part of those by scale and zero point (Jain et al., "Trained quantization thresholds", 2020)."""
    inverse = b.divide(b.like(1, scale), scale)
    q = b.round_nearest_even(b.add(b.multiply(x, inverse), point))
    inside = _inside(b, q, low, high)
    distance = b.subtract(_bounded(b, q, low, high), point)
    error = b.multiply(b.subtract(b.multiply(distance, scale), x), inverse)
    zero = b.like(0, grad)
    by_scale = b.multiply(grad, b.select(inside, error, distance))
    by_point = b.select(inside, zero, b.negate(b.multiply(grad, scale)))
    return b.select(inside, grad, zero), by_scale, by_point


def _is_on(b: LoweringBuilder, flag: Value) -> Value:
    return b.is_nonzero(b.reshape(flag, ()))


def _if_on(b: LoweringBuilder, flag: Value, self: Value, rounded: tuple[Value, Value]) -> tuple[Value, Value]:
    """What was rounded, or the tensor itself and a mask of ones."""
    on = b.broadcast(_is_on(b, flag), self.shape)
    out, mask = rounded
    return b.select(on, b.cast(out, self.dtype), self), b.or_(mask, b.not_(on))


def _spread(b: LoweringBuilder, parameter: Value, x: Value) -> Value:
    """The one number of ``parameter``, for every element of ``x``."""
    return b.broadcast(b.cast(b.reshape(parameter, ()), x.dtype), x.shape)


def _along(b: LoweringBuilder, parameter: Value, x: Value, axis: int) -> Value:
    return b.broadcast_in_dim(b.cast(parameter, x.dtype), x.shape, (axis,))


def _check_bounds(low: int, high: int) -> None:
    if low > high:
        raise ValueError(f"fake_quantize: the bounds are {low} and {high}; the first may not be larger")


def _check_channels(b: LoweringBuilder, self: Value, scale: Value, zero_point: Value, axis: int) -> None:
    if not 0 <= axis < len(self.shape) or scale.shape != (self.shape[axis],) or zero_point.shape != scale.shape:
        raise ValueError(
            f"fake_quantize: scale {scale.type} and zero point {zero_point.type} must have an element per slice of axis {axis}"
        )
    if scale.dtype is not DType.F32:
        raise ValueError(f"fake_quantize: the scale is {scale.dtype}, it must be f32")
