"""The rooms of docs/architecture.md and who may know whom, asserted from imports and #include lines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "torch_neuronx"
CSRC = ROOT / "csrc"


@dataclass(frozen=True)
class Room:
    """Python modules under ``path`` may import the standard library, ``packages``, and modules of this package under ``knows``."""

    path: str
    packages: frozenset[str] = frozenset()
    knows: tuple[str, ...] = ()


# The first room whose path is a prefix holds. A room knows itself and envvars. In ``knows``, "x" stands for the module x and all below it,
# "x!" for its front door, the module itself. Modules of the package itself that start with "_" are its own registration.
LOWERING_DOORS = tuple(f"compiler.lowering.{door}!" for door in ("registry", "call", "graph", "edges", "node", "dtypes"))
REGISTRATION = ("_built_for!", *(f"{path.stem}!" for path in PACKAGE.glob("_*.py") if path.stem != "__init__"))

ROOMS = (
    Room("envvars"),
    # SciPy is the tests' alone: nothing else interprets what only a library computes.
    Room("compiler.hlo.interpreter.library", frozenset({"numpy", "scipy"}), ("compiler.hlo",)),
    Room("compiler.hlo", frozenset({"numpy"})),
    Room("compiler.executable"),
    Room("compiler.cache"),
    Room("compiler.passes", frozenset({"numpy"}), ("compiler.hlo",)),
    Room("compiler.host", frozenset({"numpy", "llvmlite"}), ("compiler.hlo", "compiler.executable", "compiler.passes")),
    Room("compiler.lowering", frozenset({"torch", "numpy"}), ("compiler.hlo",)),
    Room("compiler"),
    Room("eager", frozenset({"torch"}), ("compiler!", "compiler.cache!", *LOWERING_DOORS, "_C")),
    Room("dynamo", frozenset({"torch", "sympy"}), ("compiler!", "compiler.cache!", "compiler.hlo.fingerprint!", *LOWERING_DOORS, "_C")),
    Room("neuron", frozenset({"torch"}), ("eager!", "_C")),
    Room("", frozenset({"torch"}), ("neuron", "eager!", *REGISTRATION, "_C")),
)

FOREIGN_TO_CORE = re.compile(r"^(ATen|c10|torch|pybind11|Python\.h)")
CORE_STANDARD = re.compile(r"^([a-z_0-9]+|sys/[a-z_]+\.h|linux/[a-z_]+\.h|[a-z_]+\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    """Dotted names below the package ("" is its ``__init__``) and their files."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(name: str, path: Path, package: str) -> Iterator[str]:
    """Absolute names of everything that a module imports, wherever the statement stands in it.

    ``from a import b`` yields ``a.b``: whether b is a module or a name in a is the reader's business.
    """
    here = [package, *name.split(".")] if name else [package]
    if path.name != "__init__.py":
        here = here[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(name: str, rooms: tuple[Room, ...] = ROOMS) -> Room:
    return next(room for room in rooms if not room.path or name == room.path or name.startswith(room.path + "."))


def module_of(target: str, package: Path) -> str:
    """The module that an import of ``target`` loads: the target itself, or what holds it if the last part is a name in a module."""
    path = package / target.replace(".", "/")
    is_module = path.is_dir() or path.with_suffix(".py").exists() or target == "_C"
    return target if is_module else target.rpartition(".")[0]


def may_know(room: Room, module: str) -> bool:
    """Whether ``room`` may import ``module``, a dotted name inside the package."""
    if not room.path and not module:
        return True
    own = (room.path,) if room.path else ()
    return any(
        module == known.rstrip("!") or (not known.endswith("!") and module.startswith(known + "."))
        for known in (*own, *room.knows, "envvars!")
    )


def violations(package: Path) -> list[str]:
    found = []
    for name, path in modules(package):
        room = room_of(name)
        for target in imports(name, path, package.name):
            top, _, inside = target.partition(".")
            if top == package.name:
                allowed = may_know(room, module_of(inside, package))
            else:
                allowed = top in sys.stdlib_module_names or top in room.packages
            if not allowed:
                found.append(f"{path.relative_to(package)} imports {target}, which room {room.path or 'torch_neuronx'!r} may not know")
    return found


def include_violations(csrc: Path) -> list[str]:
    found = []
    for path in sorted([*csrc.rglob("*.cpp"), *csrc.rglob("*.h")]):
        in_core = path.relative_to(csrc).parts[0] == "core"
        for bracket, name in INCLUDE.findall(path.read_text()):
            if in_core and (name.startswith("core/") if bracket == '"' else CORE_STANDARD.match(name) and not FOREIGN_TO_CORE.match(name)):
                continue
            if not in_core and (bracket == "<" or name.startswith(("core/", "torch/"))):
                continue
            found.append(f"{path.relative_to(csrc)} includes {name}")
    return found


def test_python_imports_keep_to_the_rooms() -> None:
    assert violations(PACKAGE) == []


def test_cpp_includes_keep_to_the_rooms() -> None:
    assert include_violations(CSRC) == []


def test_the_host_target_knows_no_aten_names() -> None:
    named = [path.name for path in (PACKAGE / "compiler" / "host").rglob("*.py") if re.search(r"\baten::|\baten\.", path.read_text())]
    assert named == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("compiler/hlo/ops.py", "import torch"),
        ("compiler/hlo/ops.py", "from ..lowering import registry"),
        ("compiler/host/emit.py", "from torch_neuronx.compiler.lowering.registry import lower"),
        ("compiler/lowering/matmul.py", "def f():\n    from ..host import target"),
        ("compiler/executable.py", "import numpy"),
        ("compiler/cache.py", "from . import hlo"),
        ("eager/miss.py", "from ..compiler.host import target"),
        ("eager/miss.py", "from ..compiler.lowering.matmul import mm"),
        ("eager/miss.py", "import llvmlite"),
        ("neuron/memory.py", "from ..eager import miss"),
        ("__init__.py", "from .compiler import compile_module"),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, file: str, line: str) -> None:
    package = tmp_path / "torch_neuronx"
    for path, text in (("compiler/lowering/matmul.py", ""), ("eager/miss.py", ""), (file, line)):
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    (found,) = violations(package)
    assert found.startswith(file)


@pytest.mark.parametrize(
    "line", ["from ..compiler import compile_module", "from ..compiler.lowering.call import lower_call", "from torch_neuronx import _C"]
)
def test_front_doors_are_open_to_eager(tmp_path: Path, line: str) -> None:
    package = tmp_path / "torch_neuronx"
    for path, text in (("compiler/lowering/call.py", ""), ("eager/miss.py", line)):
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    assert violations(package) == []


@pytest.mark.parametrize(
    "line", ["#include <ATen/ATen.h>", '#include "torch/device.h"', "#include <c10/core/Device.h>", '#include "arena.h"']
)
def test_a_broken_include_rule_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "arena.cpp").write_text(f"#include <vector>\n#include <sys/mman.h>\n{line}\n")
    assert len(include_violations(tmp_path)) == 1


def test_autoload_imports_neither_compiler_nor_llvm() -> None:
    code = "import sys, torch; print(*sorted(name for name in sys.modules if name.startswith(('torch_neuronx', 'llvmlite', 'rich'))))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "torch_neuronx" in loaded
    late = [name for name in loaded if name.startswith(("torch_neuronx.compiler", "torch_neuronx.eager.", "llvmlite", "rich"))]
    assert late == []
