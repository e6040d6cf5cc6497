"""The library kernels ``matmul`` and ``addmm`` against float64 products."""

import pytest
import torch

from torch_neuronx import _C

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.complex64: 1e-5}


def layouts(rows: int, columns: int, dtype: torch.dtype, batch: tuple[int, ...] = ()) -> dict[str, torch.Tensor]:
    """The same kind of matrix row-major, column-major, and inside a larger one."""
    return {
        "row_major": torch.randn(*batch, rows, columns, dtype=dtype),
        "column_major": torch.randn(*batch, columns, rows, dtype=dtype).mT,
        "strided": torch.randn(*batch, rows * 2, columns + 3, dtype=dtype)[..., ::2, 1 : columns + 1],
    }


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(wide(actual), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("batch", [(), (3,)], ids=["plain", "batched"])
@pytest.mark.parametrize("shape", [(4, 5, 6), (12, 13, 14), (1, 9, 1)], ids=["small", "large", "dot"])
def test_matmul_takes_any_strides(dtype: torch.dtype, batch: tuple[int, ...], shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    for lhs in layouts(rows, inner, dtype, batch).values():
        for rhs in layouts(inner, columns, dtype, batch).values():
            for out in layouts(rows, columns, dtype, batch).values():
                _C._run_library("matmul", [out, lhs, rhs])
                assert_close(out, wide(lhs) @ wide(rhs))


def test_matmul_of_integers_is_exact() -> None:
    lhs, rhs = torch.randint(-(2**30), 2**30, (3, 4)), torch.randint(-(2**30), 2**30, (4, 2))
    out = torch.empty(3, 2, dtype=torch.int64)
    _C._run_library("matmul", [out, lhs, rhs])
    assert out.tolist() == [[sum(a * b for a, b in zip(row, column)) for column in rhs.T.tolist()] for row in lhs.tolist()]


def test_matmul_of_booleans_is_any_of_all() -> None:
    lhs, rhs = torch.rand(5, 4) > 0.7, torch.rand(4, 6) > 0.7
    out = torch.empty(5, 6, dtype=torch.bool)
    _C._run_library("matmul", [out, lhs, rhs])
    assert torch.equal(out, (lhs[:, :, None] & rhs[None]).any(1))


def test_matmul_accumulates_in_a_wider_result() -> None:
    lhs, rhs = torch.randn(8, 64, dtype=torch.bfloat16), torch.randn(64, 8, dtype=torch.bfloat16)
    out = torch.empty(8, 8)
    _C._run_library("matmul", [out, lhs, rhs])
    assert_close(out, wide(lhs) @ wide(rhs))


def test_matmul_over_an_empty_dimension_is_zero() -> None:
    out = torch.full((2, 3), 7.0)
    _C._run_library("matmul", [out, torch.empty(2, 0), torch.empty(0, 3)])
    assert torch.equal(out, torch.zeros(2, 3))


@pytest.mark.parametrize("bias_shape", [(6,), (4, 6), (4, 1), ()], ids=str)
def test_addmm_broadcasts_its_bias(bias_shape: tuple[int, ...]) -> None:
    out, bias, lhs, rhs = torch.empty(4, 6), torch.randn(bias_shape), torch.randn(4, 5), torch.randn(5, 6)
    _C._run_library("addmm", [out, bias, lhs, rhs], floats=[0.5, 2.0])
    assert_close(out, 0.5 * wide(bias) + 2 * (wide(lhs) @ wide(rhs)))


def test_addmm_ignores_its_bias_if_beta_is_zero() -> None:
    out, lhs, rhs = torch.empty(3, 4, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    _C._run_library("addmm", [out, torch.full((6,), float("nan")), lhs, rhs], floats=[0.0, 1.0])
    assert_close(out, wide(lhs) @ wide(rhs))


def test_a_result_of_another_rank_is_refused() -> None:
    with pytest.raises(RuntimeError, match="rank 1, allowed are 2 and 3"):
        _C._run_library("matmul", [torch.empty(3), torch.empty(3, 4), torch.empty(4)])


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no library kernel 'inverse_matmul'"):
        _C._run_library("inverse_matmul", [])
