"""Losses and their gradients: an elementwise function, then the reduction asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .pointwise import Kind, computation_dtype, operands
from .precision import widened
from .registry import lowering

NONE, MEAN, SUM = 0, 1, 2
Function = Callable[..., Value]


def reduced(b: LoweringBuilder, losses: Value, reduction: int) -> Value:
    """All losses, their mean or their sum."""
    if reduction == NONE:
        return losses
    total = b.reduce(losses, "add", range(len(losses.shape)))
    return b.divide(total, b.constant(losses.type.size, total.dtype)) if reduction == MEAN else total


def elementwise_loss(name: str) -> Callable[[Function], Function]:
    """Registers a loss whose schema ends in ``reduction`` and numbers. The function sees tensors of one dtype and shape and the numbers."""

    def register(function: Function) -> Function:
        @wraps(function)
        def lower(b: LoweringBuilder, *arguments: Any) -> Value:
            position = list(b.metas).index("reduction")
            losses = function(b, *_operands(b, arguments[:position]), *arguments[position + 1 :])
            return reduced(b, losses, arguments[position])

        lowering(name)(lower)
        return function

    return register


def elementwise_loss_backward(name: str) -> Callable[[Function], Function]:
    """Registers the gradient of such a loss: the function gives the derivative by ``self``; here it meets ``grad_output`` and the mean."""

    def register(function: Function) -> Function:
        @wraps(function)
        def lower(b: LoweringBuilder, *arguments: Any) -> Value:
            position = list(b.metas).index("reduction")
            grad, *rest = _operands(b, arguments[:position])
            derivative = function(b, *rest, *arguments[position + 1 :])
            if arguments[position] == MEAN:
                grad = b.divide(grad, b.constant(derivative.type.size, grad.dtype, grad.shape))
            return b.multiply(derivative, grad)

        lowering(name)(lower)
        return function

    return register


def _operands(b: LoweringBuilder, tensors: tuple[Any, ...]) -> list[Any]:
    dtype = computation_dtype(b, Kind.DEFAULT)
    padded = tensors + (None,) * (len(b.metas) - len(tensors))
    return operands(b, padded, dtype, frozenset(), frozenset(b.metas))[: len(tensors)]


def _fill(b: LoweringBuilder, number: float, like: Value) -> Value:
    return b.constant(number, like.dtype, like.shape)


@elementwise_loss("aten::mse_loss")
def mse_loss(b: LoweringBuilder, x: Value, target: Value) -> Value:
    difference = b.subtract(x, target)
    return b.multiply(difference, difference)


@elementwise_loss_backward("aten::mse_loss_backward")
def mse_loss_backward(b: LoweringBuilder, x: Value, target: Value) -> Value:
    return b.multiply(b.subtract(x, target), _fill(b, 2, x))


@elementwise_loss("aten::smooth_l1_loss")
def smooth_l1_loss(b: LoweringBuilder, x: Value, target: Value, beta: float) -> Value:
    """|d| - beta / 2, and d² / (2 beta) where |d| < beta."""
    distance = b.abs(b.subtract(x, target))
    if beta == 0:
        return distance
    square = b.divide(b.multiply(b.multiply(distance, distance), _fill(b, 0.5, x)), _fill(b, beta, x))
    return b.select(b.compare(distance, _fill(b, beta, x), "LT"), square, b.subtract(distance, _fill(b, 0.5 * beta, x)))


@elementwise_loss_backward("aten::smooth_l1_loss_backward")
def smooth_l1_loss_backward(b: LoweringBuilder, x: Value, target: Value, beta: float) -> Value:
    difference = b.subtract(x, target)
    if beta == 0:
        return b.sign(difference)
    return b.clamp(_fill(b, -1, x), b.divide(difference, _fill(b, beta, x)), _fill(b, 1, x))


@elementwise_loss("aten::huber_loss")
def huber_loss(b: LoweringBuilder, x: Value, target: Value, delta: float) -> Value:
    """delta (|d| - delta / 2), and d² / 2 where |d| ≤ delta."""
    distance = b.abs(b.subtract(x, target))
    square = b.multiply(b.multiply(distance, distance), _fill(b, 0.5, x))
    line = b.multiply(b.subtract(distance, _fill(b, 0.5 * delta, x)), _fill(b, delta, x))
    return b.select(b.compare(distance, _fill(b, delta, x), "LE"), square, line)


@elementwise_loss_backward("aten::huber_loss_backward")
def huber_loss_backward(b: LoweringBuilder, x: Value, target: Value, delta: float) -> Value:
    return b.clamp(_fill(b, -delta, x), b.subtract(x, target), _fill(b, delta, x))


@elementwise_loss("aten::soft_margin_loss")
def soft_margin_loss(b: LoweringBuilder, x: Value, target: Value) -> Value:
    return b.log_plus_one(b.exponential(b.negate(b.multiply(target, x))))


@elementwise_loss_backward("aten::soft_margin_loss_backward")
def soft_margin_loss_backward(b: LoweringBuilder, x: Value, target: Value) -> Value:
    return b.negate(b.multiply(target, b.logistic(b.negate(b.multiply(target, x)))))


@elementwise_loss("aten::binary_cross_entropy")
def binary_cross_entropy(b: LoweringBuilder, x: Value, target: Value, weight: Value | None) -> Value:
    """-(t log x + (1 - t) log(1 - x)); PyTorch keeps both logarithms above -100."""
    least = _fill(b, -100, x)
    present = b.maximum(b.log(x), least)
    absent = b.maximum(b.log_plus_one(b.negate(x)), least)
    losses = b.subtract(b.multiply(b.subtract(target, _fill(b, 1, x)), absent), b.multiply(target, present))
    return losses if weight is None else b.multiply(losses, weight)


@elementwise_loss_backward("aten::binary_cross_entropy_backward")
def binary_cross_entropy_backward(b: LoweringBuilder, x: Value, target: Value, weight: Value | None) -> Value:
    """(x - t) / (x (1 - x)), with PyTorch's lower bound of 1e-12 for the divisor."""
    divisor = b.maximum(b.multiply(b.subtract(_fill(b, 1, x), x), x), _fill(b, 1e-12, x))
    derivative = b.divide(b.subtract(x, target), divisor)
    return derivative if weight is None else b.multiply(derivative, weight)


