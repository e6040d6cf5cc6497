"""erf."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import reduced
from .formats import power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, with_sign_of


def erf_single(x: Value) -> Value:
    """x + x p(x^2) below 1; 1 - e^-p(|x|) above, where p ~ -log erfc, from 4 on 1. Error < 1.2 ulp."""
    magnitude = absolute(x)
    near = fma(x, polynomial(x * x, c.ERF_SINGLE), x)
    minus_one, n = reduced(-polynomial(lesser(magnitude, 4.0), c.ERF_TAIL_SINGLE), c.EXP_SINGLE)
    scale = power_of_two(n, x)
    far = 1.0 - fma(scale, minus_one, scale)
    return select(magnitude < 1.0, near, with_sign_of(far, x))


FORMULAS = {("erf", "f32"): erf_single}
