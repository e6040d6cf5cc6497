"""Where every value of a program lives: inputs, outputs, scratch and constants.

A result lives in its output buffer from the moment it is computed, a donated one in the parameter's, unless that would overwrite what is
still to be read; then it is computed in scratch and copied at the end. Temporaries share one scratch block by the time in which they are
alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..executable import BufferRef, Space
from ..hlo.ir import Module, Signature, Value
from ..hlo.numerics import to_storage
from ..hlo.types import contiguous_strides

ALIGNMENT = 64


def extent_bytes(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element to the end of the last one in memory; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return (1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))) * itemsize


@dataclass(slots=True)
class Homes:
    """The layout of every value while it is in memory, and the result whose buffer it lives in, if any.

    A ``detached`` result is computed in scratch and copied to its buffer at the end.
    """

    module: Module
    signature: Signature
    detached: set[Value] = field(default_factory=set)
    _result_of: dict[Value, int] = field(default_factory=dict)
    _parameter_strides: dict[Value, tuple[int, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value, layout in zip(self.module.parameters, self.signature.parameters):
            self._parameter_strides[value] = None if layout is None else layout.strides
        for number, value in enumerate(self.module.results):
            if value.producer is not None and value.producer.name != "constant":
                self._result_of.setdefault(value, number)

    def result_of(self, value: Value) -> int | None:
        """The result in whose buffer a computed value lives; of a value that is several results, the first."""
        return None if value in self.detached else self._result_of.get(value)

    def strides(self, value: Value) -> tuple[int, ...] | None:
        """Element strides; None for a scalar parameter."""
        if value in self._parameter_strides:
            return self._parameter_strides[value]
        result = self.result_of(value)
        return contiguous_strides(value.shape) if result is None else self.signature.results[result].strides

    def bytes_of(self, value: Value) -> int:
        strides = self.strides(value)
        assert strides is not None, "scalars have no memory"
        return extent_bytes(value.shape, strides, value.dtype.itemsize)


class ConstantPool:
    """Array constants, one after the other."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._places: dict[bytes, int] = {}

    def place(self, value: Value) -> BufferRef:
        """The constant that ``value`` is."""
        assert value.producer is not None
        data = np.ascontiguousarray(to_storage(np.broadcast_to(value.producer.attributes["value"], value.shape), value.dtype)).tobytes()
        if data not in self._places:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            self._places[data] = len(self.data)
            self.data += data
        return BufferRef(Space.CONSTANT, 0, self._places[data])


def pack_scratch(lifetimes: Mapping[Value, tuple[int, int]], sizes: Mapping[Value, int]) -> tuple[dict[Value, int], int]:
    """Offsets in one block for values that are alive from one step to another (both included), and the block's size.

    Largest first, each at the lowest place that is free for all of its life: simple, and within a few percent of the best for these
    programs.
    """
    placed: list[tuple[int, int, Value]] = []
    offsets: dict[Value, int] = {}
    for value in sorted(lifetimes, key=lambda v: (-sizes[v], lifetimes[v])):
        first, last = lifetimes[value]
        size = -(-max(sizes[value], 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end in sorted((s, e) for s, e, other in placed if lifetimes[other][0] <= last and first <= lifetimes[other][1]):
            if offset + size <= start:
                break
            offset = max(offset, end)
        offsets[value] = offset
        placed.append((offset, offset + size, value))
    return offsets, max((end for _, end, _ in placed), default=0)


def lifetimes(steps: Iterable[tuple[Iterable[Value], Iterable[Value]]], temporaries: Iterable[Value]) -> dict[Value, tuple[int, int]]:
    """First and last step that touches each temporary; a step is what it reads and what it writes."""
    wanted = set(temporaries)
    result: dict[Value, tuple[int, int]] = {}
    for number, (reads, writes) in enumerate(steps):
        for value in (*reads, *writes):
            if value in wanted:
                result[value] = (result.get(value, (number, number))[0], number)
    return result
