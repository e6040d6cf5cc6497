"""Fused optimizer steps and the operators of gradient scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import accumulation_dtype
from .registry import lowering

Number = Value | int | float

# Without a meta function: results are like these arguments.
_ADAM_OUTPUTS = ("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")
_ADAGRAD_OUTPUTS = ("self", "grads", "state_sums")
_SGD_OUTPUTS = ("self", "grads", "momentum_buffer_list")


@dataclass(frozen=True, slots=True)
class _Guard:
    """Gradient scaling of a fused step: gradients are divided by ``scale``, and nothing is updated where ``found_inf`` is 1."""

    scale: Value | None
    found_inf: Value | None

    def unscaled(self, b: LoweringBuilder, grad: Value) -> Value:
        return grad if self.scale is None else b.divide(grad, b.scalar(self.scale, grad.dtype, grad.shape))

    def chosen(self, b: LoweringBuilder, updated: Value, former: Value) -> Value:
        if self.found_inf is None:
            return b.cast(updated, former.dtype)
        skipped = b.broadcast(b.is_nonzero(b.reshape(self.found_inf, ())), former.shape)
        return b.select(skipped, former, b.cast(updated, former.dtype))


@dataclass(frozen=True, slots=True)
class _Adam:
    """Hyperparameters of Adam (Kingma & Ba, 2015); decoupled weight decay is AdamW (Loshchilov & Hutter, 2019)."""

    lr: Number
    beta1: float
    beta2: float
    weight_decay: float
    eps: float
    maximize: bool
    decoupled: bool

    def step(self, b: LoweringBuilder, parameter: Value, grad: Value, state: list[Value], count: Value) -> list[Value]:
        """New parameter, first and second moment, and largest second moment if ``state`` has one. All in one dtype."""
        shape, dtype = parameter.shape, parameter.dtype
        lr = b.scalar(self.lr, dtype, shape)
        grad = b.negate(grad) if self.maximize else grad
        if self.weight_decay and self.decoupled:
            parameter = b.subtract(parameter, b.multiply(b.multiply(lr, b.like(self.weight_decay, lr)), parameter))
        elif self.weight_decay:
            grad = b.add(grad, b.multiply(parameter, b.like(self.weight_decay, parameter)))
        first = _moving(b, state[0], grad, self.beta1)
        second = _moving(b, state[1], b.multiply(grad, grad), self.beta2)
        largest = b.maximum(state[2], second) if len(state) > 2 else second
        correction1, correction2 = (b.broadcast(_bias_correction(b, beta, count, dtype), shape) for beta in (self.beta1, self.beta2))
        deviation = b.add(b.divide(b.sqrt(largest), b.sqrt(correction2)), b.like(self.eps, largest))
        moved = b.subtract(parameter, b.divide(b.multiply(b.divide(lr, correction1), first), deviation))
        return [moved, first, second] + ([largest] if len(state) > 2 else [])


def _moving(b: LoweringBuilder, mean: Value, sample: Value, decay: float) -> Value:
    """decay · mean + (1 - decay) · sample."""
    return b.add(mean, b.multiply(b.subtract(sample, mean), b.like(1 - decay, mean)))


def _bias_correction(b: LoweringBuilder, beta: float, count: Value, dtype: DType) -> Value:
    """1 - betaᵗ after t steps, as -(e^(t log beta) - 1): the difference of near numbers would lose float32's digits."""
    steps = b.cast(b.reshape(count, ()), dtype)
    if beta == 0:
        return b.like(1, steps)
    return b.negate(b.exponential_minus_one(b.multiply(steps, b.like(math.log(beta), steps))))


def _adam_lists(
    b: LoweringBuilder,
    hyper: _Adam,
    guard: _Guard,
    tensors: Sequence[Sequence[Value]],
    steps: Sequence[Value],
) -> tuple[list[Value], ...]:
    """``tensors``: parameters, gradients, first, second and largest second moments (the last may be empty). Returns their new values."""
    new: list[list[Value]] = [[] for _ in tensors]
    for i, count in enumerate(steps):
        own = [group[i] for group in tensors if group]
        dtype = accumulation_dtype(own[0].dtype)
        parameter, grad, *state = (b.cast(value, dtype) for value in own)
        grad = guard.unscaled(b, grad)
        parameter, *state = hyper.step(b, parameter, grad, state, count)
        for group, updated, former in zip(new, [parameter, grad, *state], own, strict=False):
            group.append(guard.chosen(b, updated, former))
    if guard.scale is None:
        new[1] = list(tensors[1])  # gradients change only by unscaling
    return tuple(new)


def _fused_adam(decoupled: bool, name: str) -> None:
    # With a number for the rate, eager takes the other overload: see csrc/torch/eager/optimizer.cpp.
    @lowering(f"{name}.tensor_lr", outputs_like=_ADAM_OUTPUTS)
    @lowering(name, native=False)
    def lower(
        b: LoweringBuilder,
        parameters: Sequence[Value],
        grads: Sequence[Value],
        first: Sequence[Value],
        second: Sequence[Value],
        largest: Sequence[Value],
        steps: Sequence[Value],
        lr: Number,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Value | None,
        found_inf: Value | None,
    ) -> tuple[list[Value], ...]:
        hyper = _Adam(lr, beta1, beta2, weight_decay, eps, maximize, decoupled)
        tensors = (parameters, grads, first, second, largest if amsgrad else ())
        return _adam_lists(b, hyper, _Guard(grad_scale, found_inf), tensors, steps)


_fused_adam(False, "aten::_fused_adam")
_fused_adam(True, "aten::_fused_adamw")


