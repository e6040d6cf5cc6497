"""The two 8-bit floating-point types in float registers: decoding, encoding and rounding, without branches.

Both directions use the same trick: the magnitude's bits, shifted to where a float has its exponent and fraction, are a float that is too
small by a power of two (the difference of the exponent biases). One multiplication by that power is exact, and turns subnormal numbers
into normal ones.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import inf

from ..hlo.types import DType
from .emitter import Emitter


@dataclass(frozen=True, slots=True)
class _Format:
    """``largest`` is the largest finite value; beyond is infinity, or the largest value itself in a type without. ``nan``: the
    magnitude's code.
    """

    fraction_bits: int
    bias: int
    largest: float
    nan: int
    infinity: int | None


# Micikevicius et al., "FP8 Formats for Deep Learning" (2022).
_FORMATS = {
    DType.F8E4M3FN: _Format(3, 7, 448.0, 0x7F, None),
    DType.F8E5M2: _Format(2, 15, 57344.0, 0x7E, 0x7C),
}
_FLOAT_BIAS = 127
_FLOAT_FRACTION_BITS = 23


def decode(emit: Emitter, dtype: DType, loaded: str) -> str:
    """The float of an i8."""
    format_ = _FORMATS[dtype]
    code = emit.define(f"zext i8 {loaded} to i32")
    magnitude = emit.define(f"and i32 {code}, 127")
    bits = emit.define(f"shl i32 {magnitude}, {_FLOAT_FRACTION_BITS - format_.fraction_bits}")
    scaled = emit.define(f"fmul float {emit.define(f'bitcast i32 {bits} to float')}, {_power_of_two(_FLOAT_BIAS - format_.bias)}")
    if format_.infinity is not None:
        infinite = emit.define(f"icmp eq i32 {magnitude}, {format_.infinity}")
        scaled = emit.define(f"select i1 {infinite}, float 0x7FF0000000000000, float {scaled}")
    is_nan = emit.define(f"icmp ugt i32 {magnitude}, {format_.nan - 1 if format_.infinity is None else format_.infinity}")
    value = emit.define(f"select i1 {is_nan}, float 0x7FF8000000000000, float {scaled}")
    sign = emit.define(f"shl i32 {emit.define(f'and i32 {code}, 128')}, 24")
    return emit.define(f"bitcast i32 {emit.define(f'or i32 {sign}, {_bits(emit, value)}')} to float")


def encode(emit: Emitter, dtype: DType, register: str) -> str:
    """The i8 of a float that the type represents exactly."""
    format_ = _FORMATS[dtype]
    bits = _bits(emit, register)
    size = emit.intrinsic("fabs", "float", register)
    scaled = emit.define(f"fmul float {size}, {_power_of_two(format_.bias - _FLOAT_BIAS)}")
    code = emit.define(f"lshr i32 {_bits(emit, scaled)}, {_FLOAT_FRACTION_BITS - format_.fraction_bits}")
    if format_.infinity is not None:
        infinite = emit.define(f"fcmp oeq float {size}, 0x7FF0000000000000")
        code = emit.define(f"select i1 {infinite}, i32 {format_.infinity}, i32 {code}")
    is_nan = emit.define(f"fcmp uno float {register}, 0.0")
    code = emit.define(f"select i1 {is_nan}, i32 {format_.nan}, i32 {code}")
    sign = emit.define(f"and i32 {emit.define(f'lshr i32 {bits}, 24')}, 128")
    return emit.define(f"trunc i32 {emit.define(f'or i32 {code}, {sign}')} to i8")


def round_to(emit: Emitter, dtype: DType, register: str) -> str:
    """A float rounded to the nearest value of the type, ties to even."""
    format_ = _FORMATS[dtype]
    dropped = _FLOAT_FRACTION_BITS - format_.fraction_bits
    bits = _bits(emit, register)
    last = emit.define(f"and i32 {emit.define(f'lshr i32 {bits}, {dropped}')}, 1")
    raised = emit.define(f"add i32 {emit.define(f'add i32 {bits}, {(1 << (dropped - 1)) - 1}')}, {last}")
    kept = emit.define(f"and i32 {raised}, {-(1 << dropped)}")
    normal = emit.define(f"bitcast i32 {kept} to float")
    size = emit.intrinsic("fabs", "float", register)
    # Below the smallest normal number the step is constant: adding and subtracting 1.5 · 2^23 steps rounds to it.
    step = 1 - format_.bias - format_.fraction_bits
    anchor = _constant(1.5 * 2.0 ** (_FLOAT_FRACTION_BITS + step))
    small = emit.define(f"fsub float {emit.define(f'fadd float {size}, {anchor}')}, {anchor}")
    small = emit.intrinsic("copysign", "float", small, register)
    is_small = emit.define(f"fcmp olt float {size}, {_constant(2.0 ** (1 - format_.bias))}")
    rounded = emit.define(f"select i1 {is_small}, float {small}, float {normal}")
    too_large = emit.define(f"fcmp ogt float {emit.intrinsic('fabs', 'float', rounded)}, {_constant(format_.largest)}")
    beyond = emit.intrinsic("copysign", "float", _constant(format_.largest if format_.infinity is None else inf), register)
    finite = emit.define(f"select i1 {too_large}, float {beyond}, float {rounded}")
    is_nan = emit.define(f"fcmp uno float {register}, 0.0")
    return emit.define(f"select i1 {is_nan}, float {register}, float {finite}")


def _bits(emit: Emitter, register: str) -> str:
    return emit.define(f"bitcast float {register} to i32")


def _power_of_two(exponent: int) -> str:
    return _constant(2.0**exponent)


def _constant(value: float) -> str:
    """LLVM writes a float constant as the double of equal value."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
