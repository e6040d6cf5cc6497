"""One step of an LSTM and of a GRU, and their gradients: what PyTorch calls for each time step on a device.

The products with the weights are done already; ``input_gates`` and ``hidden_gates`` are [batch, gates · width]. The workspace is what the
forward function keeps for the backward one; only these two know what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..hlo.ir import Value
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering

Tensor = torch.Tensor


def _lstm_meta(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    hy, cy = (torch.empty_like(cx, memory_format=torch.contiguous_format) for _ in range(2))
    return hy, cy, torch.empty_like(input_gates, memory_format=torch.contiguous_format)


def _gru_meta(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(hx, memory_format=torch.contiguous_format), hx.new_empty(hx.shape[0], GRU_KEPT * hx.shape[1])


def _gru_backward_meta(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    batch, width = grad_hy.shape
    gates, bias = ([grad_hy.new_empty(*rows, 3 * width) for _ in range(2)] for rows in ((batch,), ()))
    return *gates, torch.empty_like(grad_hy, memory_format=torch.contiguous_format), *(bias if has_bias else (None, None))


GRU_KEPT = 5

# PyTorch has no meta functions for the GRU, and its own for the LSTM fails without biases. Kept for the life of the process: a library
# that goes takes its functions with it.
_META = torch.library.Library("aten", "IMPL", "Meta")
_META.impl("_thnn_fused_lstm_cell", _lstm_meta, allow_override=True)
_META.impl("_thnn_fused_gru_cell", _gru_meta)
_META.impl("_thnn_fused_gru_cell_backward", _gru_backward_meta)


@lowering("aten::_thnn_fused_lstm_cell")
def lstm_cell(
    b: LoweringBuilder, input_gates: Value, hidden_gates: Value, cx: Value, input_bias: Value | None, hidden_bias: Value | None
) -> tuple[Value, Value, Value]:
    """The new hidden state and cell; the workspace is the gates, after their functions, in the order i, f, g, o."""
    i, f, g, o = _gates(b, _total(b, input_gates, hidden_gates, input_bias, hidden_bias), 4)
    i, f, g, o = b.logistic(i), b.logistic(f), b.tanh(g), b.logistic(o)
    cy = b.add(b.multiply(f, widened(b, cx)), b.multiply(i, g))
    return b.multiply(o, b.tanh(cy)), cy, b.concatenate([i, f, g, o], 1)


@lowering("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    b: LoweringBuilder, grad_hy: Value | None, grad_cy: Value | None, cx: Value, cy: Value, workspace: Value, has_bias: bool
) -> tuple[Value, Value, Value | None]:
    """The gradients of the gates' sums, of the old cell, and of either bias."""
    i, f, g, o = _gates(b, widened(b, workspace), 4)
    bent = b.tanh(widened(b, cy))
    zero = b.like(0, i)
    hidden = zero if grad_hy is None else widened(b, grad_hy)
    cell = zero if grad_cy is None else widened(b, grad_cy)
    cell = b.add(cell, b.multiply(b.multiply(hidden, o), _tanh_slope(b, bent)))
    grads = b.concatenate(
        [
            b.multiply(b.multiply(cell, g), _logistic_slope(b, i)),
            b.multiply(b.multiply(cell, widened(b, cx)), _logistic_slope(b, f)),
            b.multiply(b.multiply(cell, i), _tanh_slope(b, g)),
            b.multiply(b.multiply(hidden, bent), _logistic_slope(b, o)),
        ],
        1,
    )
    return grads, b.multiply(cell, f), b.reduce(grads, "add", (0,)) if has_bias else None


@lowering("aten::_thnn_fused_gru_cell")
def gru_cell(
    b: LoweringBuilder, input_gates: Value, hidden_gates: Value, hx: Value, input_bias: Value | None, hidden_bias: Value | None
) -> tuple[Value, Value]:
    """The new hidden state; the workspace is r, z, n, the old state, and n's share of ``hidden_gates``, GRU_KEPT of them."""
    from_input = _gates(b, _total(b, input_gates, input_bias), 3)
    from_hidden = _gates(b, _total(b, hidden_gates, hidden_bias), 3)
    r, z = (b.logistic(b.add(from_input[gate], from_hidden[gate])) for gate in (0, 1))
    n = b.tanh(b.add(from_input[2], b.multiply(r, from_hidden[2])))
    old = widened(b, hx)
    return b.add(n, b.multiply(z, b.subtract(old, n))), b.concatenate([r, z, n, old, from_hidden[2]], 1)


@lowering("aten::_thnn_fused_gru_cell_backward")
def gru_cell_backward(b: LoweringBuilder, grad_hy: Value, workspace: Value, has_bias: bool) -> tuple[Value | None, ...]:
    """The gradients of both kinds of gates, of the old state, and of both biases."""
    r, z, n, old, hidden_n = _gates(b, widened(b, workspace), GRU_KEPT)
    grad = widened(b, grad_hy)
    of_z = b.multiply(b.multiply(grad, b.subtract(old, n)), _logistic_slope(b, z))
    of_n = b.multiply(b.multiply(grad, b.subtract(b.like(1, z), z)), _tanh_slope(b, n))
    of_r = b.multiply(b.multiply(of_n, hidden_n), _logistic_slope(b, r))
    gates = [b.concatenate([of_r, of_z, last], 1) for last in (of_n, b.multiply(of_n, r))]
    biases = [b.reduce(each, "add", (0,)) if has_bias else None for each in gates]
    return *gates, b.multiply(grad, z), *biases


def _total(b: LoweringBuilder, first: Value, *others: Value | None) -> Value:
    total = widened(b, first)
    for other in others:
        if other is not None:
            total = b.add(total, b.broadcast(b.cast(other, total.dtype), total.shape))
    return total


def _gates(b: LoweringBuilder, x: Value, count: int) -> Sequence[Value]:
    batch, columns = x.shape
    width = columns // count
    return [b.slice(x, (0, gate * width), (batch, (gate + 1) * width)) for gate in range(count)]


def _logistic_slope(b: LoweringBuilder, y: Value) -> Value:
    return b.multiply(y, b.subtract(b.like(1, y), y))


def _tanh_slope(b: LoweringBuilder, y: Value) -> Value:
    return b.subtract(b.like(1, y), b.multiply(y, y))
