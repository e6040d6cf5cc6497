"""Weight normalisation (Salimans and Kingma, 2016): w = v · g / ‖v‖, a norm for every index of one dimension, and its gradient."""

from __future__ import annotations

from ..hlo.ir import Value
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering


@lowering("aten::_weight_norm_interface")
def weight_norm(b: LoweringBuilder, v: Value, g: Value, dim: int) -> tuple[Value, Value]:
    """The weight, and the norms in the shape of ``g``."""
    x = widened(b, v)
    norms = b.sqrt(_sum_per_index(b, b.multiply(x, x), dim))
    scale = b.divide(b.cast(b.reshape(g, norms.shape), x.dtype), norms)
    return b.multiply(x, _along(b, scale, x, dim)), b.reshape(norms, b.outputs[1].shape)


@lowering("aten::_weight_norm_interface_backward")
def weight_norm_backward(b: LoweringBuilder, grad_w: Value, v: Value, g: Value, norms: Value, dim: int) -> tuple[Value, Value]:
    """The gradients of v and g."""
    grad, x = widened(b, grad_w), widened(b, v)
    along = _sum_per_index(b, b.multiply(x, grad), dim)
    norm, length = (b.cast(b.reshape(each, along.shape), x.dtype) for each in (norms, g))
    radial = b.divide(along, b.multiply(norm, norm))
    grad_v = b.multiply(_along(b, b.divide(length, norm), x, dim), b.subtract(grad, b.multiply(x, _along(b, radial, x, dim))))
    return grad_v, b.reshape(b.divide(along, norm), g.shape)


def _sum_per_index(b: LoweringBuilder, x: Value, dim: int) -> Value:
    return b.reduce(x, "add", [axis for axis in range(len(x.shape)) if axis != dim % len(x.shape)])


def _along(b: LoweringBuilder, per_index: Value, x: Value, dim: int) -> Value:
    return b.broadcast_in_dim(per_index, x.shape, (dim % len(x.shape),))
