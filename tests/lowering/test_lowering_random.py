"""Random numbers: ranges, distributions and reproducibility, from the interpreter's Philox stream."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from interpreted import in_schema_order, interpreted

aten = torch.ops.aten
COUNT = 20000


def drawn(op: Any, *arguments: Any, seed: int = 7, offset: int = 0) -> torch.Tensor:
    (result,), _ = interpreted(op, in_schema_order(op, arguments, {}), seed, offset)
    return result


def numbers(op: Any, *arguments: Any, dtype: torch.dtype = torch.float32, **keywords: int) -> torch.Tensor:
    return drawn(op, torch.empty(COUNT, dtype=dtype), *arguments, **keywords).double()


def test_same_seed_and_offset_give_the_same_numbers() -> None:
    x = torch.empty(100)
    first = drawn(aten.normal_.default, x)
    assert torch.equal(first, drawn(aten.normal_.default, x))
    assert not torch.equal(first, drawn(aten.normal_.default, x, seed=8))
    assert not torch.equal(first, drawn(aten.normal_.default, x, offset=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_uniform_stays_below_its_upper_end(dtype: torch.dtype) -> None:
    x = numbers(aten.uniform_.default, -1.0, 3.0, dtype=dtype)
    assert x.min() >= -1
    assert x.max() < 3
    assert abs(x.mean() - 1) < 0.05
    assert abs(x.var() - 16 / 12) < 0.05


def test_uniform_float32_has_24_bits() -> None:
    x = numbers(aten.uniform_.default, 0.0, 1.0) * 2**24
    assert torch.equal(x, x.round())
    assert (x % 2 == 1).any()


def test_float64_has_53_bits_when_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_FLOAT64", "exact")
    x = numbers(aten.uniform_.default, 0.0, 1.0, dtype=torch.float64) * 2**53
    assert torch.equal(x, x.round())
    assert (x % 2 == 1).any()


def test_normal_moments_and_tails() -> None:
    x = (numbers(aten.normal_.default, 2.0, 3.0) - 2) / 3
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.02
    assert abs((x**4).mean() - 3) < 0.2
    inside = (x.abs() < 1).double().mean()
    assert abs(inside - math.erf(math.sqrt(0.5))) < 0.01


def test_odd_counts_of_normal_numbers() -> None:
    assert drawn(aten.normal_.default, torch.empty(3, 7)).shape == (3, 7)
    assert drawn(aten.normal_.default, torch.empty(0)).shape == (0,)


def test_exponential_is_positive_with_its_mean() -> None:
    x = numbers(aten.exponential_.default, 2.0)
    assert x.min() > 0
    assert abs(x.mean() - 0.5) < 0.02


def test_other_continuous_distributions() -> None:
    assert abs(numbers(aten.log_normal_.default, 0.0, 0.25).log().mean()) < 0.02
    assert abs(numbers(aten.cauchy_.default, 5.0, 1.0).median() - 5) < 0.05
    assert abs(numbers(aten.geometric_.default, 0.25).mean() - 4) < 0.15


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_bernoulli_has_its_probability(p: float) -> None:
    x = numbers(aten.bernoulli_.float, p)
    assert set(x.unique().tolist()) <= {0.0, 1.0}
    assert abs(x.mean() - p) < 0.02
    assert abs(drawn(aten.bernoulli.default, torch.full((COUNT,), p)).mean() - p) < 0.02


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-5, 6), (0, 2**40), (-(2**62), 2**62)])
def test_random_integers_fill_their_range(low: int, high: int) -> None:
    x = drawn(getattr(aten.random_, "from"), torch.empty(COUNT, dtype=torch.int64), low, high)
    assert x.min() >= low
    assert x.max() < high
    assert abs((x.double().mean() - low) / (high - low) - 0.5) < 0.3 if high - low == 2 else 0.02


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bool])
def test_random_without_bounds_covers_what_the_dtype_holds(dtype: torch.dtype) -> None:
    x = drawn(aten.random_.default, torch.empty(COUNT, dtype=dtype)).double()
    top = {torch.float16: 2.0**11, torch.bool: 1.0}.get(dtype) or float(torch.iinfo(dtype).max)
    assert x.min() >= 0
    assert 0.9 * top <= x.max() <= top


def test_randperm_is_a_permutation() -> None:
    x = drawn(aten.randperm.out, 50, torch.empty(50, dtype=torch.int64))
    assert sorted(x.tolist()) == list(range(50))
    assert x.tolist() != list(range(50))


def test_multinomial_with_replacement_follows_its_weights() -> None:
    x = drawn(aten.multinomial.default, torch.tensor([1.0, 0.0, 3.0]), 4000, True)
    assert set(x.tolist()) == {0, 2}
    assert abs((x == 2).double().mean() - 0.75) < 0.03


def test_multinomial_without_replacement_draws_each_once() -> None:
    x = drawn(aten.multinomial.default, torch.tensor([[1.0, 5.0, 0.0, 2.0]]).expand(500, 4), 3, False)
    assert all(sorted(row) == [0, 1, 3] for row in x.tolist())
    assert abs((x[:, 0] == 1).double().mean() - 5 / 8) < 0.08
