"""Decompositions and solutions of batches of matrices.

The kernels are LAPACK's. Determinants, inverses and linear systems are put together of its LU decomposition here, as PyTorch does; what
has no square root or division of its own is done in HLO, where it fuses.
"""

from __future__ import annotations

from typing import Any

import torch

from ..hlo.ir import Value
from ..hlo.library_rules import COMPLEX_OF, REAL_OF
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .registry import lowering


def _composite(b: LoweringBuilder, name: str, operands: tuple[Value, ...], types: tuple[TensorType, ...], **attributes: Any) -> Any:
    results = b.composite(name, operands, attributes, types)
    return results[0] if len(types) == 1 else tuple(results)


def _refuse_checks(check_errors: bool) -> None:
    if check_errors:
        raise NotImplementedError("check_errors=True reads the result while the operator runs; a program cannot")


def _transposed(b: LoweringBuilder, x: Value) -> Value:
    rank = len(x.shape)
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _adjoint(b: LoweringBuilder, x: Value) -> Value:
    transposed = _transposed(b, x)
    return b.complex(b.real(transposed), b.negate(b.imag(transposed))) if x.dtype.is_complex else transposed


def _batched(b: LoweringBuilder, x: Value, batch: tuple[int, ...], own: int = 2) -> Value:
    """``x`` with its dimensions before the last ``own`` broadcast to ``batch``."""
    return b.broadcast(x, (*batch, *x.shape[len(x.shape) - own :]))


def _identity(b: LoweringBuilder, like: Value) -> Value:
    rank = len(like.shape)
    diagonal = b.compare(b.iota(like.shape, DType.I64, rank - 2), b.iota(like.shape, DType.I64, rank - 1), "EQ")
    return b.select(diagonal, b.like(1, like), b.like(0, like))


def _diagonal(b: LoweringBuilder, x: Value) -> Value:
    """The diagonals of square matrices, [..., n]."""
    rank = len(x.shape)
    on_diagonal = b.compare(b.iota(x.shape, DType.I64, rank - 2), b.iota(x.shape, DType.I64, rank - 1), "EQ")
    return b.reduce(b.select(on_diagonal, x, b.like(0, x)), "add", (rank - 1,))


@lowering("aten::linalg_cholesky_ex", exact=True)
def cholesky_ex(b: LoweringBuilder, x: Value, upper: bool, check_errors: bool) -> tuple[Value, Value]:
    _refuse_checks(check_errors)
    factor, info = _composite(b, "cholesky", (x,), (x.type, TensorType(x.shape[:-2], DType.I32)), upper=upper)
    return factor, info


@lowering("aten::_cholesky_solve_helper", exact=True)
def cholesky_solve(b: LoweringBuilder, rhs: Value, factor: Value, upper: bool) -> Value:
    """X of A X = rhs with A = L Lᴴ (Uᴴ U if ``upper``): two triangular systems."""
    lower = _adjoint(b, factor) if upper else factor
    half = _triangular(b, lower, rhs, upper=False)
    return _triangular(b, _adjoint(b, lower), half, upper=True)


@lowering("aten::cholesky_inverse", exact=True)
def cholesky_inverse(b: LoweringBuilder, factor: Value, upper: bool) -> Value:
    return cholesky_solve(b, _identity(b, factor), factor, upper)


def _triangular(b: LoweringBuilder, a: Value, rhs: Value, *, upper: bool, left: bool = True, unit_diagonal: bool = False) -> Value:
    flags = {"upper": upper, "left": left, "unit_diagonal": unit_diagonal}
    result: Value = _composite(b, "triangular_solve", (a, rhs), (rhs.type,), **flags)
    return result


@lowering("aten::linalg_solve_triangular", exact=True)
def solve_triangular(b: LoweringBuilder, a: Value, rhs: Value, upper: bool, left: bool, unitriangular: bool) -> Value:
    batch = b.output.shape[:-2]
    return _triangular(b, _batched(b, a, batch), _batched(b, rhs, batch), upper=upper, left=left, unit_diagonal=unitriangular)


@lowering("aten::triangular_solve", exact=True)
def triangular_solve(b: LoweringBuilder, rhs: Value, a: Value, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Value, Value]:
    solution, clone = b.outputs
    a, rhs = _batched(b, a, clone.shape[:-2]), _batched(b, rhs, solution.shape[:-2])
    return _triangular(b, _transposed(b, a) if transpose else a, rhs, upper=upper != transpose, unit_diagonal=unitriangular), a