@elementwise_loss("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(b: LoweringBuilder, x: Value, target: Value, weight: Value | None, pos_weight: Value | None) -> Value:
    """(1 - t) x + l (log(1 + exp(-|x|)) + max(-x, 0)) with l = 1 + (pos_weight - 1) t."""
    softplus = b.add(b.log_plus_one(b.exponential(b.negate(b.abs(x)))), b.maximum(b.negate(x), _fill(b, 0, x)))
    if pos_weight is not None:
        factor = b.add(b.multiply(b.subtract(pos_weight, _fill(b, 1, x)), target), _fill(b, 1, x))
        softplus = b.multiply(factor, softplus)
    losses = b.add(b.multiply(b.subtract(_fill(b, 1, x), target), x), softplus)
    return losses if weight is None else b.multiply(losses, weight)


# Negative log likelihood: the classes are dimension 1, or 0 of a single sample


@lowering("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(
    b: LoweringBuilder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """The loss, and the sum of the weights of all targets that count. A target that is no class fails the launch."""
    x, labels, single = _samples(b, self, target)
    classes = x.shape[1]
    ignored = b.compare(labels, b.constant(ignore_index, DType.I64, labels.shape), "EQ")
    safe = b.select(ignored, b.constant(0, DType.I64, labels.shape), labels)
    zeros = b.constant(0, x.dtype, labels.shape)
    fail = f"nll_loss: a target is not one of the {classes} classes"
    losses = b.select(ignored, zeros, b.negate(_at_labels(b, x, safe, fail)))
    weights = b.select(ignored, zeros, _class_weights(b, weight, safe, x.dtype))
    losses = b.multiply(losses, weights) if weight is not None else losses
    total_weight = b.reduce(weights, "add", range(len(weights.shape)))
    if reduction == NONE and not single:
        return losses, b.constant(0, x.dtype)
    total = b.reduce(losses, "add", range(len(losses.shape)))
    return (b.divide(total, total_weight) if reduction == MEAN else total), total_weight


@lowering("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(
    b: LoweringBuilder,
    grad_output: Value,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    """-weight · grad at the targets that count and 0 elsewhere: a comparison of class numbers, which fuses with what uses the gradient."""
    x, labels, _ = _samples(b, self, target)
    grad = b.negate(widened(b, grad_output))
    if reduction == MEAN:
        grad = b.divide(grad, b.reshape(b.cast(total_weight, grad.dtype), ()))
    grad = b.broadcast(b.reshape(grad, labels.shape if reduction == NONE else ()), labels.shape)
    if weight is not None:
        safe = b.clamp(b.constant(0, DType.I64, labels.shape), labels, b.constant(max(x.shape[1] - 1, 0), DType.I64, labels.shape))
        grad = b.multiply(grad, _class_weights(b, weight, safe, grad.dtype))
    ignored = b.compare(labels, b.constant(ignore_index, DType.I64, labels.shape), "EQ")
    grad = b.select(ignored, b.constant(0, grad.dtype, labels.shape), grad)
    others = [0, *range(2, len(x.shape))]
    is_target = b.compare(b.iota(x.shape, DType.I64, 1), b.broadcast_in_dim(labels, x.shape, others), "EQ")
    spread = b.broadcast_in_dim(grad, x.shape, others)
    return b.reshape(b.select(is_target, spread, b.constant(0, grad.dtype, x.shape)), self.shape)


def _samples(b: LoweringBuilder, self: Value, target: Value) -> tuple[Value, Value, bool]:
    """Input as [N, C, …] and labels as i64 [N, …]; and whether it is a single sample without N."""
    single = len(self.shape) == 1
    x, labels = widened(b, self), b.cast(target, DType.I64)
    return (b.reshape(x, (1, *x.shape)), b.reshape(labels, (1,)), True) if single else (x, labels, False)


def _at_labels(b: LoweringBuilder, x: Value, labels: Value, fail: str) -> Value:
    """x[n, labels[n, …], …]."""
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    positions = {axis: b.iota(labels.shape, DType.I64, place) for place, axis in enumerate(axes)}
    vectors = [b.reshape(positions.get(axis, labels), (*labels.shape, 1)) for axis in range(len(x.shape))]
    indices = b.concatenate(vectors, len(labels.shape))
    every = range(len(x.shape))
    return b.gather(x, indices, (), every, every, len(labels.shape), (1,) * len(x.shape), fail)


def _class_weights(b: LoweringBuilder, weight: Value | None, labels: Value, dtype: DType) -> Value:
    if weight is None:
        return b.constant(1, dtype, labels.shape)
    return b.take(b.cast(weight, dtype), labels, 0)
