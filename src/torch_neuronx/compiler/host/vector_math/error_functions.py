"""erf, erfc, erf_inv."""

from __future__ import annotations

from . import coefficients as c
from .exponentials import exponential_head_and_tail, exponential_parts, scaled
from .formats import INFINITY, NAN, power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, square_root, with_sign_of
from .logarithms import log_lite

_ERF_CENTRE = {"float": c.ERF_SINGLE, "double": c.ERF_DOUBLE}
_ERF_TAIL = {"float": c.ERF_TAIL_SINGLE, "double": c.ERF_TAIL_DOUBLE}
# From here on erf rounds to 1.
_ERF_IS_ONE = {"float": 4.0, "double": 6.0}


def erf(x: Value) -> Value:
    """x + x p(x^2) below 1; 1 - e^-p(|x|) above, where p ~ -log erfc. Error < 1.2 ulp."""
    magnitude = absolute(x)
    near = fma(x, polynomial(x * x, _ERF_CENTRE[x.type]), x)
    minus_one, n = exponential_parts(-polynomial(lesser(magnitude, _ERF_IS_ONE[x.type]), _ERF_TAIL[x.type]))
    scale = power_of_two(n, x)
    far = 1.0 - fma(scale, minus_one, scale)
    return select(magnitude < 1.0, near, with_sign_of(far, x))


def erfc_single(x: Value) -> Value:
    """e^(-x^2) p((|x| - 3) / (|x| + 3)), from 2 for negative x, in double. Error < 0.6 ulp; the tail reaches the denormals."""
    magnitude = lesser(absolute(x), 10.25).to_double()
    minus_one, n = exponential_parts(-(magnitude * magnitude), c.EXP_LITE)
    scale = power_of_two(n, magnitude)
    tail = fma(scale, minus_one, scale) * polynomial((magnitude - 3.0) / (magnitude + 3.0), c.ERFC_LITE)
    return select(x < 0.0, 2.0 - tail, tail).to_float()


def erfc_double(x: Value) -> Value:
    """1 - erf(x) for |x| < 0.46875, where that is above 1/2; e^(-x^2) p((|x| - 3.5625) / (|x| + 3.5625)) beyond, x^2 in two parts. Error < 2 ulp."""
    near = 1.0 - fma(x, polynomial(x * x, c.ERF_DOUBLE), x)
    magnitude = lesser(absolute(x), 27.3)
    square = magnitude * magnitude
    head, tail, n = exponential_head_and_tail(-square, -fma(magnitude, magnitude, -square))
    ratio = polynomial((magnitude - 3.5625) / (magnitude + 3.5625), c.ERFC_DOUBLE)
    far = scaled(fma(head, ratio, tail * ratio), n)
    return select(absolute(x) < 0.46875, near, select(x < 0.0, 2.0 - far, far))


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


FORMULAS = {
    ("erf", "f32"): erf,
    ("erf", "f64"): erf,
    ("erfc", "f32"): erfc_single,
    ("erfc", "f64"): erfc_double,
    ("erf_inv", "f32"): erf_inv_single,
}
