"""The standard order of passes."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Module
from .canonicalize import canonicalize
from .cse import eliminate_common_subexpressions
from .dce import eliminate_dead_code
from .fold import fold_constants

Pass = Callable[[Module], Module]

# Folding first, as rules recognise constants; equal operations become visible when operands are in their simplest form.
STANDARD_PASSES: tuple[Pass, ...] = (fold_constants, canonicalize, eliminate_common_subexpressions, eliminate_dead_code)


def optimize(module: Module) -> Module:
    """``module`` after the standard passes, repeated until none changes it.

    Parameters, results and meaning stay. Every pass returns its argument when it has nothing to do, and every change makes the module
    smaller or an operation simpler, so this ends.
    """
    while True:
        before = module
        for run in STANDARD_PASSES:
            module = run(module)
        if module is before:
            return module
