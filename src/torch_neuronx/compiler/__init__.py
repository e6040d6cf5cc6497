"""The compiler's front door.

The target, and LLVM with it, is imported by the first compilation: a process that finds all its programs in the disk cache never loads
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hlo.ir import Module, Signature
from .hlo.verify import verify

if TYPE_CHECKING:
    from .host import Target

__all__ = ["compile_module", "host_target"]


def compile_module(module: Module, signature: Signature, *, target: Target | None = None) -> bytes:
    """The encoded executable image of ``module`` for ``target`` (default: this machine), with its buffers laid out as ``signature`` says.

    ValueError for a malformed module or a signature that does not fit it; ``host.UnsupportedError`` for what the target cannot compute.
    """
    from .host import compile_for_host
    from .passes.pipeline import optimize

    verify(module)
    _check_signature(module, signature)
    return compile_for_host(optimize(module), signature, target or host_target()).encode()


def host_target() -> Target:
    """This machine as a target. RuntimeError where the host target does not run."""
    from .host import host_target as detect

    return detect()


def _check_signature(module: Module, signature: Signature) -> None:
    where = f"signature of module {module.name!r}"
    for kind, values, layouts in (("parameter", module.parameters, signature.parameters), ("result", module.results, signature.results)):
        if len(values) != len(layouts):
            raise ValueError(f"{where}: {len(layouts)} {kind} layouts for {len(values)} {kind}s")
        for number, (value, layout) in enumerate(zip(values, layouts)):
            if (layout is None) != (value.is_scalar and kind == "parameter"):
                raise ValueError(f"{where}: {kind} {number} is {layout}; scalar parameters have None, tensors a Layout")
            if layout is not None and len(layout.strides) != len(value.shape):
                raise ValueError(f"{where}: {kind} {number} has strides {layout.strides} for {value.type}; one per dimension is needed")
    _check_donations(where, module, signature)


def _check_donations(where: str, module: Module, signature: Signature) -> None:
    for result, parameter in signature.donations.items():
        old, new = module.parameters[parameter], module.results[result]
        if old.type != new.type or signature.parameters[parameter] != signature.results[result]:
            what = f"result {result} ({new.type}) cannot have the buffer of parameter {parameter} ({old.type})"
            raise ValueError(f"{where}: {what}, which is of another type or layout")
    if len(set(signature.donations.values())) != len(signature.donations):
        raise ValueError(f"{where}: donations {dict(signature.donations)} give one parameter to two results")
