"""Eager execution as Python sees it: installing native ops, compiling on a miss, the CPU fallback's policy, and what was run.

Importing this package imports neither lowerings nor compiler; they are loaded when the device is first used and when an op is first
compiled.
"""

from __future__ import annotations

from typing import Any

from .tracking import clear_op_tracking, fallback_policy, get_executed_ops, get_fallback_ops, statistics
from .untraced import untraced

__all__ = [
    "clear_op_tracking",
    "compile_call",
    "fallback_policy",
    "get_executed_ops",
    "get_fallback_ops",
    "install",
    "statistics",
]


def install() -> None:
    """Registers a native kernel for every overload that a lowering serves. Called when the device is first used."""
    from .installation import install_native_ops

    install_native_ops()


@untraced
def compile_call(op_name: str, arguments: list[Any]) -> Any:
    """The program for one call of an op, made on a miss of the dispatcher's cache; see :func:`.miss.compile_call`."""
    from .miss import compile_call

    return compile_call(op_name, arguments)
