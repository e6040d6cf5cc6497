"""log, log_plus_one.

Both write the argument as 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2) and add k ln2 in two parts to log(1 + f).
"""

from __future__ import annotations

from collections.abc import Sequence

from . import coefficients as c
from .double_double import DoubleDouble, sum_in_order
from .formats import INFINITY, NAN, format_of, power_of_two
from .ir import Value, fma, polynomial, select, with_sign_of

# The bits of sqrt(1/2), rounded down: what separates one binade of 1 + f from the next.
_SQRT_HALF_BITS = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCC}


def log(x: Value) -> Value:
    """Natural logarithm. Error < 0.9 ulp: a polynomial of degree 11 in f (f32), a series in f/(2+f) (f64)."""
    k, f = split_any(x)
    result = log_of_parts(integer_to_float(k, x), f)
    return select(x > 0.0, select(x < INFINITY, result, x), select(x.equals(0.0), x.constant(-INFINITY), NAN))


def log_plus_one(x: Value) -> Value:
    """log(1 + x). Error < 1.4 ulp."""
    result = with_sign_of(log_of_one_plus(x), x)
    return select(x > -1.0, select(x < INFINITY, result, x), select(x.equals(-1.0), x.constant(-INFINITY), NAN))


def log_of_one_plus(x: Value, low: Value | None = None, doublings: Value | None = None) -> Value:
    """log((1 + x + low) 2^doublings) for finite x > -1.

    k comes from the rounded 1 + x, but f = 2^-k x + (2^-k - 1) is rounded once from x itself.
    """
    form = format_of(x)
    k, f_rounded = split(x + 1.0)
    scale = power_of_two(-k, x)
    f_exact = fma(x, scale, scale - 1.0)
    if low is not None:
        f_exact = fma(low, scale, f_exact)
    # Above 2^(mantissa + 2), adding 1 changes nothing that matters, and 2^-k need not be normal.
    f = select(x > 2.0 ** (form.mantissa_bits + 2), f_rounded, f_exact)
    return log_of_parts(integer_to_float(k if doublings is None else k + doublings, x), f)


def log_lite(x: Value) -> Value:
    """log of a double >= 1e-300 with a relative error of 2^-37; infinity and nan are returned."""
    k, f = split(x)
    return select(x < INFINITY, _log_of_parts_double(integer_to_float(k, x), f, c.LOG_LITE), x)


def log_finite(x: Value) -> Value:
    """log of a positive normal finite double, to full precision."""
    k, f = split(x)
    return log_of_parts(integer_to_float(k, x), f)


def log_finite_in_two_parts(x: Value) -> DoubleDouble:
    """``log_finite`` of a double with an absolute error of 2^-53, however large it is."""
    k, f = split(x)
    turns = integer_to_float(k, x)
    return sum_in_order(turns * format_of(x).ln2_high, _log_of_fraction(turns, f, c.LOG_DOUBLE))


def split(x: Value) -> tuple[Value, Value]:
    """(k, f) of a positive normal x = 2^k (1 + f); k is an integer. Other x give some k and f."""
    form = format_of(x)
    distance = x.bits() - _SQRT_HALF_BITS[x.type]
    k = ((distance + (form.bias << form.mantissa_bits)) >> form.mantissa_bits) - form.bias
    return k, (x.bits() - (k << form.mantissa_bits)).as_float() - 1.0


def split_any(x: Value) -> tuple[Value, Value]:
    """``split`` for denormals too."""
    form = format_of(x)
    denormal = x < form.smallest_normal
    lift = form.mantissa_bits + 1
    k, f = split(select(denormal, x * 2.0**lift, x))
    return k - select(denormal, k.constant(lift), 0), f


def integer_to_float(k: Value, like: Value) -> Value:
    """A small integer as a floating-point number of ``like``'s type, without a 64-bit conversion, which AVX2 lacks."""
    form = format_of(like)
    return (k + form.magic_bits).as_float() - form.magic


def log_of_parts(k: Value, f: Value) -> Value:
    """k ln2 + log(1 + f), k a floating-point integer."""
    if f.type == "double":
        return _log_of_parts_double(k, f, c.LOG_DOUBLE)
    form = format_of(f)
    square = f * f
    tail = fma(k, form.ln2_low, polynomial(f, c.LOG_SINGLE) * (square * f))
    return fma(k, form.ln2_high, fma(square, -0.5, tail) + f)


def _log_of_parts_double(k: Value, f: Value, coefficients: Sequence[float]) -> Value:
    return fma(k, format_of(f).ln2_high, _log_of_fraction(k, f, coefficients))


def _log_of_fraction(k: Value, f: Value, coefficients: Sequence[float]) -> Value:
    """log(1 + f) + k ln2_low: f - f^2/2 + s (f^2/2 + R), with s = f/(2+f) and R = (2 atanh(s) - 2s)/s."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    correction = fma(s, fma(z, polynomial(z, coefficients), half_square), k * format_of(f).ln2_low)
    return f - (half_square - correction)


FORMULAS = {(name, dtype): formula for dtype in ("f32", "f64") for name, formula in {"log": log, "log_plus_one": log_plus_one}.items()}
