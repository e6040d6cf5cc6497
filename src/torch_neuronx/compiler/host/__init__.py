"""The host target: HLO as fused loop nests in machine code of this CPU, and library kernels for the rest.

``compile_for_host`` is the only entry. Reading order: ``legalise``, ``biased_products`` and ``contractions`` (rewrites), ``realise``
and ``regions`` (what is computed together), ``trace`` and ``nests`` (HLO to scalar expressions over loops), ``schedule``,
``pointwise``, ``tiles``, ``rows``, ``columns`` and ``scatter`` (loops to LLVM text), ``kernel_cache`` and ``object_code`` (text to
bytes), ``plan`` (everything put together).
"""

from __future__ import annotations

from ..executable import ExecutableImage
from ..hlo.ir import Module, Signature
from .contractions import canonicalise_contractions
from .legalise import legalise
from .plan import plan_program
from .scalar_code import UnsupportedError
from .target import Target, host_target

__all__ = ["Target", "UnsupportedError", "compile_for_host", "host_target"]


def compile_for_host(module: Module, signature: Signature, target: Target) -> ExecutableImage:
    """The executable image of a verified module. UnsupportedError names an operation or element type that the target cannot compute."""
    return plan_program(canonicalise_contractions(legalise(module, signature)), signature, target)
