"""The one change to PyTorch that no registration can make: bfloat16 as the default dtype of ``torch.autocast("neuron")`` in every thread.

PyTorch keeps the default per device type and *thread*, and starts every thread with float16 for PrivateUse1
(``ATen/autocast_mode.cpp``); ``torch.set_autocast_dtype`` reaches the calling thread only. So the first ``torch.autocast`` for this
device in a thread sets that thread's default. Everything else about ``torch.autocast`` stays PyTorch's.
"""

from __future__ import annotations

import functools
import threading

import torch
from torch.amp.autocast_mode import autocast

from torch_neuronx.neuron.amp import DEFAULT_DTYPE

_thread = threading.local()


def use_bfloat16_by_default() -> None:
    """Called once, at registration; sets the importing thread's default at once, so that ``torch.get_autocast_dtype`` tells it."""
    _set_default_of_this_thread()
    original = autocast.__init__

    @functools.wraps(original)
    def initialize(
        self: autocast, device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if device_type == "neuron":
            _set_default_of_this_thread()
        original(self, device_type, dtype, enabled, cache_enabled)

    autocast.__init__ = initialize  # type: ignore[method-assign]


def _set_default_of_this_thread() -> None:
    if not getattr(_thread, "is_set", False):
        _thread.is_set = True
        torch.set_autocast_dtype("neuron", DEFAULT_DTYPE)
