"""Sampling of images at the points of a grid, in two and three dimensions, and the gradients.

A sample is a sum over the product of a few *taps* per axis: places on the axis with a weight each, and the weight's derivative by the
coordinate. All taps of all samples are read by one gather, and the gradient of the image is one scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
# Coefficient of the cubic convolution kernel, PyTorch's.
_CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Taps:
    """[taps, N, points] each: the place on the axis, whether it is inside, its weight and the weight's derivative by the grid."""

    place: Value
    inside: Value
    weight: Value
    slope: Value


@dataclass(frozen=True, slots=True)
class Samples:
    """All taps of all axes: the flat places i64[K, N, points] with whether they are inside, and each axis's factors of the weights."""

    place: Value
    inside: Value
    weights: tuple[Value, ...]
    slopes: tuple[Value, ...]


@lowering("aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(b: LoweringBuilder, input: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    if b.output.size == 0:
        return b.constant(0, b.output.dtype, b.output.shape)
    image, samples = _image(b, input), _samples(b, input, grid, mode, padding, align_corners)
    values = _values(b, image, samples)
    weight = b.broadcast_in_dim(_product(b, samples.weights), values.shape, (0, 1, 3))
    return b.reshape(b.reduce(b.multiply(values, weight), "add", (0,)), b.output.shape)


@lowering("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(
    b: LoweringBuilder,
    grad_output: Value,
    input: Value,
    grid: Value,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None]:
    if grad_output.type.size == 0:
        zeros = [b.constant(0, x.dtype, x.shape) for x in (input, grid)]
        return zeros[0] if output_mask[0] else None, zeros[1] if output_mask[1] else None
    image, samples = _image(b, input), _samples(b, input, grid, mode, padding, align_corners)
    batch, channels, _ = image.shape
    grad = b.reshape(widened(b, grad_output), (batch, channels, samples.place.shape[2]))
    of_image = b.reshape(_image_gradient(b, grad, image, samples), input.shape) if output_mask[0] else None
    return of_image, _grid_gradient(b, grad, _values(b, image, samples), samples, grid) if output_mask[1] else None


def _image_gradient(b: LoweringBuilder, grad: Value, image: Value, samples: Samples) -> Value:
    shape = (samples.place.shape[0], *grad.shape)
    weight = b.select(samples.inside, _product(b, samples.weights), b.like(0, samples.weights[0]))
    updates = b.multiply(b.broadcast_in_dim(grad, shape, (1, 2, 3)), b.broadcast_in_dim(weight, shape, (0, 1, 3)))
    return b.scatter(b.like(0, image), _vectors(b, samples.place), updates, "add", (2,), (0, 2), (0, 2), 3)


def _grid_gradient(b: LoweringBuilder, grad: Value, values: Value, samples: Samples, grid: Value) -> Value:
    by_tap = b.reduce(b.multiply(b.broadcast_in_dim(grad, values.shape, (1, 2, 3)), values), "add", (2,))
    parts = []
    for axis in range(len(samples.weights)):
        factors = [samples.slopes[i] if i == axis else weight for i, weight in enumerate(samples.weights)]
        total = b.reduce(b.multiply(by_tap, _product(b, factors)), "add", (0,))
        parts.append(b.reshape(total, (*total.shape, 1)))
    # A grid's last dimension names the axes from the last to the first.
    return b.reshape(b.concatenate(parts[::-1], 2), grid.shape)


def _image(b: LoweringBuilder, input: Value) -> Value:
    """[N, C, places]."""
    return b.reshape(widened(b, input), (*input.shape[:2], prod(input.shape[2:])))


def _values(b: LoweringBuilder, image: Value, samples: Samples) -> Value:
    """[K, N, C, points], 0 outside of the image."""
    values = b.gather(image, _vectors(b, samples.place), (2,), (0, 2), (0, 2), 3, (1, image.shape[1], 1))
    return b.select(b.broadcast_in_dim(samples.inside, values.shape, (0, 1, 3)), values, b.like(0, values))


def _vectors(b: LoweringBuilder, place: Value) -> Value:
    """(image, place) for each of ``place`` [K, N, points]."""
    return b.concatenate([b.reshape(part, (*place.shape, 1)) for part in (b.iota(place.shape, DType.I64, 1), place)], 3)


def _product(b: LoweringBuilder, factors: Sequence[Value]) -> Value:
    first, *others = factors
    for factor in others:
        first = b.multiply(first, factor)
    return first


def _samples(b: LoweringBuilder, input: Value, grid: Value, mode: int, padding: int, align: bool) -> Samples:
    extents = input.shape[2:]
    points = b.reshape(widened(b, grid), (grid.shape[0], prod(grid.shape[1:-1]), len(extents)))
    axes = []
    for axis, extent in enumerate(extents):
        column = len(extents) - 1 - axis
        coordinate = b.slice(points, (0, 0, column), (*points.shape[:2], column + 1))
        axes.append(_taps(b, b.reshape(coordinate, points.shape[:2]), extent, mode, padding, align))
    counts = tuple(taps.place.shape[0] for taps in axes)
    shape = (*counts, *points.shape[:2])
    flat = (prod(counts), *points.shape[:2])

    def spread(x: Value, axis: int) -> Value:
        return b.reshape(b.broadcast_in_dim(x, shape, (axis, len(counts), len(counts) + 1)), flat)

    place, inside = spread(axes[0].place, 0), spread(axes[0].inside, 0)
    for axis in range(1, len(axes)):
        place = b.add(b.multiply(place, b.like(extents[axis], place)), spread(axes[axis].place, axis))
        inside = b.and_(inside, spread(axes[axis].inside, axis))
    weights = tuple(spread(taps.weight, axis) for axis, taps in enumerate(axes))
    return Samples(place, inside, weights, tuple(spread(taps.slope, axis) for axis, taps in enumerate(axes)))


def _taps(b: LoweringBuilder, grid: Value, extent: int, mode: int, padding: int, align: bool) -> Taps:
    """The taps along one axis of the coordinates ``grid``, which are -1 to 1 across the image."""
    scale = (extent - 1) / 2 if align else extent / 2
    coordinate = b.add(b.multiply(grid, b.like(scale, grid)), b.like((extent - 1) / 2, grid))
    slope = b.like(scale, grid)
    if mode != CUBIC:
        coordinate, direction = _inside_image(b, coordinate, extent, padding, align)
        slope = b.multiply(slope, direction)
    if mode == NEAREST:
        place, weights, slopes = [b.round_nearest_even(coordinate)], [b.like(1, grid)], [b.like(0, grid)]
    else:
        base = b.floor(coordinate)
        part = b.subtract(coordinate, base)
        weights, slopes = _linear(b, part) if mode == LINEAR else _cubic(b, part)
        first = 0 if mode == LINEAR else -1
        place = [b.add(base, b.like(first + tap, base)) for tap in range(len(weights))]
    stacked = _stack(b, place)
    if mode == CUBIC:
        stacked, _ = _inside_image(b, stacked, extent, padding, align)
    inside = b.and_(b.compare(stacked, b.like(0, stacked), "GE"), b.compare(stacked, b.like(extent - 1, stacked), "LE"))
    # Only what is inside is converted: other floats may have no integer.
    index = b.cast(b.select(inside, stacked, b.like(0, stacked)), DType.I64)
    return Taps(index, inside, _stack(b, weights), _stack(b, [b.multiply(own, slope) for own in slopes]))


def _stack(b: LoweringBuilder, values: Sequence[Value]) -> Value:
    return b.concatenate([b.reshape(value, (1, *value.shape)) for value in values], 0)


def _linear(b: LoweringBuilder, part: Value) -> tuple[list[Value], list[Value]]:
    return [b.subtract(b.like(1, part), part), part], [b.like(-1, part), b.like(1, part)]


def _cubic(b: LoweringBuilder, part: Value) -> tuple[list[Value], list[Value]]:
    """Keys' kernel (1981) at the distances part + 1, part, 1 - part and 2 - part, and its derivatives."""
    a = _CUBIC
    far, near = (a, -5 * a, 8 * a, -4 * a), (a + 2, -(a + 3), 0.0, 1.0)
    weights, slopes = [], []
    for coefficients, offset, sign in ((far, 1, 1), (near, 0, 1), (near, 1, -1), (far, 2, -1)):
        distance = b.add(b.like(offset, part), part if sign == 1 else b.negate(part))
        weights.append(_polynomial(b, distance, coefficients))
        slopes.append(_polynomial(b, distance, tuple(sign * power * c for power, c in zip((3, 2, 1), coefficients[:3], strict=True))))
    return weights, slopes


def _polynomial(b: LoweringBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    result = b.like(coefficients[0], x)
    for _, coefficient in pairwise(coefficients):
        result = b.add(b.multiply(result, x), b.like(coefficient, x))
    return result


def _inside_image(b: LoweringBuilder, x: Value, extent: int, padding: int, align: bool) -> tuple[Value, Value]:
    """Coordinates moved into the image as ``padding`` says, and the derivative of that: 1, -1 where reflected, 0 where clipped."""
    one, zero, last = b.like(1, x), b.like(0, x), b.like(extent - 1, x)
    if padding == ZEROS:
        return x, one
    direction = one
    if padding == REFLECTION:
        x, direction = _reflected(b, x, extent, align)
    kept = b.and_(b.compare(x, zero, "GT"), b.compare(x, last, "LT"))
    return b.clamp(zero, x, last), b.select(kept, direction, zero)


def _reflected(b: LoweringBuilder, x: Value, extent: int, align: bool) -> tuple[Value, Value]:
    """Reflected at the middles of the outermost places, or at their outer edges; and whether forwards (1) or backwards (-1)."""
    low, span = (0.0, extent - 1.0) if align else (-0.5, float(extent))
    zero = b.like(0, x)
    if span == 0:
        return zero, zero
    from_low = b.subtract(x, b.like(low, x))
    distance = b.abs(from_low)
    extra = b.remainder(distance, b.like(span, x))
    turns = b.floor(b.divide(distance, b.like(span, x)))
    forwards = b.compare(b.remainder(turns, b.like(2, x)), zero, "EQ")
    inner = b.select(forwards, extra, b.subtract(b.like(span, x), extra))
    one, back = b.like(1, x), b.like(-1, x)
    before = b.select(b.compare(from_low, zero, "LT"), back, one)
    return b.add(inner, b.like(low, x)), b.multiply(before, b.select(forwards, one, back))
