"""torch.func on the device, with no fallback: transformations of functions agree with the CPU in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_neuronx

pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(0))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def masked_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def batch_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, None, training=True)


def batch_norm_of_statistics(x: Tensor, weight: Tensor) -> Tensor:
    return F.batch_norm(x, torch.zeros_like(weight), torch.ones_like(weight), weight, None, training=False)


def convolution(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def indexing(x: Tensor, index: Tensor) -> Tensor:
    return x[index] * x.index_select(0, index) + x.gather(0, index.expand(x.shape[1], -1).t())


def writing(x: Tensor, index: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, index, x.sin()[: index.shape[0]]).index_copy(0, index[:1], x[:1])


def network(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(torch.tanh(F.linear(x, weight, bias)), bias.shape).logsumexp(-1)


# (function, arguments)
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "attention": (attention, tuple(numbers(3, 2, 4, 6, seed=i) for i in range(3))),
    "masked attention": (masked_attention, tuple(numbers(3, 2, 4, 6, seed=i) for i in range(3))),
    "batch norm": (batch_norm, (numbers(3, 4, 2, 5), numbers(3, 2, seed=1))),
    "batch norm in evaluation": (batch_norm_of_statistics, (numbers(3, 4, 2, 5), numbers(3, 2, seed=1))),
    "convolution": (convolution, (numbers(3, 2, 2, 5, 5), numbers(3, 4, 2, 3, 3, seed=1))),
    "cumsum": (lambda x: x.cumsum(0) * x.cumprod(1), (numbers(3, 4, 5),)),
    "indexing": (indexing, (numbers(3, 4, 5), integers(4, 3, 3))),
    "writing": (writing, (numbers(3, 4, 5), integers(4, 3, 3))),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), (numbers(3, 2, 4, 6),)),
    "network": (network, (numbers(3, 4, 5), numbers(3, 6, 5, seed=1), numbers(3, 6, seed=2))),
    "sorting": (lambda x: x.sort(-1).values * x.topk(5, -1).values, (numbers(3, 4, 5),)),
    "linear algebra": (lambda x: torch.linalg.solve(x @ x.mT + 4 * torch.eye(4, device=x.device, dtype=x.dtype), x), (numbers(3, 4, 4),)),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), (numbers(3, 4, 5), numbers(3, 5, 2, seed=1))),
    "reductions": (lambda x: x.var(0) + x.amax(0) + x.norm(dim=0) + x.prod(0), (numbers(3, 4, 5),)),
    "padding": (lambda x: F.pad(x, (1, 2), mode="reflect").roll(1, -1), (numbers(3, 4, 5),)),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y), (numbers(3, 4, 5), integers(5, 3, 4))),
    "embedding": (lambda x, y: F.embedding(y, x).sum(0), (numbers(3, 4, 5), integers(4, 3, 6))),
    "gelu": (lambda x: F.gelu(x) + F.silu(x) + F.softplus(x), (numbers(3, 4, 5),)),
    "where": (lambda x, y: torch.where(x > y, x * y, x / (1 + y * y)), (numbers(3, 4, 5), numbers(3, 4, 5, seed=1))),
    "group norm": (lambda x: F.group_norm(x, 2), (numbers(3, 2, 4, 5),)),
}


def scalar(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Its results summed with uneven weights."""

    def total(*arguments: Tensor) -> Tensor:
        result = function(*arguments)
        return (result * torch.linspace(1, 2, result.numel()).reshape(result.shape).to(result)).sum()

    return total


def tangents(arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.cos(torch.arange(x.numel()).reshape(x.shape)).to(x) for x in arguments if x.is_floating_point())


def with_integers(function: Callable[..., Any], arguments: tuple[Tensor, ...]) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """The function of its floating arguments only, as forward differentiation wants it."""
    floating = tuple(x for x in arguments if x.is_floating_point())
    others = tuple(x for x in arguments if not x.is_floating_point())
    return lambda *values: function(*values, *others), floating


def check(transformed: Callable[..., Any], arguments: tuple[Tensor, ...], rtol: float = 2e-4, atol: float = 2e-5) -> None:
    """The same results on the device in float32, with no fallback, as on the CPU in float64."""

    def moved(device: str, dtype: torch.dtype) -> Any:
        return tree_map_only(Tensor, lambda x: x.to(device, dtype if x.is_floating_point() else x.dtype), arguments)

    expected = tree_leaves(transformed(*moved("cpu", torch.float64)))
    with torch_neuronx.fallback_policy("error"):
        actual = tree_leaves(transformed(*moved("neuron", torch.float32)))
    assert len(actual) == len(expected)
    for mine, right in zip(actual, expected, strict=True):
        if isinstance(right, Tensor):
            assert mine.device.type == "neuron"
            torch.testing.assert_close(mine.cpu().to(right.dtype), right, rtol=rtol, atol=atol)


def first(arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x[0] for x in arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    check(vmap(function), arguments)
    check(vmap(function, in_dims=(0, *(None,) * (len(arguments) - 1)), out_dims=-1), (arguments[0], *first(arguments[1:])))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad_and_gradients_per_sample(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    check(grad_and_value(scalar(function)), first(arguments))
    check(vmap(grad(scalar(function))), arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_and_jvp(name: str) -> None:
    function, arguments = FUNCTIONS[name]

    def pulled(*arguments: Tensor) -> Any:
        own, values = with_integers(function, arguments)
        result, pull = vjp(own, *values)
        return result, pull(tangents((result,))[0])

    def pushed(*arguments: Tensor) -> Any:
        own, values = with_integers(function, arguments)
        return jvp(own, values, tangents(values))

    check(pulled, first(arguments))
    check(pushed, first(arguments))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_forward_and_backward(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    check(jacrev(function), first(arguments))
    check(jacfwd(function), first(arguments))


@pytest.mark.parametrize(
    "name", ["masked attention", "batch norm", "cumsum", "network", "linear algebra", "cross entropy", "gelu", "where"]
)
def test_hessians(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    check(hessian(scalar(function)), first(arguments), rtol=1e-3, atol=1e-4)
    check(jacrev(jacrev(scalar(function))), first(arguments), rtol=1e-3, atol=1e-4)


def test_linearize() -> None:
    function, arguments = FUNCTIONS["network"]

    def linear(*arguments: Tensor) -> Any:
        result, push = linearize(function, *arguments)
        return result, push(*tangents(arguments))

    check(linear, first(arguments))


def test_nested_vmap_and_chunks() -> None:
    x, y = numbers(4, 5), numbers(3, 5, seed=1)
    check(lambda x, y: vmap(lambda a: vmap(lambda b: torch.dot(a, b))(y))(x), (x, y))
    check(vmap(lambda a: a.softmax(0), chunk_size=2), (x,))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_in_vmap(randomness: str) -> None:
    x = torch.ones(200, 50, device="neuron")
    torch.manual_seed(0)
    with torch_neuronx.fallback_policy("error"):
        kept = vmap(lambda row: F.dropout(row, 0.5) + torch.rand_like(row), randomness=randomness)(x).cpu()
    assert torch.equal(kept[0], kept[1]) == (randomness == "same")
    assert abs(kept.mean() - 1.5) < 0.3


class Block(nn.Module):
    """A convolution, batch norm and attention, with buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(4, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        features = F.relu(self.norm(self.convolution(x))).transpose(1, 2)
        return features + self.attention(features, features, features, need_weights=False)[0]


def test_functional_call_differentiates_by_parameters() -> None:
    torch.manual_seed(0)
    model = Block().eval()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)

    def loss(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(model, dict(zip(names, values, strict=True)), (x,)).square().mean()

    values = tuple(value.detach() for value in state.values())
    differentiated = tuple(1 + position for position in range(len(list(model.parameters()))))
    check(grad_and_value(loss, argnums=differentiated), (numbers(2, 4, 6), *values))


def test_an_ensemble_of_stacked_modules() -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)) for _ in range(3)]
    parameters, _ = stack_module_state(models)
    names = list(parameters)

    def member(*arguments: Tensor) -> Tensor:
        *values, x = arguments
        return functional_call(models[0], dict(zip(names, values, strict=True)), (x,))

    values = tuple(value.detach() for value in parameters.values())
    check(vmap(member, in_dims=(*(0,) * len(names), None)), (*values, numbers(6, 5)))


ZERO_TENSORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "clone": lambda zero, x: zero.clone(),
    "copy": lambda zero, x: x.clone().copy_(zero),
    "dot": lambda zero, x: torch.dot(zero[0], x[0]),
    "expand": lambda zero, x: zero.expand(3, 4, 5).clone(),
    "host": lambda zero, x: zero.cpu().to(x.device),
    "in-place sum": lambda zero, x: x.clone().add_(zero),
    "index_add": lambda zero, x: zero.index_add(0, torch.tensor([1, 1], device=x.device), x[:2]),
    "matrix product": lambda zero, x: zero @ x.mT,
    "multiples": lambda zero, x: zero.mul(3).clone() + zero.mul(2.5).clone(),
    "quotient": lambda zero, x: (zero / x).clone(),
    "sum of parts": lambda zero, x: torch.cat([zero, x]).sum(0) + zero.sum(0),
    "transposed": lambda zero, x: zero.t().clone(),
    "where": lambda zero, x: torch.where(x > 0, zero, x),
    "zeros_like": lambda zero, x: torch.zeros_like(zero),
}


@pytest.mark.parametrize("name", ZERO_TENSORS)
def test_zeros_without_memory(name: str) -> None:
    """Forward mode's tangents of constants."""
    operation = ZERO_TENSORS[name]
    expected = operation(torch._efficientzerotensor((4, 5)), numbers(4, 5))
    with torch_neuronx.fallback_policy("error"):
        actual = operation(torch._efficientzerotensor((4, 5), device="neuron"), numbers(4, 5).to("neuron"))
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected.clone())


def test_compiled_transformations() -> None:
    function, arguments = FUNCTIONS["network"]
    moved = tuple(x.to("neuron") for x in arguments)
    with torch_neuronx.fallback_policy("error"):
        compiled = torch.compile(vmap(grad(scalar(function))), backend="neuron")(*moved)
    torch.testing.assert_close(compiled.cpu(), vmap(grad(scalar(function)))(*arguments), rtol=1e-4, atol=1e-5)
