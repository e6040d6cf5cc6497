"""What training loops use besides a model and an optimizer: it does on the device what it does on the CPU, without a fallback."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, prune, vector_to_parameters
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim import lr_scheduler, swa_utils
from torch.utils.checkpoint import checkpoint

import torch_neuronx


@pytest.fixture(autouse=True)
def no_fallback():
    with torch_neuronx.fallback_policy("error"):
        yield


def network(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3)).to(device)


def data(device: str) -> Tensor:
    return torch.randn(12, 6, generator=torch.Generator().manual_seed(1)).to(device)


def both(function: Callable[[str], Any]) -> tuple[Any, Any]:
    """What a function of the device gives on the device and on the CPU, tensors on the CPU."""
    return tuple(torch.utils._pytree.tree_map_only(Tensor, lambda x: x.detach().cpu(), function(device)) for device in ("neuron", "cpu"))


def assert_same(function: Callable[[str], Any]) -> None:
    actual, expected = both(function)
    torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("foreach", [True, False])
def test_clipping_by_norm(norm: float, foreach: bool) -> None:
    def run(device: str) -> Any:
        model = network(device)
        model(data(device)).square().sum().backward()
        total = clip_grad_norm_(model.parameters(), 0.5, norm_type=norm, foreach=foreach)
        return total, [parameter.grad for parameter in model.parameters()]

    assert_same(run)


def test_clipping_refuses_what_is_not_finite() -> None:
    parameter = nn.Parameter(torch.ones(2, device="neuron"))
    parameter.grad = torch.tensor([1.0, float("inf")], device="neuron")
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("foreach", [True, False])
def test_clipping_by_value(foreach: bool) -> None:
    def run(device: str) -> Any:
        model = network(device)
        model(data(device)).square().sum().backward()
        clip_grad_value_(model.parameters(), 0.1, foreach=foreach)
        return [parameter.grad for parameter in model.parameters()]

    assert_same(run)


@pytest.mark.parametrize("average", [None, swa_utils.get_ema_multi_avg_fn(0.9)], ids=["mean", "ema"])
def test_averaged_models_and_their_batch_norm(average: Any) -> None:
    def run(device: str) -> Any:
        model = network(device)
        averaged = swa_utils.AveragedModel(model, multi_avg_fn=average)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
        for _ in range(3):
            optimizer.zero_grad()
            model(data(device)).square().mean().backward()
            optimizer.step()
            averaged.update_parameters(model)
            schedule.step()
        swa_utils.update_bn([data(device)], averaged)
        return averaged.state_dict()

    assert_same(run)


SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "milestones": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "constant": lambda o: lr_scheduler.ConstantLR(o, total_iters=2),
    "linear": lambda o: lr_scheduler.LinearLR(o, total_iters=4),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.8),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 5),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=8),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "sequential": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.5)], [2]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    def run(device: str) -> Any:
        model = network(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](optimizer)
        rates = []
        for _ in range(5):
            optimizer.zero_grad()
            model(data(device)).square().mean().backward()
            optimizer.step()
            schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return rates, list(model.parameters())

    assert_same(run)


def test_reducing_the_rate_on_a_plateau() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1, device="neuron"))], lr=0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        schedule.step(torch.ones((), device="neuron"))
    assert optimizer.param_groups[0]["lr"] < 0.1


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_repeats_the_random_numbers(reentrant: bool) -> None:
    model = network("neuron")
    dropping = lambda x: functional.dropout(model(x), 0.5)  # noqa: E731
    gradients = []
    for call in (dropping, lambda x: checkpoint(dropping, x, use_reentrant=reentrant)):
        torch.manual_seed(5)
        x = data("neuron").requires_grad_()
        model.zero_grad()
        call(x).square().sum().backward()
        gradients.append([x.grad.cpu(), *(parameter.grad.cpu() for parameter in model.parameters())])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)


def test_gradient_scaling_skips_overflows_and_grows() -> None:
    scaler = torch.amp.GradScaler("neuron", init_scale=2.0**10, growth_interval=2)
    parameter = nn.Parameter(torch.ones(3, device="neuron"))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    for factor in (1.0, 1.0, float("inf")):
        optimizer.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(parameter.detach().cpu(), torch.zeros(3))
    assert scaler.get_scale() == 2.0**10


def test_gradient_scaling_of_a_fused_step() -> None:
    scaler = torch.amp.GradScaler("neuron", init_scale=4.0)
    parameter = nn.Parameter(torch.ones(3, device="neuron"))
    optimizer = torch.optim.SGD([parameter], lr=0.5, fused=True)
    for factor in (1.0, float("nan")):
        optimizer.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(parameter.detach().cpu(), torch.full((3,), 0.5))


@pytest.mark.parametrize("parametrize", [weight_norm, spectral_norm], ids=["weight_norm", "spectral_norm"])
def test_parametrized_weights(parametrize: Callable[[nn.Module], nn.Module]) -> None:
    def run(device: str) -> Any:
        torch.manual_seed(0)
        layer = parametrize(nn.Linear(6, 5)).to(device)
        out = layer(data(device))
        out.square().sum().backward()
        return out, [parameter.grad for parameter in layer.parameters()]

    assert_same(run)


def test_pruning_and_vectors_of_parameters() -> None:
    def run(device: str) -> Any:
        layer = nn.Linear(4, 3)
        torch.manual_seed(0)
        layer.reset_parameters()
        layer = layer.to(device)
        prune.l1_unstructured(layer, "weight", amount=5)
        prune.remove(layer, "weight")
        vector = parameters_to_vector(layer.parameters())
        vector_to_parameters(vector * 2, layer.parameters())
        return vector, layer.weight

    assert_same(run)


def test_hooks_see_values_and_gradients() -> None:
    def run(device: str) -> Any:
        model, seen = network(device), []
        model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
        model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
        model[3].register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0]))
        model[3].weight.register_hook(lambda grad: grad * 3)
        model[0].bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad))
        model(data(device)).square().sum().backward()
        return seen, model[3].weight.grad

    assert_same(run)


def test_anomaly_mode_names_the_forward_line() -> None:
    x = torch.zeros(2, device="neuron", requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Traceback of forward call"):  # noqa: SIM117
        with pytest.raises(RuntimeError, match="returned nan values"):
            (x.sqrt() * 0).sum().backward()


def test_saving_tensors_on_the_host() -> None:
    def run(device: str) -> Any:
        x = data(device).requires_grad_()
        with torch.autograd.graph.save_on_cpu():
            y = (x.exp() * x.sin()).sum()
        y.backward()
        return x.grad

    assert_same(run)


def test_functional_calls_and_transforms() -> None:
    def run(device: str) -> Any:
        model = network(device).eval()
        x = data(device)
        parameters = {name: value.detach() * 0.5 for name, value in model.named_parameters()}
        out = torch.func.functional_call(model, parameters, (x,))
        grads = torch.func.grad(lambda p: torch.func.functional_call(model, p, (x,)).square().mean())(parameters)
        rows = torch.func.vmap(lambda row: (row.sin() * row).sum())(x)
        jacobian = torch.func.jacrev(lambda row: row.tanh() * row.sum())(x[0])
        return out, grads, rows, jacobian

    assert_same(run)


def test_forward_mode_and_hessians() -> None:
    def run(device: str) -> Any:
        x = data(device)
        function = lambda row: (row * row).tanh().cumsum(0)  # noqa: E731
        forward = torch.func.jacfwd(function)(x[0])
        hessian = torch.func.hessian(lambda row: function(row).sum())(x[0])
        return forward, hessian, torch.func.jvp(function, (x,), (x,)), torch.func.vjp(function, x)[1](x)

    assert_same(run)


def test_gradients_of_every_sample() -> None:
    def run(device: str) -> Any:
        model = network(device).eval()
        loss = lambda p, row: torch.func.functional_call(model, p, (row[None],)).square().sum()  # noqa: E731
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(dict(model.named_parameters()), data(device))

    assert_same(run)


def test_an_optimizer_in_backward_hooks() -> None:
    def run(device: str) -> Any:
        model = network(device)
        optimizers = {parameter: torch.optim.Adam([parameter], lr=0.1) for parameter in model.parameters()}

        def step(parameter: Tensor) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in optimizers:
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            model(data(device))[:, 0].square().sum().backward()
        return [model(data(device)), [parameter.grad for parameter in optimizers]]

    actual, expected = both(run)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)  # Adam divides small gradients by themselves


def test_parameters_join_an_optimizer_later() -> None:
    def run(device: str) -> Any:
        weights = [nn.Parameter(data(device)), nn.Parameter(data(device) + 1)]
        optimizer = torch.optim.AdamW(weights[:1], lr=0.1)
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": weights[1:], "lr": 0.01, "weight_decay": 0.5})
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            (weights[0] * weights[1]).square().mean().backward()
            optimizer.step()
        return weights, weights[1].grad

    assert_same(run)


def test_a_copied_optimizer_goes_on_by_itself() -> None:
    model = network("neuron")
    optimizer = torch.optim.Adam(model.parameters())
    model(data("neuron")).sum().backward()
    optimizer.step()
    twin_model, twin = copy.deepcopy((model, optimizer))
    twin_model(data("neuron")).sum().backward()
    assert all(state["exp_avg"].is_neuron for state in twin.state.values())
    before = [parameter.detach().cpu() for parameter in model.parameters()]
    twin.step()
    assert all(torch.equal(a, b.detach().cpu()) for a, b in zip(before, model.parameters(), strict=True))
    assert any(not torch.equal(a, b.detach().cpu()) for a, b in zip(before, twin_model.parameters(), strict=True))
