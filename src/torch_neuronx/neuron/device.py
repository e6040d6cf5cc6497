"""Which devices there are and which one is current."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import DeviceLike, _get_device_index

# Name of the core's architecture and its generation number, by platform.
_ARCHITECTURES = {"trn2": ("NeuronCore-v3", 3), "trn3": ("NeuronCore-v4", 4)}


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What one device is. A device is one logical NeuronCore."""

    name: str
    """``"trn2"`` or ``"trn3"``."""
    total_memory: int
    """Bytes of device memory."""
    lnc: int
    """Physical NeuronCores in one logical core."""
    core_count: int
    """Logical cores that this process sees."""
    platform: str
    """The machine type that is modelled; the same as ``name``."""
    arch: str
    """The core's architecture, such as ``"NeuronCore-v3"``."""


def is_available() -> bool:
    """Whether there is a device to use. Starts nothing."""
    return _C._device_count() > 0


def device_count() -> int:
    """Devices that this process sees: their indices are 0 to ``device_count() - 1``."""
    return _C._device_count()


def current_device() -> int:
    """Index of the calling thread's current device."""
    return _C._current_device()


def set_device(device: DeviceLike) -> None:
    """Makes a device current for the calling thread. An index out of range is an error; a negative one changes nothing."""
    _C._exchange_device(_get_device_index(device, optional=True))


def exchange_device(device: int) -> int:
    """Makes a device current and returns the index of the previous one. A negative index changes nothing."""
    return _C._exchange_device(device)


def maybe_exchange_device(device: int) -> int:
    """The same as :func:`exchange_device`: making a device current does not start it."""
    return _C._exchange_device(device)


_exchange_device = exchange_device
_maybe_exchange_device = maybe_exchange_device


class device:  # noqa: N801  the name that PyTorch gives it
    """Context manager: the device is current within it. None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._exchange_device(self.idx)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.idx = _C._exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager: the device of a tensor or storage is current within it. One on another type of device changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == "neuron" else None)


def get_device_name(device: DeviceLike = None) -> str:
    """``"trn2"`` or ``"trn3"``."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Generation of the NeuronCore and a minor number, which is 0: (3, 0) on trn2."""
    return _ARCHITECTURES[get_device_properties(device).name][1], 0


def get_compute_capability(device: DeviceLike = None) -> tuple[int, int]:
    """The name under which compilers ask for :func:`get_device_capability`."""
    return get_device_capability(device)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Properties of a device, by default of the current one. Starts nothing."""
    _get_device_index(device, optional=True)
    configuration = _C._configuration()
    return DeviceProperties(
        name=configuration["platform"],
        total_memory=configuration["capacity"],
        lnc=configuration["lnc"],
        core_count=configuration["core_count"],
        platform=configuration["platform"],
        arch=_ARCHITECTURES[configuration["platform"]][0],
    )


def synchronize(device: DeviceLike = None) -> None:
    """Waits until a device, by default the current one, has done all that is queued on it.

    Raises ``torch.AcceleratorError`` for the first command that has failed since the last synchronisation.
    """
    torch._C._accelerator_synchronizeDevice(_get_device_index(device, optional=True))
