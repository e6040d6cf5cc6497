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


def square(x: mpf) -> mpf:
    return x * x


def _exponential(name: str, degree: int, single: bool = False) -> Spec:
    return Spec(
        name, "(e^x - 1 - x) / x^2", lambda x: (mp.expm1(x) - x) / x**2, lambda x: x**2 / mp.expm1(x), (-HALF_LN2, HALF_LN2), degree, single, relative_to="relative to e^x - 1"
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


def _erf_tail(x: mpf) -> mpf:
    return -mp.log(mp.erfc(x))


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
    _odd("TANH_SINGLE", "tanh x", mp.tanh, mpf("0.6"), 5, single=True),
    Spec(
        "ERF_SINGLE",
        "erf(x) / x - 1 in x^2",
        lambda x: mp.erf(x) / x - 1,
        lambda x: x / mp.erf(x),
        (mpf(0), mpf(1)),
        6,
        single=True,
        variable=square,
    ),
    Spec(
        "ERF_TAIL_SINGLE",
        "-log(erfc x)",
        _erf_tail,
        lambda x: mp.erfc(x) / mp.erf(x),
        (mpf("0.9375"), mpf(4)),
        8,
        single=True,
    ),
    _odd("SINE_LITE", "sin x", mp.sin, mp.pi / 2, 4),
]
