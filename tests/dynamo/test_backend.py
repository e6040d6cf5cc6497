"""torch.compile(backend="neuron"): results, gradients, mutation, aliasing, randomness, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from torch_neuronx.compiler.lowering.graph import MissingLoweringsError
from torch_neuronx.dynamo import create_neuron_backend


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    result: Callable[..., Any] = torch.compile(function, backend="neuron", fullgraph=True, **options)
    return result


def both(*shape: int) -> tuple[Tensor, Tensor]:
    """The same numbers on the CPU and on the device, as leaves that require gradients."""
    here = torch.randn(shape)
    return here.clone().requires_grad_(), here.to("neuron").requires_grad_()


def test_forward_and_backward_equal_the_cpu() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return functional.layer_norm(functional.gelu(x @ w), (8,)).sum(1)

    (x, dx), (w, dw) = both(4, 16), both(16, 8)
    expected, actual = function(x, w), compiled(function)(dx, dw)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    torch.testing.assert_close(dx.grad.cpu(), x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dw.grad.cpu(), w.grad, rtol=1e-4, atol=1e-5)


def test_a_mutated_input_is_written_in_place() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2).add_(y)
        return x.sum()

    x, y = torch.ones(3, 4, device="neuron"), torch.full((4,), 0.5, device="neuron")
    address = x.data_ptr()
    with torch.no_grad():
        assert compiled(function)(x, y).item() == 30.0
    assert x.data_ptr() == address and torch.equal(x.cpu(), torch.full((3, 4), 2.5))


def test_buffers_of_a_module_are_updated() -> None:
    torch.manual_seed(0)
    module = nn.BatchNorm1d(3)
    device_module = nn.BatchNorm1d(3).to("neuron")
    x = torch.randn(8, 3)
    module(x)
    torch.compile(device_module, backend="neuron")(x.to("neuron"))
    torch.testing.assert_close(device_module.running_mean.cpu(), module.running_mean)
    torch.testing.assert_close(device_module.running_var.cpu(), module.running_var)
    assert device_module.num_batches_tracked.item() == 1


def test_outputs_that_are_views_of_inputs_alias_them() -> None:
    x = torch.arange(6.0, device="neuron").reshape(2, 3)
    transposed, row, same = compiled(lambda x: (x.t(), x[0], x))(x)
    x.zero_()
    assert transposed.shape == (3, 2) and transposed.abs().sum().item() == 0
    assert row.sum().item() == 0 and same is x


def test_an_output_that_stands_twice_and_numbers() -> None:
    first, second, number, none = compiled(lambda x: ((y := x + 1), y, 7, None))(torch.zeros(2, device="neuron"))
    assert first is second or torch.equal(first.cpu(), second.cpu())
    assert number == 7 and none is None


def test_dropout_draws_what_eager_draws() -> None:
    def function(x: Tensor) -> Tensor:
        return functional.dropout(functional.dropout(x, 0.5) + 1, 0.25) * torch.rand_like(x)

    x = torch.ones(64, 33, device="neuron")
    torch.manual_seed(3)
    eager = function(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(function)(x).cpu(), eager.cpu())


def test_numbers_on_the_cpu_are_passed_by_value() -> None:
    function = compiled(lambda x, scale: x * scale)
    x = torch.ones(3, device="neuron")
    assert function(x, torch.tensor(2.0)).tolist() == [2.0] * 3
    assert function(x, torch.tensor(3.0)).tolist() == [3.0] * 3


def test_attention_is_one_operator() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    pairs = [both(2, 3, 5, 8) for _ in range(3)]
    expected = function(*(here for here, _ in pairs))
    actual = compiled(function)(*(there for _, there in pairs))
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    for here, there in pairs:
        torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-4, atol=1e-5)


def test_a_new_size_needs_no_new_trace() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).reshape(-1).softmax(0).sum() + x.shape[0]

    counter = torch._dynamo.testing.CompileCounterWithBackend("neuron")
    function_on_device = torch.compile(function, backend=counter, dynamic=True)
    for length in (5, 6, 7, 6):
        (x, dx), (w, dw) = both(length, 4), both(4, 3)
        expected, actual = function(x, w), function_on_device(dx, dw)
        torch.testing.assert_close(actual.cpu(), expected)
        actual.backward()
        expected.backward()
        torch.testing.assert_close(dw.grad.cpu(), w.grad, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1


def test_a_growing_cache_is_traced_twice_at_most() -> None:
    """Dynamo makes a size symbolic when it first changes."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("neuron")

    @torch.compile(backend=counter)
    def step(cache: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        cache = torch.cat([cache, x[None]])
        return cache, functional.softmax(cache @ x, 0) @ cache

    cache, expected = torch.zeros(1, 4, device="neuron"), torch.zeros(1, 4)
    for _ in range(6):
        x = torch.randn(4)
        cache, out = step(cache, x.to("neuron"))
        expected = torch.cat([expected, x[None]])
        torch.testing.assert_close(out.cpu(), functional.softmax(expected @ x, 0) @ expected)
    assert counter.frame_count == 2


def test_complex_numbers_and_their_lazy_conjugates() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x * y).conj(), torch.view_as_real(x.conj() * y).square().sum()

    x, y = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    dx, dy = (value.to("neuron").requires_grad_() for value in (x, y))
    x.requires_grad_(), y.requires_grad_()
    expected, actual = function(x, y), compiled(function)(dx, dy)
    torch.testing.assert_close(actual[0].cpu(), expected[0].resolve_conj())
    expected[1].backward()
    actual[1].backward()
    torch.testing.assert_close(dx.grad.cpu(), x.grad)
    torch.testing.assert_close(dy.grad.cpu(), y.grad)


def test_eager_ops_between_graphs_are_not_traced_into() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        places = (y > 1).nonzero()
        return y[places[:, 0]].flip(0) * 3

    x = torch.tensor([0.5, -2.0, 3.0])
    assert torch.compile(function, backend="neuron")(x.to("neuron")).tolist() == function(x).tolist()


def test_graph_breaks_split_the_program() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert torch.compile(function, backend="neuron")(torch.ones(2, device="neuron")).tolist() == [3.0, 3.0]


def test_a_missing_lowering_names_every_operator_and_its_line() -> None:
    for name in ("first", "second"):
        torch.library.define(f"neuron_test::{name}", "(Tensor x) -> Tensor")
        torch.library.impl(f"neuron_test::{name}", ("CPU", "Meta"), lambda x: x + 1)

    def function(x: Tensor) -> Tensor:
        return torch.ops.neuron_test.first(x) + torch.ops.neuron_test.second(x)

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as failure:
        compiled(function)(torch.eye(3, device="neuron"))
    assert isinstance(failure.value.inner_exception, MissingLoweringsError)
    text = str(failure.value.inner_exception)
    assert "neuron_test::first" in text and "neuron_test::second" in text and "test_backend.py" in text


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="'speed' is unknown to backend 'neuron'; known are fallback_execution, model_name"):
        create_neuron_backend(speed=3)
    with pytest.raises(TypeError, match="model_name=3 must be a str"):
        create_neuron_backend(model_name=3)


def test_another_mode_warns() -> None:
    with pytest.warns(UserWarning, match="mode='max-autotune'.*no effect"):
        compiled(lambda x: x + 1, mode="max-autotune")(torch.ones(2, device="neuron"))
