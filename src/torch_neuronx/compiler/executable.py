"""The executable image: what a compiled program is, as data, and its byte encoding.

``csrc/core/executable.cpp`` reads these bytes; the table in ``docs/architecture.md`` is the format.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

MAGIC = b"NEURONX1"
ABSENT_DTYPE = 255


class Space(IntEnum):
    """Which of a launch's memories a buffer lies in."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    CONSTANT = 3


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A place in a launch's memory: an input or output by index, or scratch or constants (index 0), plus a byte offset."""

    space: Space
    index: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A strided tensor in a buffer. ``dtype_code`` is ``DType.code``, or ABSENT_DTYPE for an optional tensor not given."""

    buffer: BufferRef
    dtype_code: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


ABSENT = TensorRef(BufferRef(Space.CONSTANT), ABSENT_DTYPE, (), ())


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Run generated code at byte ``entry`` of the image's code over ``range_`` iterations, at least ``grain`` per task."""

    name: str
    entry: int
    buffers: tuple[BufferRef, ...]
    params: tuple[int, ...]
    range_: int
    grain: int


@dataclass(frozen=True, slots=True)
class LibraryStep:
    """Call the library kernel registered as ``symbol``. ``scalars`` are slot indices. Tensors: results, then operands."""

    symbol: str
    tensors: tuple[TensorRef, ...]
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    scalars: tuple[int, ...] = ()


Step = KernelStep | LibraryStep


@dataclass(frozen=True, slots=True)
class ExecutableImage:
    """A whole compiled program; see the format table for the meaning of each field."""

    name: str
    signature: str
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    donations: tuple[int, ...]
    scalar_count: int
    scratch_bytes: int
    work: int
    parallel: bool
    steps: tuple[Step, ...]
    constants: bytes = b""
    code: bytes = b""
    messages: tuple[str, ...] = field(default=())

    def encode(self) -> bytes:
        writer = _Writer()
        writer.raw(MAGIC)
        writer.text(self.name)
        writer.text(self.signature)
        writer.numbers("Q", self.input_bytes)
        writer.numbers("Q", self.output_bytes)
        writer.numbers("i", self.donations)
        writer.pack("I", self.scalar_count)
        writer.pack("Q", self.scratch_bytes)
        writer.pack("Q", self.work)
        writer.pack("B", self.parallel)
        writer.blob(self.constants)
        writer.blob(self.code)
        writer.pack("I", len(self.messages))
        for message in self.messages:
            writer.text(message)
        writer.pack("I", len(self.steps))
        for step in self.steps:
            _write_step(writer, step)
        return bytes(writer.data)


class _Writer:
    """Little-endian packing into a growing buffer."""

    def __init__(self) -> None:
        self.data = bytearray()

    def raw(self, data: bytes) -> None:
        self.data += data

    def pack(self, code: str, value: int | float) -> None:
        self.data += struct.pack("<" + code, value)

    def blob(self, data: bytes) -> None:
        self.pack("Q", len(data))
        self.raw(data)

    def text(self, text: str) -> None:
        self.blob(text.encode())

    def numbers(self, code: str, values: tuple[int, ...] | tuple[float, ...]) -> None:
        self.pack("I", len(values))
        self.data += struct.pack(f"<{len(values)}{code}", *values)

    def buffer(self, ref: BufferRef) -> None:
        self.data += struct.pack("<BIQ", ref.space, ref.index, ref.offset)


def _write_step(writer: _Writer, step: Step) -> None:
    match step:
        case KernelStep():
            writer.pack("B", 0)
            writer.text(step.name)
            writer.pack("Q", step.entry)
            writer.pack("I", len(step.buffers))
            for ref in step.buffers:
                writer.buffer(ref)
            writer.numbers("q", step.params)
            writer.pack("q", step.range_)
            writer.pack("q", step.grain)
        case LibraryStep():
            writer.pack("B", 1)
            writer.text(step.symbol)
            writer.pack("I", len(step.tensors))
            for tensor in step.tensors:
                writer.buffer(tensor.buffer)
                writer.pack("B", tensor.dtype_code)
                writer.numbers("q", tensor.sizes)
                writer.numbers("q", tensor.strides)
            writer.numbers("q", step.ints)
            writer.numbers("d", step.floats)
            writer.numbers("I", step.scalars)
