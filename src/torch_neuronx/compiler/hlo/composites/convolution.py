"""Gradients of PyTorch's convolution, each as another convolution.

A convolution with weight [O, I/g, ...] and the transposed convolution that maps back use one weight tensor; the gradient of either by its
input is the other. All spatial attributes have one int per dimension; padding is the same on both sides.
"""

from __future__ import annotations

from ..builder import Builder
from ..ir import Value

Ints = tuple[int, ...]


def decompose_convolution_input_grad(
    b: Builder,
    dout: Value,
    weight: Value,
    *,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool,
    output_padding: Ints,
    input_shape: Ints,
) -> Value:
    ones = (1,) * len(strides)
    if transposed:
        # dout is what the plain convolution reads: the last output_padding elements of it reach no element of the input.
        pads = [(pad, pad - extra) for pad, extra in zip(padding, output_padding, strict=True)]
        return b.convolution(dout, weight, strides, pads, ones, dilation, groups)
    pads = []
    for axis, (stride, pad, step) in enumerate(zip(strides, padding, dilation, strict=True)):
        reach = (weight.shape[2 + axis] - 1) * step
        low = reach - pad
        pads.append((low, input_shape[2 + axis] + reach - low - _dilated(dout.shape[2 + axis], stride)))
    return b.convolution(dout, _transposed_weight(b, weight, groups), ones, pads, strides, dilation, groups)


def decompose_convolution_weight_grad(
    b: Builder,
    dout: Value,
    x: Value,
    *,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool,
    output_padding: Ints,
    weight_shape: Ints,
) -> Value:
    """With images as channels: the input slides under dout dilated by the strides, in steps of the dilation."""
    image, moved = (dout, x) if transposed else (x, dout)
    if 0 in moved.shape[2:]:
        return b.constant(0, x.dtype, weight_shape)
    pads = []
    for axis, (stride, pad, step) in enumerate(zip(strides, padding, dilation, strict=True)):
        reach = (weight_shape[2 + axis] - 1) * step
        pads.append((pad, reach + _dilated(moved.shape[2 + axis], stride) - image.shape[2 + axis] - pad))
    batch, channels, *spatial = image.shape
    dims = range(4, 4 + len(spatial) - 1)
    grouped = b.reshape(image, (batch, groups, channels // groups, *spatial))
    by_channel = b.reshape(b.transpose(grouped, (2, 1, 0, 3, *dims)), (channels // groups, groups * batch, *spatial))
    windows = b.transpose(moved, (1, 0, *range(2, len(moved.shape))))
    grad = b.convolution(by_channel, windows, dilation, pads, (1,) * len(strides), strides, groups)
    return b.transpose(grad, (1, 0, *range(2, len(weight_shape))))


def _transposed_weight(b: Builder, weight: Value, groups: int) -> Value:
    """[O, I/g, ...] as the weight [I, O/g, ...] of the convolution that maps back, reversed in space."""
    out_channels, in_channels, *spatial = weight.shape
    dims = range(3, 3 + len(spatial))
    grouped = b.reshape(weight, (groups, out_channels // groups, in_channels, *spatial))
    swapped = b.transpose(grouped, (0, 2, 1, *dims))
    return b.reverse(b.reshape(swapped, (groups * in_channels, out_channels // groups, *spatial)), range(2, 2 + len(spatial)))


def _dilated(extent: int, step: int) -> int:
    return (extent - 1) * step + 1 if extent else 0
