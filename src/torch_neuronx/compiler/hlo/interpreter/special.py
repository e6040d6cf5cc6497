"""Special functions of float64 arrays that NumPy lacks, within about 1e-14 relative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..numerics import Array

# Terms of digamma's asymptotic series, B(2k) / 2k for k = 1 … 8 (Abramowitz and Stegun 6.3.18).
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# From here on the series above is exact to float64.
_DIGAMMA_ASYMPTOTIC = 10.0


def erf(x: Array) -> Array:
    return _each(math.erf, x)


def erfc(x: Array) -> Array:
    return _each(math.erfc, x)


def erf_inv(x: Array) -> Array:
    return _each(_erf_inv, x)


def lgamma(x: Array) -> Array:
    return _each(_lgamma, x)


def digamma(x: Array) -> Array:
    return _each(_digamma, x)


def _each(function: Callable[[float], float], x: Array) -> Array:
    return np.asarray(np.vectorize(function, otypes=[np.float64])(x))


def _erf_inv(y: float) -> float:
    """Newton's method from Winitzki's approximation; on the complement, which keeps its digits where y is near 1."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1 or y == 0:
        return y if y == 0 else math.copysign(math.inf, y)
    target = abs(y)
    logarithm = math.log1p(-target * target)
    term = 2 / (math.pi * 0.147) + logarithm / 2
    x = math.sqrt(math.sqrt(term * term - logarithm / 0.147) - term)
    for _ in range(4):
        miss = (1 - target) - math.erfc(x) if target > 0.5 else math.erf(x) - target
        x -= miss * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return math.copysign(x, y)


def _lgamma(x: float) -> float:
    """inf at the poles, at the infinities and on overflow."""
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _digamma(x: float) -> float:
    """PyTorch's values at the poles: ∓inf at ±0, nan at the negative integers."""
    if x == 0:
        return -math.copysign(math.inf, x)
    if math.isnan(x) or x == math.inf:
        return x
    if x < 0:
        fraction = x - math.floor(x) if math.isfinite(x) else 0.0
        return math.nan if fraction == 0 else _digamma(1 - x) - math.pi / math.tan(math.pi * fraction)
    below = 0.0
    while x < _DIGAMMA_ASYMPTOTIC:
        below, x = below + 1 / x, x + 1
    series = sum(term / x ** (2 * (power + 1)) for power, term in enumerate(_DIGAMMA_SERIES))
    return math.log(x) - 1 / (2 * x) - series - below
