"""Which torch this package works with. Reads texts only: the extension of another torch must not even be loaded."""

from __future__ import annotations

import importlib.util

SUPPORTED_MINORS = ("2.13", "2.14")


def minor_of(version: str) -> str:
    """``"2.13.0+cpu"`` → ``"2.13"``."""
    return ".".join(version.split("+")[0].split(".")[:2])


def built_for() -> str | None:
    """The torch version that the extension was built against; None if it has not been built."""
    if importlib.util.find_spec("torch_neuronx._built_for") is None:
        return None
    from torch_neuronx._built_for import TORCH_VERSION

    return TORCH_VERSION


def check_versions(installed: str, built: str | None) -> None:
    """Raises ImportError, naming both versions and the fix, unless the extension fits the installed torch."""
    minor = minor_of(installed)
    if minor not in SUPPORTED_MINORS:
        raise ImportError(
            f"torchneuron works with torch {' and '.join(SUPPORTED_MINORS)}, but torch {installed} is installed. "
            f"Install a matching torch: pip install 'torch=={SUPPORTED_MINORS[0]}.*'"
        )
    if built is None:
        raise ImportError(
            f"the extension of torchneuron has not been built for the installed torch {installed}. "
            "Build it: pip install --no-build-isolation ."
        )
    if minor_of(built) != minor:
        raise ImportError(
            f"torchneuron was built against torch {built}, but torch {installed} is installed. "
            f"Build it again with the installed torch (pip install --no-build-isolation --force-reinstall --no-deps .) "
            f"or install the torch it was built for (pip install 'torch=={minor_of(built)}.*')"
        )
