"""Random numbers of the device: one generator per device, drawn from by counting, so that equal seeds give equal numbers."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import DeviceLike, _get_device_index


def generators() -> tuple[torch.Generator, ...]:
    """The generators that random operators use where they are given none, by device index."""
    return tuple(_C._default_generator(index) for index in range(_C._device_count()))


def _get_generator(device: torch.device) -> torch.Generator:
    """The default generator of a device."""
    return _C._default_generator(_get_device_index(device, optional=True))


def get_rng_state(device: DeviceLike = "neuron") -> torch.Tensor:
    """State of a device's generator: a CPU tensor of 16 bytes, the seed and the offset in counter blocks, 64 bits each."""
    return _C._default_generator(_get_device_index(device, optional=True)).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "neuron") -> None:
    """Sets what :func:`get_rng_state` returned."""
    _C._default_generator(_get_device_index(device, optional=True)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators, by device index."""
    return [generator.get_state() for generator in generators()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets what :func:`get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _C._default_generator(-1).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices. ``torch.manual_seed`` calls it."""
    for generator in generators():
        generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the current device's generator from the system's entropy. Returns the seed."""
    return _C._default_generator(-1).seed()


def seed_all() -> int:
    """Seeds the generators of all devices with one number from the system's entropy. Returns it."""
    value = seed()
    manual_seed_all(value)
    return value


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _C._default_generator(-1).initial_seed()
