"""Bags of embeddings and their gradients against sums, means and maxima written out in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import compare, run
from torch import Tensor, nn
from torch.nn import functional

import torch_neuronx
from torch_neuronx.compiler.hlo.interpreter import LaunchError

aten = torch.ops.aten
ROWS, WIDTH = 7, 3
MODES = ["sum", "mean", "max"]
# Empty bags at the start, in the middle and at the end; a row twice in one bag.
INDICES = torch.tensor([4, 1, 4, 0, 6, 2, 2])
OFFSETS = torch.tensor([0, 0, 3, 3, 5, 7])
BAGS = [[], [4, 1, 4], [], [0, 6], [2, 2], []]
PLACES = [[], [0, 1, 2], [], [3, 4], [5, 6], []]


def table() -> Tensor:
    """Distinct numbers: only equal rows have equal maxima."""
    return torch.randperm(ROWS * WIDTH).reshape(ROWS, WIDTH).float() / 7 - 1


def written_out(weight: Tensor, mode: str, padding: int | None, scales: Tensor | None) -> Tensor:
    """One row per bag."""
    rows = []
    for bag, places in zip(BAGS, PLACES, strict=True):
        kept = [weight[i] if scales is None else weight[i] * scales[at] for i, at in zip(bag, places, strict=True) if i != padding]
        if not kept:
            rows.append(weight.new_zeros(WIDTH))
        else:
            stacked = torch.stack(kept)
            rows.append({"sum": stacked.sum(0), "mean": stacked.mean(0), "max": stacked.max(0).values}[mode])
    return torch.stack(rows)


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


@pytest.mark.parametrize("padding", [None, 4, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ends", [False, True], ids=["starts", "starts and end"])
@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
def test_bags_and_the_gradient_of_the_table(mode: str, padding: int | None, ends: bool, kind: torch.dtype) -> None:
    weight = table()
    offsets = torch.cat([OFFSETS, torch.tensor([len(INDICES)])]) if ends else OFFSETS
    exact, own = leaf(weight.double()), leaf(weight.to("neuron"))
    expected = written_out(exact, mode, padding, None)
    with torch_neuronx.fallback_policy("error"):
        indices, starts = (x.to("neuron", kind) for x in (INDICES, offsets))
        out = functional.embedding_bag(indices, own, starts, mode=mode, padding_idx=padding, include_last_offset=ends)
        grad = torch.randn(expected.shape)
        out.backward(grad.to("neuron"))
    expected.backward(grad.double())
    compare("bags", out.detach(), expected.detach(), 1e-6, 1e-6)
    assert exact.grad is not None
    compare("gradient", own.grad, exact.grad, 1e-6, 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_the_lowering_by_the_interpreter(mode: str) -> None:
    weight = table()
    arguments = [weight, INDICES, OFFSETS, False, MODES.index(mode), False, None, False, 4]
    for op in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
        results, _ = run(op, arguments)
        compare("bags", results[0], written_out(weight.double(), mode, 4, None), 1e-6, 1e-6)
        compare("bag of each", results[1], torch.tensor([1, 1, 1, 3, 3, 4, 4]), 0, 0)
        compare("sizes", results[2], torch.tensor([0, 1, 0, 2, 2, 0]), 0, 0)


@pytest.mark.parametrize("padding", [None, 4])
def test_weights_of_samples_and_their_gradient(padding: int | None) -> None:
    weight, scales = table(), torch.randn(len(INDICES))
    exact, exact_scales = leaf(weight.double()), leaf(scales.double())
    own, own_scales = leaf(weight.to("neuron")), leaf(scales.to("neuron"))
    expected = written_out(exact, "sum", padding, exact_scales)
    with torch_neuronx.fallback_policy("error"):
        options: dict[str, Any] = {"mode": "sum", "per_sample_weights": own_scales, "padding_idx": padding}
        out = functional.embedding_bag(INDICES.to("neuron"), own, OFFSETS.to("neuron"), **options)
        grad = torch.randn(expected.shape)
        out.backward(grad.to("neuron"))
    expected.backward(grad.double())
    assert exact.grad is not None
    assert exact_scales.grad is not None
    compare("bags", out.detach(), expected.detach(), 1e-6, 1e-6)
    compare("gradient of the table", own.grad, exact.grad, 1e-6, 1e-6)
    compare("gradient of the weights", own_scales.grad, exact_scales.grad, 1e-6, 1e-5)


@pytest.mark.parametrize(("mode", "by_frequency"), [("sum", False), ("mean", False), ("max", False), ("sum", True), ("mean", True)])
def test_the_module_with_bags_of_one_length(mode: str, by_frequency: bool) -> None:
    bags = torch.tensor([[0, 3, 3], [6, 3, 1]])
    exact = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, _weight=table().double())
    own = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, scale_grad_by_freq=by_frequency, _weight=exact.weight.detach().float().to("neuron"))
    grad = torch.randn(2, WIDTH)
    expected = exact(bags)
    expected.backward(grad.double())
    with torch_neuronx.fallback_policy("error"):
        out = own(bags.to("neuron"))
        out.backward(grad.to("neuron"))
        with torch.no_grad():
            compare("without gradient", own(bags.to("neuron")), expected.detach(), 1e-6, 1e-6)
    compare("bags", out.detach(), expected.detach(), 1e-6, 1e-6)
    assert exact.weight.grad is not None
    # Divided here: PyTorch's CPU kernel takes some of these frequencies from other rows.
    frequencies = torch.bincount(bags.flatten(), minlength=ROWS).clamp(min=1)[:, None] if by_frequency else 1
    compare("gradient", own.weight.grad, exact.weight.grad / frequencies, 1e-6, 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_no_indices_at_all(mode: str) -> None:
    weight = leaf(table().to("neuron"))
    with torch_neuronx.fallback_policy("error"):
        nothing, starts = torch.zeros(0, dtype=torch.int64, device="neuron"), torch.zeros(3, dtype=torch.int64, device="neuron")
        out = functional.embedding_bag(nothing, weight, starts, mode=mode)
        out.sum().backward()
    assert torch.equal(out.cpu(), torch.zeros(3, WIDTH))
    assert weight.grad is not None
    assert not weight.grad.cpu().any()


def test_an_index_outside_of_the_table_fails_the_launch() -> None:
    for index in (ROWS, -1):
        with pytest.raises(LaunchError, match="outside of the table, which has 7 rows"):
            run(aten._embedding_bag.default, [table(), torch.tensor([index]), torch.tensor([0]), False, 0, False, None, False, -1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_sums_accumulate_in_float32(dtype: torch.dtype) -> None:
    weight = torch.full((1, 2), 1.0, dtype=dtype, device="neuron")
    bag = torch.zeros(1, 3000, dtype=torch.int64, device="neuron")
    assert functional.embedding_bag(bag, weight, mode="sum").cpu().tolist() == [[float(torch.tensor(3000.0).to(dtype))] * 2]
