"""LLVM text to machine code, each distinct text once per process.

A kernel's text holds its structure only (extents and strides are run-time parameters), so a new shape of a known structure costs no
compilation. This is one of the few places with process-wide state: the table of compiled kernels.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import llvmlite.binding as llvm

from .object_code import FlatCode, flatten_object
from .target import Target, target_machine

ENTRY = "kernel"

_kernels: dict[bytes, Future[FlatCode]] = {}
_lock = threading.Lock()
# Code generation depends on an option of the whole process, see below. LLVM runs one call at a time in any case.
_code_generation = threading.Lock()


def compile_kernel(text: str, target: Target) -> FlatCode:
    """The code of the module ``text``, whose entry is the function ``kernel``. Thread-safe; simultaneous calls for one text compile it
    once.
    """
    key = hashlib.sha256(f"{target.key}\n{text}".encode()).digest()
    with _lock:
        future = _kernels.get(key)
        mine = future is None
        if future is None:
            future = _kernels[key] = Future()
    if mine:
        try:
            future.set_result(_generate_code(text, target))
        except BaseException as error:
            with _lock:
                del _kernels[key]
            future.set_exception(error)
    return future.result()


def compiled_kernel_count() -> int:
    """How many distinct kernels this process has compiled."""
    return len(_kernels)


def emit_assembly(text: str, target: Target) -> str:
    """The assembly of a kernel, for tests and for reading."""
    with _optimised(text, target) as module:
        assembly: str = target_machine(target).emit_assembly(module)
        return assembly


def _generate_code(text: str, target: Target) -> FlatCode:
    with _optimised(text, target) as module, _code_generation:
        # Loop strength reduction takes two thirds of the time of code generation and finds nothing in these loops, whose addresses are a
        # base and a counter. It is switched off for this call only, as others in the process may use LLVM, too.
        llvm.set_option("", "-disable-lsr=true")
        try:
            return flatten_object(target_machine(target).emit_object(module))
        finally:
            llvm.set_option("", "-disable-lsr=false")


@contextmanager
def _optimised(text: str, target: Target) -> Iterator[llvm.ModuleRef]:
    """The parsed module after LLVM's standard pipeline with loop vectorisation; straight-line vectorisation has nothing to do in kernels.

    Everything is closed in this order, and not left to the garbage collector: a module must not outlive its context.
    """
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        with llvm.create_pipeline_tuning_options(speed_level=2) as options:
            options.loop_vectorization = True
            options.loop_interleaving = True
            options.loop_unrolling = False
            options.slp_vectorization = False
            with llvm.create_pass_builder(target_machine(target), options) as builder, builder.getModulePassManager() as passes:
                passes.run(module, builder)
        yield module
