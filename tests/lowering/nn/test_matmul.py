"""Matrix and vector products against CPU float64."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check, run
from torch.testing import make_tensor

aten = torch.ops.aten


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return make_tensor(shape, device="cpu", dtype=dtype, low=-2, high=2)


def test_products_of_matrices_and_vectors() -> None:
    check(aten.mm.default, floats(3, 4), floats(4, 5))
    check(aten.mm.default, floats(4, 3).t(), floats(5, 4).t())
    check(aten.bmm.default, floats(2, 3, 4), floats(2, 4, 5))
    check(aten.mv.default, floats(3, 4), floats(4))
    check(aten.dot.default, floats(7), floats(7))
    check(aten.vdot.default, floats(7), floats(7))


def test_an_empty_inner_dimension_gives_zeros() -> None:
    check(aten.mm.default, floats(3, 0), floats(0, 5))
    check(aten.addmm.default, floats(5), floats(3, 0), floats(0, 5))


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2), (0, 3), (-1.5, 1)])
def test_scaled_sums(beta: float, alpha: float) -> None:
    scales = {"beta": beta, "alpha": alpha}
    check(aten.addmm.default, floats(5), floats(3, 4), floats(4, 5), **scales)
    check(aten.addmm.default, floats(3, 1), floats(3, 4), floats(4, 5), **scales)
    check(aten.baddbmm.default, floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5), **scales)
    check(aten.addbmm.default, floats(3, 5), floats(2, 3, 4), floats(2, 4, 5), **scales)
    check(aten.addmv.default, floats(3), floats(3, 4), floats(4), **scales)
    check(aten.addr.default, floats(3, 4), floats(3), floats(4), **scales)


def test_beta_zero_ignores_nans() -> None:
    (result,), _ = run(aten.addmm.default, [torch.full((2, 2), float("nan")), torch.eye(2), torch.eye(2), 0, 1])
    assert result is not None
    assert result.tolist() == [[1, 0], [0, 1]]


def test_in_place_and_out_variants() -> None:
    check(aten.addmm_.default, floats(3, 5), floats(3, 4), floats(4, 5), beta=0.5, alpha=2)
    check(aten.mm.out, floats(3, 4), floats(4, 5), out=floats(3, 5))


def test_integers_are_exact() -> None:
    large = torch.tensor([[2**40 + 1, 3]])
    (result,), _ = run(aten.mm.default, [large, large.t()])
    assert result is not None
    assert result.item() == ((2**40 + 1) ** 2 + 9 + 2**63) % 2**64 - 2**63


def test_bfloat16_accumulates_in_float32() -> None:
    ones = torch.ones(1, 1000, dtype=torch.bfloat16)
    (result,), _ = run(aten.addmm.default, [torch.full((1, 1), 0.5, dtype=torch.bfloat16), ones, ones.t(), 1, 1])
    assert result is not None
    assert result.dtype == torch.bfloat16
    assert result.item() == 1000.0  # 1000.5 rounded once; a bfloat16 sum would have stopped at 256
