"""PyTorch's own optimizer database: every optimizer, input and implementation steps on the device as on the CPU, without a fallback."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerInfo, OptimizerInput, optim_db

import torch_neuronx

STEPS = 4
TOLERANCE = 1e-5
ADAMW = next(info for info in optim_db if info.optim_cls is torch.optim.AdamW)
# The database has these inputs, with rates and coefficients as tensors, for accelerators that it knows only.
CAPTURABLE = [info for info in optim_db if any(given.kwargs.get("capturable") for given in info.optim_inputs_func(device="cuda"))]


class Problem:
    """A regression with a matrix, a square matrix and a bias to fit: only matrices, or only an embedding with sparse gradients, where the
    optimizer takes nothing else."""

    def __init__(self, info: OptimizerInfo, device: str, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        shapes = [(8, 4), (16, 16)] if info.optim_cls is torch.optim.Muon else [(8, 4), (16, 16), (8,)]
        self.parameters = [torch.nn.Parameter(torch.randn(shape).to(device, dtype)) for shape in shapes]
        self.is_sparse = info.only_supports_sparse_grads
        self.parameters = self.parameters[:1] if self.is_sparse else self.parameters
        self.x, self.y = torch.randn(20, 4).to(device, dtype), torch.randn(20, 8).to(device, dtype)

    def loss(self) -> torch.Tensor:
        if self.is_sparse:
            tokens = torch.tensor([[1, 3, 1], [7, 0, 7]], device=self.x.device)
            return torch.nn.functional.embedding(tokens, self.parameters[0], sparse=True).square().sum()
        weight, square, *bias = self.parameters
        prediction = self.x @ weight.t() + (bias[0] if bias else 0)
        return (prediction - self.y).square().mean() + (square - 0.5).square().mean()


def implementations(info: OptimizerInfo) -> Iterator[tuple[str, dict[str, bool]]]:
    """Names and options. The differentiable one is the loop again, for parameters that are no leaves."""
    flags = {"forloop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    for name in info.supported_impls:
        if name in flags:
            yield name, flags[name] if "foreach" in info.supported_impls else {}
    if not info.supported_impls:
        yield "forloop", {}


def run(
    info: OptimizerInfo, given: OptimizerInput, flags: dict[str, bool], device: str, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    problem = Problem(info, device, dtype)
    options = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in given.kwargs.items()}
    optimizer = info.optim_cls(problem.parameters, **options, **flags)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = problem.loss()
        loss.backward()
        return loss

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [parameter.detach().cpu() for parameter in problem.parameters]


def outcome(function: Callable[[], Any]) -> Any:
    """What a function returns, or the type of what it raises."""
    try:
        return function()
    except (ValueError, RuntimeError) as error:
        return type(error)


def distance(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference in units of each tensor's largest magnitude."""
    return max(float((mine - right).abs().max() / right.abs().max()) for mine, right in zip(actual, expected, strict=True))


@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.optim_cls.__name__)
def test_every_input_steps_as_on_the_cpu(info: OptimizerInfo) -> None:
    compared = 0
    for given in info.optim_inputs_func(device="neuron"):
        for name, flags in implementations(info):
            if flags.keys() & given.kwargs.keys():
                continue
            what = f"{info.optim_cls.__name__} {name} {given.desc}"
            with torch_neuronx.fallback_policy("error"):
                actual = outcome(lambda given=given, flags=flags: run(info, given, flags, "neuron"))
            expected = outcome(lambda given=given, flags=flags: run(info, given, flags, "cpu"))
            if isinstance(expected, type):
                assert actual == expected, what
                continue
            assert not isinstance(actual, type), f"{what}: raises {actual}"
            if distance(actual, expected) > TOLERANCE:  # float32 itself may be far from the truth: LBFGS searches
                exact = run(info, given, flags, "cpu", torch.float64)
                assert distance(actual, exact) <= 10 * distance(expected, exact), what
            compared += 1
    assert compared


@pytest.mark.parametrize("info", CAPTURABLE, ids=lambda info: info.optim_cls.__name__)
def test_capturable_inputs_step_as_the_loop_on_the_cpu(info: OptimizerInfo) -> None:
    for given in info.optim_inputs_func(device="cuda"):
        if not given.kwargs.get("capturable"):
            continue
        given.kwargs = {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in given.kwargs.items()}
        plain = OptimizerInput(given.params, {**given.kwargs, "capturable": False}, given.desc)
        for name, flags in implementations(info):
            if flags.keys() & given.kwargs.keys():
                continue
            with torch_neuronx.fallback_policy("error"):
                actual = run(info, given, flags, "neuron")
            expected = run(info, plain, {} if "foreach" in given.kwargs else {"foreach": False}, "cpu")
            assert distance(actual, expected) <= TOLERANCE, f"{info.optim_cls.__name__} {name} {given.desc}"


def test_a_schedule_needs_no_new_programs() -> None:
    problem = Problem(ADAMW, "neuron")
    for flags in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        optimizer = torch.optim.AdamW(problem.parameters, lr=0.1, **flags)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
        counts = []
        for _ in range(6):
            optimizer.zero_grad()
            problem.loss().backward()
            optimizer.step()
            schedule.step()
            counts.append(torch_neuronx.eager.statistics().executables)
        assert counts[2:] == [counts[2]] * 4, flags


@pytest.mark.parametrize("flags", [{"foreach": True}, {"fused": True}], ids=["foreach", "fused"])
def test_a_step_over_many_tensors_takes_few_launches(flags: dict[str, bool]) -> None:
    def launches(count: int) -> int:
        parameters = [torch.nn.Parameter(torch.randn(3 + i % 5, device="neuron")) for i in range(count)]
        optimizer = torch.optim.AdamW(parameters, **flags)
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            before = torch_neuronx.eager.statistics().launches
            optimizer.step()
        return torch_neuronx.eager.statistics().launches - before

    assert launches(100) == launches(2)


def test_state_moves_between_devices() -> None:
    here, there = Problem(ADAMW, "cpu"), Problem(ADAMW, "neuron")
    first, second = torch.optim.AdamW(here.parameters), torch.optim.AdamW(there.parameters)
    here.loss().backward()
    first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))  # else both would count their steps in the same tensors
    with torch.no_grad():
        for source, target in zip(here.parameters, there.parameters, strict=True):
            target.copy_(source)
    for problem, optimizer in ((here, first), (there, second)):
        optimizer.zero_grad()
        problem.loss().backward()
        optimizer.step()
    assert all(state["exp_avg"].is_neuron for state in second.state.values())
    for mine, right in zip(there.parameters, here.parameters, strict=True):
        torch.testing.assert_close(mine.cpu(), right, rtol=1e-5, atol=1e-6)
