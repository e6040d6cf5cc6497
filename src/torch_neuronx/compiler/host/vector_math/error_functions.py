"""erf, erfc, erf_inv."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import reduced
from .formats import INFINITY, NAN, power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, square_root, with_sign_of
from .logarithms import log_lite


def erf_single(x: Value) -> Value:
    """x + x p(x^2) below 1; 1 - e^-p(|x|) above, where p ~ -log erfc, from 4 on 1. Error < 1.2 ulp."""
    magnitude = absolute(x)
    near = fma(x, polynomial(x * x, c.ERF_SINGLE), x)
    minus_one, n = reduced(-polynomial(lesser(magnitude, 4.0), c.ERF_TAIL_SINGLE), c.EXP_SINGLE)
    scale = power_of_two(n, x)
    far = 1.0 - fma(scale, minus_one, scale)
    return select(magnitude < 1.0, near, with_sign_of(far, x))


def erfc_single(x: Value) -> Value:
    """e^(-x^2) p((|x| - 3) / (|x| + 3)), from 2 for negative x, in double. Error < 0.6 ulp; the tail reaches the denormals."""
    magnitude = lesser(absolute(x), 10.25).to_double()
    minus_one, n = reduced(-(magnitude * magnitude), c.EXP_LITE)
    scale = power_of_two(n, magnitude)
    tail = fma(scale, minus_one, scale) * polynomial((magnitude - 3.0) / (magnitude + 3.0), c.ERFC_LITE)
    return select(x < 0.0, 2.0 - tail, tail).to_float()


def erf_inv_single(x: Value) -> Value:
    """x times a polynomial in w = -log(1 - x^2) for w < 5, in sqrt(w) beyond, in double. Error < 0.6 ulp; infinite at 1, nan beyond."""
    wide = x.to_double()
    w = -log_lite(fma(wide, -wide, 1.0))
    centre = w < 5.0
    argument = select(centre, w - 2.5, square_root(w) - 3.0)
    pairs = list(zip(c.ERF_INV_CENTRE_LITE, c.ERF_INV_TAIL_LITE))
    ratio = select(centre, *(w.constant(value) for value in pairs[-1]))
    for pair in reversed(pairs[:-1]):
        ratio = fma(ratio, argument, select(centre, *(w.constant(value) for value in pair)))
    magnitude = absolute(wide)
    edge = select(magnitude.equals(1.0), wide * INFINITY, wide.constant(NAN))
    return select(magnitude < 1.0, wide * ratio, edge).to_float()


FORMULAS = {("erf", "f32"): erf_single, ("erfc", "f32"): erfc_single, ("erf_inv", "f32"): erf_inv_single}
