"""Builds the C++20 extension ``torch_neuronx._C`` against the installed torch; the rest of the metadata is in pyproject.toml."""

import os
import sys
from pathlib import Path

# The build imports torch, which must not try to autoload the package being built.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from setuptools import setup
from torch import __version__ as torch_version
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).parent
VERSION = "0.1.0"
TORCH_VERSION = torch_version.split("+")[0]


class Build(BuildExtension):
    """Keeps the objects of one Python and torch between builds, and notes beside the extension which torch it was built against.

    The note is read before the extension is loaded: with another torch, loading it may crash.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        # An editable install builds in a temporary directory, which would compile everything each time.
        self.build_temp = str(ROOT / "build" / f"objects-{sys.implementation.cache_tag}-torch{TORCH_VERSION}")

    def run(self) -> None:
        super().run()
        for package in {ROOT / "src" / "torch_neuronx", Path(self.build_lib) / "torch_neuronx"}:
            if package.is_dir():
                (package / "_built_for.py").write_text(f'"""Written by setup.py."""\n\nTORCH_VERSION = "{TORCH_VERSION}"\n')


def sources() -> list[str]:
    """All translation units of the extension, relative to the project as setuptools wants them."""
    return sorted(str(path.relative_to(ROOT)) for room in ("core", "torch") for path in (ROOT / "csrc" / room).rglob("*.cpp"))


extension = CppExtension(
    "torch_neuronx._C",
    sources(),
    include_dirs=[str(ROOT / "csrc")],
    define_macros=[("NEURON_TORCH_VERSION", f'"{TORCH_VERSION}"')],
    extra_compile_args=[
        *("-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"),
        # at::parallel_for is a header that is serial without OpenMP. Torch has loaded the libgomp.so.1 that serves it.
        "-fopenmp",
        # Torch's headers are not ours to warn about.
        *(f"-isystem{path}" for path in include_paths()),
    ],
)

setup(version=VERSION, ext_modules=[extension], cmdclass={"build_ext": Build.with_options(use_ninja=True)})
