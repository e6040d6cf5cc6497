"""Samples of the composites that a library computes. Results that are unique only up to signs or phases are put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hlo_sample import Sample, sample, typical

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.library_rules import BINARY_FUNCTIONS, COMPLEX_OF, INTEGER_FUNCTIONS, REAL_OF, UNARY_FUNCTIONS
from torch_neuronx.compiler.hlo.types import DType, TensorType

BATCH, N = 2, 4
I32 = DType.I32


def library() -> Iterator[Sample]:
    for dtype in REAL_OF:
        yield from factorizations(dtype)
        yield from solutions(dtype)
    yield from groups()
    yield from fourier()
    yield from special_functions()
    yield from random_variates()


def call(b: Any, name: str, operands: Any, types: Any, **attributes: Any) -> Any:
    results = b.composite(name, operands, attributes, types)
    return results[0] if len(types) == 1 else results


def product(b: Any, x: Any, y: Any) -> Any:
    return b.dot_general(x, y, (0,), (0,), (2,), (1,))


def scaled_columns(b: Any, x: Any, scale: Any) -> Any:
    return b.multiply(x, b.broadcast_in_dim(b.convert(scale, x.dtype), x.shape, (0, 2)))


def adjoint(b: Any, x: Any) -> Any:
    moved = b.transpose(x, (0, 2, 1))
    return b.complex(b.real(moved), b.negate(b.imag(moved))) if x.dtype.is_complex else moved


def matrices(dtype: DType, rows: int = N, columns: int = N, seed: int = 0) -> tuple[DType, Any]:
    """Well conditioned, if square."""
    return dtype, (typical(dtype, (BATCH, rows, columns), seed) + 3 * np.eye(rows, columns)).astype(typical(dtype, ()).dtype)


def positive(dtype: DType) -> tuple[DType, Any]:
    _, x = matrices(dtype)
    return dtype, x @ x.conj().swapaxes(1, 2)


def factorizations(dtype: DType) -> Iterator[Sample]:
    square, info = TensorType((BATCH, N, N), dtype), TensorType((BATCH,), I32)
    pivots, real = TensorType((BATCH, N), I32), TensorType((BATCH, N), REAL_OF[dtype])
    for upper in (False, True):
        yield sample(f"cholesky {upper} {dtype}", lambda b, x, u=upper: call(b, "cholesky", (x,), (square, info), upper=u), positive(dtype))

        def values_and_product(b: Any, x: Any, upper: bool = upper) -> Any:
            values, vectors = call(b, "eigh", (x,), (real, square), upper=upper, vectors=True)
            return values, product(b, scaled_columns(b, vectors, values), adjoint(b, vectors))

        yield sample(f"eigh {upper} {dtype}", values_and_product, positive(dtype))

    def factored(b: Any, x: Any) -> Any:
        return call(b, "lu_factor", (x,), (square, pivots, info), pivot=True)

    def unpacked(b: Any, x: Any) -> Any:
        lu, swaps, failures = factored(b, x)
        return lu, swaps, failures, *call(b, "lu_unpack", (lu, swaps), (square,) * 3)

    yield sample(f"lu_unpack {dtype}", unpacked, matrices(dtype))
    for mode, rows in (("reduced", 6), ("complete", 6), ("reduced", 3)):
        inner = rows if mode == "complete" else min(rows, N)
        types = TensorType((BATCH, rows, inner), dtype), TensorType((BATCH, inner, N), dtype)
        rebuilt = lambda b, x, m=mode, t=types: product(b, *call(b, "qr", (x,), t, mode=m))  # noqa: E731
        yield sample(f"qr {mode} {rows} {dtype}", rebuilt, matrices(dtype, rows))

    def residual(b: Any, x: Any) -> Any:
        wide = COMPLEX_OF.get(dtype, dtype)
        values, vectors = call(b, "eig", (x,), (TensorType((BATCH, N), wide), TensorType((BATCH, N, N), wide)))
        error = b.subtract(product(b, b.convert(x, wide), vectors), scaled_columns(b, vectors, values))
        return b.compare(b.abs(error), b.constant(1e-4, REAL_OF[dtype], error.shape), "LT"), b.reduce(values, "add", (1,))

    yield sample(f"eig {dtype}", residual, matrices(dtype))

    def singular(b: Any, x: Any) -> Any:
        types = TensorType((BATCH, 6, N), dtype), real, square
        u, values, vh = call(b, "svd", (x,), types, full=False, vectors=True)
        return values, product(b, scaled_columns(b, u, values), vh)

    yield sample(f"svd {dtype}", singular, matrices(dtype, 6))

    def reflected(b: Any, x: Any) -> Any:
        tall, tau_type = TensorType((BATCH, 6, N), dtype), TensorType((BATCH, N), dtype)
        reflectors, tau = call(b, "geqrf", (x,), (tall, tau_type))
        q = call(b, "householder_product", (reflectors, tau), (tall,))
        back = call(b, "householder_multiply", (reflectors, tau, x), (tall,), left=True, transpose=True)
        return product(b, adjoint(b, q), x), back

    yield sample(f"geqrf {dtype}", reflected, matrices(dtype, 6))


def solutions(dtype: DType) -> Iterator[Sample]:
    square, pivots, info = TensorType((BATCH, N, N), dtype), TensorType((BATCH, N), I32), TensorType((BATCH,), I32)
    for left in (False, True):
        rhs = matrices(dtype, *((N, 3) if left else (3, N)), seed=1)
        for flag in (False, True):

            def solved(b: Any, x: Any, y: Any, left: bool = left, flag: bool = flag) -> Any:
                lu, swaps, _ = call(b, "lu_factor", (x,), (square, pivots, info), pivot=True)
                triangular = call(b, "triangular_solve", (x, y), (y.type,), upper=flag, left=left, unit_diagonal=flag)
                return call(b, "lu_solve", (lu, swaps, y), (y.type,), left=left, adjoint=flag), triangular

            yield sample(f"lu_solve {left} {flag} {dtype}", solved, matrices(dtype), rhs)
            just = lambda b, x, y, side=left, f=flag: call(b, "triangular_solve", (x, y), (y.type,), upper=f, left=side, unit_diagonal=f)  # noqa: E731
            yield sample(f"triangular_solve {left} {flag} {dtype}", just, matrices(dtype), rhs)

    def symmetric(b: Any, x: Any, y: Any) -> Any:
        factors, swaps, _ = call(b, "ldl_factor", (x,), (square, pivots, info), hermitian=True)
        return call(b, "ldl_solve", (factors, swaps, y), (y.type,), hermitian=True)

    yield sample(f"ldl_solve {dtype}", symmetric, positive(dtype), matrices(dtype, N, 3, seed=1))
    yield sample(f"matrix_exponential {dtype}", lambda b, x: call(b, "matrix_exponential", (x,), (x.type,)), matrices(dtype))


def groups() -> Iterator[Sample]:
    """Three groups, one of them empty, and a rest that none has."""
    ends = (I32, np.array([2, 2, 5], np.int32))
    for dtype in (DType.F32, DType.F64, DType.BF16):
        for lhs, rhs, out in (
            ((6, 4), (3, 4, 5), (6, 5)),
            ((3, 4, 5), (5, 6), (4, 6)),
            ((4, 6), (6, 5), (3, 4, 5)),
        ):
            result = TensorType(out, dtype)
            build = lambda b, x, y, e, t=result: call(b, "grouped_matmul", (x, y, e), (t,))  # noqa: E731
            yield sample(
                f"grouped_matmul {len(lhs)} {len(rhs)} {dtype}", build, (dtype, typical(dtype, lhs)), (dtype, typical(dtype, rhs, 1)), ends
            )


def fourier() -> Iterator[Sample]:
    for real, wide in COMPLEX_OF.items():
        for length in ((5,), (3, 4), (2, 3, 6)):
            spectrum = TensorType((2, *length[:-1], length[-1] // 2 + 1), wide)
            for kind, given, result in (
                ("FFT", (wide, (2, *length)), TensorType((2, *length), wide)),
                ("IFFT", (wide, (2, *length)), TensorType((2, *length), wide)),
                ("RFFT", (real, (2, *length)), spectrum),
            ):
                build = lambda b, x, k=kind, n=length, t=result: call(b, "fft", (x,), (t,), kind=k, length=n)  # noqa: E731
                yield sample(f"fft {kind} {length} {given[0]}", build, (given[0], typical(*given)))

            def there_and_back(b: Any, x: Any, n: tuple[int, ...] = length, t: TensorType = spectrum) -> Any:
                # What does not come from real numbers has no defined inverse.
                return call(b, "fft", (call(b, "fft", (x,), (t,), kind="RFFT", length=n),), (x.type,), kind="IRFFT", length=n)

            yield sample(f"fft IRFFT {length} {real}", there_and_back, (real, typical(real, (2, *length))))


def special_functions() -> Iterator[Sample]:
    for dtype in (DType.F32, DType.F64):
        x = typical(dtype, (3, 5))
        for name in UNARY_FUNCTIONS:
            build = lambda b, x, f=name: call(b, "special_function", (x,), (x.type,), function=f)  # noqa: E731
            yield sample(f"special_function {name} {dtype}", build, (dtype, np.abs(x)))
        order = (np.arange(15, dtype=x.dtype) % 5).reshape(3, 5)
        for name in BINARY_FUNCTIONS:
            first, second = (np.abs(x) + 1, np.abs(x)[::-1] + 1) if name in ("gammainc", "gammaincc", "zeta") else (x, order)
            build = lambda b, x, y, f=name: call(b, "special_function", (x, y), (x.type,), function=f)  # noqa: E731
            yield sample(f"special_function {name} {dtype}", build, (dtype, first), (dtype, np.ascontiguousarray(second)))
    for dtype in (DType.I32, DType.I64, DType.UI8):
        for name in INTEGER_FUNCTIONS:
            build = lambda b, x, y, f=name: call(b, "special_function", (x, y), (x.type,), function=f)  # noqa: E731
            yield sample(f"special_function {name} {dtype}", build, (dtype, typical(dtype, (9,))), (dtype, typical(dtype, (9,), 1)))
    for dtype in (DType.F32, DType.F64):
        # Where ATen sums a series; elsewhere its approximations have few digits.
        x, shape, total = (np.array(values, typical(dtype, ()).dtype) for values in ([0.01, 0.02, 0.005], [0.4, 1.2, 2.0], [1.5, 2.5, 3.0]))
        build = lambda b, *operands: call(b, "special_function", operands, (operands[0].type,), function="standard_gamma_grad")  # noqa: E731
        yield sample(f"special_function standard_gamma_grad {dtype}", build, (dtype, shape), (dtype, x))
        build = lambda b, *operands: call(b, "special_function", operands, (operands[0].type,), function="dirichlet_grad")  # noqa: E731
        yield sample(f"special_function dirichlet_grad {dtype}", build, (dtype, x), (dtype, shape), (dtype, total))


def random_variates() -> Iterator[Sample]:
    """Of distributions that have one value only: which numbers are drawn is the target's."""
    for dtype in (DType.F32, DType.F64):
        for distribution, parameters in (("poisson", [[0, 0]]), ("gamma", [[0, 0]]), ("binomial", [[5, 7, 0], [1, 0, 0.5]])):
            b = Builder("random_variate")
            state = [b.parameter(TensorType((), DType.UI64), is_scalar=True) for _ in ("seed", "offset")]
            arrays = [np.array(values, typical(dtype, ()).dtype) for values in parameters]
            operands = [b.parameter(TensorType(array.shape, dtype)) for array in arrays]
            attributes = {"distribution": distribution, "start": 1}
            numbers = b.composite("random_variate", (*state, *operands), attributes, (operands[0].type,))
            inputs = [np.array(7, np.uint64), np.array(2**40, np.uint64), *arrays]
            yield Sample(f"random_variate {distribution} {dtype}", b.build(numbers), inputs)
