"""Every environment variable of the package: one table with name, type, default and meaning.

Read a variable with ``envvars.NAME.get()``; nothing else in the package looks into ``os.environ``. The documentation page
``docs/environment.md`` is generated from :data:`TABLE`. This module imports the standard library only.
"""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)
PREFIX = "TORCH_NEURONX_"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """How the text of a variable becomes a value: ``parse`` raises ValueError for anything but ``allowed``."""

    parse: Callable[[str], T_co]
    allowed: str


@dataclass(frozen=True, slots=True)
class Variable(Generic[T_co]):
    """One environment variable. ``reader`` says who reads it: "python", "runtime" (``csrc/core/config.cpp``) or "none".

    "none" is a name that the original has and this version does not honour; setting it warns.
    """

    name: str
    kind: Kind[T_co]
    default: T_co
    doc: str
    reader: str = "python"
    default_text: str = ""

    def get(self, environment: Mapping[str, str] | None = None) -> T_co:
        """The value now. An unset or empty variable is the default; a bad value is a ValueError that says what is allowed."""
        text = (os.environ if environment is None else environment).get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.kind.parse(text)
        except ValueError:
            raise ValueError(f"{self.name}: got {text!r}, allowed is {self.kind.allowed}") from None


def check_environment(environment: Mapping[str, str] | None = None) -> None:
    """Validates what is set: a bad value is a ValueError, an unknown ``TORCH_NEURONX_*`` name or an unhonoured one a warning.

    Called once, when the device is first used.
    """
    environment = os.environ if environment is None else environment
    known = {variable.name: variable for variable in TABLE}
    for name in sorted(environment):
        if name in known:
            known[name].get(environment)
            if known[name].reader == "none":
                warnings.warn(f"{name} is set but has no effect in this version of torchneuron", UserWarning, stacklevel=2)
        elif name.startswith(PREFIX):
            ours = [candidate for candidate in known if candidate.startswith(PREFIX)]
            (nearest,) = difflib.get_close_matches(name, ours, n=1, cutoff=0.0)
            warnings.warn(f"{name} is not a variable of torchneuron and has no effect; the nearest is {nearest}", UserWarning, stacklevel=2)


