"""Losses that ask for a margin between the scores of the right classes and of the others, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .loss import MEAN, reduced
from .precision import widened
from .registry import lowering


@lowering("aten::multi_margin_loss_backward", static=("p",), outputs_like=("self",))
def multi_margin_loss_backward(
    b: LoweringBuilder,
    grad_output: Value,
    self: Value,
    target: Value,
    p: int,
    margin: Value | float,
    weight: Value | None,
    reduction: int,
) -> Value:
    """Of w_y / C · Σ max(0, margin - x_y + x_j)^p over all classes j but y."""
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is {p}, allowed are 1 and 2")
    x = _samples(b, widened(b, self))
    samples, classes = x.shape
    if x.type.size == 0:
        return b.constant(0, x.dtype, self.shape)
    labels = b.reshape(b.cast(target, DType.I64), (samples,))
    fail = f"multi_margin_loss: target out of range, there are {classes} classes"
    right = _at(b, x, b.reshape(labels, (samples, 1)), fail)
    excess = b.add(b.subtract(x, b.broadcast(right, x.shape)), b.scalar(margin, x.dtype, x.shape))
    is_target = b.compare(b.iota(x.shape, DType.I64, 1), b.broadcast_in_dim(labels, x.shape, (0,)), "EQ")
    counts = b.and_(b.not_(is_target), b.compare(excess, b.like(0, excess), "GT"))
    slope = b.select(counts, b.like(1, excess) if p == 1 else b.multiply(excess, b.like(2, excess)), b.like(0, excess))
    scale = _share(b, grad_output, x, reduction)
    if weight is not None:
        scale = b.multiply(scale, b.take(b.cast(weight, x.dtype), labels, 0))
    total = b.negate(b.reduce(slope, "add", (1,)))
    derivative = b.select(is_target, b.broadcast_in_dim(total, x.shape, (0,)), slope)
    return b.reshape(b.multiply(derivative, b.broadcast_in_dim(scale, x.shape, (0,))), self.shape)


def _single_is_scalar(metas: Mapping[str, Any], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The loss of one sample has no dimension, which PyTorch's meta function forgets."""
    loss, is_target = outputs
    return (loss.reshape(()) if metas["target"].dim() < 2 else loss), is_target


@lowering("aten::multilabel_margin_loss_forward", layout=_single_is_scalar)
def multilabel_margin_loss_forward(b: LoweringBuilder, self: Value, target: Value, reduction: int) -> tuple[Value, Value]:
    """1 / C · Σ max(0, 1 - x_y + x_j) over the classes y of the target, which ends at the first -1, and all j that are not in it; and
    which classes are in it."""
    x, labels = _samples(b, widened(b, self)), _samples(b, b.cast(target, DType.I64))
    if x.type.size == 0:
        loss, own = b.outputs
        return b.constant(float("nan") if reduction == MEAN else 0, x.dtype, loss.shape), b.constant(0, own.dtype, own.shape)
    listed = _listed(b, labels)
    pairs = (*x.shape, x.shape[1])
    own = b.reduce(_names(b, labels, listed, pairs), "or", (1,))
    excess = _excess(b, x, labels, listed, pairs)
    rivals = _rivals(b, listed, own, pairs)
    losses = b.reduce(b.select(rivals, b.maximum(excess, b.like(0, excess)), b.like(0, excess)), "add", (1, 2))
    loss = reduced(b, b.divide(losses, b.like(x.shape[1], losses)), reduction)
    return b.reshape(loss, b.outputs[0].shape), b.reshape(b.cast(own, x.dtype), target.shape)