def _lu_factor(b: LoweringBuilder, x: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    batch = x.shape[:-2]
    types = (x.type, TensorType((*batch, min(x.shape[-2:])), DType.I32), TensorType(batch, DType.I32))
    lu, pivots, info = _composite(b, "lu_factor", (x,), types, pivot=pivot)
    return lu, pivots, info


@lowering("aten::linalg_lu_factor_ex", exact=True)
def lu_factor_ex(b: LoweringBuilder, x: Value, pivot: bool, check_errors: bool) -> tuple[Value, Value, Value]:
    _refuse_checks(check_errors)
    return _lu_factor(b, x, pivot)


@lowering("aten::linalg_lu", exact=True)
def lu(b: LoweringBuilder, x: Value, pivot: bool) -> tuple[Value, Value, Value]:
    if not pivot:
        raise NotImplementedError("linalg_lu is lowered with pivot=True only")
    factors, pivots, _ = _lu_factor(b, x)
    return _unpacked(b, factors, pivots)


def _unpacked(b: LoweringBuilder, factors: Value, pivots: Value) -> tuple[Value, Value, Value]:
    batch, (rows, columns) = factors.shape[:-2], factors.shape[-2:]
    rank = min(rows, columns)
    shapes = ((*batch, rows, rows), (*batch, rows, rank), (*batch, rank, columns))
    types = tuple(TensorType(shape, factors.dtype) for shape in shapes)
    permutation, lower, upper = _composite(b, "lu_unpack", (factors, pivots), types)
    return permutation, lower, upper


@lowering("aten::lu_unpack", exact=True)
def lu_unpack(b: LoweringBuilder, factors: Value, pivots: Value, unpack_data: bool, unpack_pivots: bool) -> tuple[Value, Value, Value]:
    """What is not asked for is empty."""
    empty = b.constant(0, factors.dtype, (0,))
    permutation, lower, upper = _unpacked(b, factors, pivots)
    return permutation if unpack_pivots else empty, lower if unpack_data else empty, upper if unpack_data else empty


def _lu_solve(b: LoweringBuilder, factors: Value, pivots: Value, rhs: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    batch = rhs.shape[:-2]
    operands = (_batched(b, factors, batch), _batched(b, pivots, batch, own=1), rhs)
    result: Value = _composite(b, "lu_solve", operands, (rhs.type,), left=left, adjoint=adjoint)
    return result


@lowering("aten::linalg_lu_solve", exact=True)
def lu_solve(b: LoweringBuilder, factors: Value, pivots: Value, rhs: Value, left: bool, adjoint: bool) -> Value:
    return _lu_solve(b, factors, pivots, _batched(b, rhs, b.output.shape[:-2]), left=left, adjoint=adjoint)


@lowering("aten::_linalg_solve_ex", exact=True)
def solve_ex(b: LoweringBuilder, a: Value, rhs: Value, left: bool, check_errors: bool) -> tuple[Value, Value, Value, Value]:
    """A right-hand side with the shape of A's rows is a batch of vectors."""
    _refuse_checks(check_errors)
    result = b.outputs[0]
    factors, pivots, info = _lu_factor(b, a)
    is_vector = len(rhs.shape) == 1 or (len(rhs.shape) == len(a.shape) - 1 and rhs.shape == a.shape[:-1])
    if is_vector:
        solution = _lu_solve(b, factors, pivots, b.reshape(b.broadcast(rhs, result.shape), (*result.shape, 1)))
        return b.reshape(solution, result.shape), factors, pivots, info
    return _lu_solve(b, factors, pivots, _batched(b, rhs, result.shape[:-2]), left=left), factors, pivots, info


@lowering("aten::linalg_inv_ex", exact=True)
def inv_ex(b: LoweringBuilder, x: Value, check_errors: bool) -> tuple[Value, Value]:
    _refuse_checks(check_errors)
    factors, pivots, info = _lu_factor(b, x)
    return _lu_solve(b, factors, pivots, _identity(b, x)), info


@lowering("aten::_linalg_det", exact=True)
def det(b: LoweringBuilder, x: Value) -> tuple[Value, Value, Value]:
    """The product of the diagonal of U, negative for an odd number of row exchanges."""
    factors, pivots = _determinant_factors(b, x)
    product = b.reduce(_diagonal(b, factors), "multiply", (len(x.shape) - 2,))
    return b.multiply(product, _permutation_sign(b, pivots, x.dtype)), factors, pivots


@lowering("aten::_linalg_slogdet", exact=True)
def slogdet(b: LoweringBuilder, x: Value) -> tuple[Value, Value, Value, Value]:
    factors, pivots = _determinant_factors(b, x)
    diagonal, along = _diagonal(b, factors), (len(x.shape) - 2,)
    signs = b.reduce(b.sign(diagonal), "multiply", along)
    logarithm = b.reduce(b.log(b.abs(diagonal)), "add", along)
    return b.multiply(signs, _permutation_sign(b, pivots, x.dtype)), logarithm, factors, pivots


def _determinant_factors(b: LoweringBuilder, x: Value) -> tuple[Value, Value]:
    """PyTorch's gradient expects the decomposition of the transpose if the matrix is real and contiguous."""
    transposed = b.metas["A"].is_contiguous() and not x.dtype.is_complex
    return _lu_factor(b, _transposed(b, x) if transposed else x)[:2]


def _permutation_sign(b: LoweringBuilder, pivots: Value, dtype: DType) -> Value:
    """LAPACK's pivots count from 1; one that is not its own row is an exchange."""
    along = len(pivots.shape) - 1
    row = b.add(b.iota(pivots.shape, DType.I32, along), b.like(1, pivots))
    exchanged = b.compare(pivots, row, "NE")
    each = b.select(exchanged, b.constant(-1, dtype, pivots.shape), b.constant(1, dtype, pivots.shape))
    return b.reduce(each, "multiply", (along,))


@lowering("aten::linalg_qr", exact=True)
def qr(b: LoweringBuilder, x: Value, mode: str) -> tuple[Value, Value]:
    q, r = _composite(b, "qr", (x,), b.outputs, mode=mode)
    return q, r


@lowering("aten::_linalg_eigh", exact=True)
def eigh(b: LoweringBuilder, x: Value, triangle: str, compute_v: bool) -> tuple[Value, Value]:
    types = TensorType(x.shape[:-1], REAL_OF[x.dtype]), x.type if compute_v else TensorType((0,), x.dtype)
    values, vectors = _composite(b, "eigh", (x,), types, upper=triangle.upper() == "U", vectors=compute_v)
    return values, vectors


@lowering("aten::linalg_eig", exact=True)
def eig(b: LoweringBuilder, x: Value) -> tuple[Value, Value]:
    dtype = COMPLEX_OF.get(x.dtype, x.dtype)
    values, vectors = _composite(b, "eig", (x,), (TensorType(x.shape[:-1], dtype), TensorType(x.shape, dtype)))
    return values, vectors


@lowering("aten::_linalg_eigvals", "aten::linalg_eigvals", exact=True)
def eigvals(b: LoweringBuilder, x: Value) -> Value:
    return eig(b, x)[0]


@lowering("aten::_linalg_svd", exact=True)
def svd(b: LoweringBuilder, x: Value, full_matrices: bool, compute_uv: bool, driver: str | None) -> tuple[Value, Value, Value]:
    if driver is not None:
        raise NotImplementedError(f"driver is {driver!r}; LAPACK's divide and conquer is the only one here, None selects it")
    u, values, vh = _composite(b, "svd", (x,), b.outputs, full=full_matrices, vectors=compute_uv)
    return u, values, vh


def _geqrf_meta(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x.mT, memory_format=torch.contiguous_format).mT, x.new_empty((*x.shape[:-2], min(x.shape[-2:])))


# PyTorch has no meta function for it. Kept for the life of the process: a library that goes takes its functions with it.
_META_FUNCTIONS = torch.library.Library("aten", "IMPL", "Meta")
if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::geqrf", "Meta"):
    _META_FUNCTIONS.impl("geqrf", _geqrf_meta)


@lowering("aten::geqrf", exact=True)
def geqrf(b: LoweringBuilder, x: Value) -> tuple[Value, Value]:
    reflectors, tau = _composite(b, "geqrf", (x,), (x.type, TensorType((*x.shape[:-2], min(x.shape[-2:])), x.dtype)))
    return reflectors, tau


@lowering("aten::linalg_householder_product", exact=True)
def householder_product(b: LoweringBuilder, reflectors: Value, tau: Value) -> Value:
    result: Value = _composite(b, "householder_product", (reflectors, tau), (reflectors.type,))
    return result


@lowering("aten::ormqr", exact=True)
def ormqr(b: LoweringBuilder, reflectors: Value, tau: Value, other: Value, left: bool, transpose: bool) -> Value:
    result: Value = _composite(b, "householder_multiply", (reflectors, tau, other), (other.type,), left=left, transpose=transpose)
    return result


@lowering("aten::linalg_ldl_factor_ex", exact=True)
def ldl_factor_ex(b: LoweringBuilder, x: Value, hermitian: bool, check_errors: bool) -> tuple[Value, Value, Value]:
    _refuse_checks(check_errors)
    types = (x.type, TensorType(x.shape[:-1], DType.I32), TensorType(x.shape[:-2], DType.I32))
    factors, pivots, info = _composite(b, "ldl_factor", (x,), types, hermitian=hermitian)
    return factors, pivots, info


@lowering("aten::linalg_ldl_solve", exact=True)
def ldl_solve(b: LoweringBuilder, factors: Value, pivots: Value, rhs: Value, hermitian: bool) -> Value:
    batch = b.output.shape[:-2]
    operands = (_batched(b, factors, batch), _batched(b, pivots, batch, own=1), _batched(b, rhs, batch))
    result: Value = _composite(b, "ldl_solve", operands, (operands[2].type,), hermitian=hermitian)
    return result


@lowering("aten::linalg_matrix_exp", exact=True)
def matrix_exp(b: LoweringBuilder, x: Value) -> Value:
    result: Value = _composite(b, "matrix_exponential", (x,), (x.type,))
    return result
