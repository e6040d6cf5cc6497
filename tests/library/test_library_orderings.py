"""The library kernels ``sort``, ``topk`` and ``scan`` against Python's own orderings and running sums."""

import itertools
import math
import operator

import pytest
import torch

from torch_neuronx import _C


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("dim", [0, 1])
def test_stable_sort_keeps_the_order_of_equal_elements(dim: int, descending: bool) -> None:
    x = torch.randint(0, 4, (7, 6))
    values, indices = torch.empty_like(x), torch.empty_like(x)
    _C._run_library("sort", [values, indices, x], [dim, descending, 1])
    for row, sorted_row, index_row in zip(x.transpose(dim, 1), values.transpose(dim, 1), indices.transpose(dim, 1), strict=True):
        expected = sorted(range(len(row)), key=lambda i, row=row: -row[i].item() if descending else row[i].item())
        assert index_row.tolist() == expected
        assert sorted_row.tolist() == [row[i].item() for i in expected]


def test_sort_puts_nan_last() -> None:
    x = torch.tensor([2.0, math.nan, 1.0])
    values, indices = torch.empty(3), torch.empty(3, dtype=torch.int64)
    _C._run_library("sort", [values, indices, x], [0, 0, 1])
    assert indices.tolist() == [2, 0, 1]
    assert values[:2].tolist() == [1.0, 2.0]
    assert math.isnan(values[2])


@pytest.mark.parametrize("largest", [False, True], ids=["smallest", "largest"])
def test_topk_is_the_start_of_the_sorted_order(largest: bool) -> None:
    x = torch.randperm(40).reshape(5, 8)
    values, indices = torch.empty(5, 3, dtype=torch.int64), torch.empty(5, 3, dtype=torch.int64)
    _C._run_library("topk", [values, indices, x], [3, 1, largest])
    assert values.tolist() == [sorted(row, reverse=largest)[:3] for row in x.tolist()]
    assert torch.equal(x.gather(1, indices), values)


SCANS = {"add": (0, operator.add), "multiply": (1, operator.mul), "maximum": (2, max), "minimum": (3, min)}


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float64], ids=str)
def test_scan_is_inclusive(name: str, dtype: torch.dtype) -> None:
    kind, function = SCANS[name]
    x = torch.randint(1, 4, (3, 5)).to(dtype)
    out = torch.empty_like(x)
    _C._run_library("scan", [out, x], [kind, 1])
    expected = [list(itertools.accumulate(row, function)) for row in x.tolist()]
    assert out.tolist() == [[value % 256 for value in row] if dtype == torch.uint8 else row for row in expected]


@pytest.mark.parametrize("name", ["add", "maximum"])
def test_scan_of_booleans_with_add_is_or(name: str) -> None:
    x, out = torch.tensor([False, True, False, False]), torch.empty(4, dtype=torch.bool)
    _C._run_library("scan", [out, x], [SCANS[name][0], 0])
    assert out.tolist() == [False, True, True, True]


@pytest.mark.parametrize("name", ["multiply", "minimum"])
def test_scan_of_booleans_with_multiply_is_and(name: str) -> None:
    x, out = torch.tensor([True, True, False, True]), torch.empty(4, dtype=torch.bool)
    _C._run_library("scan", [out, x], [SCANS[name][0], 0])
    assert out.tolist() == [True, True, False, False]


def test_scan_propagates_nan() -> None:
    x, out = torch.tensor([1.0, math.nan, 3.0]), torch.empty(3)
    _C._run_library("scan", [out, x], [2, 0])
    assert out[0] == 1
    assert out[1:].isnan().all()


def test_an_unknown_scan_is_refused() -> None:
    with pytest.raises(RuntimeError, match="scan: kind 9, allowed are 0"):
        _C._run_library("scan", [torch.empty(1), torch.empty(1)], [9, 0])
