"""Composites without a decomposition, by NumPy and SciPy.

Decompositions that are unique only up to signs or phases are those of LAPACK. SciPy is imported where it is used: nothing but the tests
interprets these composites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod

import numpy as np

from ..ir import Operation
from ..numerics import Array
from .table import Implementation, narrow, widen

Matrices = Callable[..., Array | tuple[Array, ...]]


def _each_matrix(function: Callable[..., Matrices]) -> Implementation:
    """A composite of one batch dimension after the other, from a function of single matrices in float64 or complex128.

    ``function`` takes the operation and returns the function of matrices. Operands of one dimension less than the first are vectors.
    """

    def implementation(operation: Operation, *operands: Array) -> tuple[Array, ...]:
        batch = operands[0].shape[:-2]
        on_matrices = function(operation)
        flat = [widen(x).reshape(prod(batch), *x.shape[len(batch) :]) for x in operands]
        each = [on_matrices(*matrices) for matrices in zip(*flat, strict=True)]
        columns = [list(column) for column in zip(*((one if isinstance(one, tuple) else (one,)) for one in each), strict=True)]
        results = []
        for place, result in enumerate(operation.results):
            stacked = np.stack(columns[place]) if columns and result.type.size else np.zeros(result.shape)
            results.append(narrow(stacked.reshape(result.shape), result.dtype))
        return tuple(results)

    return implementation


def _cholesky(operation: Operation) -> Matrices:
    def factor(x: Array) -> tuple[Array, Array]:
        symmetric = np.triu(x) + np.triu(x, 1).conj().T if operation.attributes["upper"] else np.tril(x) + np.tril(x, -1).conj().T
        lower = np.linalg.cholesky(symmetric)
        return lower.conj().T if operation.attributes["upper"] else lower, np.array(0)

    return factor


def _lu_factor(operation: Operation) -> Matrices:
    """Gaussian elimination with row exchanges."""

    def factor(x: Array) -> tuple[Array, Array, Array]:
        lu, rank, info = x.copy(), min(x.shape), 0
        pivots = np.arange(1, rank + 1)
        for column in range(rank):
            if operation.attributes["pivot"]:
                best = column + int(np.argmax(np.abs(lu[column:, column].real) + np.abs(lu[column:, column].imag)))
                pivots[column] = best + 1
                lu[[column, best]] = lu[[best, column]]
            if lu[column, column] == 0:
                info = info or column + 1
                continue
            lu[column + 1 :, column] /= lu[column, column]
            lu[column + 1 :, column + 1 :] -= np.outer(lu[column + 1 :, column], lu[column, column + 1 :])
        return lu, pivots, np.array(info)

    return factor


def _unpacked(lu: Array, pivots: Array) -> tuple[Array, Array, Array]:
    rows, columns = lu.shape
    rank = min(rows, columns)
    order = np.arange(rows)
    for row, pivot in enumerate(pivots):
        order[[row, pivot - 1]] = order[[pivot - 1, row]]
    return np.eye(rows)[:, order], np.tril(lu[:, :rank], -1) + np.eye(rows, rank), np.triu(lu[:rank])


def _lu_solve(operation: Operation) -> Matrices:
    def solve(lu: Array, pivots: Array, rhs: Array) -> Array:
        permutation, lower, upper = _unpacked(lu, pivots)
        matrix = permutation @ lower @ upper
        return _solved(matrix.conj().T if operation.attributes["adjoint"] else matrix, rhs, operation.attributes["left"])

    return solve


def _triangular_solve(operation: Operation) -> Matrices:
    attributes = operation.attributes

    def solve(a: Array, rhs: Array) -> Array:
        triangle = np.triu(a) if attributes["upper"] else np.tril(a)
        if attributes["unit_diagonal"]:
            np.fill_diagonal(triangle, 1)
        return _solved(triangle, rhs, attributes["left"])

    return solve


def _solved(matrix: Array, rhs: Array, left: bool) -> Array:
    return np.linalg.solve(matrix, rhs) if left else np.linalg.solve(matrix.T, rhs.T).T


def _qr(operation: Operation) -> Matrices:
    mode = operation.attributes["mode"]

    def factor(x: Array) -> tuple[Array, Array]:
        if mode == "r":
            return np.zeros(0), np.asarray(np.linalg.qr(x, "r"))
        q, r = np.linalg.qr(x, mode)
        return q, r

    return factor


def _eigh(operation: Operation) -> Matrices:
    return lambda x: tuple(np.linalg.eigh(x, "U" if operation.attributes["upper"] else "L"))


def _svd(operation: Operation) -> Matrices:
    return lambda x: tuple(np.linalg.svd(x, operation.attributes["full"]))


def _geqrf(operation: Operation) -> Matrices:
    def factor(x: Array) -> tuple[Array, Array]:
        reflectors, tau = np.linalg.qr(x, "raw")
        return reflectors.T, tau

    return factor


def _householder_product(operation: Operation) -> Matrices:
    return lambda reflectors, tau: _orthogonal(reflectors, tau)[:, : reflectors.shape[1]]


def _householder_multiply(operation: Operation) -> Matrices:
    def multiply(reflectors: Array, tau: Array, other: Array) -> Array:
        q = _orthogonal(reflectors, tau)
        q = q.conj().T if operation.attributes["transpose"] else q
        return q @ other if operation.attributes["left"] else other @ q

    return multiply


def _orthogonal(reflectors: Array, tau: Array) -> Array:
    """The product of I - tau v vᴴ, each v below the diagonal with a one on it."""
    rows = reflectors.shape[0]
    result = np.eye(rows, dtype=reflectors.dtype)
    for column, factor in enumerate(tau):
        v = np.concatenate([np.zeros(column), np.ones(1), reflectors[column + 1 :, column]])
        result = result @ (np.eye(rows) - factor * np.outer(v, v.conj()))
    return result


def _ldl_factor(operation: Operation) -> Matrices:
    from scipy.linalg import get_lapack_funcs

    def factor(x: Array) -> tuple[Array, Array, Array]:
        name = "hetrf" if operation.attributes["hermitian"] and np.iscomplexobj(x) else "sytrf"
        (routine,) = get_lapack_funcs((name,), (x,))
        factors, pivots, info = routine(x, lower=1)
        return np.tril(factors), pivots, np.array(info)

    return factor


def _ldl_solve(operation: Operation) -> Matrices:
    from scipy.linalg import get_lapack_funcs

    def solve(factors: Array, pivots: Array, rhs: Array) -> Array:
        name = "hetrs" if operation.attributes["hermitian"] and np.iscomplexobj(factors) else "sytrs"
        (routine,) = get_lapack_funcs((name,), (factors, rhs))
        return np.asarray(routine(factors, pivots, rhs, lower=1)[0])

    return solve


def _matrix_exponential(operation: Operation) -> Matrices:
    from scipy.linalg import expm

    return lambda x: expm(x)


def _grouped_matmul(operation: Operation, lhs: Array, rhs: Array, ends: Array) -> Array:
    lhs, rhs = widen(lhs), widen(rhs)
    result = np.zeros(operation.result.shape)
    for group, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        part = slice(start, end)
        if rhs.ndim == 3:
            result[part] = lhs[part] @ rhs[group]
        elif lhs.ndim == 3:
            result[:, part] = lhs[group] @ rhs[:, part]
        else:
            result[group] = lhs[:, part] @ rhs[part]
    return narrow(result, operation.result.dtype)


def _fft(operation: Operation, x: Array) -> Array:
    attributes = operation.attributes
    length = attributes["length"]
    axes = tuple(range(x.ndim - len(length), x.ndim))
    transform = getattr(np.fft, f"{attributes['kind'].lower()}n")
    return narrow(transform(widen(x), s=length, axes=axes), operation.result.dtype)


def _special_function(operation: Operation, *operands: Array) -> Array:
    function = operation.attributes["function"]
    if function in ("gcd", "lcm"):
        return np.asarray(getattr(np, function)(*operands))
    return narrow(np.asarray(_special_functions()[function](*map(widen, operands))), operation.result.dtype)


def _special_functions() -> Mapping[str, Callable[..., Array]]:
    from scipy import special

    def third_kind(n: Array, x: Array) -> Array:
        return np.asarray(special.eval_jacobi(n, -0.5, 0.5, x) / special.eval_jacobi(n, -0.5, 0.5, 1.0))

    def fourth_kind(n: Array, x: Array) -> Array:
        return np.asarray((2 * n + 1) * special.eval_jacobi(n, 0.5, -0.5, x) / special.eval_jacobi(n, 0.5, -0.5, 1.0))

    def of_order(polynomial: Callable[[Array, Array], Array], shift: bool = False) -> Callable[[Array, Array], Array]:
        """PyTorch cuts an order to an integer, and gives 0 for a negative one."""
        return lambda x, n: np.where(n <= -1, 0.0, polynomial(np.maximum(n, 0).astype(np.int64), 2 * x - 1 if shift else x))

    chebyshev = {"t": special.eval_chebyt, "u": special.eval_chebyu, "v": third_kind, "w": fourth_kind}
    return {
        **{f"chebyshev_polynomial_{kind}": of_order(function) for kind, function in chebyshev.items()},
        **{f"shifted_chebyshev_polynomial_{kind}": of_order(function, shift=True) for kind, function in chebyshev.items()},
        "hermite_polynomial_h": of_order(special.eval_hermite),
        "hermite_polynomial_he": of_order(special.eval_hermitenorm),
        "laguerre_polynomial_l": of_order(special.eval_laguerre),
        "legendre_polynomial_p": of_order(special.eval_legendre),
        "standard_gamma_grad": _gamma_gradient,
        "dirichlet_grad": _dirichlet_gradient,
        **{name: getattr(special, name) for name in ("erfcx", "i0", "i0e", "i1", "i1e", "gammainc", "gammaincc", "zeta")},
        "airy_ai": lambda x: special.airy(x)[0],
        "bessel_j0": special.j0,
        "bessel_j1": special.j1,
        "bessel_y0": special.y0,
        "bessel_y1": special.y1,
        "modified_bessel_i0": special.i0,
        "modified_bessel_i1": special.i1,
        "modified_bessel_k0": special.k0,
        "modified_bessel_k1": special.k1,
        "scaled_modified_bessel_k0": special.k0e,
        "scaled_modified_bessel_k1": special.k1e,
        "spherical_bessel_j0": lambda x: special.spherical_jn(0, x),
    }


def _gamma_gradient(shape: Array, x: Array) -> Array:
    """How a gamma variate moves with its shape at a constant distribution function P: -∂P/∂shape / p."""
    from scipy import special, stats

    below = _derivative(lambda a: special.gammainc(a, x), shape)
    above = _derivative(lambda a: special.gammaincc(a, x), shape)
    return np.asarray(np.where(x < shape, -below, above) / stats.gamma.pdf(x, shape))


def _dirichlet_gradient(x: Array, shape: Array, total: Array) -> Array:
    """How a component of a Dirichlet variate moves with its parameter, divided by 1 - x, the share of the others."""
    from scipy import special, stats

    other = total - shape
    moved = -_derivative(lambda a: special.betainc(a, other, x), shape)
    return np.asarray(moved / stats.beta.pdf(x, shape, other) / (1 - x))


def _derivative(function: Callable[[Array], Array], x: Array) -> Array:
    """By central differences of fourth order."""
    step = 1e-4 * x
    near, far = (function(x + k * step) - function(x - k * step) for k in (1, 2))
    return np.asarray((8 * near - far) / (12 * step))


def _random_variate(operation: Operation, seed: Array, offset: Array, *parameters: Array) -> Array:
    """Numbers of NumPy's own stream: only their distribution is defined."""
    attributes = operation.attributes
    generator = np.random.default_rng([int(seed), int(offset) + attributes["start"]])
    draws: Mapping[str, Callable[..., Array]] = {
        "poisson": generator.poisson,
        "gamma": generator.standard_gamma,
        "binomial": lambda count, probability: generator.binomial(count.astype(np.int64), probability),
    }
    return narrow(np.asarray(draws[attributes["distribution"]](*map(widen, parameters))), operation.result.dtype)


LIBRARY_COMPOSITES: Mapping[str, Implementation] = {
    "cholesky": _each_matrix(_cholesky),
    "lu_factor": _each_matrix(_lu_factor),
    "lu_unpack": _each_matrix(lambda operation: _unpacked),
    "lu_solve": _each_matrix(_lu_solve),
    "triangular_solve": _each_matrix(_triangular_solve),
    "qr": _each_matrix(_qr),
    "eigh": _each_matrix(_eigh),
    "eig": _each_matrix(lambda operation: lambda x: tuple(np.linalg.eig(x))),
    "svd": _each_matrix(_svd),
    "geqrf": _each_matrix(_geqrf),
    "householder_product": _each_matrix(_householder_product),
    "householder_multiply": _each_matrix(_householder_multiply),
    "ldl_factor": _each_matrix(_ldl_factor),
    "ldl_solve": _each_matrix(_ldl_solve),
    "matrix_exponential": _each_matrix(_matrix_exponential),
    "grouped_matmul": _grouped_matmul,
    "fft": _fft,
    "special_function": _special_function,
    "random_variate": _random_variate,
}
