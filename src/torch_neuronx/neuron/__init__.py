"""``torch.neuron``: the device's functions, named as in ``torch.cuda``."""

from __future__ import annotations

from typing import Any

from torch_neuronx.neuron import _utils, amp, memory, random
from torch_neuronx.neuron.amp import get_amp_supported_dtype, is_bf16_supported
from torch_neuronx.neuron.device import (
    _exchange_device,
    _maybe_exchange_device,
    current_device,
    device,
    device_count,
    device_of,
    exchange_device,
    get_compute_capability,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    maybe_exchange_device,
    set_device,
    synchronize,
)
from torch_neuronx.neuron.initialization import _is_in_bad_fork, _lazy_init, init, is_initialized
from torch_neuronx.neuron.memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_neuronx.neuron.random import (
    _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_neuronx.neuron.streams import (
    Event,
    Stream,
    StreamContext,
    _set_stream_by_id,
    _sleep,
    current_stream,
    default_stream,
    get_raw_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "_exchange_device",
    "_get_generator",
    "_is_in_bad_fork",
    "_lazy_init",
    "_maybe_exchange_device",
    "_set_stream_by_id",
    "_sleep",
    "_utils",
    "amp",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "exchange_device",
    "get_amp_supported_dtype",
    "get_compute_capability",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_raw_stream",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "maybe_exchange_device",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    # Made on first use: how many there are depends on the environment, which importing must not read.
    if name == "default_generators":
        return random.generators()
    # What torch.utils.checkpoint asks before it saves the state of the random numbers.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
