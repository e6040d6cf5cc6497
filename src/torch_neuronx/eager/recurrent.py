"""LSTM and GRU networks layer by layer rather than step by step.

PyTorch composes these networks of cells. On any device but the CPU it multiplies each step's input by the weights on its own, and adds up
the gradients of the weights step by step. Here a layer has one product with its inputs, and one per gradient of a weight; only the product
with the hidden state is left to the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .untraced import untraced

aten = torch.ops.aten
_KERNELS = torch.library.Library("aten", "IMPL")


class Inputs(NamedTuple):
    """What a layer in one direction is a function of: its input, weights and biases for input and hidden state, and initial states."""

    x: Tensor
    by_input: Tensor
    by_hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    h: Tensor
    c: Tensor | None = None


def register_recurrent_networks() -> None:
    """Registers the networks for device ``neuron``, with and without gradients; call it once."""
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        _KERNELS.impl("lstm.input", lstm, key)
        _KERNELS.impl("gru.input", gru, key)


@untraced
def lstm(x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], has_biases: bool, *options: Any) -> tuple[Tensor, ...]:
    """``aten::lstm.input``: outputs, final hidden states and cells."""
    projects = len(states) == 2 and states[0].shape != states[1].shape
    if projects or len(states) != 2 or not _by_layers(x, states, weights, has_biases, options[-1]):
        return _by_cells(aten.lstm.input, x, states, weights, has_biases, *options)
    return _network(_Lstm, x, states, weights, has_biases, *options)


@untraced
def gru(x: Tensor, hx: Tensor, weights: Sequence[Tensor], has_biases: bool, *options: Any) -> tuple[Tensor, ...]:
    """``aten::gru.input``: outputs and final hidden states."""
    if not _by_layers(x, [hx], weights, has_biases, options[-1]):
        return _by_cells(aten.gru.input, x, hx, weights, has_biases, *options)
    return _network(_Gru, x, [hx], weights, has_biases, *options)


def _by_cells(op: torch._ops.OpOverload, *arguments: Any) -> tuple[Tensor, ...]:
    """PyTorch's own composition; not ``op.decompose``, which is another one, in Python."""
    return tuple(op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *arguments))


def _by_layers(x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], has_biases: bool, batch_first: bool) -> bool:
    """Whether the call is as it should be: PyTorch's composition raises what is to be said, and knows transforms of functions."""
    if not x.numel() or x.dim() != 3 or torch._C._are_functorch_transforms_active():
        return False
    types = {each.dtype for each in (x, *states, *weights)}
    fits = torch.float64 not in types if torch.is_autocast_enabled("neuron") else len(types) == 1
    layers = len(weights) // _per_layer(has_biases)
    return fits and all(state.dim() == 3 and state.shape[:2] == (layers, x.shape[0 if batch_first else 1]) for state in states)


def _per_layer(has_biases: bool) -> int:
    return 4 if has_biases else 2


def _network(
    cell: type[_Lstm] | type[_Gru],
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    dtype = torch.get_autocast_dtype("neuron") if torch.is_autocast_enabled("neuron") else x.dtype
    x = (x.transpose(0, 1) if batch_first else x).to(dtype)
    directions, count = 2 if bidirectional else 1, _per_layer(has_biases)
    finals: list[tuple[Tensor, ...]] = []
    for level in range(num_layers):
        if level and dropout and train:
            x = functional.dropout(x, dropout)
        outputs = []
        for backwards in range(directions):
            number = level * directions + backwards
            own = [weight.to(dtype) for weight in weights[number * count : (number + 1) * count]]
            initial = [state[number].to(dtype) for state in states]
            output, *final = _Layer.apply(cell, bool(backwards), x, *own, *[None] * (4 - count), *initial)  # type: ignore[no-untyped-call]
            outputs.append(output)
            finals.append(tuple(final))
        x = torch.cat(outputs, 2) if bidirectional else outputs[0]
    return (x.transpose(0, 1) if batch_first else x, *(torch.stack(each) for each in zip(*finals, strict=True)))


class _Layer(torch.autograd.Function):
    """A layer in one direction. It keeps what the cells' gradients need, and not the products with its inputs."""

    @staticmethod
    def forward(ctx: Any, cell: type[_Lstm] | type[_Gru], backwards: bool, *inputs: Any) -> tuple[Tensor, ...]:
        with torch.autocast("neuron", enabled=False):
            hidden, states, workspaces = cell.steps(Inputs(*inputs), backwards)
            out = torch.stack(_in_order(hidden, backwards))
        ctx.cell, ctx.backwards, ctx.count = cell, backwards, len(inputs)
        ctx.save_for_backward(*inputs, *hidden, *states, *workspaces)
        return out, *(each[-1].clone() for each in (hidden, states) if each)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *grads: Tensor) -> tuple[Any, ...]:
        inputs, kept = Inputs(*ctx.saved_tensors[: ctx.count]), ctx.saved_tensors[ctx.count :]
        needed = ctx.needs_input_grad[2:]
        with torch.autocast("neuron", enabled=False):
            if torch.is_grad_enabled():
                return None, None, *_differentiable(ctx.cell, ctx.backwards, inputs, needed, (grad, *grads))
            of_input, of_hidden, of_states = ctx.cell.gradients(inputs, kept, _in_order(grad.unbind(0), ctx.backwards), grads)
            rows = torch.cat(_in_order(of_input, not ctx.backwards))
            of_input.clear()
            of_x = rows.mm(inputs.by_input).view_as(inputs.x) if needed[0] else None
            of_bias = None if inputs.input_bias is None else rows.sum(0)
            of_weight = rows.t().mm(inputs.x.flatten(0, 1))
            if of_hidden:
                rows = torch.cat(_in_order(of_hidden, not ctx.backwards))
                of_hidden.clear()
            before = torch.cat(_in_order([inputs.h, *kept[: len(grad) - 1]], ctx.backwards))
            of_hidden_bias = of_bias if inputs.hidden_bias is None or ctx.cell.shares_biases else rows.sum(0)
            return None, None, of_x, of_weight, rows.t().mm(before), of_bias, of_hidden_bias, *of_states


