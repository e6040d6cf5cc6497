"""Convolutions of one to three spatial dimensions, transposed or not, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from ..hlo.ir import Value
from ..hlo.types import TensorType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

Ints = Sequence[int]


def channels_last_layout(metas: Mapping[str, Any], outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Channels are last in the result if they are in the input or in the weight, as on the CPU and with cuDNN; PyTorch's meta function is
    for devices that have no such kernels.
    """
    formats = {suggest_memory_format(metas[name]) for name in ("input", "weight")}
    (out,) = outputs
    last = torch.channels_last_3d if out.dim() == 5 else torch.channels_last
    return (out.contiguous(memory_format=last),) if last in formats else outputs


@lowering("aten::convolution", layout=channels_last_layout)
def convolution(
    b: LoweringBuilder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value:
    """Input [N, C, spatial…]. The weight is [out, in / groups, kernel…], or [in, out / groups, kernel…] if transposed."""
    spatial = len(input.shape) - 2
    stride, padding, dilation, output_padding = (per_dim(numbers, spatial) for numbers in (stride, padding, dilation, output_padding))
    if min(padding, default=0) < 0:
        raise ValueError(f"convolution: the padding is {padding}; it may not be negative")
    if transposed:
        result = _transposed(b, input, weight, stride, padding, dilation, output_padding, groups)
    else:
        sides = [(pad, pad) for pad in padding]
        result = b.convolution(input, weight, stride, sides, (1,) * spatial, dilation, groups)
    return result if bias is None else b.add(result, b.broadcast_in_dim(bias, result.shape, (1,)))


@lowering("aten::convolution_backward")
def convolution_backward(
    b: LoweringBuilder,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    spatial = len(input.shape) - 2
    attributes = {
        "strides": per_dim(stride, spatial),
        "padding": per_dim(padding, spatial),
        "dilation": per_dim(dilation, spatial),
        "groups": groups,
        "transposed": transposed,
        "output_padding": per_dim(output_padding, spatial),
    }
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        shape = {"input_shape": input.shape}
        (grad_input,) = b.composite("convolution_input_grad", (grad_output, weight), attributes | shape, (input.type,))
    if output_mask[1]:
        shape = {"weight_shape": weight.shape}
        (grad_weight,) = b.composite("convolution_weight_grad", (grad_output, input), attributes | shape, (weight.type,))
    if output_mask[2]:
        grad_bias = b.reduce(widened(b, grad_output), "add", (0, *range(2, 2 + spatial)))
    return grad_input, grad_weight, grad_bias


def per_dim(numbers: Ints, spatial: int) -> tuple[int, ...]:
    """One number for all spatial dimensions, or one each."""
    return tuple(numbers) * spatial if len(numbers) == 1 else tuple(numbers)


def _transposed(
    b: LoweringBuilder,
    input: Value,
    weight: Value,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_padding: Ints,
    groups: int,
) -> Value:
    """A transposed convolution is the input gradient of the convolution that has its weight.

    That convolution must map the result's extents back to the input's; it does while the output padding is less than the stride.
    """
    if any(extra >= step for extra, step in zip(output_padding, stride, strict=True)):
        return _dilated(b, input, weight, stride, padding, dilation, output_padding, groups)
    shape = (input.shape[0], weight.shape[1] * groups, *_result_extents(input, weight, stride, padding, dilation, output_padding))
    attributes: dict[str, Any] = {
        "strides": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "transposed": False,
        "output_padding": (0,) * len(stride),
        "input_shape": shape,
    }
    (result,) = b.composite("convolution_input_grad", (input, weight), attributes, (TensorType(shape, input.dtype),))
    return result


def _dilated(
    b: LoweringBuilder,
    input: Value,
    weight: Value,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_padding: Ints,
    groups: int,
) -> Value:
    """The transposed convolution by its definition: a convolution of the input, spread by the stride, with the flipped weight."""
    spatial = len(stride)
    kernel = weight.shape[2:]
    grouped = b.reshape(weight, (groups, weight.shape[0] // groups, *weight.shape[1:]))
    swapped = b.transpose(grouped, (0, 2, 1, *range(3, 3 + spatial)))
    flipped = b.reverse(b.reshape(swapped, (groups * weight.shape[1], weight.shape[0] // groups, *kernel)), range(2, 2 + spatial))
    sides = []
    for size, pad, step, extra in zip(kernel, padding, dilation, output_padding, strict=True):
        reach = step * (size - 1) - pad
        sides.append((reach, reach + extra))
    return b.convolution(input, flipped, (1,) * spatial, sides, stride, dilation, groups)


def _result_extents(input: Value, weight: Value, stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints) -> list[int]:
    sizes = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    return [(extent - 1) * step - 2 * pad + spread * (size - 1) + extra + 1 for extent, size, step, pad, spread, extra in sizes]
