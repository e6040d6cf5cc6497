"""What the polynomials of the vector math approximate: input of tools/minimax.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpmath import mp, mpf

mp.dps = 60
Real = Callable[[mpf], mpf]
HALF_LN2 = mp.log(2) / 2
LOG_LOW, LOG_HIGH = mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(2) - 1
LOG_S = (mp.sqrt(2) - 1) ** 2


@dataclass(frozen=True)
class Spec:
    """p(variable(x)) ~ target(x) on ``interval``; weight(x) turns an error of p into the error that counts, which ``relative_to`` names."""

    name: str
    meaning: str
    target: Real
    weight: Real
    interval: tuple[mpf, mpf]
    degree: int
    single: bool = False
    variable: Real = lambda x: x
    relative_to: str = "relative to the function"

    def round(self, value: mpf) -> float:
        return float(np.float32(float(value))) if self.single else float(value)


def _erf_centre(name: str, degree: int) -> Spec:
    interval = (mpf(0), mpf(1))
    return Spec(name, "erf(x) / x - 1 in x^2", lambda x: mp.erf(x) / x - 1, lambda x: x / mp.erf(x), interval, degree, variable=square)


def _erf_tail(name: str, low: str, high: int, degree: int) -> Spec:
    interval = (mpf(low), mpf(high))
    return Spec(name, "-log(erfc x)", lambda x: -mp.log(mp.erfc(x)), lambda x: mp.erfc(x) / mp.erf(x), interval, degree)


def _erf_whole(name: str, high: int, degree: int) -> Spec:
    return Spec(
        name,
        "-log(erfc x) / x - 1",
        lambda x: -mp.log(mp.erfc(x)) / x - 1,
        lambda x: x * mp.erfc(x) / mp.erf(x),
        (mpf(10) ** -9, mpf(high)),
        degree,
        single=True,
        relative_to="relative to erf x",
    )


def square(x: mpf) -> mpf:
    return x * x


def _exponential(name: str, degree: int, single: bool = False) -> Spec:
    return Spec(
        name,
        "(e^x - 1 - x) / x^2",
        lambda x: (mp.expm1(x) - x) / x**2,
        lambda x: x**2 / mp.expm1(x),
        (-HALF_LN2, HALF_LN2),
        degree,
        single,
        relative_to="relative to e^x - 1",
    )


def _log_ratio(name: str, degree: int) -> Spec:
    return Spec(
        name,
        "(2 atanh(x) - 2x) / x^3 in x^2",
        lambda x: 2 * (mp.atanh(x) - x) / x**3,
        lambda x: x**3 / (2 * mp.atanh(x)),
        (mpf(0), LOG_S),
        degree,
        variable=square,
    )


def _odd(name: str, text: str, function: Real, high: mpf, degree: int, single: bool = False) -> Spec:
    return Spec(
        name,
        f"({text} - x) / x^3 in x^2",
        lambda x: (function(x) - x) / x**3,
        lambda x: x**3 / function(x),
        (mpf(0), mpf(high)),
        degree,
        single,
        variable=square,
    )


def _erfc_scaled(x: mpf) -> mpf:
    return mp.erfc(x) * mp.exp(x * x)


def _erf_inv_ratio(w: mpf) -> mpf:
    """erf_inv(y) / y as a function of w = -log(1 - y^2): the root x of log erfc(x) = log(1 - y), which keeps its digits near y = 1."""
    square_rest = mp.exp(-w)
    y = mp.sqrt(-mp.expm1(-w))
    if w < 4:
        return mp.erfinv(y) / y
    complement = square_rest / (1 + y)
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(complement), mp.sqrt(w) * mpf("0.9")) / y


def _erf_inv(name: str, variable_text: str, low: float, high: float, degree: int, variable: Real) -> Spec:
    return Spec(
        name,
        f"erf_inv(y) / y, x = -log(1 - y^2), in {variable_text}",
        _erf_inv_ratio,
        lambda w: 1 / _erf_inv_ratio(w),
        (mpf(low), mpf(high)),
        degree,
        variable=variable,
    )


def _erf_inv_rest(name: str, variable_text: str, low: float, high: float, variable: Real, centre: mpf) -> Spec:
    """As ``_erf_inv``, without the value at ``centre``, where the variable is 0: that is taken in two parts."""
    value = _erf_inv_ratio(centre)
    return Spec(
        name,
        f"(r - r(0)) / t, t = {variable_text}, r = erf_inv(y) / y, x = -log(1 - y^2)",
        lambda w: (_erf_inv_ratio(w) - value) / variable(w),
        # The floor keeps the Remez exchange away from the point that has no weight.
        lambda w: max(abs(variable(w)), mpf("0.125")) / _erf_inv_ratio(w),
        (mpf(low), mpf(high)),
        20,
        variable=variable,
    )


def _lgamma_ratio(t: mpf) -> mpf:
    return mp.loggamma(2 + t) / t


def _stirling_rest(w: mpf) -> mpf:
    return mp.loggamma(w) - ((w - mpf(1) / 2) * mp.log(w) - w + mp.log(2 * mp.pi) / 2)


SPECS = [
    _exponential("EXP_SINGLE", 5, single=True),
    _exponential("EXP_LITE", 6),
    _exponential("EXP_DOUBLE", 10),
    Spec(
        "LOG_SINGLE",
        "(log(1 + x) - x + x^2/2) / x^3",
        lambda x: (mp.log1p(x) - x + x**2 / 2) / x**3,
        lambda x: x**3 / mp.log1p(x),
        (LOG_LOW, LOG_HIGH),
        8,
        single=True,
    ),
    _log_ratio("LOG_LITE", 3),
    _log_ratio("LOG_DOUBLE", 6),
    Spec(
        "LOG_POWER",
        "(2 atanh(x) - 2x - 2/3 x^3) / x^5 in x^2",
        lambda x: 2 * (mp.atanh(x) - x - x**3 / 3) / x**5,
        lambda x: x**5 / (2 * mp.atanh(x)),
        (mpf(0), LOG_S),
        7,
        variable=square,
    ),
    _odd("TANH_SINGLE", "tanh x", mp.tanh, mpf("0.6"), 5, single=True),
    _erf_whole("ERF_SINGLE", 4, 10),
    _erf_centre("ERF_DOUBLE", 12),
    _erf_tail("ERF_TAIL_DOUBLE", "0.96875", 6, 18),
    _odd("SINE_LITE", "sin x", mp.sin, mp.pi / 2, 4),
    _odd("TANH_DOUBLE", "tanh x", mp.tanh, mpf("0.6"), 11),
    _odd("SINE_DOUBLE", "sin x", mp.sin, mp.pi / 2, 7),
    _odd("SINH_SINGLE", "sinh x", mp.sinh, mpf(1), 3, single=True),
    _odd("SINH_DOUBLE", "sinh x", mp.sinh, mpf(1), 6),
    _odd("ASIN_DOUBLE", "asin x", mp.asin, mpf("0.5625"), 13),
    _odd("ATAN_DOUBLE", "atan x", mp.atan, mpf(1), 20),
    _odd("ASIN_SINGLE", "asin x", mp.asin, mpf("0.5625"), 6, single=True),
    _odd("ATAN_SINGLE", "atan x", mp.atan, mpf(1), 8, single=True),
    _odd("ATAN_LITE", "atan x", mp.atan, mpf(1), 10),
    Spec(
        "ERFC_LITE",
        "e^(x^2) erfc x in (x - 3) / (x + 3)",
        _erfc_scaled,
        lambda x: 1 / _erfc_scaled(x),
        (mpf(0), mpf("10.25")),
        11,
        variable=lambda x: (x - 3) / (x + 3),
    ),
    Spec(
        "ERFC_DOUBLE",
        "(2x + 1) e^(x^2) erfc x in (x - 3.5625) / (x + 3.5625)",
        lambda x: _erfc_scaled(x) * (2 * x + 1),
        lambda x: 1 / (_erfc_scaled(x) * (2 * x + 1)),
        (mpf("0.46875"), mpf("27.3")),
        21,
        variable=lambda x: (x - mpf("3.5625")) / (x + mpf("3.5625")),
    ),
    _erf_inv("ERF_INV_CENTRE_LITE", "x - 2.5", 1e-12, 5, 10, lambda w: w - mpf("2.5")),
    _erf_inv("ERF_INV_TAIL_LITE", "sqrt(x) - 3", 5, 17, 10, lambda w: mp.sqrt(w) - 3),
    _erf_inv_rest("ERF_INV_CENTRE", "x - 2.25", 1e-12, 4.5, lambda w: w - mpf("2.25"), mpf("2.25")),
    _erf_inv_rest("ERF_INV_TAIL", "sqrt(x) - 2.875", 4.5, 13, lambda w: mp.sqrt(w) - mpf("2.875"), mpf("2.875") ** 2),
    _erf_inv_rest("ERF_INV_FAR_TAIL", "sqrt(x) - 4.875", 13, 37.5, lambda w: mp.sqrt(w) - mpf("4.875"), mpf("4.875") ** 2),
    Spec("LGAMMA", "lgamma(2 + x) / x", _lgamma_ratio, lambda t: 1 / _lgamma_ratio(t), (mpf(-0.5), mpf(0.5)), 20),
    Spec(
        "STIRLING",
        "(lgamma(1/x) - Stirling's three terms) / x in x^2",
        lambda v: _stirling_rest(1 / v) / v,
        lambda v: v,
        (mpf(10) ** -6, mpf(1) / 8),
        5,
        variable=square,
        relative_to="absolute in lgamma",
    ),
    Spec(
        "DIGAMMA_TAIL",
        "(digamma(1/x) + log(x) + x/2) / x^2 in x^2",
        lambda v: (mp.digamma(1 / v) + mp.log(v) + v / 2) / v**2,
        lambda v: v**2,
        (mpf(10) ** -6, mpf(1) / 8),
        5,
        variable=square,
        relative_to="absolute in digamma",
    ),
]
