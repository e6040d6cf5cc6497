"""Canonicalisation: operations that change nothing go, compositions of two become one.

Every rule is exact, for signed zeros, infinities and nan too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..hlo.builder import Builder
from ..hlo.ir import Module, Operation, Value
from ..hlo.rebuild import rebuild
from . import arithmetic_rules, layout_rules
from .patterns import Rule


def canonicalize(module: Module) -> Module:
    """``module`` after one walk in order in which the first applicable rule replaces an operation; the same module if none applies."""
    return rebuild(module, _apply_first)


def _apply_first(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    for rule in RULES.get(operation.name, ()):
        results = rule(b, operation, operands)
        if results is not None:
            return results
    return None


RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType({**layout_rules.RULES, **arithmetic_rules.RULES})
