"""How far functions are from the exact result: references, inputs and the distance in ulps. For the tests and benchmarks/vector_math.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import mpmath
import numpy as np
import torch

Array = np.ndarray
REAL = {"f32": np.float32, "f64": np.float64}

TORCH_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atan2": torch.atan2,
    "atanh": torch.atanh,
    "cosh": torch.cosh,
    "cosine": torch.cos,
    "digamma": torch.digamma,
    "erf": torch.erf,
    "erf_inv": torch.erfinv,
    "erfc": torch.erfc,
    "exponential": torch.exp,
    "exponential_minus_one": torch.expm1,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log_plus_one": torch.log1p,
    "logistic": torch.sigmoid,
    "power": torch.pow,
    "rsqrt": torch.rsqrt,
    "sine": torch.sin,
    "sinh": torch.sinh,
    "tan": torch.tan,
    "tanh": torch.tanh,
}
"""ATen's functions by ours; it has no cbrt."""

_EXTENDED: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))),
    "power": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
_MPMATH: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "digamma": mpmath.digamma,
    "erf": mpmath.erf,
    "erf_inv": mpmath.erfinv,
    "erfc": mpmath.erfc,
    "lgamma": lambda x: mpmath.loggamma(x) if x > 0 else mpmath.log(abs(mpmath.gamma(x))),
}
_EVEN, _ODD = 1, -1
SIGN_OF_NEGATED = {
    **dict.fromkeys(("cosh", "cosine"), _EVEN),
    **dict.fromkeys(("asin", "asinh", "atan", "atanh", "cbrt", "erf", "erf_inv", "sine", "sinh", "tan", "tanh"), _ODD),
}
"""f(-x) / f(x) of the even and odd functions, to the bit."""
_SPECIAL = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 16777215.0, 1e30, np.inf]
# Where mpmath is quick and defined; elsewhere the tests compare with float64 or by hand.
_MPMATH_DOMAIN = {"digamma": (-30.0, 1e6), "erf": (-7.0, 7.0), "erf_inv": (-1.0, 1.0), "erfc": (-7.0, 27.2), "lgamma": (-30.0, 1e6)}


def single_reference(name: str, *operands: Array) -> Array:
    """The function of f32 operands as f64, far more exact than f32."""
    if name == "cbrt":
        return np.cbrt(torch.from_numpy(operands[0]).double().numpy())
    return TORCH_FUNCTIONS[name](*(torch.from_numpy(operand).double() for operand in operands)).numpy()


def double_reference(name: str, *operands: Array) -> Array:
    """The function of f64 operands in extended precision (64 bits of mantissa)."""
    with np.errstate(all="ignore"):
        if name in _EXTENDED:
            return _EXTENDED[name](*(operand.astype(np.longdouble) for operand in operands))
    with mpmath.workprec(200):
        exact = [_MPMATH[name](mpmath.mpf(float(value))) for value in operands[0]]
        head = np.array([float(value) for value in exact])
        tail = np.array([float(value - mpmath.mpf(float(value))) for value in exact])
    return head.astype(np.longdouble) + tail


def stratified(dtype: str, per_exponent: int, seed: int = 0) -> Array:
    """All binades of both signs, ``per_exponent`` numbers each (0, denormals, infinities and nan among them), and as many near 1."""
    bits, mantissa_bits, unsigned = {"f32": (32, 23, np.uint32), "f64": (64, 52, np.uint64)}[dtype]
    binades = 1 << (bits - mantissa_bits)
    random = np.random.default_rng(seed)
    mantissas = random.integers(0, 1 << mantissa_bits, (binades, per_exponent), dtype=np.uint64)
    mantissas[:, 0], mantissas[:, -1] = 0, (1 << mantissa_bits) - 1
    exponents = np.arange(binades, dtype=np.uint64)[:, None] << np.uint64(mantissa_bits)
    everywhere = (exponents | mantissas).astype(unsigned).reshape(-1).view(REAL[dtype])
    common = random.standard_normal(everywhere.size) * 4
    steps = np.arange(-64, 64.25, 0.25)
    return np.concatenate([everywhere, common.astype(REAL[dtype]), steps.astype(REAL[dtype])])