@lowering("aten::_fused_sgd.tensor_lr", outputs_like=_SGD_OUTPUTS)
@lowering("aten::_fused_sgd", outputs_like=_SGD_OUTPUTS, native=False)
def fused_sgd(
    b: LoweringBuilder,
    parameters: Sequence[Value],
    grads: Sequence[Value],
    momenta: Sequence[Value],
    weight_decay: float,
    momentum: float,
    lr: Number,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Value | None,
    found_inf: Value | None,
) -> tuple[list[Value], list[Value], list[Value]]:
    guard = _Guard(grad_scale, found_inf)
    new_parameters, new_grads, new_momenta = [], [], []
    for i, (former, former_grad) in enumerate(zip(parameters, grads, strict=True)):
        dtype = accumulation_dtype(former.dtype)
        parameter, grad = b.cast(former, dtype), guard.unscaled(b, b.cast(former_grad, dtype))
        new_grads.append(former_grad if grad_scale is None else guard.chosen(b, grad, former_grad))
        direction = b.negate(grad) if maximize else grad
        if weight_decay:
            direction = b.add(direction, b.multiply(parameter, b.like(weight_decay, parameter)))
        if momentum and momenta:
            velocity = direction
            if not is_first_step:
                kept = b.multiply(b.cast(momenta[i], dtype), b.like(momentum, direction))
                velocity = b.add(kept, b.multiply(direction, b.like(1 - dampening, direction)))
            direction = b.add(direction, b.multiply(velocity, b.like(momentum, velocity))) if nesterov else velocity
            new_momenta.append(guard.chosen(b, velocity, momenta[i]))
        moved = b.subtract(parameter, b.multiply(b.scalar(lr, dtype, parameter.shape), direction))
        new_parameters.append(guard.chosen(b, moved, former))
    return new_parameters, new_grads, new_momenta


def _adagrad_step(
    b: LoweringBuilder,
    guard: _Guard,
    former: Sequence[Value],
    count: Value,
    lr: Number,
    decays: tuple[float, float],
    eps: float,
    maximize: bool,
) -> list[Value]:
    """New parameter, gradient and sum of squares of Adagrad (Duchi et al., 2011); ``decays`` are the rate's and the weights'."""
    dtype = accumulation_dtype(former[0].dtype)
    parameter, grad, total = (b.cast(value, dtype) for value in former)
    grad = guard.unscaled(b, grad)
    direction = b.negate(grad) if maximize else grad
    lr_decay, weight_decay = decays
    if weight_decay:
        direction = b.add(direction, b.multiply(parameter, b.like(weight_decay, parameter)))
    before = b.subtract(b.cast(b.reshape(count, ()), dtype), b.constant(1, dtype))
    slowed = b.add(b.constant(1, dtype), b.multiply(before, b.constant(lr_decay, dtype)))
    rate = b.broadcast(b.divide(b.scalar(lr, dtype), slowed), parameter.shape)
    total = b.add(total, b.multiply(direction, direction))
    moved = b.subtract(parameter, b.divide(b.multiply(rate, direction), b.add(b.sqrt(total), b.like(eps, total))))
    updated = zip((moved, grad, total), former, strict=True)
    return [guard.chosen(b, new, old) for new, old in updated]


@lowering("aten::_fused_adagrad.tensor_lr", outputs_like=_ADAGRAD_OUTPUTS)
def fused_adagrad(
    b: LoweringBuilder,
    parameters: Sequence[Value],
    grads: Sequence[Value],
    sums: Sequence[Value],
    steps: Sequence[Value],
    lr: Number,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Value | None,
    found_inf: Value | None,
) -> tuple[list[Value], list[Value], list[Value]]:
    guard = _Guard(grad_scale, found_inf)
    new = [
        _adagrad_step(b, guard, former, count, lr, (lr_decay, weight_decay), eps, maximize)
        for *former, count in zip(parameters, grads, sums, steps, strict=True)
    ]
    new_parameters, new_grads, new_sums = ([each[part] for each in new] for part in range(3))
    return new_parameters, list(grads) if grad_scale is None else new_grads, new_sums


@lowering("aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(b: LoweringBuilder, grads: Sequence[Value], found_inf: Value, inv_scale: Value) -> tuple[list[Value], Value]:
    """Gradients times ``inv_scale``; ``found_inf`` becomes 1 if any of them is not finite."""
    unscaled = []
    for grad in grads:
        finite = b.is_finite(grad)
        bad = b.cast(b.reduce(b.not_(finite), "or", range(len(grad.shape))), found_inf.dtype)
        found_inf = b.maximum(found_inf, b.broadcast(bad, found_inf.shape))
        wide = b.cast(grad, accumulation_dtype(grad.dtype))
        unscaled.append(b.multiply(wide, b.scalar(b.reshape(inv_scale, ()), wide.dtype, wide.shape)))
    return unscaled, found_inf


@lowering("aten::_amp_update_scale")
def update_scale(
    b: LoweringBuilder, scale: Value, tracker: Value, found_inf: Value, growth: float, backoff: float, interval: int
) -> tuple[Value, Value]:
    """The scale shrinks after an overflow and grows after ``interval`` steps without one, unless it would overflow itself."""
    found = b.broadcast(b.is_nonzero(b.reshape(found_inf, ())), scale.shape)
    successes = b.add(tracker, b.like(1, tracker))
    is_due = b.compare(successes, b.like(interval, successes), "EQ")
    grown = b.multiply(scale, b.like(growth, scale))
    raised = b.select(b.and_(is_due, b.is_finite(grown)), grown, scale)
    zero = b.like(0, tracker)
    return (
        b.select(found, b.multiply(scale, b.like(backoff, scale)), raised),
        b.select(b.or_(found, is_due), zero, successes),
    )
