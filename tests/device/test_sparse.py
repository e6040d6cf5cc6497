"""Sparse COO tensors of the device: what embedding gradients and their optimizers do with them equals the CPU's."""

from __future__ import annotations

import pytest
import torch

import torch_neuronx


@pytest.fixture(autouse=True)
def no_fallback():
    with torch_neuronx.fallback_policy("error"):
        yield


def pair(*, dense: tuple[int, ...] = (), sizes: tuple[int, ...] = (4, 5)) -> tuple[torch.Tensor, torch.Tensor]:
    """The same uncoalesced tensor on the CPU and on the device; some elements are there twice."""
    torch.manual_seed(0)
    indices = torch.stack([torch.randint(extent, (9,)) for extent in sizes])
    here = torch.sparse_coo_tensor(indices, torch.randn(9, *dense), (*sizes, *dense))
    return here, torch.sparse_coo_tensor(indices.to("neuron"), here._values().to("neuron"), here.shape)


@pytest.mark.parametrize(("dense", "sizes"), [((), (4, 5)), ((3,), (6,)), ((2, 3), (3, 2, 2))])
def test_coalescing_and_becoming_dense(dense: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    here, there = pair(dense=dense, sizes=sizes)
    assert there.is_sparse and there.device.type == "neuron" and not there.is_coalesced()
    torch.testing.assert_close(there.to_dense().cpu(), here.to_dense())
    right, mine = here.coalesce(), there.coalesce()
    assert mine.is_coalesced()
    assert torch.equal(mine.indices().cpu(), right.indices())
    torch.testing.assert_close(mine.values().cpu(), right.values())


@pytest.mark.parametrize("alpha", [1, -0.5])
def test_adding_to_dense_and_to_sparse(alpha: float) -> None:
    here, there = pair(dense=(3,), sizes=(6,))
    base = torch.randn(6, 3)
    torch.testing.assert_close(base.to("neuron").add_(there, alpha=alpha).cpu(), base.clone().add_(here, alpha=alpha))
    strided = base.t().contiguous().t()
    torch.testing.assert_close(strided.to("neuron").add_(there, alpha=alpha).cpu(), base.clone().add_(here, alpha=alpha))
    torch.testing.assert_close(torch.add(there, there, alpha=alpha).to_dense().cpu(), torch.add(here, here, alpha=alpha).to_dense())
    with pytest.raises(RuntimeError, match=r"\[5, 3\] and \[6, 3\] of a sparse addition differ"):
        torch.zeros(5, 3, device="neuron").add_(there)


def test_masking_scaling_and_moving() -> None:
    here, there = pair()
    base = torch.randn(4, 5)
    mask_here, mask_there = here.coalesce(), there.coalesce()
    torch.testing.assert_close(base.to("neuron").sparse_mask(mask_there).to_dense().cpu(), base.sparse_mask(mask_here).to_dense())
    torch.testing.assert_close((-there * 2).to_dense().cpu(), (-here * 2).to_dense())
    torch.testing.assert_close(there.cpu().to_dense(), here.to_dense())
    torch.testing.assert_close(here.to("neuron").to_dense().cpu(), here.to_dense())


def test_scaling_in_place_keeps_sparse_momentum() -> None:
    def run(device: str) -> torch.Tensor:
        weight = torch.nn.Parameter(torch.arange(32.0).reshape(8, 4).to(device) / 32)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        for tokens in ([1, 3, 1], [3, 7, 0]):
            optimizer.zero_grad()
            torch.nn.functional.embedding(torch.tensor(tokens, device=device), weight, sparse=True).square().sum().backward()
            optimizer.step()
        return weight.detach().cpu()

    torch.testing.assert_close(run("neuron"), run("cpu"))


def test_an_empty_one() -> None:
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0).long().to("neuron"), torch.zeros(0, 3, device="neuron"), (4, 3))
    assert empty.coalesce()._nnz() == 0
    assert torch.equal(empty.to_dense().cpu(), torch.zeros(4, 3))


@pytest.mark.parametrize(
    "make", [lambda p: torch.optim.SparseAdam(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)],
    ids=["SparseAdam", "SGD", "Adagrad"],
)  # fmt: skip
def test_an_embedding_with_sparse_gradients_trains(make) -> None:
    torch.manual_seed(0)
    weight = torch.randn(10, 4)
    tables = {
        device: torch.nn.Embedding.from_pretrained(weight.to(device, copy=True), freeze=False, sparse=True) for device in ("cpu", "neuron")
    }
    for device, table in tables.items():
        optimizer = make(table.parameters())
        for step in range(3):
            optimizer.zero_grad()
            tokens = torch.tensor([[1, 3, 1], [step, 9, 9]], device=device)
            table(tokens).square().sum().backward()
            assert table.weight.grad.is_sparse
            optimizer.step()
    torch.testing.assert_close(tables["neuron"].weight.cpu(), tables["cpu"].weight, rtol=1e-5, atol=1e-6)


def test_gradients_accumulate() -> None:
    table = torch.nn.Embedding(10, 4, sparse=True).to("neuron")
    for _ in range(2):
        table(torch.tensor([1, 3], device="neuron")).sum().backward()
    assert torch.equal(table.weight.grad.to_dense().cpu().sum(1), torch.tensor([0, 8, 0, 8, 0, 0, 0, 0, 0, 0.0]))
