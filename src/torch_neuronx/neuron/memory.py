"""Memory of the device: what is allocated, what the allocator holds, and where it was asked for."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, Literal

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import DeviceLike, _get_device_index


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """Statistics of a device's allocator; all zero before its first use.

    Each quantity (``allocation segment active inactive_split`` counts, ``allocated_bytes reserved_bytes active_bytes
    inactive_split_bytes requested_bytes`` sums) appears twice: nested, ``["allocated_bytes"]["current" | "peak" | "allocated" |
    "freed"]`` for all pools and ``["allocated_bytes"]["small_pool"]["current"]`` for one, and flat as in ``torch.cuda``,
    ``["allocated_bytes.all.current"]``. Counters such as ``num_ooms`` are plain numbers.
    """
    nested = torch._C._accelerator_getDeviceStats(_get_device_index(device, optional=True))
    flat: OrderedDict[str, Any] = OrderedDict()
    for name, value in sorted(nested.items()):
        _flatten(name, value, flat)
    for name, value in nested.items():
        if isinstance(value, dict) and isinstance(value.get("all"), dict):
            flat[name] = {**value["all"], **value}
    return flat


def _flatten(prefix: str, value: Any, into: OrderedDict[str, Any]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(f"{prefix}.{name}", inner, into)
    else:
        into[prefix] = value


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes in blocks that tensors hold now."""
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes that tensors have held at a time, since the start or :func:`reset_peak_memory_stats`."""
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the allocator holds now, in use or cached."""
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Most bytes that the allocator has held at a time."""
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Bytes of the device's memory that the allocator has not taken, and all its bytes."""
    free, total = torch._C._accelerator_getMemoryInfo(_get_device_index(device, optional=True))
    return int(free), int(total)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Makes the current values the peaks."""
    torch._C._accelerator_resetPeakStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Sets the totals (``allocated``, ``freed``) and counters to zero."""
    torch._C._accelerator_resetAccumulatedStats(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Gives the segments that no tensor uses back to the system, on all devices."""
    torch._C._accelerator_emptyCache()


def ipc_collect() -> None:
    """Nothing to collect: memory of this device is not shared between processes."""


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Lets the allocator take at most this part, in (0, 1], of a device's memory; beyond it is out of memory."""
    _C._set_memory_fraction(float(fraction), _get_device_index(device, optional=True))


# Rows of the summary: title, statistic, and whether it counts bytes.
_SUMMARY_ROWS = (
    ("Allocated memory", "allocated_bytes", True),
    ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True),
    ("Reserved memory", "reserved_bytes", True),
    ("Unused parts of segments", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Active blocks", "active", False),
    ("Segments", "segment", False),
    ("Unused blocks", "inactive_split", False),
)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A table of :func:`memory_stats` for people; ``abbreviated`` leaves out the two pools."""
    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    pools = ("all",) if abbreviated else ("all", "small_pool", "large_pool")
    line = "{:<28}{:>14}{:>14}{:>14}{:>14}".format
    rule = "-" * 84
    rows = [f"Memory of neuron:{index}", rule, line("", "current", "peak", "allocated", "freed"), rule]
    for title, name, is_bytes in _SUMMARY_ROWS:
        for pool in pools:
            values = [stats[f"{name}.{pool}.{moment}"] for moment in ("current", "peak", "allocated", "freed")]
            rows.append(line(title if pool == "all" else f"  {pool.replace('_', ' ')}", *map(_as_size if is_bytes else str, values)))
    free, total = mem_get_info(index)
    rows += [rule, f"Capacity {_as_size(total)}, not reserved {_as_size(free)}"]
    rows.append(f"Retries after freeing the cache {stats['num_alloc_retries']}, out of memory {stats['num_ooms']}")
    return "\n".join(rows)


def _as_size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
) -> None:
    """Starts the record of allocations and frees on all devices, or stops it with ``enabled=None``.

    Args:
        enabled: ``"all"`` records every allocation and free, ``"state"`` only where live blocks were allocated.
        context: None leaves the Python stacks out.
        stacks: Python frames are recorded in either case.
        max_entries: events kept; the oldest are dropped.
        device: ignored, as in ``torch.cuda``: the record is of the process.
        clear_history: starting always begins a new record.
    """
    if enabled is None:
        _C._stop_memory_history()
        return
    if enabled not in ("state", "all"):
        raise ValueError(f"_record_memory_history: enabled={enabled!r}, allowed are 'state', 'all' and None")
    if max_entries < 0:
        raise ValueError(f"_record_memory_history: max_entries={max_entries}, must not be negative")
    _C._start_memory_history(max_entries if enabled == "all" else 0, context is not None)


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """The segments and blocks of all devices and the recorded events, as ``torch.cuda.memory._snapshot`` gives them."""
    return _C._memory_snapshot()


def _dump_snapshot(filename: str | Path = "dump_snapshot.pickle") -> None:
    """Writes :func:`_snapshot` to a file that https://pytorch.org/memory_viz opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
