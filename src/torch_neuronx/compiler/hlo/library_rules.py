"""Shape rules of the composites that have no decomposition: linear algebra, Fourier transforms, special functions and others.

Matrices are the two last dimensions, those before are a batch, the same for all operands.
"""

from __future__ import annotations

from math import prod

from .shape_rules import FLOAT, REAL_FLOAT, check_dtype, check_member, check_scalar
from .types import DType, TensorType

Ints = tuple[int, ...]

FFT_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
QR_MODES = ("reduced", "complete", "r")
COMPLEX_OF = {DType.F32: DType.C64, DType.F64: DType.C128}
REAL_OF = {DType.C64: DType.F32, DType.C128: DType.F64, DType.F32: DType.F32, DType.F64: DType.F64}

# Special functions by number of operands, all of f32 and f64 but for those of integers.
UNARY_FUNCTIONS = (
    *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "erfcx", "i0", "i0e", "i1", "i1e"),
    *("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"),
)
BINARY_FUNCTIONS = (
    *("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
    *("shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u"),
    *("shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w"),
    *("gammainc", "gammaincc", "zeta"),
)
INTEGER_FUNCTIONS = ("gcd", "lcm")
# Derivatives of random numbers by the parameters of their distribution: of two operands, and of three.
GAMMA_GRADIENT, DIRICHLET_GRADIENT = "standard_gamma_grad", "dirichlet_grad"
_FUNCTIONS = (UNARY_FUNCTIONS, (*BINARY_FUNCTIONS, *INTEGER_FUNCTIONS, GAMMA_GRADIENT), (DIRICHLET_GRADIENT,))

# Distributions that numbers are drawn from by rejection, with how many parameters each has.
RANDOM_DISTRIBUTIONS = {"poisson": 1, "gamma": 1, "binomial": 2}


def cholesky(x: TensorType, *, upper: bool) -> tuple[TensorType, TensorType]:
    return x, _info(_square(x))


def lu_factor(x: TensorType, *, pivot: bool) -> tuple[TensorType, TensorType, TensorType]:
    batch, rows, columns = _matrix(x)
    return x, TensorType((*batch, min(rows, columns)), DType.I32), _info(batch)


def lu_unpack(lu: TensorType, pivots: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    batch, rows, columns = _matrix(lu)
    rank = min(rows, columns)
    _check_pivots(pivots, (*batch, rank))
    return (
        TensorType((*batch, rows, rows), lu.dtype),
        TensorType((*batch, rows, rank), lu.dtype),
        TensorType((*batch, rank, columns), lu.dtype),
    )


def lu_solve(lu: TensorType, pivots: TensorType, rhs: TensorType, *, left: bool, adjoint: bool) -> TensorType:
    _check_pivots(pivots, lu.shape[:-1])
    return _solution(lu, rhs, left)


def triangular_solve(a: TensorType, rhs: TensorType, *, upper: bool, left: bool, unit_diagonal: bool) -> TensorType:
    return _solution(a, rhs, left)


def qr(x: TensorType, *, mode: str) -> tuple[TensorType, TensorType]:
    batch, rows, columns = _matrix(x)
    check_member("mode", mode, QR_MODES)
    inner = rows if mode == "complete" else min(rows, columns)
    q = TensorType((0,), x.dtype) if mode == "r" else TensorType((*batch, rows, inner), x.dtype)
    return q, TensorType((*batch, inner, columns), x.dtype)


def eigh(x: TensorType, *, upper: bool, vectors: bool) -> tuple[TensorType, TensorType]:
    _square(x)
    return TensorType(x.shape[:-1], REAL_OF[x.dtype]), x if vectors else TensorType((0,), x.dtype)


def eig(x: TensorType) -> tuple[TensorType, TensorType]:
    _square(x)
    dtype = COMPLEX_OF.get(x.dtype, x.dtype)
    return TensorType(x.shape[:-1], dtype), TensorType(x.shape, dtype)


def svd(x: TensorType, *, full: bool, vectors: bool) -> tuple[TensorType, TensorType, TensorType]:
    batch, rows, columns = _matrix(x)
    rank = min(rows, columns)
    values = TensorType((*batch, rank), REAL_OF[x.dtype])
    if not vectors:
        return TensorType((0,), x.dtype), values, TensorType((0,), x.dtype)
    left = TensorType((*batch, rows, rows if full else rank), x.dtype)
    return left, values, TensorType((*batch, columns if full else rank, columns), x.dtype)


def geqrf(x: TensorType) -> tuple[TensorType, TensorType]:
    batch, rows, columns = _matrix(x)
    return x, TensorType((*batch, min(rows, columns)), x.dtype)


def householder_product(reflectors: TensorType, tau: TensorType) -> TensorType:
    _, rows, columns = _matrix(reflectors)
    _check_tau(reflectors, tau)
    if columns > rows:
        raise ValueError(f"reflectors are {reflectors}; they may not have more columns than rows")
    return reflectors


def householder_multiply(reflectors: TensorType, tau: TensorType, other: TensorType, *, left: bool, transpose: bool) -> TensorType:
    _check_tau(reflectors, tau)
    _matrix(other)
    length = other.shape[-2 if left else -1]
    if reflectors.shape[-2] != length or reflectors.shape[:-2] != other.shape[:-2] or reflectors.dtype is not other.dtype:
        raise ValueError(f"reflectors {reflectors} and other {other} must have one batch and dtype, and reflectors {length} rows")
    return other


def ldl_factor(x: TensorType, *, hermitian: bool) -> tuple[TensorType, TensorType, TensorType]:
    batch = _square(x)
    return x, TensorType(x.shape[:-1], DType.I32), _info(batch)


def ldl_solve(factors: TensorType, pivots: TensorType, rhs: TensorType, *, hermitian: bool) -> TensorType:
    _check_pivots(pivots, factors.shape[:-1])
    return _solution(factors, rhs, left=True)


def matrix_exponential(x: TensorType) -> TensorType:
    _square(x)
    return x


def grouped_matmul(lhs: TensorType, rhs: TensorType, ends: TensorType) -> TensorType:
    groups = ends.shape[0] if ends.rank == 1 else -1
    if ends.dtype is not DType.I32 or lhs.dtype is not rhs.dtype:
        raise ValueError(f"lhs {lhs} and rhs {rhs} must be of one dtype, and ends {ends} i32")
    match lhs.rank, rhs.rank:
        case 2, 3 if rhs.shape[:2] == (groups, lhs.shape[1]):
            return TensorType((lhs.shape[0], rhs.shape[2]), lhs.dtype)
        case 3, 2 if (lhs.shape[0], lhs.shape[2]) == (groups, rhs.shape[0]):
            return TensorType((lhs.shape[1], rhs.shape[1]), lhs.dtype)
        case 2, 2 if lhs.shape[1] == rhs.shape[0]:
            return TensorType((groups, lhs.shape[0], rhs.shape[1]), lhs.dtype)
    raise ValueError(f"lhs {lhs} and rhs {rhs} do not fit {groups} groups")


def fft(x: TensorType, *, kind: str, length: Ints) -> TensorType:
    check_member("kind", kind, FFT_KINDS)
    check_dtype(x, REAL_FLOAT if kind == "RFFT" else "c")
    if not 1 <= len(length) <= x.rank:
        raise ValueError(f"length {length} must have between 1 and {x.rank} entries for {x}")
    batch, extents = x.shape[: x.rank - len(length)], x.shape[x.rank - len(length) :]
    half = (*length[:-1], length[-1] // 2 + 1)
    if extents != (half if kind == "IRFFT" else length) or prod(length) == 0:
        raise ValueError(f"length {length} of {kind} does not fit the last dimensions of {x}")
    match kind:
        case "RFFT":
            return TensorType((*batch, *half), _member(x.dtype, COMPLEX_OF))
        case "IRFFT":
            return TensorType((*batch, *length), _member(x.dtype, REAL_OF))
        case _:
            return x


def special_function(first: TensorType, *others: TensorType, function: str) -> TensorType:
    check_member("function", function, _FUNCTIONS[len(others)])
    _check_equal(first, others)
    if function in INTEGER_FUNCTIONS:
        check_dtype(first, "iu")
    else:
        check_member("dtype", first.dtype, (DType.F32, DType.F64))
    return first


def random_variate(
    seed: TensorType, offset: TensorType, first: TensorType, *others: TensorType, distribution: str, start: int
) -> TensorType:
    check_scalar("seed", seed, DType.UI64)
    check_scalar("offset", offset, DType.UI64)
    check_member("distribution", distribution, tuple(RANDOM_DISTRIBUTIONS))
    if len(others) + 1 != RANDOM_DISTRIBUTIONS[distribution]:
        raise ValueError(f"{distribution} has {RANDOM_DISTRIBUTIONS[distribution]} parameters, {len(others) + 1} are given")
    if start < 0:
        raise ValueError(f"start is {start}; it must be ≥ 0")
    _check_equal(first, others)
    check_member("dtype", first.dtype, (DType.F32, DType.F64))
    return first


def _check_equal(first: TensorType, others: tuple[TensorType, ...]) -> None:
    if any(other != first for other in others):
        operands = ", ".join(str(operand) for operand in (first, *others))
        raise ValueError(f"the operands are {operands}; they must be equal (there is no implicit broadcast)")


def _matrix(x: TensorType) -> tuple[Ints, int, int]:
    """(batch, rows, columns)."""
    check_dtype(x, FLOAT)
    check_member("dtype", x.dtype, tuple(REAL_OF))
    if x.rank < 2:
        raise ValueError(f"{x} must have two dimensions or more")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def _square(x: TensorType) -> Ints:
    """The batch of square matrices."""
    batch, rows, columns = _matrix(x)
    if rows != columns:
        raise ValueError(f"{x} must be square in its last two dimensions")
    return batch


def _solution(a: TensorType, rhs: TensorType, left: bool) -> TensorType:
    batch = _square(a)
    _matrix(rhs)
    if a.dtype is not rhs.dtype or rhs.shape[:-2] != batch or rhs.shape[-2 if left else -1] != a.shape[-1]:
        raise ValueError(f"matrix {a} and right-hand side {rhs} must have one dtype, one batch and a common extent")
    return rhs


def _info(batch: Ints) -> TensorType:
    return TensorType(batch, DType.I32)


def _check_pivots(pivots: TensorType, shape: Ints) -> None:
    if pivots != TensorType(shape, DType.I32):
        raise ValueError(f"pivots are {pivots}; they must be {TensorType(shape, DType.I32)}")


def _check_tau(reflectors: TensorType, tau: TensorType) -> None:
    batch, rows, columns = _matrix(reflectors)
    fits = tau.rank == len(batch) + 1 and tau.shape[:-1] == batch and tau.dtype is reflectors.dtype
    if not fits or tau.shape[-1] > min(rows, columns):
        raise ValueError(f"tau is {tau}; for {reflectors} it must be {reflectors.dtype} and have at most {min(rows, columns)} columns")


def _member(dtype: DType, table: dict[DType, DType]) -> DType:
    check_member("dtype", dtype, tuple(table))
    return table[dtype]
