"""Which operators AOTAutograd takes apart before they are lowered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions

from ..compiler.lowering.registry import find

aten = torch.ops.aten
Decompositions = dict[torch._ops.OperatorBase, Callable[..., Any]]


@cache
def decompositions() -> Decompositions:
    """PyTorch's decompositions of what has no lowering, and the device's attention in place of PyTorch's operator for it."""
    lowered = {op for op in core_aten_decompositions() if isinstance(op, torch._ops.OpOverload) and find(op) is not None}
    table: Decompositions = {op: function for op, function in core_aten_decompositions().items() if op not in lowered}
    table[aten._scaled_dot_product_fused_attention_overrideable.default] = _attention
    table[aten._scaled_dot_product_fused_attention_overrideable_backward.default] = _attention_backward
    return table


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """As ``csrc/torch/eager/attention.cpp`` does it; what only other devices return is undefined. There is no dropout: a call with
    dropout does not choose this operator."""
    out, logsumexp = torch.ops.neuron.attention(query, key, value, attn_bias, is_causal, _scale(scale, query))
    return out, logsumexp, None, None, query.shape[2], key.shape[2], None, None, None


def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    grad_input_mask: Sequence[bool],
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor | None,
    philox_offset: Tensor | None,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    gradients = torch.ops.neuron.attention_backward(grad_out, query, key, value, attn_bias, out, logsumexp, is_causal, _scale(scale, query))
    return *gradients, None


def _scale(scale: float | None, query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale
