"""Straight-line LLVM IR as Python expressions: what the formulas of this package are written in.

A ``Value`` is one SSA scalar of type float, double, i32, i64 or i1. Arithmetic on values writes one instruction each into the ``Body``
they belong to; Python numbers become constants of the other operand's type. There is no control flow, so the loop vectoriser can take
whatever is written here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

Number = int | float

_INTRINSIC_SUFFIX = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}
_WIDTH = {"float": 32, "double": 64, "i32": 32, "i64": 64}
_MANTISSA_BITS = {"float": 23, "double": 52}
_INTEGER_OF = {"float": "i32", "double": "i64"}


@dataclass(slots=True)
class Body:
    """The instructions of one function, with the module-level declarations and constant tables that they need."""

    lines: list[str] = field(default_factory=list)
    globals: dict[str, None] = field(default_factory=dict)

    def emit(self, type_: str, text: str) -> Value:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, type_, name)

    def intrinsic(self, stem: str, result: str, *operands: Value) -> Value:
        symbol = f"@llvm.{stem}.{_INTRINSIC_SUFFIX[operands[0].type]}"
        self.globals[f"declare {result} {symbol}({', '.join(operand.type for operand in operands)})"] = None
        arguments = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
        return self.emit(result, f"call {result} {symbol}({arguments})")


@dataclass(frozen=True, slots=True)
class Value:
    """One SSA scalar; ``name`` is its LLVM operand text. Comparisons are ordered: false if an operand is nan."""

    body: Body
    type: str
    name: str

    @property
    def is_float(self) -> bool:
        return self.type in _MANTISSA_BITS

    @property
    def mantissa_bits(self) -> int:
        """Explicit mantissa bits: 23 for float, 52 for double."""
        return _MANTISSA_BITS[self.type]

    def constant(self, number: Number) -> Value:
        """``number`` as a constant of this value's type."""
        return Value(self.body, self.type, _literal(self.type, number))

    def __add__(self, other: Value | Number) -> Value:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Value:
        return self.constant(other) - self

    def __mul__(self, other: Value | Number) -> Value:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: Value | Number) -> Value:
        """For floating-point values only."""
        return self._binary("fdiv", "", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.constant(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Value:
        return self.body.emit(self.type, f"fneg {self.type} {self.name}") if self.is_float else 0 - self

    def __and__(self, other: Value | Number) -> Value:
        return self._binary("and", "and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self._binary("or", "or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._binary("xor", "xor", other)

    def __lshift__(self, other: Value | Number) -> Value:
        return self._binary("shl", "shl", other)

    def __rshift__(self, other: Value | Number) -> Value:
        """Logical: zeros come in from the left."""
        return self._binary("lshr", "lshr", other)

    def __lt__(self, other: Value | Number) -> Value:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compare("oge", "sge", other)

    def equals(self, other: Value | Number) -> Value:
        return self._compare("oeq", "eq", other)

    def is_nan(self) -> Value:
        return self._compare("uno", "", 0)

    def bits(self) -> Value:
        """The same bits as an integer."""
        return self._cast("bitcast", _INTEGER_OF[self.type])

    def as_float(self) -> Value:
        """The same bits as a floating-point number of that width."""
        return self._cast("bitcast", {"i32": "float", "i64": "double"}[self.type])

    def to_double(self) -> Value:
        """Exact conversion of a float or a signed i32."""
        return self._cast({"float": "fpext", "i32": "sitofp"}[self.type], "double")

    def to_float(self) -> Value:
        """A double rounded to float, or a signed i32 converted."""
        return self._cast({"double": "fptrunc", "i32": "sitofp"}[self.type], "float")

    def low_i32(self) -> Value:
        return self._cast("trunc", "i32")

    def to_i64(self) -> Value:
        """An i32, zero-extended."""
        return self._cast("zext", "i64")

    def _cast(self, instruction: str, type_: str) -> Value:
        return self.body.emit(type_, f"{instruction} {self.type} {self.name} to {type_}")

    def _operand(self, other: Value | Number) -> Value:
        value = other if isinstance(other, Value) else self.constant(other)
        if value.type != self.type:
            raise TypeError(f"operands have types {self.type} and {value.type}; they must be equal")
        return value

    def _binary(self, float_name: str, integer_name: str, other: Value | Number) -> Value:
        name = float_name if self.is_float else integer_name
        return self.body.emit(self.type, f"{name} {self.type} {self.name}, {self._operand(other).name}")

    def _compare(self, float_condition: str, integer_condition: str, other: Value | Number) -> Value:
        condition = f"fcmp {float_condition}" if self.is_float else f"icmp {integer_condition}"
        return self.body.emit("i1", f"{condition} {self.type} {self.name}, {self._operand(other).name}")


def fma(a: Value, b: Value | Number, c: Value | Number) -> Value:
    """a * b + c, rounded once."""
    return a.body.intrinsic("fma", a.type, a, _of(a, b), _of(a, c))


def absolute(x: Value) -> Value:
    return x.body.intrinsic("fabs", x.type, x)


def square_root(x: Value) -> Value:
    return x.body.intrinsic("sqrt", x.type, x)


def round_to_integer(x: Value) -> Value:
    """Nearest integer as a floating-point number, ties to even."""
    return x.body.intrinsic("rint", x.type, x)


def with_sign_of(magnitude: Value | Number, sign: Value) -> Value:
    return sign.body.intrinsic("copysign", sign.type, _of(sign, magnitude), sign)


def funnel_shift_left(high: Value, low: Value, count: Value) -> Value:
    """The upper word of (high:low) << (count mod width)."""
    return high.body.intrinsic("fshl", high.type, high, low, count)


def select(condition: Value, on_true: Value | Number, on_false: Value | Number) -> Value:
    """On values, not branches: both sides are computed. At least one side must be a Value."""
    like = on_true if isinstance(on_true, Value) else on_false
    if not isinstance(like, Value):
        raise TypeError(f"select({on_true}, {on_false}): one side must be a Value, which gives the type")
    chosen, other = _of(like, on_true), _of(like, on_false)
    return like.body.emit(like.type, f"select i1 {condition.name}, {like.type} {chosen.name}, {like.type} {other.name}")


def both(a: Value, b: Value) -> Value:
    """Logical and of two conditions."""
    return a.body.emit("i1", f"and i1 {a.name}, {b.name}")


def either(a: Value, b: Value) -> Value:
    """Logical or of two conditions."""
    return a.body.emit("i1", f"or i1 {a.name}, {b.name}")


def differ(a: Value, b: Value) -> Value:
    """Exclusive or of two conditions."""
    return a.body.emit("i1", f"xor i1 {a.name}, {b.name}")


def lesser(x: Value, bound: Value | Number) -> Value:
    """min(x, bound), where a nan in x stays."""
    bound = _of(x, bound)
    return select(x > bound, bound, x)


def greater(x: Value, bound: Value | Number) -> Value:
    """max(x, bound), where a nan in x stays."""
    bound = _of(x, bound)
    return select(x < bound, bound, x)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule; the constant term comes first."""
    result = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


def table_entry(name: str, entries: Sequence[int], index: Value) -> Value:
    """Element ``index`` (i64) of a constant table of i64; vectorises to a gather."""
    body = index.body
    words = ", ".join(f"i64 {entry}" for entry in entries)
    type_ = f"[{len(entries)} x i64]"
    body.globals[f"@{name} = internal unnamed_addr constant {type_} [{words}], align 64"] = None
    pointer = body.emit("ptr", f"getelementptr inbounds {type_}, ptr @{name}, i64 0, i64 {index.name}")
    return body.emit("i64", f"load i64, ptr {pointer.name}, align 8")


def _of(like: Value, value: Value | Number) -> Value:
    return like._operand(value)


def _literal(type_: str, number: Number) -> str:
    """Floating-point constants are spelled by the bits of their value as a double, which LLVM wants exact for float too."""
    if type_ == "i1":
        return "true" if number else "false"
    if type_ in _MANTISSA_BITS:
        value = struct.unpack("<f", struct.pack("<f", number))[0] if type_ == "float" else float(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    width = _WIDTH[type_]
    signed = (int(number) + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return str(signed)
