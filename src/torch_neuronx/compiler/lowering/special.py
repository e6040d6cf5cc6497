"""Special functions that the compiler has no code for: kernels of ATen's, in float32 and float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..hlo.ir import Value
from ..hlo.library_rules import BINARY_FUNCTIONS, INTEGER_FUNCTIONS, UNARY_FUNCTIONS
from .context import LoweringBuilder
from .pointwise import Kind, pointwise

_ATEN_NAMES = {"i0": "i0", "gammainc": "igamma", "gammaincc": "igammac", "gcd": "gcd", "lcm": "lcm"}


def _function(b: LoweringBuilder, name: str, *operands: Value) -> Value:
    (result,) = b.composite("special_function", operands, {"function": name}, (operands[0].type,))
    return result


def _lowering_of(name: str) -> Callable[..., Value]:
    return lambda b, *operands: _function(b, name, *operands)


for _name in UNARY_FUNCTIONS + BINARY_FUNCTIONS + INTEGER_FUNCTIONS:
    _kind = Kind.DEFAULT if _name in (*INTEGER_FUNCTIONS, "gammainc", "gammaincc") else Kind.INT_TO_FLOAT
    pointwise(f"aten::{_ATEN_NAMES.get(_name, f'special_{_name}')}", kind=_kind)(_lowering_of(_name))


@pointwise("aten::special_log_ndtr", kind=Kind.INT_TO_FLOAT)
def log_ndtr(b: LoweringBuilder, x: Value) -> Value:
    """The logarithm of the normal distribution function; erfcx has no underflow in its lower tail."""
    scaled = b.multiply(x, b.like(math.sqrt(0.5), x))
    half = b.like(0.5, x)
    tail = b.subtract(b.log(b.multiply(half, _function(b, "erfcx", b.negate(scaled)))), b.multiply(scaled, scaled))
    body = b.log_plus_one(b.negate(b.multiply(half, b.erfc(scaled))))
    return b.select(b.compare(x, b.like(-1, x), "LT"), tail, body)


@pointwise("aten::polygamma", kind=Kind.INT_TO_FLOAT)
def polygamma(b: LoweringBuilder, order: int, x: Value) -> Value:
    """(-1)^(n+1) n! zeta(n + 1, x)."""
    if order == 0:
        return b.digamma(x)
    factor = math.copysign(math.gamma(order + 1), 1 if order % 2 else -1)
    return b.multiply(b.like(factor, x), _function(b, "zeta", b.like(order + 1, x), x))
