"""The LLVM IR of one elementwise HLO operation on registers.

Registers hold i1 for booleans and float for bf16 and f16, whose values are always exactly representable in the narrow type: every
operation that can leave it rounds at once, so that results do not depend on what is fused with what. In memory booleans are bytes and
bf16 is its 16 bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from ..hlo.types import DType
from . import narrow_float
from .emitter import Emitter
from .expressions import Apply, Number
from .support_functions import FLOAT_REMAINDER, FLOAT_REMAINDER_INTRINSICS, INTEGER_POWER

REGISTER = {
    DType.I1: "i1", DType.I8: "i8", DType.I16: "i16", DType.I32: "i32", DType.I64: "i64",
    DType.UI8: "i8", DType.UI16: "i16", DType.UI32: "i32", DType.UI64: "i64",
    DType.F16: "float", DType.BF16: "float", DType.F32: "float", DType.F64: "double", DType.F8E4M3FN: "float", DType.F8E5M2: "float",
}  # fmt: skip
MEMORY = {**REGISTER, DType.I1: "i8", DType.F16: "half", DType.BF16: "i16", DType.F8E4M3FN: "i8", DType.F8E5M2: "i8"}
# The smallest double that rounds to an infinite float.
_FLOAT_LIMIT = 3.4028235677973366e38
_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


class UnsupportedError(Exception):
    """The host target has no code for an operation on a type."""


def register_type(dtype: DType) -> str:
    """LLVM type of a register. UnsupportedError for a type without arithmetic on the host."""
    if dtype not in REGISTER:
        raise UnsupportedError(f"dtype {dtype}: the host target computes in {', '.join(str(known) for known in REGISTER)}")
    return REGISTER[dtype]


def register_bits(dtype: DType) -> int:
    type_ = register_type(dtype)
    return {"float": 32, "double": 64}.get(type_) or _BITS[type_]


def memory_type(dtype: DType) -> str:
    register_type(dtype)
    return MEMORY[dtype]


def literal(value: Number, dtype: DType) -> str:
    """A constant operand of the register type of ``dtype``."""
    match register_type(dtype):
        case "i1":
            return "true" if value else "false"
        case "float" | "double" as type_:
            assert not isinstance(value, complex)
            return _float_literal(float(value), type_)
        case type_:
            assert isinstance(value, int)
            bits = _BITS[type_]
            return str((value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))


def _float_literal(value: float, type_: str) -> str:
    # LLVM writes a float as the double of equal value.
    value = rounded_number(value, DType.F32 if type_ == "float" else DType.F64)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def rounded_number(value: float, dtype: DType) -> float:
    """A literal as it is in the registers of ``dtype``; bf16 and f16 literals are given rounded already."""
    if register_type(dtype) == "double" or math.isnan(value) or math.isinf(value):
        return value
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if abs(value) < _FLOAT_LIMIT else math.copysign(math.inf, value)


def from_memory(emit: Emitter, dtype: DType, loaded: str) -> str:
    """The register for a value of the memory type."""
    match dtype:
        case DType.I1:
            return emit.define(f"icmp ne i8 {loaded}, 0")
        case DType.BF16:
            wide = emit.define(f"zext i16 {loaded} to i32")
            return emit.define(f"bitcast i32 {emit.define(f'shl i32 {wide}, 16')} to float")
        case DType.F16:
            return emit.define(f"fpext half {loaded} to float")
        case DType.F8E4M3FN | DType.F8E5M2:
            return narrow_float.decode(emit, dtype, loaded)
        case _:
            return loaded


def to_memory(emit: Emitter, dtype: DType, register: str) -> str:
    """The value to store for a register, exact because registers are rounded already."""
    match dtype:
        case DType.I1:
            return emit.define(f"zext i1 {register} to i8")
        case DType.BF16:
            bits = emit.define(f"bitcast float {register} to i32")
            return emit.define(f"trunc i32 {emit.define(f'lshr i32 {bits}, 16')} to i16")
        case DType.F16:
            return emit.define(f"fptrunc float {register} to half")
        case DType.F8E4M3FN | DType.F8E5M2:
            return narrow_float.encode(emit, dtype, register)
        case _:
            return register


def round_register(emit: Emitter, dtype: DType, register: str) -> str:
    """A float register rounded to nearest even in a narrower type; others as they are."""
    match dtype:
        case DType.BF16:
            # Adding half of the last kept place, minus one if that place is even, carries exactly when rounding up is right. A nan keeps
            # its top bits.
            bits = emit.define(f"bitcast float {register} to i32")
            last = emit.define(f"and i32 {emit.define(f'lshr i32 {bits}, 16')}, 1")
            rounded = emit.define(f"add i32 {emit.define(f'add i32 {bits}, 32767')}, {last}")
            quiet = emit.define(f"or i32 {bits}, 4194304")
            is_nan = emit.define(f"fcmp uno float {register}, 0.0")
            kept = emit.define(f"and i32 {emit.define(f'select i1 {is_nan}, i32 {quiet}, i32 {rounded}')}, -65536")
            return emit.define(f"bitcast i32 {kept} to float")
        case DType.F16:
            return emit.define(f"fpext half {emit.define(f'fptrunc float {register} to half')} to float")
        case DType.F8E4M3FN | DType.F8E5M2:
            return narrow_float.round_to(emit, dtype, register)
        case _:
            return register


def apply(emit: Emitter, node: Apply, operands: list[str]) -> str:
    """The register with the result of an operation. UnsupportedError names an operation or type without code."""
    kind = node.operands[0].dtype if node.op != "select" else node.dtype
    rule = _RULES.get(node.op)
    if rule is None:
        raise UnsupportedError(f"operation {node.op}: the host target has no code for it")
    result = rule(emit, node, register_type(kind), operands)
    return round_register(emit, node.dtype, result) if node.op in _INEXACT else result


Rule = Callable[[Emitter, Apply, str, list[str]], str]


def _is_float(type_: str) -> bool:
    return type_ in ("float", "double")


def _is_signed(node: Apply) -> bool:
    return node.operands[0].dtype.kind == "i"


def _arithmetic(float_op: str, integer_op: str, boolean_op: str | None = None) -> Rule:
    def rule(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
        op = float_op if _is_float(type_) else boolean_op if type_ == "i1" and boolean_op else integer_op
        return emit.define(f"{op} {type_} {operands[0]}, {operands[1]}")

    return rule


def _float_intrinsic(stem: str) -> Rule:
    return lambda emit, node, type_, operands: emit.intrinsic(stem, type_, *operands)


def _math(name: str) -> Rule:
    return lambda emit, node, type_, operands: emit.math(name, type_, *operands)


def _absolute(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    if _is_float(type_):
        return emit.intrinsic("fabs", type_, operands[0])
    return emit.intrinsic("abs", type_, operands[0], extra="i1 false") if _is_signed(node) else operands[0]


def _negate(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    return emit.define(f"fneg {type_} {operands[0]}" if _is_float(type_) else f"sub {type_} 0, {operands[0]}")


def _sign(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    (x,) = operands
    if _is_float(type_):
        unit = emit.intrinsic("copysign", type_, "1.0", x)
        ordered = emit.define(f"fcmp one {type_} {x}, 0.0")
        return emit.define(f"select i1 {ordered}, {type_} {unit}, {type_} {x}")
    positive = emit.define(f"zext i1 {emit.define(f'icmp ne {type_} {x}, 0')} to {type_}")
    if not _is_signed(node):
        return positive
    return emit.define(f"or {type_} {emit.define(f'ashr {type_} {x}, {_BITS[type_] - 1}')}, {positive}")


def _rsqrt(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    return emit.define(f"fdiv {type_} 1.0, {emit.intrinsic('sqrt', type_, operands[0])}")


def _not(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    return emit.define(f"xor {type_} {operands[0]}, {'true' if type_ == 'i1' else '-1'}")


def _predicate(comparison: str, of_magnitude: bool) -> Rule:
    def rule(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
        x = emit.intrinsic("fabs", type_, operands[0]) if of_magnitude else operands[0]
        return emit.define(f"fcmp {comparison} {type_} {x}, {'0x7FF0000000000000' if of_magnitude else '0.0'}")

    return rule


def _divide(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    if _is_float(type_):
        return emit.define(f"fdiv {type_} {operands[0]}, {operands[1]}")
    by_zero, divisor = _safe_divisor(emit, node, type_, operands)
    quotient = emit.define(f"{'sdiv' if _is_signed(node) else 'udiv'} {type_} {operands[0]}, {divisor}")
    return emit.define(f"select i1 {by_zero}, {type_} -1, {type_} {quotient}")


def _remainder(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    if _is_float(type_):
        return _float_remainder(emit, type_, operands)
    by_zero, divisor = _safe_divisor(emit, node, type_, operands)
    remainder = emit.define(f"{'srem' if _is_signed(node) else 'urem'} {type_} {operands[0]}, {divisor}")
    return emit.define(f"select i1 {by_zero}, {type_} {operands[0]}, {type_} {remainder}")


def calls_out_of_line(node: Apply) -> bool:
    """Whether an operation's code is a call that no loop around it can be vectorised with."""
    return (node.op == "remainder" and node.dtype.is_float) or (node.op == "power" and node.dtype.is_integer)


