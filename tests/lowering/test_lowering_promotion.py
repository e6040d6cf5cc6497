"""Type promotion: the result's dtype and value for pairs of dtypes, of tensors, 0-d tensors and numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from interpreted import in_schema_order, interpreted

aten = torch.ops.aten
DTYPES = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.complex64]
OPS = [aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.eq.Tensor]


def operand(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([1, 0, 3, 2], dtype=dtype)[: max(1, *shape, 1)].reshape(shape) if shape else torch.tensor(3, dtype=dtype)


def agrees(op: Any, *arguments: Any) -> None:
    try:
        expected = op(*arguments)
    except NotImplementedError:
        return  # complex32, which the CPU does not compute and the device does not have
    if expected.dtype == torch.complex32:
        return
    (result,), _ = interpreted(op, in_schema_order(op, arguments, {}))
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected, equal_nan=True)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op._schema.name)
def test_pairs_of_tensors(op: Any) -> None:
    for first, second in itertools.product(DTYPES, DTYPES):
        for left, right in (((4,), (4,)), ((4,), ()), ((), (4,)), ((), ())):
            agrees(op, operand(first, left), operand(second, right))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op._schema.name)
@pytest.mark.parametrize("number", [2, 1.5, True])
def test_tensors_and_numbers(op: Any, number: complex) -> None:
    scalar_op = getattr(aten, op._schema.name.removeprefix("aten::")).Scalar
    for dtype in DTYPES:
        for shape in ((4,), ()):
            agrees(scalar_op, operand(dtype, shape), number)


def test_int64_is_exact_beyond_float64() -> None:
    large = torch.tensor([2**62 + 1, -(2**53) - 1, 7])
    agrees(aten.add.Tensor, large, torch.tensor([1, 2, 3]))
    agrees(aten.mul.Tensor, torch.tensor([2**31 + 1]), torch.tensor([2**31 - 1]))
    agrees(aten.sum.default, large)
    agrees(aten.cumsum.default, large, 0)


def test_in_place_keeps_the_dtype_of_its_tensor() -> None:
    x = torch.tensor([1.5, 2.5])
    (result,), written = interpreted(aten.add_.Tensor, [x, torch.tensor([1, 2]), 1])
    assert written[(0, -1)].dtype == torch.float32
    assert result.tolist() == [2.5, 4.5]
