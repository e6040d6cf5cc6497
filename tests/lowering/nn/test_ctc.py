"""CTC loss on the device against the sum over all paths, written out in float64."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from lowering_reference import compare
from torch import Tensor
from torch.nn import functional

import torch_neuronx

TIME, CLASSES = 5, 3
TARGETS = [[1, 2], [1, 1], [2, 0], [0, 0]]
INPUT_LENGTHS = (5, 4, 3, 2)
TARGET_LENGTHS = (2, 2, 1, 0)


def all_paths(log_probs: Tensor, target: list[int], blank: int) -> Tensor:
    """-log of the summed probability of all paths [time, classes] that collapse to ``target``."""
    paths = [path for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)) if collapsed(path, blank) == target]
    if not paths:
        return torch.tensor(math.inf, dtype=log_probs.dtype)
    scores = torch.stack([sum((log_probs[t, symbol] for t, symbol in enumerate(path)), log_probs.new_zeros(())) for path in paths])
    return -scores.logsumexp(0)


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    return [symbol for symbol, _ in itertools.groupby(path) if symbol != blank]


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def check(expected: Tensor, exact: Tensor, logits: Tensor, *arguments: Any, **options: Any) -> None:
    """Loss and gradient by the logits of ``F.ctc_loss`` on the device; ``expected`` is of ``exact``, the logits in float64."""
    own = leaf(logits.to("neuron"))
    with torch_neuronx.fallback_policy("error"):
        loss = functional.ctc_loss(own.log_softmax(-1), *arguments, **options)
        grad = torch.randn(expected.shape)
        loss.backward(grad.to("neuron"))
    expected.backward(grad.double())
    compare("loss", loss.detach(), expected.detach(), 1e-5, 1e-6)
    assert exact.grad is not None
    compare("gradient", own.grad, exact.grad, 1e-5, 1e-6)


def losses(logits: Tensor, blank: int, targets: list[list[int]]) -> Tensor:
    log_probs = logits.log_softmax(-1)
    lengths = zip(INPUT_LENGTHS, TARGET_LENGTHS, strict=True)
    return torch.stack([all_paths(log_probs[:time, i], targets[i][:size], blank) for i, (time, size) in enumerate(lengths)])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("layout", ["padded", "padded with -1", "one after another"])
def test_loss_and_gradient(layout: str, blank: int, reduction: str) -> None:
    symbols = [[(symbol + blank) % CLASSES for symbol in row] for row in TARGETS]
    logits = torch.randn(TIME, len(TARGETS), CLASSES)
    exact = leaf(logits.double())
    each = losses(exact, blank, symbols)
    divisor = torch.tensor(TARGET_LENGTHS).clamp(min=1)
    expected = {"none": each, "sum": each.sum(), "mean": (each / divisor).mean()}[reduction]
    targets = torch.tensor(symbols)
    if layout == "padded with -1":
        targets = torch.tensor([row[:size] + [-1] * (2 - size) for row, size in zip(symbols, TARGET_LENGTHS, strict=True)])
    elif layout == "one after another":
        targets = torch.tensor([symbol for row, size in zip(symbols, TARGET_LENGTHS, strict=True) for symbol in row[:size]])
    check(expected, exact, logits, targets.to("neuron"), INPUT_LENGTHS, TARGET_LENGTHS, blank=blank, reduction=reduction)


@pytest.mark.parametrize("where", ["cpu", "neuron"])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=str)
def test_lengths_as_tensors(where: str, kind: torch.dtype) -> None:
    logits = torch.randn(TIME, len(TARGETS), CLASSES)
    exact = leaf(logits.double())
    lengths = [torch.tensor(each, dtype=kind, device=where) for each in (INPUT_LENGTHS, TARGET_LENGTHS)]
    check(losses(exact, 0, TARGETS), exact, logits, torch.tensor(TARGETS, dtype=kind, device="neuron"), *lengths, reduction="none")


def test_one_sequence_without_a_batch() -> None:
    logits = torch.randn(4, CLASSES)
    exact = leaf(logits.double())
    expected = all_paths(exact.log_softmax(-1), [1, 2], 0)
    check(expected, exact, logits, torch.tensor([1, 2], device="neuron"), torch.tensor(4), torch.tensor(2), reduction="sum")


def test_a_target_that_does_not_fit_has_infinite_loss_or_counts_as_nothing() -> None:
    log_probs = torch.randn(2, 2, CLASSES).log_softmax(-1)
    targets = torch.tensor([[1, 1], [1, 2]], device="neuron")  # [1, 1] needs a blank between
    with torch_neuronx.fallback_policy("error"):
        own = leaf(log_probs.to("neuron"))
        assert functional.ctc_loss(own, targets, (2, 2), (2, 2), reduction="none")[0].item() == math.inf
        loss = functional.ctc_loss(own, targets, (2, 2), (2, 2), reduction="none", zero_infinity=True)
        loss.sum().backward()
    assert loss[0].item() == 0
    assert own.grad is not None
    assert not own.grad[:, 0].cpu().any()
    assert own.grad[:, 1].cpu().all()


def test_long_sequences_of_small_probabilities_do_not_underflow() -> None:
    time, classes = 400, 20
    logits = 5 * torch.randn(time, 2, classes)
    exact = leaf(logits.double())
    targets = torch.randint(1, classes, (2, 50))
    expected = functional.ctc_loss(exact.log_softmax(-1), targets, (time, time - 7), (50, 31), reduction="sum")
    own = leaf(logits.to("neuron"))
    with torch_neuronx.fallback_policy("error"):
        loss = functional.ctc_loss(own.log_softmax(-1), targets.to("neuron"), (time, time - 7), (50, 31), reduction="sum")
        loss.backward()
    expected.backward()
    assert exact.grad is not None
    compare("loss", loss.detach(), expected.detach(), 1e-5, 0)
    compare("gradient", own.grad, exact.grad, 0, 2e-3)  # a few ulp of the logarithms of 400 products


def test_new_lengths_need_no_new_program() -> None:
    log_probs, targets = torch.randn(6, 2, CLASSES).log_softmax(-1).to("neuron"), torch.tensor([[1, 2], [2, 1]], device="neuron")
    functional.ctc_loss(log_probs, targets, (6, 5), (2, 1), reduction="none")
    known = torch_neuronx._C._eager_stats()["programs"]
    functional.ctc_loss(log_probs, targets, (3, 4), (1, 2), reduction="none")
    assert torch_neuronx._C._eager_stats()["programs"] == known


@pytest.mark.parametrize("label", [-1, CLASSES])
def test_a_label_that_is_no_class_fails_the_launch(label: int) -> None:
    log_probs = torch.zeros(4, 1, CLASSES, device="neuron")
    with pytest.raises(RuntimeError, match=rf"ctc_loss: a target is {label}; it must be in \[0, 3\)"):
        functional.ctc_loss(log_probs, torch.tensor([[1, label]], device="neuron"), (4,), (2,)).item()


REJECTED = [
    ({"blank": 3}, r"ctc_loss: blank is 3; it must be in \[0, 3\)"),
    ({"input_lengths": (4, 6)}, "ctc_loss: an input length is 6; allowed is 0 to 5"),
    ({"target_lengths": (4, 2)}, "ctc_loss: a target length is 4; allowed is 0 to 2"),
    ({"target_lengths": (1,)}, "there are 2 input_lengths and 1 target_lengths for a batch of 2"),
    ({"targets": torch.ones(3, 2, dtype=torch.int64)}, r"targets are \[3, 2\]; they must be \[batch, longest\]"),
    ({"log_probs": torch.zeros(5, 2, 3, dtype=torch.bfloat16)}, "log_probs are BFloat16; allowed are Float and Double"),
]


@pytest.mark.parametrize(("changed", "message"), REJECTED, ids=[message[:30] for _, message in REJECTED])
def test_wrong_arguments_are_named(changed: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"log_probs": torch.zeros(5, 2, 3), "targets": torch.ones(2, 2, dtype=torch.int64)}
    arguments |= {"input_lengths": (5, 5), "target_lengths": (2, 2)} | changed
    on_device = {name: value.to("neuron") if isinstance(value, Tensor) else value for name, value in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        functional.ctc_loss(**on_device)
