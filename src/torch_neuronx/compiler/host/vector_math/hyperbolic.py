"""tanh."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import reduced
from .formats import power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, with_sign_of


def tanh_single(x: Value) -> Value:
    """Odd polynomial of degree 13 below 0.6; 1 - 2 / (e^2|x| + 1) above, from 10 on constant. Error < 1.3 ulp."""
    magnitude = absolute(x)
    square = x * x
    near = fma(x * square, polynomial(square, c.TANH_SINGLE), x)
    minus_one, n = reduced(lesser(magnitude, 10.0) * 2.0, c.EXP_SINGLE)
    scale = power_of_two(n, x)
    far = 1.0 - 2.0 / (fma(scale, minus_one, scale) + 1.0)
    return select(magnitude < 0.6, near, with_sign_of(far, x))


FORMULAS = {("tanh", "f32"): tanh_single}
