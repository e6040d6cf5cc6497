"""Compiled ops of every C++ signature that the dispatcher serves without boxing, called twice: compiled, then from the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C

SHAPE = (3, 4)


def a() -> torch.Tensor:
    return torch.linspace(0.5, 2.0, 12).reshape(SHAPE)


def b() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 12).reshape(SHAPE)


def c() -> torch.Tensor:
    return torch.linspace(1.0, 3.0, 12).reshape(SHAPE)


def lists(*makers: Callable[[], torch.Tensor]) -> list[list[torch.Tensor]]:
    return [[make(), make()[0].contiguous()] for make in makers]


# What is called on fresh arguments; it returns what is compared, written arguments included. The number is another one on the second call.
CALLS: dict[str, Callable[..., Any]] = {
    "T": lambda x, number: torch.exp(x(a())),
    "TT": lambda x, number: torch.mul(x(a()), x(b())),
    "TTT": lambda x, number: torch.where(x(b()) > 0, x(a()), x(c())),
    "TS": lambda x, number: torch.pow(x(a()), number),
    "TTS": lambda x, number: torch.add(x(a()), x(b()), alpha=number),
    "TSS": lambda x, number: torch.nn.functional.threshold(x(a()), number, number + 1),
    "TTTS": lambda x, number: torch.addcmul(x(a()), x(b()), x(c()), value=number),
    "TTTSS": lambda x, number: torch.addmm(x(torch.ones(4)), x(a()), x(c().T @ c()), beta=number, alpha=number / 2),
    "Tib": lambda x, number: torch.log_softmax(x(a()), 1),
    "W": lambda x, number: torch.sqrt_(x(a())),
    "WT": lambda x, number: x(a()).mul_(x(b())),
    "WS": lambda x, number: x(a()).fill_(number),
    "WTS": lambda x, number: x(a()).add_(x(b()), alpha=number),
    "WTTS": lambda x, number: x(a()).addcmul_(x(b()), x(c()), value=number),
    "TW": lambda x, number: torch.exp(x(a()), out=x(b())),
    "TTW": lambda x, number: torch.mul(x(a()), x(b()), out=x(c())),
    "TSW": lambda x, number: torch.pow(x(a()), number, out=x(b())),
    "TTSW": lambda x, number: torch.add(x(a()), x(b()), alpha=number, out=x(c())),
}
LIST_CALLS: dict[str, tuple[Callable[..., Any], tuple[Callable[[], torch.Tensor], ...]]] = {
    "L": (lambda xs, number: torch._foreach_sqrt(xs[0]), (a,)),
    "LS": (lambda xs, number: torch._foreach_mul(xs[0], number), (a,)),
    "LR": (lambda xs, number: torch._foreach_mul(xs[0], [number, 2.0]), (a,)),
    "LL": (lambda xs, number: torch._foreach_mul(xs[0], xs[1]), (a, b)),
    "LLS": (lambda xs, number: torch._foreach_add(xs[0], xs[1], alpha=number), (a, b)),
    "M": (lambda xs, number: torch._foreach_sqrt_(xs[0]), (a,)),
    "MS": (lambda xs, number: torch._foreach_add_(xs[0], number), (a,)),
    "MT": (lambda xs, number: torch._foreach_mul_(xs[0], xs[1][1][1]), (a, b)),
    "MR": (lambda xs, number: torch._foreach_div_(xs[0], [number, 2.0]), (a,)),
    "ML": (lambda xs, number: torch._foreach_mul_(xs[0], xs[1]), (a, b)),
    "MLb": (lambda xs, number: torch._foreach_copy_(xs[0], xs[1]), (a, b)),
    "MLS": (lambda xs, number: torch._foreach_lerp_(xs[0], xs[1], number), (a, b)),
    "MLLS": (lambda xs, number: torch._foreach_addcmul_(xs[0], xs[1], xs[2], value=number), (a, b, c)),
    "MLLR": (lambda xs, number: torch._foreach_addcdiv_(xs[0], xs[1], xs[2], [number, 0.5]), (a, b, c)),
}


@pytest.mark.parametrize("letters", CALLS)
def test_tensors_and_numbers(letters: str) -> None:
    with torch_neuronx.fallback_policy("error"):
        for number in (1.5, 0.75):
            expected = CALLS[letters](lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, number)
            actual = CALLS[letters](lambda tensor: tensor.to("neuron"), number)
            torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("letters", LIST_CALLS)
def test_lists(letters: str) -> None:
    call, makers = LIST_CALLS[letters]
    with torch_neuronx.fallback_policy("error"):
        for number in (1.5, 0.75):
            on_host = lists(*makers)
            on_device = [[tensor.to("neuron") for tensor in tensors] for tensors in on_host]
            expected, actual = call(on_host, number), call(on_device, number)
            assert (actual is None) == (expected is None)
            for wanted, got in zip([*on_host[0], *(expected or [])], [*on_device[0], *(actual or [])], strict=True):
                torch.testing.assert_close(got.cpu(), wanted, rtol=1e-5, atol=1e-6)


def test_another_number_is_no_new_program() -> None:
    x = a().to("neuron")
    torch.add(x, x, alpha=0.5)
    before = _C._eager_stats()["misses"]
    for number in (1.5, -2.0, 1e30):
        torch.testing.assert_close(torch.add(x, x, alpha=number).cpu(), a() + number * a())
    assert _C._eager_stats()["misses"] == before


def test_the_same_tensor_twice_in_a_list_is_written_twice() -> None:
    x = torch.ones(3).to("neuron")
    torch._foreach_add_([x, x], 1.0)
    assert x.tolist() == [3.0, 3.0, 3.0]


def test_gradients_flow_through_unboxed_kernels() -> None:
    x = a().to("neuron").requires_grad_()
    (torch.mul(x, x).exp().sum() * 2).backward()
    wide = a().double().requires_grad_()
    (torch.mul(wide, wide).exp().sum() * 2).backward()
    torch.testing.assert_close(x.grad.cpu().double(), wide.grad, rtol=1e-4, atol=1e-4)
