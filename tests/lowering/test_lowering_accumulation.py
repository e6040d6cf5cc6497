"""Sums over long axes in bfloat16 and float16 are formed in float32, forward and backward, and rounded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import torch_neuronx

LONG = 1 << 16
NARROW = [torch.bfloat16, torch.float16]
Function = Callable[[Tensor], Tensor]


def gradient(function: Function) -> Function:
    """The gradient of a function's sum: its own accumulation, backwards."""

    def differentiated(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        function(leaf).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    return differentiated


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(LONG, dtype=torch.int64, device=x.device)


def vector(number: Tensor) -> Tensor:
    return number.expand(LONG)


LONG_AXES: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.reshape(2, -1).sum(1),
    "sum of columns": lambda x: x.reshape(-1, 2).sum(0),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(correction=0),
    "norm": lambda x: x.norm() / 16,
    "norm 1": lambda x: x.norm(1) / 16,
    "vector norm 3": lambda x: torch.linalg.vector_norm(x, 3),
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0)[:4] * 1000,
    "log_softmax": lambda x: x.log_softmax(0)[:4],
    "cumsum": lambda x: (x / 64).cumsum(0)[:: LONG // 64],
    "layer_norm": lambda x: functional.layer_norm(x, (LONG,))[:64],
    "rms_norm": lambda x: functional.rms_norm(x, (LONG,))[:64],
    "group_norm": lambda x: functional.group_norm(x.reshape(1, 4, -1), 2)[..., :16],
    "batch_norm": lambda x: functional.batch_norm(x.reshape(-1, 2), None, None, training=True)[:16],
    "mse_loss": lambda x: functional.mse_loss(x, torch.zeros_like(x)),
    "l1_loss": lambda x: functional.l1_loss(x, torch.zeros_like(x)),
    "nll_loss": lambda x: functional.nll_loss(x.reshape(-1, 1), zeros(x)),
    "dot": lambda x: x.dot(x) / 16,
    "mv": lambda x: x.reshape(2, -1).mv(x[: LONG // 2]) / 16,
    "mm": lambda x: x.reshape(1, -1).mm(x.reshape(-1, 1)) / 16,
    "bmm": lambda x: x.reshape(2, 1, -1).bmm(x.reshape(2, -1, 1)) / 16,
    "addmm": lambda x: torch.addmm(x[:1], x.reshape(1, -1), x.reshape(-1, 1), beta=64, alpha=1 / 16),
    "index_add": lambda x: torch.zeros_like(x[:2]).index_add(0, zeros(x), x),
    "scatter_add": lambda x: torch.zeros_like(x[:2]).scatter_add(0, zeros(x), x),
    "index_put": lambda x: torch.zeros_like(x[:2]).index_put((zeros(x),), x, accumulate=True),
    "put": lambda x: torch.zeros_like(x[:2]).put(zeros(x), x, accumulate=True),
    "adaptive_avg_pool1d": lambda x: functional.adaptive_avg_pool1d(x.reshape(1, 1, -1), 2),
    "avg_pool2d": lambda x: functional.avg_pool2d(x.reshape(1, 1, 256, 256), 128),
    "conv1d": lambda x: functional.conv1d(x.reshape(1, 1, -1), x.reshape(1, 1, -1)) / 16,
}
# Of one number, of which there are LONG: its gradient is a sum over all of them.
OF_ONE_NUMBER: dict[str, Function] = {
    "expand": lambda number: vector(number) / 8,
    "embedding": lambda number: functional.embedding(zeros(number), number.reshape(1, 1)) / 8,
    "gather": lambda number: number.gather(0, zeros(number)) / 8,
    "index": lambda number: number[zeros(number)] / 8,
    "linear bias": lambda number: (
        functional.linear(torch.zeros(LONG, 1, dtype=number.dtype, device=number.device), number[:, None], number) / 8
    ),
    "layer_norm bias": lambda number: (
        functional.layer_norm(torch.ones(LONG, 1, dtype=number.dtype, device=number.device), (1,), None, number) / 8
    ),
    "convolution bias": lambda number: (
        functional.conv1d(torch.zeros(1, 1, LONG, dtype=number.dtype, device=number.device), number[:, None, None], number) / 8
    ),
}


def check(function: Function, x: Tensor) -> None:
    """The device's result is that of float64, but for a few roundings of values and a float32 sum."""
    with torch_neuronx.fallback_policy("error"):
        actual = function(x.to("neuron")).cpu().double()
    exact = function(x.double())
    allowed = 2 * torch.finfo(x.dtype).eps * exact.abs() + torch.finfo(x.dtype).eps / 64
    assert ((actual - exact).abs() <= allowed).all(), f"{actual}, not {exact}"


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", LONG_AXES)
def test_long_axes(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    check(LONG_AXES[name], (torch.rand(LONG) / 4 + 0.25).to(dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", OF_ONE_NUMBER)
def test_gradients_of_what_is_used_many_times(name: str, dtype: torch.dtype) -> None:
    check(gradient(OF_ONE_NUMBER[name]), torch.ones(1).to(dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(
    "name", ["var", "norm", "softmax", "log_softmax", "logsumexp", "layer_norm", "batch_norm", "mse_loss", "cumsum", "mm"]
)
def test_gradients_of_long_axes(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    check(gradient(LONG_AXES[name]), (torch.rand(LONG) / 4 + 0.25).to(dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_sum_of_ones_counts_them(dtype: torch.dtype) -> None:
    ones = torch.ones(1 << 15).to(dtype).to("neuron")
    assert ones.sum().item() == ones.cumsum(0)[-1].item() == ones.dot(ones).item() == 1 << 15


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_what_large_terms_leave_when_they_cancel(dtype: torch.dtype) -> None:
    """Every small term would be lost in the large ones in the narrow dtype."""
    terms = torch.full((4098,), 0.5)
    terms[0], terms[-1] = 1024.0, -1024.0
    terms = terms.to(dtype).to("neuron")
    assert terms.sum().item() == terms.cumsum(0)[-1].item() == terms.dot(torch.ones_like(terms)).item() == 2048.0