def _float_remainder(emit: Emitter, type_: str, operands: list[str]) -> str:
    """In f64, which is exact for f32 as well: the result has no more significant bits than the operands."""
    emit.declarations |= dict.fromkeys((*FLOAT_REMAINDER_INTRINSICS, FLOAT_REMAINDER))
    x, y = (operand if type_ == "double" else emit.define(f"fpext float {operand} to double") for operand in operands)
    result = emit.define(f"call double @float_remainder(double {x}, double {y})")
    return result if type_ == "double" else emit.define(f"fptrunc double {result} to float")


def _safe_divisor(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> tuple[str, str]:
    """Whether the divisor is zero, and a divisor that cannot trap: 1 for zero, and for -1 under the lowest number (whose quotient then
    wraps).
    """
    lhs, rhs = operands
    by_zero = emit.define(f"icmp eq {type_} {rhs}, 0")
    unsafe = by_zero
    if _is_signed(node):
        lowest = emit.define(f"icmp eq {type_} {lhs}, {-(1 << (_BITS[type_] - 1))}")
        minus_one = emit.define(f"icmp eq {type_} {rhs}, -1")
        unsafe = emit.define(f"or i1 {by_zero}, {emit.define(f'and i1 {lowest}, {minus_one}')}")
    return by_zero, emit.define(f"select i1 {unsafe}, {type_} 1, {type_} {rhs}")


def _power(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    if _is_float(type_):
        return emit.math("power", type_, *operands)
    widen = "sext" if _is_signed(node) else "zext"
    base, exponent = (emit.define(f"{widen} {type_} {operand} to i64") if type_ != "i64" else operand for operand in operands)
    symbol = f"@integer_power_{'signed' if _is_signed(node) else 'unsigned'}"
    emit.declarations[INTEGER_POWER.replace("@NAME", symbol).replace("@NEGATIVE", "slt" if _is_signed(node) else "ult")] = None
    wide = emit.define(f"call i64 {symbol}(i64 {base}, i64 {exponent})")
    return emit.define(f"trunc i64 {wide} to {type_}") if type_ != "i64" else wide


def _extremum(name: str) -> Rule:
    def rule(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
        return extremum(emit, name, node.dtype, operands[0], operands[1])

    return rule


def extremum(emit: Emitter, name: str, dtype: DType, lhs: str, rhs: str) -> str:
    """``maximum`` or ``minimum``: nan if either is; of booleans or, and."""
    type_ = register_type(dtype)
    if type_ == "i1":
        return emit.define(f"{'or' if name == 'maximum' else 'and'} i1 {lhs}, {rhs}")
    if _is_float(type_):
        # nsz: which zero of the two is the larger is nobody's concern, and the comparison is cheaper without.
        return emit.intrinsic(name, type_, lhs, rhs, flags="nsz ")
    return emit.intrinsic(f"{'s' if dtype.kind == 'i' else 'u'}{name[:3]}", type_, lhs, rhs)


def _clamp(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    low, x, high = operands
    return extremum(emit, "minimum", node.dtype, extremum(emit, "maximum", node.dtype, x, low), high)


def _shift(op: str) -> Rule:
    def rule(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
        bits = _BITS[type_]
        if op == "ashr":
            amount = emit.intrinsic("umin", type_, operands[1], str(bits - 1))
            return emit.define(f"ashr {type_} {operands[0]}, {amount}")
        within = emit.define(f"icmp ult {type_} {operands[1]}, {bits}")
        amount = emit.define(f"select i1 {within}, {type_} {operands[1]}, {type_} 0")
        shifted = emit.define(f"{op} {type_} {operands[0]}, {amount}")
        return emit.define(f"select i1 {within}, {type_} {shifted}, {type_} 0")

    return rule


_FLOAT_ORDER = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


def _compare(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    direction = node.attribute
    if _is_float(type_):
        return emit.define(f"fcmp {_FLOAT_ORDER[direction]} {type_} {operands[0]}, {operands[1]}")
    sign = "" if direction in ("EQ", "NE") else "s" if _is_signed(node) else "u"
    return emit.define(f"icmp {sign}{direction.lower()} {type_} {operands[0]}, {operands[1]}")


def _in_range(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    """0 ≤ first < second: one unsigned comparison."""
    return emit.define(f"icmp ult {type_} {operands[0]}, {operands[1]}")


def _select(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    return emit.define(f"select i1 {operands[0]}, {type_} {operands[1]}, {type_} {operands[2]}")


def _convert(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    return convert(emit, node.operands[0].dtype, node.dtype, operands[0])


def convert(emit: Emitter, source: DType, dtype: DType, x: str) -> str:
    """A register of one type as another: floats truncate toward zero, out of range they are what the CPU's conversion instructions give."""
    from_type, to_type = register_type(source), register_type(dtype)
    if to_type == "i1":
        return (
            x
            if from_type == "i1"
            else emit.define(f"fcmp une {from_type} {x}, 0.0" if _is_float(from_type) else f"icmp ne {from_type} {x}, 0")
        )
    match _is_float(from_type), _is_float(to_type):
        case True, True:
            wide = (
                x if from_type == to_type else emit.define(f"{'fpext' if to_type == 'double' else 'fptrunc'} {from_type} {x} to {to_type}")
            )
            return wide if source is dtype else round_register(emit, dtype, wide)
        case False, True:
            op = "sitofp" if source.kind == "i" else "uitofp"
            return round_register(emit, dtype, emit.define(f"{op} {from_type} {x} to {to_type}"))
        case True, False:
            return _truncate(emit, from_type, dtype, x)
    if _BITS[from_type] == _BITS[to_type]:
        return x
    op = "trunc" if _BITS[from_type] > _BITS[to_type] else "sext" if source.kind == "i" else "zext"
    return emit.define(f"{op} {from_type} {x} to {to_type}")


def _truncate(emit: Emitter, from_type: str, dtype: DType, x: str) -> str:
    """Float to integer as C compilers do on x86: through i32, or i64 where that is needed; narrower types take the low bits. Freezing
    makes the value of an out-of-range conversion one definite number.
    """
    to_type = register_type(dtype)
    if dtype is DType.UI64:
        return emit.define(f"freeze i64 {emit.define(f'fptoui {from_type} {x} to i64')}")
    via = "i64" if dtype in (DType.I64, DType.UI32) else "i32"
    whole = emit.define(f"freeze {via} {emit.define(f'fptosi {from_type} {x} to {via}')}")
    return whole if via == to_type else emit.define(f"trunc {via} {whole} to {to_type}")


def _bitcast_convert(emit: Emitter, node: Apply, type_: str, operands: list[str]) -> str:
    source, dtype = node.operands[0].dtype, node.dtype
    stored, from_type, to_type = to_memory(emit, source, operands[0]), memory_type(source), memory_type(dtype)
    cast = stored if from_type == to_type else emit.define(f"bitcast {from_type} {stored} to {to_type}")
    return from_memory(emit, dtype, cast)


_MATH = [
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "tanh",
    "sine",
    "cosine",
    "tan",
    "cbrt",
    "erf",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
]

_RULES: dict[str, Rule] = {
    **{name: _math(name) for name in _MATH},
    "abs": _absolute,
    "negate": _negate,
    "sign": _sign,
    "floor": _float_intrinsic("floor"),
    "ceil": _float_intrinsic("ceil"),
    "round_nearest_even": _float_intrinsic("roundeven"),
    "round_nearest_afz": _float_intrinsic("round"),
    "sqrt": _float_intrinsic("sqrt"),
    "rsqrt": _rsqrt,
    "not": _not,
    "popcnt": lambda emit, node, type_, operands: emit.intrinsic("ctpop", type_, operands[0]),
    "count_leading_zeros": lambda emit, node, type_, operands: emit.intrinsic("ctlz", type_, operands[0], extra="i1 false"),
    "is_finite": _predicate("olt", of_magnitude=True),
    "is_inf": _predicate("oeq", of_magnitude=True),
    "is_nan": _predicate("uno", of_magnitude=False),
    "convert": _convert,
    "bitcast_convert": _bitcast_convert,
    "add": _arithmetic("fadd", "add", "or"),
    "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul", "and"),
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "maximum": _extremum("maximum"),
    "minimum": _extremum("minimum"),
    "clamp": _clamp,
    "and": _arithmetic("", "and"),
    "or": _arithmetic("", "or"),
    "xor": _arithmetic("", "xor"),
    "shift_left": _shift("shl"),
    "shift_right_arithmetic": _shift("ashr"),
    "shift_right_logical": _shift("lshr"),
    "compare": _compare,
    "in_range": _in_range,
    "select": _select,
}

# Operations whose exact result may not be representable in the operand's type.
_INEXACT = frozenset(_MATH) | {"sqrt", "rsqrt", "add", "subtract", "multiply", "divide", "remainder", "power"}
