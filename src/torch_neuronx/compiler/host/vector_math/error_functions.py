"""erf, erfc, erf_inv."""

from __future__ import annotations

from . import coefficients as c
from .double_double import quotient_of_sums, sum_in_order
from .exponentials import exponential_head_and_tail, exponential_parts, scaled
from .formats import INFINITY, NAN, power_of_two
from .ir import Value, absolute, fma, lesser, polynomial, select, square_root, with_sign_of
from .logarithms import log_finite_in_two_parts, log_lite

# From here on erf rounds to 1.
_ERF_IS_ONE_SINGLE, _ERF_IS_ONE_DOUBLE = 4.0, 6.0
# erf_inv(y) / y in two parts where the variable of the polynomials for f64 is 0: in the centre, the tail and the far tail.
_ERF_INV_RATIOS = (
    (float.fromhex("0x1.7083a336cd764p+0"), float.fromhex("-0x1.2d6bc97b5f758p-54")),
    (float.fromhex("0x1.5a9d7f10825d9p+1"), float.fromhex("0x1.a511f44baef03p-53")),
    (float.fromhex("0x1.2e4fbe28e61acp+2"), float.fromhex("-0x1.ab104f4d49e40p-52")),
)


def erf_single(x: Value) -> Value:
    """1 - e^-w with w = -log erfc|x| = |x| + |x| p(|x|): small differences from 1 are those of e^r - 1. Error < 1.7 ulp."""
    magnitude = lesser(absolute(x), _ERF_IS_ONE_SINGLE)
    minus_one, n = exponential_parts(-fma(magnitude, polynomial(magnitude, c.ERF_SINGLE), magnitude))
    scale = power_of_two(n, x)
    return with_sign_of(fma(-scale, minus_one, 1.0 - scale), x)


def erf_double(x: Value) -> Value:
    """x + x p(x^2) below 1; 1 - e^-p(|x|) above, where p ~ -log erfc. Error < 1.2 ulp."""
    magnitude = absolute(x)
    near = fma(x, polynomial(x * x, c.ERF_DOUBLE), x)
    minus_one, n = exponential_parts(-polynomial(lesser(magnitude, _ERF_IS_ONE_DOUBLE), c.ERF_TAIL_DOUBLE))
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
    """1 - erf(x) for |x| < 0.46875, where that is above 1/2; beyond, e^(-x^2) p((|x| - 3.5625) / (|x| + 3.5625)) / (2|x| + 1).

    All that is large of it is taken in two parts. Error < 1.5 ulp.
    """
    near = 1.0 - fma(x, polynomial(x * x, c.ERF_DOUBLE), x)
    magnitude = lesser(absolute(x), 27.3)
    square = magnitude * magnitude
    head, tail, n = exponential_head_and_tail(-square, -fma(magnitude, magnitude, -square))
    t = (magnitude - 3.5625) / (magnitude + 3.5625)
    ratio, ratio_low = sum_in_order(t.constant(c.ERFC_DOUBLE[0]), t * polynomial(t, c.ERFC_DOUBLE[1:]))
    numerator = head * ratio
    numerator_low = fma(head, ratio, -numerator) + fma(head, ratio_low, tail * ratio)
    doubled = magnitude + magnitude
    divisor = doubled + 1.0
    divisor_low = select(doubled > 1.0, 1.0 - (divisor - doubled), doubled - (divisor - 1.0))
    far = scaled(quotient_of_sums((numerator, numerator_low), (divisor, divisor_low)), n)
    return select(absolute(x) < 0.46875, near, select(x < 0.0, 2.0 - far, far))


def erf_inv_single(x: Value) -> Value:
    """x times a polynomial in w = -log(1 - x^2) for w < 5, in sqrt(w) beyond, in double. Error < 0.6 ulp; infinite at 1, nan beyond."""
    wide = x.to_double()
    w = -log_lite(fma(wide, -wide, 1.0))
    centre = w < 5.0
    argument = select(centre, w - 2.5, square_root(w) - 3.0)
    ratio = _polynomial_by_case(argument, [(centre, c.ERF_INV_CENTRE_LITE)], c.ERF_INV_TAIL_LITE)
    return _erf_inv_edges(wide, wide * ratio).to_float()


def erf_inv_double(x: Value) -> Value:
    """As in f32, with two polynomials in sqrt(w) that meet at w = 13; w, its root and the ratio are taken in two parts. Error < 1.2 ulp."""
    w, w_low = (-part for part in log_finite_in_two_parts(fma(x, -x, 1.0)))
    root = square_root(w)
    root_low = (fma(root, -root, w) + w_low) / (root + root)
    centre, tail = w < 4.5, w < 13.0
    t = select(centre, (w - 2.25) + w_low, (root - select(tail, w.constant(2.875), 4.875)) + root_low)
    polynomials = (c.ERF_INV_CENTRE, c.ERF_INV_TAIL, c.ERF_INV_FAR_TAIL)
    value, value_low, first = (
        select(centre, x.constant(constants[0]), select(tail, x.constant(constants[1]), constants[2]))
        for constants in (*zip(*_ERF_INV_RATIOS, strict=True), [coefficients[0] for coefficients in polynomials])
    )
    rest = _polynomial_by_case(t, [(centre, polynomials[0][1:]), (tail, polynomials[1][1:])], polynomials[2][1:])
    slope, slope_low = sum_in_order(first, t * rest)
    product = t * slope
    ratio, ratio_low = sum_in_order(value, product)
    ratio_low = ratio_low + fma(t, slope_low, fma(t, slope, -product) + value_low)
    return _erf_inv_edges(x, with_sign_of(fma(x, ratio, x * ratio_low), x))


def _erf_inv_edges(x: Value, inside: Value) -> Value:
    magnitude = absolute(x)
    return select(magnitude < 1.0, inside, select(magnitude.equals(1.0), x * INFINITY, NAN))


def _polynomial_by_case(x: Value, cases: list[tuple[Value, tuple[float, ...]]], otherwise: tuple[float, ...]) -> Value:
    """The polynomial of the first case whose condition holds; all have one degree, so only the coefficients are selected."""
    result = x.constant(0.0)
    for position in reversed(range(len(otherwise))):
        coefficient = x.constant(otherwise[position])
        for condition, coefficients in reversed(cases):
            coefficient = select(condition, coefficients[position], coefficient)
        result = fma(result, x, coefficient)
    return result


FORMULAS = {
    ("erf", "f32"): erf_single,
    ("erf", "f64"): erf_double,
    ("erfc", "f32"): erfc_single,
    ("erfc", "f64"): erfc_double,
    ("erf_inv", "f32"): erf_inv_single,
    ("erf_inv", "f64"): erf_inv_double,
}
