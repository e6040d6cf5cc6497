"""Max and average pooling over the last two or three dimensions, and their gradients."""

from __future__ import annotations

from ..hlo.ir import Value
from ..hlo.types import TensorType
from .context import LoweringBuilder
from .convolution import Ints, per_dim
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
        return pooling_composite(b, "max_pool", spatial, (self,), attributes)

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
        (grad,) = pooling_composite(b, "max_pool_backward", spatial, (grad_output, indices), {"input_shape": batched(self.shape, spatial)})
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
        (result,) = pooling_composite(b, "avg_pool", spatial, (self,), own)
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
        (grad,) = pooling_composite(b, "avg_pool_backward", spatial, (grad_output,), own | {"input_shape": batched(self.shape, spatial)})
        return grad


def batched(shape: tuple[int, ...], spatial: int) -> tuple[int, ...]:
    """[N, C, spatial…]; a shape without N has N = 1."""
    return (1, *shape) if len(shape) == spatial + 1 else shape


def pooling_composite(
    b: LoweringBuilder, name: str, spatial: int, operands: tuple[Value, ...], attributes: dict[str, object]
) -> tuple[Value, ...]:
    """A pooling composite, which wants a batch, applied to operands that may have none."""
    types = [TensorType(batched(output.shape, spatial), output.dtype) for output in b.outputs]
    lifted = [b.reshape(operand, batched(operand.shape, spatial)) for operand in operands]
    results = b.composite(name, lifted, attributes, types)
    return tuple(b.reshape(result, output.shape) for result, output in zip(results, b.outputs, strict=True))


_max_pool(2, "aten::max_pool2d_with_indices")
_max_pool(3, "aten::max_pool3d_with_indices")
_avg_pool(2, "aten::avg_pool2d")
_avg_pool(3, "aten::avg_pool3d")