def default_cache_directory() -> Path:
    """``torchneuron`` in the user's cache directory ($XDG_CACHE_HOME if that is an absolute path, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "torchneuron"


Choice = TypeVar("Choice")


def _one_of(choices: Mapping[str, Choice]) -> Kind[Choice]:
    def parse(text: str) -> Choice:
        if text not in choices:
            raise ValueError
        return choices[text]

    return Kind(parse, " or ".join(choices))


def _whole(minimum: int, maximum: int) -> Kind[int]:
    def parse(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise ValueError
        return value

    return Kind(parse, f"a whole number from {minimum} to {maximum}")


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)(|KiB|MiB|GiB)", text)
    if match is None or int(match[1]) == 0:
        raise ValueError
    return int(match[1]) << {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[match[2]]


def _parse_cores(text: str) -> tuple[int, ...]:
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        cores += range(int(first), int(last) + 1) if dash else [int(first)]
    if not cores or min(cores) < 0 or len(set(cores)) != len(cores):
        raise ValueError
    return tuple(cores)


FLAG = _one_of({"0": False, "1": True})
TEXT = Kind(str, "any text")
PATH = Kind(lambda text: Path(text).expanduser(), "a path")
SIZE = Kind(_parse_size, "a positive number of bytes, or one with KiB, MiB or GiB")
CORES = Kind(_parse_cores, 'distinct core numbers and ranges such as "0", "0-3" or "1,3"')
LEVEL = _whole(0, 3)

VISIBLE_CORES: Variable[tuple[int, ...] | None] = Variable(
    "NEURON_RT_VISIBLE_CORES",
    CORES,
    None,
    "Logical NeuronCores that this process sees. Wins over NEURON_RT_NUM_CORES.",
    "runtime",
    "all of NEURON_RT_NUM_CORES",
)
NUM_CORES: Variable[int | None] = Variable(
    "NEURON_RT_NUM_CORES",
    _whole(1, 128),
    None,
    "How many logical NeuronCores this process sees.",
    "runtime",
    "one chip: 4 at NEURON_LOGICAL_NC_CONFIG=2, 8 at 1",
)
LOGICAL_NC_CONFIG = Variable(
    "NEURON_LOGICAL_NC_CONFIG",
    _whole(1, 2),
    2,
    "Physical cores per logical core: 2 gives 4 logical cores of 24 GiB a chip, 1 gives 8 of 12 GiB.",
    "runtime",
)
PLATFORM_TARGET_OVERRIDE = Variable(
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    _one_of({"trn2": "trn2", "trn3": "trn3"}),
    "trn2",
    "Generation that the virtual cores report.",
    "runtime",
)
LAUNCH_BLOCKING = Variable(
    "NEURON_LAUNCH_BLOCKING",
    FLAG,
    False,
    "1 waits after every launch, so that an error surfaces at its own line.",
    "runtime",
)
DEVICE_MEMORY: Variable[int | None] = Variable(
    "TORCH_NEURONX_DEVICE_MEMORY",
    SIZE,
    None,
    "Device memory of one logical core, in bytes or with a unit.",
    "runtime",
    "24GiB (12GiB at NEURON_LOGICAL_NC_CONFIG=1)",
)
PROTECT_MEMORY = Variable(
    "TORCH_NEURONX_PROTECT_MEMORY",
    FLAG,
    False,
    "1 makes device memory inaccessible to the host outside kernels and copies: code that would fail on hardware fails here.",
    "runtime",
)
NEFF_CACHE_DIR: Variable[Path | None] = Variable(
    "TORCH_NEURONX_NEFF_CACHE_DIR",
    PATH,
    None,
    "Directory of the disk cache of compiled programs, shared by processes.",
    default_text="$XDG_CACHE_HOME/torchneuron or ~/.cache/torchneuron",
)
NEFF_CACHE_SIZE = Variable(
    "TORCH_NEURONX_NEFF_CACHE_SIZE",
    SIZE,
    2 << 30,
    "Bound of the disk cache; the least recently used programs are removed beyond it.",
    default_text="2GiB",
)
DISABLE_NEFF_CACHE = Variable("TORCH_NEURONX_DISABLE_NEFF_CACHE", FLAG, False, "1 neither reads nor writes the disk cache.")
FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS = Variable(
    "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS",
    FLAG,
    False,
    "1 makes an op that has a lowering but fails to compile raise instead of running on the CPU.",
)
FLOAT64 = Variable(
    "TORCH_NEURONX_FLOAT64",
    _one_of({"float32": "float32", "exact": "exact"}),
    "float32",
    "How float64 tensors are computed: float32 in single precision with one warning (the dtype stays float64), exact in double.",
)
ENABLE_STACK_TRACE = Variable(
    "TORCH_NEURONX_ENABLE_STACK_TRACE",
    FLAG,
    False,
    "1 records the Python line of every launch and fallback, and names it in errors and warnings.",
)
LOG_LEVEL = Variable("TORCH_NEURONX_LOG_LEVEL", LEVEL, 1, "What the package logs: 0 error, 1 warning, 2 info, 3 debug.")

# Names of the original that a program may set; declared so that they are told apart from typing errors.
_UNHONOURED: tuple[Variable[str | None], ...] = tuple(
    Variable(name, TEXT, None, doc, reader="none")
    for name, doc in (
        ("NEURON_CC_FLAGS", "Flags of neuronx-cc, the compiler of real hardware."),
        ("NEURON_RT_LOG_LEVEL", "Log level of the hardware's runtime; see TORCH_NEURONX_LOG_LEVEL."),
        ("TORCH_NEURONX_COMPILE_ONLY", "Compiles graphs without executing them."),
        ("TORCH_NEURONX_DEBUG_DIR", "Where compilation artifacts of graphs are written."),
        ("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "Whether a graph that cannot be lowered fails."),
        ("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", "Whether CPU inputs of a compiled graph are an error."),
        ("TORCH_NEURONX_ENABLED_METRIC_TABLES", "Which metric tables are written."),
        ("TORCH_NEURONX_METRICS_DIR", "Where metric tables are written."),
        ("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "Whether compilation artifacts are kept."),
    )
)

TABLE: tuple[Variable[object], ...] = (
    VISIBLE_CORES,
    NUM_CORES,
    LOGICAL_NC_CONFIG,
    PLATFORM_TARGET_OVERRIDE,
    LAUNCH_BLOCKING,
    DEVICE_MEMORY,
    PROTECT_MEMORY,
    NEFF_CACHE_DIR,
    NEFF_CACHE_SIZE,
    DISABLE_NEFF_CACHE,
    FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS,
    FLOAT64,
    ENABLE_STACK_TRACE,
    LOG_LEVEL,
    *_UNHONOURED,
)


def markdown() -> str:
    """The table as the page ``docs/environment.md``."""
    lines = [
        "# Environment variables",
        "",
        "Generated by `make docs` from `src/torch_neuronx/envvars.py`. Set them before the device is first used.",
        "An unknown `TORCH_NEURONX_*` name warns and names the nearest; a bad value is an error that says what is allowed.",
        "",
    ]
    lines += ["| Variable | Allowed | Default | Meaning |", "|---|---|---|---|"]
    for variable in TABLE:
        if variable.reader != "none":
            lines.append(f"| `{variable.name}` | {variable.kind.allowed} | {_default_text(variable)} | {variable.doc} |")
    lines += ["", "Known from the original and without effect in this version (setting one warns):", ""]
    lines += ["| Variable | Meaning in the original |", "|---|---|"]
    lines += [f"| `{variable.name}` | {variable.doc} |" for variable in _UNHONOURED]
    return "\n".join(lines) + "\n"


def _default_text(variable: Variable[object]) -> str:
    if variable.default_text:
        return variable.default_text
    return str(int(variable.default)) if isinstance(variable.default, bool) else str(variable.default)
