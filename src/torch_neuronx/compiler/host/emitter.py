"""Where the instructions of one function go, and what its module has to declare beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_SUFFIX = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "float": "f32", "double": "f64", "half": "f16"}


@dataclass(slots=True)
class Emitter:
    """Where instructions go: ``define`` writes one and returns its register. Collects what the module has to declare or define beside."""

    define: Callable[[str], str]
    declarations: dict[str, None] = field(default_factory=dict)
    vector_math: dict[tuple[str, str], None] = field(default_factory=dict)

    def intrinsic(self, stem: str, type_: str, *operands: str, flags: str = "", extra: str = "") -> str:
        """A call of ``llvm.<stem>`` on operands of one type; ``extra`` are further constant arguments like ``i1 false``."""
        symbol = f"@llvm.{stem}.{_SUFFIX[type_]}"
        extra_types = "".join(f", {argument.split()[0]}" for argument in extra.split(", ") if argument)
        self.declarations[f"declare {type_} {symbol}({', '.join([type_] * len(operands))}{extra_types})"] = None
        arguments = ", ".join([*(f"{type_} {operand}" for operand in operands), *([extra] if extra else [])])
        return self.define(f"call {flags}{type_} {symbol}({arguments})")

    def math(self, name: str, type_: str, *operands: str) -> str:
        """A call of this compiler's own vector mathematics."""
        dtype = _SUFFIX[type_]
        self.vector_math[name, dtype] = None
        return self.define(f"call {type_} @vm_{name}_{dtype}({', '.join(f'{type_} {operand}' for operand in operands)})")