def operator_inputs(per_exponent: int) -> Array:
    """All binades of float32, and as many numbers as in a binade in steps over the interval where activations bend."""
    return np.concatenate([stratified("f32", per_exponent), np.linspace(-20, 20, 64 * per_exponent, dtype=np.float32)])


def operands_of(name: str, dtype: str, arity: int, per_exponent: int) -> list[Array]:
    """Inputs for one function: stratified for each operand, in pairs with each other and with special values for two."""
    if name in _MPMATH and dtype == "f64":
        low, high = _MPMATH_DOMAIN[name]
        values = stratified(dtype, per_exponent)
        inside = np.random.default_rng(2).uniform(max(low, -30), min(high, 30), values.size)
        near_one = 1 - 10.0 ** np.random.default_rng(3).uniform(-15, 0, values.size)
        values = np.concatenate([values, inside, near_one])
        values = values[(values > low) & (values < high) & (np.abs(values) > 1e-290)]
        values = values[(values > 0) | (values != np.rint(values))]
        return [np.random.default_rng(4).permutation(values)[: 300 * per_exponent]]
    values = stratified(dtype, per_exponent)
    if arity == 1:
        return [values]
    first = np.random.default_rng(1).permutation(values)
    first[::3] = np.abs(first[::3])
    # Powers whose results spread over the whole range of the format.
    base = np.exp(np.random.default_rng(5).standard_normal(values.size)).astype(REAL[dtype])
    reach = np.log(np.finfo(REAL[dtype]).max)
    exponent = (np.random.default_rng(6).uniform(-reach, reach, values.size) / np.log(base)).astype(REAL[dtype])
    signed = [sign * value for value in _SPECIAL for sign in (1, -1)] + [np.nan]
    pairs = np.array(list(product(signed, signed)), REAL[dtype])
    return [np.concatenate([first, base, pairs[:, 0]]), np.concatenate([values, exponent, pairs[:, 1]])]


def every_float(name: str) -> Iterator[Array]:
    """All 2^32 floats in arrays that fit the cache; without the negative ones for functions that are even or odd by construction."""
    step = 1 << 16
    for start in range(0, 1 << (31 if name in SIGN_OF_NEGATED else 32), step):
        yield np.arange(start, start + step, dtype=np.uint32).view(np.float32)


def ulps(got: Array, exact: Array) -> Array:
    """|got - exact| in units in the last place of got's format at exact. inf where only one is nan or infinite, or signs of zero differ.

    An exact value beyond the largest number counts as that of the next binade, an infinite ``got`` too.
    """
    info = np.finfo(got.dtype)
    digits, top = info.nmant + 1, exact.dtype.type(2) ** info.maxexp
    with np.errstate(all="ignore"):
        beyond = np.abs(exact) >= top
        limited = np.where(beyond & np.isfinite(exact), np.copysign(top, exact), exact)
        known = np.where(np.isinf(got) & np.isfinite(exact), np.copysign(top, got), got)
        exponent = np.maximum(np.frexp(limited)[1] - digits, info.minexp - info.nmant)
        distance = np.abs(known - limited) * np.exp2(-exponent.astype(exact.dtype))
        distance = np.where(np.isfinite(limited) & np.isfinite(known), distance, np.inf)
        same = (known == limited) & ((exact != 0) | (np.signbit(got) == np.signbit(exact)))
        wrong_zero = (exact == 0) & (got == 0) & ~same
    return np.where(same | (np.isnan(got) & np.isnan(exact)), 0, np.where(wrong_zero, np.inf, distance)).astype(np.float64)


def worst(got: Array, exact: Array) -> tuple[float, int]:
    """The largest error in ulps and where; errors up to 1/2, which correct rounding has too, count as 1/2."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(got.dtype)
    integers = {4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    differing = np.flatnonzero(got.view(integers) != nearest.view(integers))
    if not differing.size:
        return 0.5, 0
    errors = ulps(got[differing], exact[differing])
    position = int(np.argmax(errors))
    return max(0.5, float(errors[position])), int(differing[position])


def describe(operands: Sequence[Array], index: int) -> str:
    """The operands at one place, as hexadecimal literals."""
    return ", ".join(float(operand[index]).hex() for operand in operands)
