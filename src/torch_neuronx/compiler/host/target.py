"""The machine that kernels are compiled for: this host's CPU, found at run time."""

from __future__ import annotations

import platform
import threading
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU in LLVM's words. ``features`` is the comma-separated list of ``+name`` and ``-name``."""

    triple: str
    cpu: str
    features: str

    @property
    def vector_bits(self) -> int:
        """Preferred vector width: 512 where AVX-512 is complete enough for masked byte and word operations, else 256."""
        return 512 if {"+avx512f", "+avx512bw", "+avx512vl", "+avx512dq"} <= set(self.features.split(",")) else 256

    @property
    def key(self) -> str:
        """What compiled code depends on, for cache keys: code for one key never runs under another."""
        enabled = ",".join(sorted(name for name in self.features.split(",") if name.startswith("+")))
        return f"{self.triple} {self.cpu} {enabled} {'.'.join(map(str, llvm.llvm_version_info))}"


@cache
def host_target() -> Target:
    """This machine. RuntimeError on one without AVX2 and FMA, or of another architecture than x86-64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise RuntimeError(f"architecture {platform.machine()}: the host target generates code for x86_64 only")
    _initialise_llvm()
    features = llvm.get_host_cpu_features()
    missing = [name for name in ("avx2", "fma", "f16c") if not features.get(name)]
    if missing:
        raise RuntimeError(f"CPU {llvm.get_host_cpu_name()} lacks {', '.join(missing)}: the host target needs avx2, fma and f16c")
    return Target("x86_64-unknown-linux-gnu", llvm.get_host_cpu_name(), features.flatten())


class _Machines(threading.local):
    def __init__(self) -> None:
        self.of: dict[Target, llvm.TargetMachine] = {}


_machines = _Machines()


def target_machine(target: Target) -> llvm.TargetMachine:
    """The calling thread's code generator for ``target``; LLVM's is not to be shared between threads."""
    if target not in _machines.of:
        _initialise_llvm()
        _machines.of[target] = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
        )
    return _machines.of[target]


@cache
def _initialise_llvm() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
