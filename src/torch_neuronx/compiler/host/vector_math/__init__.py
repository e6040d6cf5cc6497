"""Vector math: branch-free LLVM IR for the elementary and special functions of the HLO op set.

``definition("tanh", "f32")`` is the text of ``define internal float @vm_tanh_f32(float %x) alwaysinline nounwind`` with the
declarations it needs. The functions are straight-line code (fma, selects, bit casts; no libm), so a loop that calls one vectorises
whole. They need a target with FMA. Special values, signed zeros, denormals and overflow are as ISO C demands, for every input;
accuracy is in ``docs/vector-math.md`` and each formula's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from . import (
    error_functions,
    exponentials,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithms,
    power,
    roots,
    trigonometric,
    trigonometric_double,
)
from .ir import Body, Value

__all__ = ["BINARY", "SUPPORTED", "definition", "definitions"]

_LLVM_TYPE = {"f32": "float", "f64": "double"}
_FORMULAS: dict[tuple[str, str], Callable[..., Value]] = {
    key: formula
    for family in (
        error_functions,
        exponentials,
        gamma,
        hyperbolic,
        inverse_trigonometric,
        logarithms,
        power,
        roots,
        trigonometric,
        trigonometric_double,
    )
    for key, formula in family.FORMULAS.items()
}

SUPPORTED: frozenset[tuple[str, str]] = frozenset(_FORMULAS)
"""(function, dtype) pairs; functions are named as the HLO builder's methods, dtypes are "f32" and "f64"."""

BINARY: frozenset[str] = frozenset({"power", "atan2"})
"""The functions of two arguments."""


def definition(name: str, dtype: str) -> str:
    """LLVM IR text of one function. An unsupported pair is a ValueError."""
    return definitions([(name, dtype)])


def definitions(used: Iterable[tuple[str, str]]) -> str:
    """LLVM IR text of all of ``used`` (function, dtype), each once, with their intrinsics and tables declared once."""
    functions: list[str] = []
    module_level: dict[str, None] = {}
    for name, dtype in sorted(set(used)):
        if (name, dtype) not in _FORMULAS:
            raise ValueError(f"vector math has no {name} for {dtype}; it has {', '.join(sorted(f'{n} {d}' for n, d in SUPPORTED))}")
        body = Body()
        type_ = _LLVM_TYPE[dtype]
        arguments = [Value(body, type_, operand) for operand in (("%x", "%y") if name in BINARY else ("%x",))]
        result = _FORMULAS[name, dtype](*arguments)
        parameters = ", ".join(f"{type_} {argument.name}" for argument in arguments)
        functions.append(
            "\n".join(
                [
                    f"define internal {type_} @vm_{name}_{dtype}({parameters}) alwaysinline nounwind {{",
                    *body.lines,
                    f"  ret {type_} {result.name}",
                    "}",
                ]
            )
        )
        module_level |= body.globals
    return "\n".join([*module_level, *functions]) + "\n"
