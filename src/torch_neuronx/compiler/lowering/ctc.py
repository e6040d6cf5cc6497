"""Connectionist temporal classification as one operator, ``neuron::ctc_loss``, and its gradient.

``csrc/torch/eager/ctc.cpp`` maps PyTorch's operators to these two. Targets are [batch, longest], lengths int64 [batch] on the device.
"""

from __future__ import annotations

import torch

from ..hlo.ir import Value
from .context import LoweringBuilder
from .registry import lowering

Tensor = torch.Tensor

# Kept for the life of the process: a library that goes takes its operators with it.
_OPERATORS = torch.library.Library("neuron", "FRAGMENT")
_OPERATORS.define("ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)")
_OPERATORS.define(
    "ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor"
)


def _loss_meta(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    time, batch, _ = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(batch, time, 2 * targets.shape[1] + 1)


def _loss_backward_meta(grad: Tensor, log_probs: Tensor, *others: object) -> Tensor:
    return log_probs.new_empty(log_probs.shape)


_OPERATORS.impl("ctc_loss", _loss_meta, "Meta")
_OPERATORS.impl("ctc_loss_backward", _loss_backward_meta, "Meta")


@lowering("neuron::ctc_loss")
def ctc_loss(
    b: LoweringBuilder, log_probs: Value, targets: Value, input_lengths: Value, target_lengths: Value, blank: int
) -> tuple[Value, ...]:
    """The negative log likelihoods [batch], and the logarithms of the forward variables [batch, time, 2 · longest + 1]."""
    return b.composite("ctc_loss", (log_probs, targets, input_lengths, target_lengths), {"blank": blank}, b.outputs)


@lowering("neuron::ctc_loss_backward")
def ctc_loss_backward(
    b: LoweringBuilder,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    neg_log_likelihood: Value,
    log_alpha: Value,
    blank: int,
    zero_infinity: bool,
) -> Value:
    operands = (grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha)
    (result,) = b.composite("ctc_loss_backward", operands, {"blank": blank, "zero_infinity": zero_infinity}, (b.output,))
    return result
