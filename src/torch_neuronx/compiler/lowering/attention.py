"""Scaled dot-product attention as one operator, ``neuron::attention``, and its gradient.

``csrc/torch/eager/attention.cpp`` maps PyTorch's fused-attention operator to these two. Results lie in memory as [B, L, H, D], the order
in which a transformer takes the heads together again without a copy.
"""

from __future__ import annotations

import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering

Tensor = torch.Tensor

# Kept for the life of the process: a library that goes takes its operators with it.
_OPERATORS = torch.library.Library("neuron", "FRAGMENT")
_OPERATORS.define("attention(Tensor query, Tensor key, Tensor value, Tensor? bias, bool causal, float scale) -> (Tensor, Tensor)")
_OPERATORS.define(
    "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor out, Tensor logsumexp, "
    "bool causal, float scale) -> (Tensor, Tensor, Tensor)"
)


def _heads_inner(like: Tensor, width: int) -> Tensor:
    batch, heads, length, _ = like.shape
    return like.new_empty(batch, length, heads, width).transpose(1, 2)


def _attention_meta(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    statistics = torch.float64 if query.dtype == torch.float64 else torch.float32
    return _heads_inner(query, value.shape[-1]), query.new_empty(query.shape[:3], dtype=statistics)


def _attention_backward_meta(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(_heads_inner(operand, operand.shape[-1]) for operand in (query, key, value))  # type: ignore[return-value]


_OPERATORS.impl("attention", _attention_meta, "Meta")
_OPERATORS.impl("attention_backward", _attention_backward_meta, "Meta")


@lowering("neuron::attention")
def attention(
    b: LoweringBuilder, query: Value, key: Value, value: Value, bias: Value | None, causal: bool, scale: float
) -> tuple[Value, ...]:
    """softmax(scale · query keyᵀ + bias) value, and the logarithm of the sums, f32. ``causal`` keeps columns up to the row's number."""
    attributes = {"causal": causal, "scale": scale}
    return b.composite("attention", (query, key, value, *_mask(b, bias, query)), attributes, b.outputs)


@lowering("neuron::attention_backward")
def attention_backward(
    b: LoweringBuilder,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    out: Value,
    logsumexp: Value,
    causal: bool,
    scale: float,
) -> tuple[Value, ...]:
    operands = (grad, query, key, value, out, logsumexp, *_mask(b, bias, query))
    return b.composite("attention_backward", operands, {"causal": causal, "scale": scale}, b.outputs)


def _mask(b: LoweringBuilder, bias: Value | None, query: Value) -> tuple[Value, ...]:
    """The bias with four dimensions, in a dtype that attention takes."""
    if bias is None:
        return ()
    kept = bias if bias.dtype in (DType.I1, DType.F32) else b.cast(bias, query.dtype)
    return (b.reshape(kept, (1,) * (4 - len(bias.shape)) + bias.shape),)