@lowering("aten::multilabel_margin_loss_backward", outputs_like=("self",))
def multilabel_margin_loss_backward(
    b: LoweringBuilder, grad_output: Value, self: Value, target: Value, reduction: int, is_target: Value
) -> Value:
    x, labels, own = (_samples(b, operand) for operand in (widened(b, self), b.cast(target, DType.I64), b.is_nonzero(is_target)))
    if x.type.size == 0:
        return b.constant(0, x.dtype, self.shape)
    listed = _listed(b, labels)
    pairs = (*x.shape, x.shape[1])
    excess = _excess(b, x, labels, listed, pairs)
    counts = b.cast(b.and_(_rivals(b, listed, own, pairs), b.compare(excess, b.like(0, excess), "GT")), x.dtype)
    pulled = b.broadcast_in_dim(b.reduce(counts, "add", (2,)), pairs, (0, 1))
    pull = b.reduce(b.select(_names(b, labels, listed, pairs), pulled, b.like(0, pulled)), "add", (1,))
    derivative = b.subtract(b.reduce(counts, "add", (1,)), pull)
    scale = _share(b, grad_output, x, reduction)
    return b.reshape(b.multiply(derivative, b.broadcast_in_dim(scale, x.shape, (0,))), self.shape)


# ``pairs`` is the shape (sample, place in the target, class).


def _listed(b: LoweringBuilder, labels: Value) -> Value:
    """Which places of the target come before its end, i1[samples, places]."""
    place = b.iota(labels.shape, DType.I64, 1)
    end = b.reduce(b.select(b.compare(labels, b.like(0, labels), "LT"), place, b.like(labels.shape[1], place)), "minimum", (1,))
    return b.compare(place, b.broadcast_in_dim(end, place.shape, (0,)), "LT")


def _names(b: LoweringBuilder, labels: Value, listed: Value, pairs: tuple[int, ...]) -> Value:
    """Whether a place of the target names a class."""
    named = b.compare(b.iota(pairs, DType.I64, 2), b.broadcast_in_dim(labels, pairs, (0, 1)), "EQ")
    return b.and_(named, b.broadcast_in_dim(listed, pairs, (0, 1)))


def _rivals(b: LoweringBuilder, listed: Value, own: Value, pairs: tuple[int, ...]) -> Value:
    return b.and_(b.broadcast_in_dim(listed, pairs, (0, 1)), b.not_(b.broadcast_in_dim(own, pairs, (0, 2))))


def _excess(b: LoweringBuilder, x: Value, labels: Value, listed: Value, pairs: tuple[int, ...]) -> Value:
    """1 - x_y + x_j for the class y at a place of the target and a class j."""
    safe = b.select(listed, labels, b.like(0, labels))
    right = b.broadcast_in_dim(_at(b, x, safe, "multilabel_margin_loss: target out of range"), pairs, (0, 1))
    return b.add(b.subtract(b.broadcast_in_dim(x, pairs, (0, 2)), right), b.constant(1, x.dtype, pairs))


def _samples(b: LoweringBuilder, x: Value) -> Value:
    """[samples, classes]; one sample has no dimension for it."""
    if len(x.shape) > 2:
        raise ValueError(f"a margin loss takes [samples, classes] or [classes], not {x.type}")
    return x if len(x.shape) == 2 else b.reshape(x, (1, x.shape[0] if x.shape else 1))


def _at(b: LoweringBuilder, x: Value, labels: Value, fail: str) -> Value:
    """x[n, labels[n, k]], [samples, places]."""
    sample = b.iota(labels.shape, DType.I64, 0)
    indices = b.concatenate([b.reshape(part, (*labels.shape, 1)) for part in (sample, labels)], 2)
    return b.gather(x, indices, (), (0, 1), (0, 1), 2, (1, 1), fail)


def _share(b: LoweringBuilder, grad_output: Value, x: Value, reduction: int) -> Value:
    """What each sample's sum over classes is multiplied with, [samples]."""
    samples, classes = x.shape
    grad = widened(b, grad_output)
    grad = b.broadcast(b.reshape(grad, () if grad.type.size == 1 else (samples,)), (samples,))
    divisor = classes * samples if reduction == MEAN else classes
    return b.divide(grad, b.like(divisor, grad))
