"""Streams: queues of a device whose work runs in order; and events: marks in them."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import DeviceLike, _get_device_index


class Stream(torch.Stream):
    """A queue of a device. ``priority`` −1 is high, 0 is normal; values beyond are taken as the nearest of the two.

    ``Stream(stream_id=..., device_index=..., device_type=...)`` names an existing queue.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **identity: int) -> Self:
        if not identity:
            stream_id, device_index, device_type = _C._pooled_stream(_get_device_index(device, optional=True), priority)
            identity = {"stream_id": stream_id, "device_index": device_index, "device_type": device_type}
        return super().__new__(cls, **identity)

    @property
    def priority(self) -> int:
        """−1 (high) or 0 (normal)."""
        return _C._stream_priority(self.stream_id, self.device_index)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.native_handle)  # type: ignore[attr-defined]  # missing in the stub of torch 2.13

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Marks the end of what is queued now, in a new :class:`Event` unless one is given; returns the event."""
        # torch.Stream.record_event accepts only exactly torch.Event, no subclass.
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"torch.neuron.Stream(device={self.device}, id={self.stream_id})"


class Event(torch.Event):
    """A mark in a stream. ``enable_timing=True`` lets :meth:`elapsed_time` measure."""

    def __new__(cls, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Self:
        if interprocess:
            raise ValueError("neuron events cannot be shared between processes: interprocess=True is not supported")
        index = None if device is None else torch.device("neuron", _get_device_index(device, optional=True))
        return super().__new__(cls, device=index or torch.device("neuron"), enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this mark to the other. RuntimeError without timing, or if a mark is not recorded or not reached yet."""
        # torch.Event.elapsed_time accepts only exactly torch.Event, no subclass.
        return _C._elapsed_time(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"torch.neuron.Event(device={self.device})"


class StreamContext(AbstractContextManager[Stream | None]):
    """Context manager: a stream and its device are current within it. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous_device = -1
        self._previous_stream: Stream | None = None

    def __enter__(self) -> Any:
        if self.stream is not None:
            self._previous_device = _C._exchange_device(self.stream.device_index)
            self._previous_stream = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self._previous_stream is not None:
            set_stream(self._previous_stream)
            _C._exchange_device(self._previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """``with torch.neuron.stream(s):`` queues on ``s``."""
    return StreamContext(stream)


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's stream of a device, by default of the current one."""
    return _named(_C._current_stream(_get_device_index(device, optional=True)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that a thread uses unless it sets another."""
    return _named(_C._default_stream(_get_device_index(device, optional=True)))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream current for its device in the calling thread; the current device stays. None changes nothing."""
    if stream is not None:
        _C._set_stream(stream.stream_id, stream.device_index)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    """What compiled code calls to make a stream current."""
    _C._set_stream(stream_id, device_index)


def get_raw_stream(device: int) -> int:
    """Address of the runtime's object for the current stream of a device."""
    return _C._raw_stream(device)


def _sleep(nanoseconds: int) -> None:
    """Keeps the current stream busy for a time; for tests of ordering."""
    _C._sleep(-1, nanoseconds)


def _named(identity: tuple[int, int, int]) -> Stream:
    stream_id, device_index, device_type = identity
    return Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
