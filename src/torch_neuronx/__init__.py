"""PyTorch's device ``neuron``. ``import torch`` makes it available by itself; this package holds the functions that torch has no name for.

Fallback and tracking: ``fallback_policy get_fallback_ops get_executed_ops clear_op_tracking``. The functions of ``torch.neuron`` are
reachable from here as well.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

__version__ = "0.1.0"


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


# True: `import torch` runs, and calls _autoload at its end. False: this package was imported by name.
_LOADED_BY_TORCH = _is_being_imported("torch")


def _autoload() -> None:
    """The entry point that ``import torch`` calls at its end. Never raises: what goes wrong becomes one warning."""
    if not _LOADED_BY_TORCH:
        return  # `import torch_neuronx` imports torch, and goes on to register below
    try:
        from torch_neuronx._registration import register

        register()
    except Exception as error:
        # Forgotten, so that a later `import torch_neuronx` tries again and raises.
        for name in [name for name in sys.modules if name.partition(".")[0] == __name__]:
            del sys.modules[name]
        warnings.warn(f"the device 'neuron' is not available: {error}", stacklevel=2)


if not _LOADED_BY_TORCH:
    from torch_neuronx._registration import register

    register()

# Resolved on first use: while torch imports this package, it must not need more than the device itself.
_HOMES = {
    "torch_neuronx.eager": ("fallback_policy", "get_fallback_ops", "get_executed_ops", "clear_op_tracking"),
    "torch_neuronx.neuron": (
        *("Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"),
        *("current_device", "device", "device_count", "get_device_name", "get_device_properties", "init", "is_available"),
        *("is_bf16_supported", "is_initialized", "set_device", "synchronize"),
        *("empty_cache", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved"),
        *("memory_stats", "memory_summary", "reset_accumulated_memory_stats", "reset_peak_memory_stats"),
        *("set_per_process_memory_fraction", "manual_seed", "manual_seed_all"),
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
