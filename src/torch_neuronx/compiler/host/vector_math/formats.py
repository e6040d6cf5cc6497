"""Facts of the two floating-point formats that the formulas are written over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .ir import Value

INFINITY = math.inf
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Format:
    """``magic`` = 1.5 * 2^mantissa_bits: adding it rounds to an integer, which then stands in the low bits of the sum.

    ln2_high has so many trailing zero bits that its product with any exponent is exact; ln2_low is the rest.
    """

    mantissa_bits: int
    bias: int
    magic: float
    smallest_normal: float
    ln2_high: float
    ln2_low: float

    @property
    def magic_bits(self) -> int:
        """``magic`` reinterpreted as an integer."""
        return ((self.bias + self.mantissa_bits) << self.mantissa_bits) | (1 << (self.mantissa_bits - 1))


_FORMATS = {
    "float": Format(23, 127, 1.5 * 2.0**23, 2.0**-126, float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf79abcap-20")),
    "double": Format(52, 1023, 1.5 * 2.0**52, 2.0**-1022, float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")),
}


def format_of(x: Value) -> Format:
    return _FORMATS[x.type]


def power_of_two(exponent: Value, like: Value) -> Value:
    """2^exponent for an integer exponent within the normal range, as a value of ``like``'s type."""
    form = format_of(like)
    return ((exponent + form.bias) << form.mantissa_bits).as_float()
