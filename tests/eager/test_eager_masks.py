"""Indexing with boolean masks, natively and with programs that serve any number of selected elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import make_tensor

import torch_neuronx
from torch_neuronx import _C

pytestmark = pytest.mark.filterwarnings("ignore")

MASKS: dict[str, Callable[[], Tensor]] = {
    "elements": lambda: (torch.arange(20) % 3 == 1).reshape(4, 5),
    "rows": lambda: torch.tensor([True, False, True, True]),
    "nothing": lambda: torch.zeros(4, 5, dtype=torch.bool),
    "everything": lambda: torch.ones(4, dtype=torch.bool),
    "strided": lambda: (torch.arange(20) % 3 == 1).reshape(5, 4).t(),
}
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


def tensor(dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(0)
    return make_tensor((4, 5, 2), dtype=dtype, device="cpu")


def natively(function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    with torch_neuronx.fallback_policy("error"):
        return function(*(x.to("neuron") for x in operands)).cpu()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reading(mask: str, dtype: torch.dtype) -> None:
    x, where = tensor(dtype), MASKS[mask]()
    assert torch.equal(natively(lambda x, where: x[where], x, where), x[where])
    turned = x.permute(1, 0, 2).contiguous().permute(1, 0, 2)
    assert torch.equal(natively(lambda x, where: x[where], turned, where), x[where])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_writing_selected_rows_one_row_and_one_number(mask: str, dtype: torch.dtype) -> None:
    x, where = tensor(dtype), MASKS[mask]()
    selected = x[where]
    for values in (selected.flip(0), selected[:1], make_tensor(selected.shape[1:], dtype=dtype, device="cpu"), x[0, 0, 0]):
        if values.numel() == 0:
            continue

        def write(x: Tensor, where: Tensor, values: Tensor) -> Tensor:
            result = x.clone()
            result[where] = values
            return result

        assert torch.equal(natively(write, x, where, values), write(x, where, values))
        put = lambda x, where, values: torch.index_put(x, (where,), values)  # noqa: E731
        assert torch.equal(natively(put, x, where, values), put(x, where, values))


def test_accumulating() -> None:
    x, where = tensor(), MASKS["elements"]()
    put = lambda x, where, values: x.clone().index_put_((where,), values, accumulate=True)  # noqa: E731
    for values in (x[where] * 2, torch.ones(2)):
        torch.testing.assert_close(natively(put, x, where, values), put(x, where, values))


def test_writing_into_a_view() -> None:
    def write(x: Tensor, where: Tensor) -> Tensor:
        result = x.clone()
        result[1:, :, 0][where[1:]] = result[:3, :, 1][where[1:]]
        return result

    assert torch.equal(natively(write, tensor(), MASKS["elements"]()), write(tensor(), MASKS["elements"]()))


def test_gradients() -> None:
    def gradient(x: Tensor, where: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        y = x * 2
        y[where] = x[where].sin().flip(0)
        (y * y).sum().backward()
        assert x.grad is not None
        return x.grad

    x, where = tensor(), MASKS["elements"]()
    torch.testing.assert_close(natively(gradient, x, where), gradient(x, where))


def put_behind_a_slice(x: Tensor, where: Tensor, values: Tensor) -> Tensor:
    result = x.transpose(0, 1).clone()
    result[:, where] = values
    return result


MIXED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "behind a slice": lambda x, where: x.transpose(0, 1)[:, where],
    "beside integers": lambda x, where: x[where, torch.tensor([0, 3, 4], device=x.device)],
    "beside another": lambda x, where: x[where, torch.tensor([True, False, True, False, True], device=x.device)],
    "around a slice": lambda x, where: x[where, :, torch.tensor([1, 0, 1], device=x.device)],
    "of a dimension that is not there": lambda x, where: x[where.any()],
    "bytes": lambda x, where: x[where.to(torch.uint8)],
    "put": lambda x, where: put_behind_a_slice(x, where, x.transpose(0, 1)[:, :3] * 2),
    "put one number": lambda x, where: put_behind_a_slice(x, where, torch.ones((), device=x.device)),
}


@pytest.mark.parametrize("kind", MIXED)
def test_masks_in_other_places(kind: str) -> None:
    x, where = tensor(), MASKS["rows"]()
    assert torch.equal(natively(MIXED[kind], x, where), MIXED[kind](x, where))


def test_a_mask_on_the_cpu_indexes_a_device_tensor() -> None:
    x, where = tensor(), MASKS["rows"]()
    with torch_neuronx.fallback_policy("error"):
        assert torch.equal(x.to("neuron")[where].cpu(), x[where])


def test_other_numbers_of_selected_elements_are_no_new_programs() -> None:
    def turn(x: Tensor, where: Tensor) -> None:
        x[where] = x[where].clone()

    x = torch.randn(64, 3, device="neuron")
    thresholds = torch.arange(64, device="neuron")
    turn(x, thresholds > 5)
    before = _C._eager_stats()["programs"]
    for count in (7, 30, 50):
        turn(x, thresholds > count)
    # A copy of the selected rows, whose number is part of its key.
    assert _C._eager_stats()["programs"] - before <= 3


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_wrong_sizes_raise_what_they_raise_on_the_cpu(device: str) -> None:
    x = torch.randn(4, 5, device=device)
    with pytest.raises(IndexError, match=r"The shape of the mask \[3\] at index 0 does not match"):
        x[torch.ones(3, dtype=torch.bool, device=device)]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[torch.tensor([True, True, True, False], device=device)] = torch.randn(2, 5, device=device)
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[torch.tensor([True, True, True, False], device=device)] = torch.randn(3, 5, device=device).double()
