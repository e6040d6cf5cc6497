"""Builds the C++20 extension ``torch_neuronx._C`` against the installed torch; the rest of the metadata is in pyproject.toml."""

import os
from pathlib import Path

# The build imports torch, which must not try to autoload the package being built.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from setuptools import setup
from torch import __version__ as torch_version
from torch.utils.cpp_extension import BuildExtension, CppExtension

ROOT = Path(__file__).parent
VERSION = "0.1.0"


def sources() -> list[str]:
    """All translation units of the extension, relative to the project as setuptools wants them."""
    return sorted(str(path.relative_to(ROOT)) for room in ("core", "torch") for path in (ROOT / "csrc" / room).rglob("*.cpp"))


extension = CppExtension(
    "torch_neuronx._C",
    sources(),
    include_dirs=[str(ROOT / "csrc")],
    define_macros=[("NEURON_TORCH_VERSION", f'"{torch_version.split("+")[0]}"')],
    extra_compile_args=["-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
)

setup(version=VERSION, ext_modules=[extension], cmdclass={"build_ext": BuildExtension.with_options(use_ninja=True)})