def _in_order(steps: Iterable[Any], backwards: bool) -> list[Any]:
    """The list of steps in the order in which they are taken; what is in that order, in the order of time."""
    return [*steps][::-1] if backwards else [*steps]


class _Lstm:
    shares_biases = True

    @staticmethod
    def steps(inputs: Inputs, backwards: bool) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Hidden states, cells and workspaces, in the order of the steps."""
        first, second = inputs.input_bias, inputs.hidden_bias
        gates = functional.linear(inputs.x, inputs.by_input, first if first is None or second is None else first + second)
        h, c, across = inputs.h, inputs.c, inputs.by_hidden.t()
        hidden, cells, workspaces = [], [], []
        for gate in _in_order(gates.unbind(0), backwards):
            h, c, workspace = aten._thnn_fused_lstm_cell(gate, h.mm(across), c)
            hidden.append(h)
            cells.append(c)
            workspaces.append(workspace)
        return hidden, cells, workspaces

    @staticmethod
    def gradients(
        inputs: Inputs, kept: Sequence[Tensor], grads: Sequence[Tensor], of_finals: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], tuple[Tensor, ...]]:
        """Of the gates, last step first (those for input and hidden state are the same), and of the initial states."""
        (of_h, of_c), steps = of_finals, len(grads)
        cells, workspaces = [inputs.c, *kept[steps : 2 * steps]], kept[2 * steps :]
        gates: list[Tensor] = []
        for step in reversed(range(steps)):
            total = torch.addmm(grads[step], gates[-1], inputs.by_hidden) if gates else grads[step] + of_h
            gate, of_c, _ = aten._thnn_fused_lstm_cell_backward_impl(total, of_c, cells[step], cells[step + 1], workspaces[step], False)
            gates.append(gate)
        return gates, [], (gates[-1].mm(inputs.by_hidden), of_c)


class _Gru:
    shares_biases = False

    @staticmethod
    def steps(inputs: Inputs, backwards: bool) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Hidden states, nothing, and workspaces, in the order of the steps."""
        h, bias, across = inputs.h, inputs.hidden_bias, inputs.by_hidden.t()
        hidden, workspaces = [], []
        for gate in _in_order(functional.linear(inputs.x, inputs.by_input, inputs.input_bias).unbind(0), backwards):
            h, workspace = aten._thnn_fused_gru_cell(gate, h.mm(across) if bias is None else torch.addmm(bias, h, across), h)
            hidden.append(h)
            workspaces.append(workspace)
        return hidden, [], workspaces

    @staticmethod
    def gradients(
        inputs: Inputs, kept: Sequence[Tensor], grads: Sequence[Tensor], of_finals: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], tuple[Tensor, ...]]:
        """Of the gates for input and hidden state, last step first, and of the initial state."""
        (of_h,) = of_finals
        of_input, of_hidden = [], []
        for grad, workspace in zip(reversed(grads), reversed(kept[len(grads) :]), strict=True):
            gate, hidden, direct, _, _ = aten._thnn_fused_gru_cell_backward(grad + of_h, workspace, False)
            of_h = torch.addmm(direct, hidden, inputs.by_hidden)
            of_input.append(gate)
            of_hidden.append(hidden)
        return of_input, of_hidden, (of_h,)


def _differentiable(
    cell: type[_Lstm] | type[_Gru], backwards: bool, inputs: Inputs, needed: Sequence[bool], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradients by ``inputs`` as functions that have gradients themselves: of the steps taken again, each differentiated by PyTorch."""
    hidden, states, _ = cell.steps(inputs, backwards)
    results = [torch.stack(_in_order(hidden, backwards)), *(each[-1] for each in (hidden, states) if each)]
    wanted = [x for x, is_needed in zip(inputs, needed, strict=False) if x is not None and is_needed]  # the GRU has no c
    found = iter(torch.autograd.grad(results, wanted, grads, create_graph=True))
    return [next(found) if is_needed else None for is_needed in needed]
