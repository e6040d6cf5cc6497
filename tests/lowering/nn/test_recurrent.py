"""The recurrent cells against their equations in float64, and the networks made of them against CPU float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from lowering_reference import compare, run
from torch import Tensor, nn
from torch.nn.utils import rnn

import torch_neuronx

aten = torch.ops.aten
RTOL, ATOL = 2e-5, 2e-6
BATCH, WIDTH = 3, 4


def floats(*shape: int) -> Tensor:
    return torch.randn(shape)


def wide(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [None if each is None else each.double().requires_grad_() for each in tensors]


def lstm_cell(from_input: Tensor, from_hidden: Tensor, cx: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    i, f, g, o = sum((bias for bias in biases if bias is not None), from_input + from_hidden).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def gru_cell(from_input: Tensor, from_hidden: Tensor, hx: Tensor, *biases: Tensor | None) -> Tensor:
    gates, hidden = (x if bias is None else x + bias for x, bias in zip((from_input, from_hidden), biases or (None, None), strict=True))
    (r, z, n), (hidden_r, hidden_z, hidden_n) = gates.chunk(3, 1), hidden.chunk(3, 1)
    r, z = (r + hidden_r).sigmoid(), (z + hidden_z).sigmoid()
    return (1 - z) * (n + r * hidden_n).tanh() + z * hx


def both_ways(op: Any, arguments: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """The results of the operator by the interpreter and on the device."""
    on_device = [x.to("neuron") if isinstance(x, Tensor) else x for x in arguments]
    with torch_neuronx.fallback_policy("error"):
        return [("interpreted", run(op, arguments)[0]), ("on neuron", list(op(*on_device)))]


def compare_all(what: str, results: Sequence[Tensor | None], expected: Sequence[Tensor | None]) -> None:
    assert len(results) == len(expected)
    for position, (result, right) in enumerate(zip(results, expected, strict=True)):
        compare(f"{what}, result {position}", result, None if right is None else right.detach(), RTOL, ATOL)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("missing", [None, "hy", "cy"])
def test_lstm_cell_and_its_gradient(bias: bool, missing: str | None) -> None:
    biases = [floats(4 * WIDTH), floats(4 * WIDTH)] if bias else [None, None]
    arguments = [floats(BATCH, 4 * WIDTH), floats(BATCH, 4 * WIDTH), floats(BATCH, WIDTH), *biases]
    exact = wide(arguments)
    hy, cy = lstm_cell(*exact)
    grad_hy, grad_cy = (None if missing == name else floats(BATCH, WIDTH) for name in ("hy", "cy"))
    given = [(result, grad.double()) for result, grad in ((hy, grad_hy), (cy, grad_cy)) if grad is not None]
    torch.autograd.backward(*zip(*given, strict=True))
    gates, _, cell, bias_grad, _ = (None if x is None else x.grad for x in exact)
    for where, (own_hy, own_cy, workspace) in both_ways(aten._thnn_fused_lstm_cell.default, arguments):
        compare_all(f"forward {where}", [own_hy, own_cy], [hy, cy])
        assert workspace.shape == (BATCH, 4 * WIDTH)
        state = [arguments[2], own_cy.cpu(), workspace.cpu()]
        for also, grads in both_ways(aten._thnn_fused_lstm_cell_backward_impl.default, [grad_hy, grad_cy, *state, bias]):
            compare_all(f"backward {also}", grads, [gates, cell, bias_grad])


@pytest.mark.parametrize("bias", [True, False])
def test_gru_cell_and_its_gradient(bias: bool) -> None:
    biases = [floats(3 * WIDTH), floats(3 * WIDTH)] if bias else [None, None]
    arguments = [floats(BATCH, 3 * WIDTH), floats(BATCH, 3 * WIDTH), floats(BATCH, WIDTH), *biases]
    exact = wide(arguments)
    hy = gru_cell(*exact)
    grad = floats(BATCH, WIDTH)
    hy.backward(grad.double())
    expected = [None if x is None else x.grad for x in exact]
    for where, (own, workspace) in both_ways(aten._thnn_fused_gru_cell.default, arguments):
        compare_all(f"forward {where}", [own], [hy])
        for also, grads in both_ways(aten._thnn_fused_gru_cell_backward.default, [grad, workspace.cpu(), bias]):
            compare_all(f"backward {also}", grads, expected)


def test_saturated_gates_stay_finite() -> None:
    gates = torch.tensor([[1e4, -1e4, 1e4, 1e4, -1e4, 1e4, -1e4, 0.0]])
    cx = torch.tensor([[3.0, -3.0]])
    exact = lstm_cell(gates.double(), torch.zeros_like(gates).double(), cx.double())
    for where, results in both_ways(aten._thnn_fused_lstm_cell.default, [gates, torch.zeros_like(gates), cx, None, None]):
        compare_all(where, results[:2], exact)


Values = dict[str, Tensor]


def step(module: nn.Module, call: Callable[[nn.Module, str], Any], device: str, dtype: torch.dtype) -> Values:
    """Results and gradients of all parameters of ``module`` moved to a device."""
    module = copy.deepcopy(module).to(device, dtype)
    results = [result for result in torch.utils._pytree.tree_leaves(call(module, device)) if isinstance(result, Tensor)]
    torch.autograd.backward(results, [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(x) for x in results])
    values = {f"result {position}": result.detach() for position, result in enumerate(results)}
    return values | {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}


def check_module(module: nn.Module, call: Callable[[nn.Module, str], Any]) -> None:
    exact = step(module, call, "cpu", torch.float64)
    with torch_neuronx.fallback_policy("error"):
        actual = step(module, call, "neuron", torch.float32)
    assert actual.keys() == exact.keys()
    for name, value in exact.items():
        compare(name, actual[name], value, 1e-5, 1e-5)


NETWORKS = [nn.LSTM, nn.GRU, nn.RNN]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 3, "batch_first": True, "bias": False},
    {"num_layers": 2, "dropout": 1.0},  # every random number gives the same
]


def moved(tensor: Tensor, module: nn.Module) -> Tensor:
    return tensor.to(next(module.parameters()))


def initial_state(network: nn.RNNBase, batch: tuple[int, ...]) -> Tensor | tuple[Tensor, Tensor]:
    layers = network.num_layers * (2 if network.bidirectional else 1)
    hidden = torch.linspace(-1, 1, 64)[: layers * 3].reshape(layers, *(1 for _ in batch), 3).expand(layers, *batch, 3)
    if not isinstance(network, nn.LSTM):
        return moved(hidden, network)
    width = network.proj_size or network.hidden_size
    return moved(hidden[..., :width], network), moved(-hidden, network)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("given", [False, True], ids=["zero state", "given state"])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(network: type[nn.RNNBase], options: dict[str, Any], given: bool) -> None:
    check_network(network(5, 3, **options), given)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [False, True], ids=["zero state", "given state"])
def test_lstm_with_projections(bias: bool, given: bool) -> None:
    check_network(nn.LSTM(5, 3, num_layers=2, proj_size=2, bidirectional=True, bias=bias), given)


def check_network(network: nn.RNNBase, given: bool) -> None:
    x = floats(2, 2, 5)
    check_module(network, lambda m, _: m(moved(x, m), *([initial_state(m, (2,))] if given else [])))


@pytest.mark.parametrize("network", NETWORKS)
def test_one_sequence_without_a_batch(network: type[nn.RNNBase]) -> None:
    x = floats(4, 5)
    check_module(network(5, 3), lambda m, _: m(moved(x, m), initial_state(m, ())))


@pytest.mark.parametrize("sorted_by_length", [True, False])
@pytest.mark.parametrize("network", NETWORKS)
def test_packed_sequences(network: type[nn.RNNBase], sorted_by_length: bool) -> None:
    x, lengths = floats(3, 5, 4), torch.tensor([5, 3, 1] if sorted_by_length else [1, 5, 3])

    def call(m: nn.Module, device: str) -> Any:
        packed = rnn.pack_padded_sequence(moved(x, m), lengths, batch_first=True, enforce_sorted=sorted_by_length)
        out, state = m(packed)
        padded, back = rnn.pad_packed_sequence(out, batch_first=True, padding_value=-2.0)
        assert torch.equal(back, lengths)
        return padded, state

    check_module(network(4, 3, num_layers=2, bidirectional=True), call)


def test_rnn_with_relu() -> None:
    x = floats(4, 2, 5)
    check_module(nn.RNN(5, 3, nonlinearity="relu"), lambda m, _: m(moved(x, m)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell: type[nn.RNNCellBase], bias: bool) -> None:
    x = floats(2, 3, 5)

    def call(m: nn.Module, device: str) -> Any:
        return m(moved(x[1], m), m(moved(x[0], m)))

    check_module(cell(5, 4, bias=bias), call)


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_of_inputs_and_states(network: type[nn.RNNBase]) -> None:
    module, x = network(5, 3), floats(4, 2, 5)

    class WithInputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = module
            self.x = nn.Parameter(x)
            state = initial_state(module, (2,))
            self.states = nn.ParameterList(each.clone() for each in (state if isinstance(state, tuple) else (state,)))

        def forward(self) -> Any:
            return self.network(self.x, tuple(self.states) if len(self.states) == 2 else self.states[0])

    check_module(WithInputs(), lambda m, _: m())


NETWORKS_OF_LAYERS = [nn.LSTM, nn.GRU]


@pytest.mark.parametrize("options", [{}, {"bias": False, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_gradients_of_gradients(network: type[nn.RNNBase], options: dict[str, Any]) -> None:
    module, x = network(4, 3, **options), floats(3, 2, 4)

    def penalty(m: nn.Module, device: str, dtype: torch.dtype) -> list[Tensor]:
        m, own = copy.deepcopy(m).to(device, dtype), x.to(device, dtype).requires_grad_()
        (grad,) = torch.autograd.grad(m(own)[0].square().sum(), own, create_graph=True)
        return [grad.detach(), *torch.autograd.grad(grad.square().sum(), [own, *m.parameters()])]

    with torch_neuronx.fallback_policy("error"):
        actual = penalty(module, "neuron", torch.float32)
    for position, (own, exact) in enumerate(zip(actual, penalty(module, "cpu", torch.float64), strict=True)):
        compare(f"value {position}", own, exact, 1e-5, 1e-5)


@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_an_output_may_be_changed_in_place_before_the_gradient(network: type[nn.RNNBase]) -> None:
    x = floats(3, 2, 4)

    def call(m: nn.Module, _: str) -> Any:
        out, state = m(moved(x, m))
        return out.relu_(), state

    check_module(network(4, 3), call)


@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_only_the_last_state_is_used(network: type[nn.RNNBase]) -> None:
    x = floats(3, 2, 4)
    check_module(network(4, 3, bidirectional=True), lambda m, _: m(moved(x, m))[1])


@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_frozen_weights_and_no_gradients(network: type[nn.RNNBase]) -> None:
    module, x = network(4, 3), floats(3, 2, 4)
    module.weight_hh_l0.requires_grad_(False)
    check_module(module, lambda m, _: m(moved(x, m)))
    own, given = copy.deepcopy(module).to("neuron"), x.to("neuron")
    expected = own(given)[0].detach()
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            assert torch.equal(own(given)[0], expected)


@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_transforms_of_functions(network: type[nn.RNNBase]) -> None:
    module, x = network(4, 3), floats(3, 2, 4)
    own = copy.deepcopy(module).to("neuron")
    expected = torch.func.grad(lambda x: module(x)[0].square().sum())(x)
    compare("gradient", torch.func.grad(lambda x: own(x)[0].square().sum())(x.to("neuron")), expected, 1e-5, 1e-5)


def test_wrong_states_are_refused_as_on_the_cpu() -> None:
    module, x = nn.LSTM(4, 3).to("neuron"), floats(3, 2, 4).to("neuron")
    weights = list(module.parameters())
    few = [torch.zeros(1, 2, 3, device="neuron")]
    with pytest.raises(RuntimeError, match="lstm expects two hidden states"):
        torch.lstm(x, few, weights, True, 1, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="dtype"):
        module(x, (few[0].bfloat16(), few[0].bfloat16()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("network", NETWORKS_OF_LAYERS)
def test_autocast_gives_narrow_results_and_wide_gradients(network: type[nn.RNNBase], dtype: torch.dtype) -> None:
    module, x = network(4, 3, num_layers=2).to("neuron"), floats(6, 2, 4).to("neuron")
    wide = module(x)[0].detach()
    with torch_neuronx.fallback_policy("error"), torch.autocast("neuron", dtype=dtype):
        out, _ = module(x)
        out.float().sum().backward()
    assert out.dtype == dtype
    assert {parameter.grad.dtype for parameter in module.parameters() if parameter.grad is not None} == {torch.float32}
    compare("result", out.detach(), wide.double().cpu(), 0, 0.02)
