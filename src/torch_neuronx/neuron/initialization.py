"""First use of the device: once per process, in time for the first tensor."""

from __future__ import annotations

import os
import threading

from torch_neuronx import _C, envvars

_lock = threading.RLock()
_running = False


def is_initialized() -> bool:
    """Whether the device has been used, or :func:`init` called."""
    return _C._is_initialized()


def init() -> None:
    """Prepares the device now instead of at its first use."""
    _lazy_init()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had used the device."""
    return _C._in_forked_child()


def _lazy_init() -> None:
    """Reads the environment and registers the compiled operators. PyTorch and the extension call it before the device is first used.

    Raises RuntimeError in a child of a fork whose parent had used the device, and for a bad value of an environment variable.
    """
    global _running
    if _C._is_initialized():
        return
    if _C._in_forked_child():
        raise RuntimeError(
            "the neuron device was in use when this process was forked, and cannot be used in it: its threads exist in the parent only. "
            "Start processes with torch.multiprocessing.set_start_method('spawn'), or fork before the device is first used"
        )
    with _lock:
        # Registering operators may itself touch the device.
        if _C._is_initialized() or _running:
            return
        _running = True
        try:
            _C._configuration()
            envvars.check_environment()
            from torch_neuronx import eager

            eager.install()
            _C._mark_initialized()
        finally:
            _running = False


def _forget_lock() -> None:
    """Another thread of the parent may have held the lock; it does not exist in the child."""
    global _lock, _running
    _lock = threading.RLock()
    _running = False


os.register_at_fork(after_in_child=_forget_lock)
