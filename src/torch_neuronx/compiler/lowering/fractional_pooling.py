"""Fractional max pooling (Graham, 2014): windows of one size at pseudorandom places; and its gradients."""

from __future__ import annotations

from math import prod

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .convolution import Ints, per_dim
from .pooling import batched, pooling_composite
from .registry import lowering


def _register(spatial: int, sample_of_dim: tuple[int, ...], has_meta_backward: bool) -> None:
    name = f"aten::fractional_max_pool{spatial}d"

    @lowering(name)
    def fractional_max_pool(
        b: LoweringBuilder, self: Value, kernel_size: Ints, output_size: Ints, random_samples: Value
    ) -> tuple[Value, Value]:
        """Values, and the positions they come from: flat indices into the pooled dimensions."""
        extents = self.shape[len(self.shape) - spatial :]
        planes = prod(self.shape[: len(self.shape) - spatial])
        result, positions = b.outputs
        if result.size == 0:
            return b.constant(0, result.dtype, result.shape), b.constant(0, DType.I64, positions.shape)
        windows, kernel = per_dim(output_size, spatial), per_dim(kernel_size, spatial)
        samples = b.reshape(random_samples, (random_samples.type.size // spatial, spatial))  # there may be more than planes
        shape = (planes, *windows, *kernel)
        place = b.constant(0, DType.I64, shape)
        for dim in range(spatial):
            column = sample_of_dim[dim]
            sample = b.reshape(b.slice(samples, (0, column), (planes, column + 1)), (planes,))
            starts = _starts(b, sample, extents[dim], windows[dim], kernel[dim])
            own = b.add(b.broadcast_in_dim(starts, shape, (0, 1 + dim)), b.iota(shape, DType.I64, 1 + spatial + dim))
            place = b.add(b.multiply(place, b.like(extents[dim], place)), own)
        place = b.reshape(place, (planes, *windows, prod(kernel)))
        plane = b.iota(place.shape, DType.I64, 0)
        flat = b.reshape(self, (self.type.size,))
        values = b.take(flat, b.add(place, b.multiply(plane, b.like(prod(extents), plane))), 0)
        last = len(values.shape) - 1
        chosen = b.broadcast_in_dim(_last_nan_or_first_maximum(b, values), values.shape, range(last))
        is_chosen = b.compare(b.iota(values.shape, DType.I64, last), chosen, "EQ")
        indices = b.reduce(b.select(is_chosen, place, b.like(0, place)), "add", (last,))
        maxima = b.reduce(values, "maximum", (last,))
        return b.reshape(maxima, result.shape), b.reshape(indices, positions.shape)

    @lowering(f"{name}_backward", outputs_like=() if has_meta_backward else ("self",))
    def fractional_max_pool_backward(
        b: LoweringBuilder, grad_output: Value, self: Value, kernel_size: Ints, output_size: Ints, indices: Value
    ) -> Value:
        attributes: dict[str, object] = {"input_shape": batched(self.shape, spatial)}
        (grad,) = pooling_composite(b, "max_pool_backward", spatial, (grad_output, indices), attributes)
        return grad


def _starts(b: LoweringBuilder, sample: Value, extent: int, windows: int, kernel: int) -> Value:
    """i64[planes, windows]: ⌊(i + sample) · step⌋ - ⌊sample · step⌋, and the last window ends with the dimension."""
    shape = (sample.shape[0], windows)
    index = b.iota(shape, sample.dtype, 1)
    step = b.like((extent - kernel) / (windows - 1) if windows > 1 else 0.0, index)
    spread = b.broadcast_in_dim(sample, shape, (0,))
    far, near = (b.cast(b.multiply(x, step), DType.I64) for x in (b.add(index, spread), spread))
    is_last = b.compare(b.iota(shape, DType.I64, 1), b.constant(windows - 1, DType.I64, shape), "EQ")
    return b.select(is_last, b.constant(extent - kernel, DType.I64, shape), b.subtract(far, near))


def _last_nan_or_first_maximum(b: LoweringBuilder, values: Value) -> Value:
    """The position along the last dimension that PyTorch's kernel ends with."""
    last = len(values.shape) - 1
    first = b.argreduce(values, "maximum", last)
    if not values.dtype.is_float:
        return first
    position = b.iota(values.shape, DType.I64, last)
    nan = b.reduce(b.select(b.is_nan(values), position, b.like(-1, position)), "maximum", (last,))
    return b.select(b.compare(nan, b.like(0, nan), "GE"), nan, first)


# PyTorch's planes have the samples of their columns first, its volumes have them in the order of the dimensions.
_register(2, (1, 0), has_meta_backward=True)
_register(3, (0, 1, 2), has_meta_backward=False)
