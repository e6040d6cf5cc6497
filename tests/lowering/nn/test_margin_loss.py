"""The margin losses and their gradients against CPU float64."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check

import torch_neuronx

aten = torch.ops.aten
NONE, MEAN, SUM = 0, 1, 2


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_multi_margin_loss_backward(reduction: int, p: int, weighted: bool) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(5, 4), torch.tensor([0, 3, 1, 1, 2])
    grad = torch.randn(5) if reduction == NONE else torch.randn(())
    check(aten.multi_margin_loss_backward.default, grad, x, target, p, 0.7, torch.rand(4) if weighted else None, reduction)


def test_multi_margin_loss_backward_of_one_sample_and_of_none() -> None:
    check(aten.multi_margin_loss_backward.default, torch.randn(()), torch.randn(4), torch.tensor(2), 1, 1.0, None, MEAN)
    check(aten.multi_margin_loss_backward.default, torch.randn(()), torch.randn(0, 4), torch.zeros(0, dtype=torch.int64), 1, 1.0, None, SUM)


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
def test_multilabel_margin_loss_ends_at_the_first_minus_one(reduction: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 5)
    target = torch.tensor([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [2, -1, -1, -1, -1]])
    check(aten.multilabel_margin_loss_forward.default, x, target, reduction)
    _, is_target = aten.multilabel_margin_loss_forward.default(x, target, reduction)
    grad = torch.randn(4) if reduction == NONE else torch.randn(())
    check(aten.multilabel_margin_loss_backward.default, grad, x, target, reduction, is_target)


def test_multilabel_margin_loss_of_one_sample() -> None:
    x, target = torch.randn(4), torch.tensor([1, 2, -1, 0])
    check(aten.multilabel_margin_loss_forward.default, x, target, NONE)
    _, is_target = aten.multilabel_margin_loss_forward.default(x, target, SUM)
    check(aten.multilabel_margin_loss_backward.default, torch.randn(()), x, target, SUM, is_target)


def test_out_overload_resizes() -> None:
    grad, x, target = torch.randn(()), torch.randn(3, 4), torch.tensor([0, 1, 3])
    expected = aten.multi_margin_loss_backward.default(grad, x, target, 1, 1.0)
    out = torch.empty(0, device="neuron")
    with torch_neuronx.fallback_policy("error"):
        moved = [tensor.to("neuron") for tensor in (grad, x, target)]
        aten.multi_margin_loss_backward.grad_input(*moved, 1, 1.0, grad_input=out)
    torch.testing.assert_close(out.cpu(), expected)


def test_wrong_power_raises_what_the_cpu_raises() -> None:
    x, target = torch.randn(3, 4, device="neuron"), torch.zeros(3, dtype=torch.int64, device="neuron")
    with pytest.raises(RuntimeError, match="only p == 1 and p == 2 supported"):
        aten.multi_margin_loss_backward.default(torch.ones((), device="neuron"), x, target, 3, 1.0)
