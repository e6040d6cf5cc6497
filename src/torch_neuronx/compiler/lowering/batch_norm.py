"""Batch norm: statistics per channel over the batch and all spatial dimensions, running statistics, and the gradient.

``native_batch_norm`` writes its running statistics although its schema does not say so; the ``_legit`` and ``_with_update`` families say
it. All are :func:`normalize` with different returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .normalization import affine, mean_and_variance, normal_backward, spread
from .precision import widened
from .registry import lowering

CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Normalized:
    """The result, the mean and 1 / √(variance + eps) that it was normalized with, and the running statistics after it."""

    out: Value
    mean: Value
    rstd: Value
    running_mean: Value | None
    running_var: Value | None


def normalize(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Normalized:
    """Input [N, C, …], parameters and statistics [C]. In evaluation the running statistics are used and kept."""
    x = widened(b, input)
    dims = _reduced(x)
    if training:
        mean, variance = mean_and_variance(b, x, dims)
        count = prod(x.shape[axis] for axis in dims)
        running_mean = _moved(b, running_mean, mean, momentum)
        # The running variance is the unbiased one; of a single value per channel there is none (PyTorch refuses it before).
        unbiased = b.multiply(variance, b.constant(count / max(count - 1, 1), x.dtype, variance.shape))
        running_var = _moved(b, running_var, unbiased, momentum)
    else:
        assert running_mean is not None, "batch norm in evaluation has running statistics"
        assert running_var is not None, "batch norm in evaluation has running statistics"
        mean, variance = b.cast(running_mean, x.dtype), b.cast(running_var, x.dtype)
    rstd = b.rsqrt(b.add(variance, b.constant(eps, x.dtype, variance.shape)))
    normal = b.multiply(b.subtract(x, spread(b, mean, x.shape, dims)), spread(b, rstd, x.shape, dims))
    return Normalized(affine(b, normal, weight, bias, (CHANNEL,)), mean, rstd, running_mean, running_var)


def _reduced(x: Value) -> tuple[int, ...]:
    return (0, *range(2, len(x.shape)))


def _moved(b: LoweringBuilder, running: Value | None, new: Value, momentum: float) -> Value | None:
    """``running`` moved towards ``new`` by the part ``momentum``."""
    if running is None:
        return None
    old = b.cast(running, new.dtype)
    return b.add(
        b.multiply(old, b.constant(1 - momentum, new.dtype, new.shape)), b.multiply(new, b.constant(momentum, new.dtype, new.shape))
    )


def _saved(b: LoweringBuilder, normalized: Normalized) -> tuple[Value, Value]:
    """What the backward of a training step wants; empty tensors if the operator says so (evaluation)."""
    if b.outputs[1].shape == (0,) != normalized.mean.shape:
        empty = b.constant(0, DType.F32, (0,))
        return empty, empty
    return normalized.mean, normalized.rstd


def _no_statistics_in_evaluation(metas: Mapping[str, Any], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Evaluation saves nothing, as on the CPU; PyTorch's meta function says otherwise."""
    out, mean, rstd, *others = outputs
    return outputs if metas.get("training") else (out, mean.new_empty(0), rstd.new_empty(0), *others)


@lowering("aten::native_batch_norm", mutates=("running_mean", "running_var"), layout=_no_statistics_in_evaluation)
def native_batch_norm(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    done = normalize(b, input, weight, bias, running_mean, running_var, training, momentum, eps)
    written = (done.running_mean, done.running_var) if training else (None, None)
    return done.out, *_saved(b, done), *written


@lowering("aten::_native_batch_norm_legit_functional", layout=_no_statistics_in_evaluation)
def legit_functional(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    done = normalize(b, input, weight, bias, running_mean, running_var, training, momentum, eps)
    return done.out, *_saved(b, done), done.running_mean, done.running_var


@lowering("aten::_native_batch_norm_legit.no_stats", layout=_no_statistics_in_evaluation)
def legit_no_stats(
    b: LoweringBuilder, input: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, ...]:
    done = normalize(b, input, weight, bias, None, None, training, momentum, eps)
    return done.out, *_saved(b, done)


@lowering("aten::_native_batch_norm_legit_no_training", layout=_no_statistics_in_evaluation)
def legit_no_training(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    done = normalize(b, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return done.out, *_saved(b, done)


@lowering("aten::_batch_norm_with_update_functional")
def with_update_functional(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """With an empty reserve, which only cuDNN uses."""
    done = normalize(b, input, weight, bias, running_mean, running_var, True, momentum, eps)
    return done.out, *_saved(b, done), b.constant(0, b.outputs[3].dtype, (0,)), done.running_mean, done.running_var


@lowering("aten::_batch_norm_no_update")
def no_update(
    b: LoweringBuilder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    done = normalize(b, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return done.out, *_saved(b, done), b.constant(0, b.outputs[3].dtype, (0,))


@lowering("aten::native_batch_norm_backward")
def native_batch_norm_backward(
    b: LoweringBuilder,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """In evaluation the statistics are constants, so that the gradient of the input is only scaled."""
    grad, x = widened(b, grad_out), widened(b, input)
    dims = _reduced(x)
    if train:
        assert save_mean is not None, "a training step saved its statistics"
        assert save_invstd is not None, "a training step saved its statistics"
        mean, rstd = b.cast(save_mean, x.dtype), b.cast(save_invstd, x.dtype)
    else:
        assert running_mean is not None, "batch norm in evaluation has running statistics"
        assert running_var is not None, "batch norm in evaluation has running statistics"
        variance = b.cast(running_var, x.dtype)
        mean, rstd = b.cast(running_mean, x.dtype), b.rsqrt(b.add(variance, b.constant(eps, x.dtype, variance.shape)))
    scale = spread(b, rstd, x.shape, dims)
    normal = b.multiply(b.subtract(x, spread(b, mean, x.shape, dims)), scale)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = affine(b, grad, weight, None, (CHANNEL,))
        grad_input = normal_backward(b, scaled, normal, scale, dims) if train else b.multiply(scaled, scale)
    if output_mask[1]:
        grad_weight = b.reduce(b.multiply(grad, normal), "add", dims)
    if output_mask[2]:
        grad_bias = b.reduce(grad, "add", dims)
    return grad_input, grad_weight, grad_bias


@lowering("aten::batch_norm_backward")
def batch_norm_backward(
    b: LoweringBuilder,
    grad_out: Value,
    input: Value,
    weight: Value,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_var: Value | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Value,
) -> tuple[Value | None, Value | None, Value | None]:
    return native_batch_norm_backward(b, grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask)
