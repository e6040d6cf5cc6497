"""The name under which ``torch.load`` looks for the resolution of a device to its index."""

from __future__ import annotations

from typing import Any

import torch

from torch_neuronx import _C

# What PyTorch's device functions accept.
DeviceLike = torch.device | str | int | None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Index of a device given as ``torch.device``, string, integer or object with a ``device`` or an ``idx``.

    A device without an index, and None if ``optional``, is the current device. ``allow_cpu``: −1 for the CPU. Raises ValueError for
    another type of device, RuntimeError for an index out of range.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "neuron":
            raise ValueError(f"expected a neuron device, got {device}")
        device = device.index
        optional = True
    if device is None:
        if not optional:
            raise ValueError("expected a neuron device with an index, got None")
        return _C._current_device()
    index = int(device)
    if index >= 0:
        _C._check_device(index)
        return index
    return _C._current_device()
