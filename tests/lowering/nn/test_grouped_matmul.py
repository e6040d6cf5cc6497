"""Products of groups of rows, columns or inner parts against the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torch_neuronx
from torch_neuronx import _C

# (left, right): groups of rows, of columns, of the inner dimension, and matrices without groups.
SHAPES = [((16, 8), (3, 8, 16)), ((3, 8, 16), (16, 16)), ((8, 16), (16, 8)), ((3, 8, 16), (3, 16, 8))]
CLOSE = 2**-7


def matrices(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Tensor, Tensor, Tensor | None]:
    torch.manual_seed(0)
    left, right = (torch.randn(shape).bfloat16() for shape in shapes)
    grouped = left.dim() == 2 or right.dim() == 2
    return left, right, torch.tensor([3, 3, 16], dtype=torch.int32) if grouped else None


def product_and_gradients(left: Tensor, right: Tensor, ends: Tensor | None, device: str) -> list[Tensor]:
    own = [x.detach().to(device).requires_grad_() for x in (left, right)]
    result = torch.nn.functional.grouped_mm(*own, offs=None if ends is None else ends.to(device))
    result.backward(torch.ones_like(result))
    return [x.detach().cpu() for x in (result, own[0].grad, own[1].grad)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_and_gradients(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    operands = matrices(shapes)
    with torch_neuronx.fallback_policy("error"):
        results = product_and_gradients(*operands, "neuron")
    for mine, expected in zip(results, product_and_gradients(*operands, "cpu"), strict=True):
        assert mine.shape == expected.shape
        torch.testing.assert_close(mine, expected, rtol=CLOSE, atol=CLOSE)


def test_new_sizes_of_groups_are_no_new_program() -> None:
    left, right, _ = matrices(SHAPES[0])
    own = left.to("neuron"), right.to("neuron")
    programs = set()
    for ends in ([3, 7, 16], [0, 0, 16], [5, 16, 16]):
        offs = torch.tensor(ends, dtype=torch.int32)
        mine = torch._grouped_mm(*own, offs=offs.to("neuron"))
        torch.testing.assert_close(mine.cpu(), torch._grouped_mm(left, right, offs=offs), rtol=CLOSE, atol=CLOSE)
        programs.add(_C._eager_stats()["programs"])
    assert len(programs) == 1


def test_ends_beyond_the_rows_fail_the_launch() -> None:
    left, right, _ = matrices(SHAPES[0])
    with pytest.raises(RuntimeError, match="group 2 ends at 17, allowed are 7 to 16"):
        torch._grouped_mm(left.to("neuron"), right.to("neuron"), offs=torch.tensor([3, 7, 17], dtype=torch.int32, device="neuron")).cpu()


def test_float32_groups_run_as_products_of_parts() -> None:
    """PyTorch's meta function knows bfloat16 only; its composition of products is native."""
    left, right, ends = (x if x is None or x.dtype == torch.int32 else x.float() for x in matrices(SHAPES[0]))
    with torch_neuronx.fallback_policy("error"):
        mine = torch._grouped_mm(left.to("neuron"), right.to("neuron"), offs=ends.to("neuron"))
    torch.testing.assert_close(mine.cpu(), torch._grouped_mm(left, right, offs=ends))
