"""PyTorch's module samples on the device in float32, forward and backward, in training and in evaluation, with no fallback allowed."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_neuronx

SAMPLES = 32
TOLERANCE = 1e-4
MODULES = {info.name.removeprefix("nn."): info for info in module_db if not issubclass(info.module_cls, nn.modules.lazy.LazyModuleMixin)}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", MODULES)
def test_agrees_with_cpu_float64(name: str, training: bool) -> None:
    for module, forward in itertools.islice(samples(MODULES[name], training), SAMPLES):
        expected = outcome(module, forward, "cpu", torch.float64)
        with torch_neuronx.fallback_policy("error"):
            actual = outcome(module, forward, "neuron", torch.float32)
        assert actual.keys() == expected.keys()
        for what, value in expected.items():
            torch.testing.assert_close(
                actual[what].to(value.dtype), value, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True, msg=lambda m, what=what: f"{what}: {m}"
            )


def samples(info: ModuleInfo, training: bool) -> Iterator[tuple[nn.Module, Any]]:
    """Modules with fixed weights and the arguments of their forward functions."""
    torch.manual_seed(0)
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training):
        if sample.forward_input is not None:
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            yield module.train(training), sample.forward_input


def outcome(module: nn.Module, forward: Any, device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Results, gradients of inputs and parameters, and buffers, on the CPU."""
    module = copy.deepcopy(module).to(device, dtype)
    leaves: list[Tensor] = []

    def moved(x: Tensor) -> Tensor:
        leaf = x.detach().clone().to(device, dtype if x.is_floating_point() else x.dtype).requires_grad_(x.requires_grad)
        leaves.append(leaf)
        return leaf

    args, kwargs = tree_map_only(Tensor, moved, (forward.args, forward.kwargs))
    results = [x for x in tree_leaves(module(*args, **kwargs)) if isinstance(x, Tensor)]
    differentiable = [x for x in results if x.requires_grad]
    if differentiable:
        torch.autograd.backward(differentiable, [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(x) for x in differentiable])
    values = {f"result {position}": x.detach() for position, x in enumerate(results)}
    values |= {f"gradient of input {position}": x.grad for position, x in enumerate(leaves) if x.grad is not None}
    values |= {f"gradient of {name}": x.grad for name, x in module.named_parameters() if x.grad is not None}
    values |= dict(module.named_buffers())
    return {name: value.cpu() for name, value in values.items()}
