"""Elementwise functions of three tensors: selection, clamping, fused multiply-add forms, interpolation."""

from __future__ import annotations

from ..hlo.ir import Value
from .binary import scaled
from .context import LoweringBuilder
from .pointwise import pointwise
from .registry import lowering


@pointwise("aten::where.self", keep=("condition",))
def where(b: LoweringBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b.select(b.is_nonzero(condition), x, y)


@pointwise("aten::clamp", "aten::clamp.Tensor")
def clamp(b: LoweringBuilder, x: Value, low: Value | None, high: Value | None) -> Value:
    """The upper bound wins where it is below the lower one; nan stays nan."""
    if low is not None:
        x = b.maximum(x, low)
    return x if high is None else b.minimum(x, high)


@pointwise("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(b: LoweringBuilder, x: Value, low: Value) -> Value:
    return b.maximum(x, low)


@pointwise("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(b: LoweringBuilder, x: Value, high: Value) -> Value:
    return b.minimum(x, high)


@pointwise("aten::addcmul")
def addcmul(b: LoweringBuilder, x: Value, first: Value, second: Value, value: Value) -> Value:
    return b.add(x, b.multiply(scaled(b, first, value), second))


@pointwise("aten::addcdiv")
def addcdiv(b: LoweringBuilder, x: Value, numerator: Value, denominator: Value, value: Value) -> Value:
    return b.add(x, b.divide(scaled(b, numerator, value), denominator))


@pointwise("aten::lerp.Scalar", "aten::lerp.Tensor")
def lerp(b: LoweringBuilder, start: Value, end: Value, weight: Value) -> Value:
    """start + weight · (end - start), from whichever end is nearer."""
    difference = b.subtract(end, start)
    from_start = b.add(start, b.multiply(weight, difference))
    from_end = b.subtract(end, b.multiply(difference, b.subtract(b.like(1, weight), weight)))
    magnitude = b.abs(weight)
    near = b.compare(magnitude, b.like(0.5, magnitude), "LT")
    return b.select(near, from_start, from_end)


@lowering("aten::masked_fill.Scalar", "aten::masked_fill.Tensor", exact=True)
def masked_fill(b: LoweringBuilder, x: Value, mask: Value, value: Value | int | float | complex) -> Value:
    """The value takes the tensor's dtype; tensor and mask are broadcast together."""
    shape = b.output.shape
    filler = b.scalar(value, x.dtype, shape)
    return b.select(b.broadcast(mask, shape), filler, b.broadcast(x, shape))
