"""Runs executable images in the test process: code mapped by ctypes, library steps by PyTorch on the same memory."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from host_library import run_library

from torch_neuronx.compiler import host_target
from torch_neuronx.compiler.executable import BufferRef, ExecutableImage, KernelStep, Space
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature
from torch_neuronx.compiler.hlo.numerics import HELD_AS, from_storage, to_storage
from torch_neuronx.compiler.hlo.types import DType, contiguous_strides
from torch_neuronx.compiler.hlo.verify import verify
from torch_neuronx.compiler.host import Target, compile_for_host
from torch_neuronx.compiler.host.buffers import extent_bytes
from torch_neuronx.compiler.passes.pipeline import optimize

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_SCALAR = {DType.F64: np.float64, DType.I64: np.int64, DType.UI64: np.uint64}
GUARD = 0xA5


class KernelFailedError(Exception):
    """A kernel returned a status."""


# A CPU without AVX-512; its code runs on every machine that this project supports.
AVX2 = Target("x86_64-unknown-linux-gnu", "haswell", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2")


def compile_image(module: Module, signature: Signature | None = None, target: Target | None = None) -> ExecutableImage:
    """The image for contiguous buffers, or for those of ``signature``; for this machine unless said."""
    verify(module)
    return compile_for_host(optimize(module), signature or contiguous_signature(module), target or host_target())


def contiguous_signature(module: Module, donations: Mapping[int, int] | None = None) -> Signature:
    parameters = tuple(None if p.is_scalar else Layout(contiguous_strides(p.shape)) for p in module.parameters)
    return Signature(parameters, tuple(Layout(contiguous_strides(r.shape)) for r in module.results), donations or {}, "test")


def run(
    module: Module, inputs: Sequence[np.ndarray], signature: Signature | None = None, parts: int = 1, target: Target | None = None
) -> list[np.ndarray]:
    """Compiles and runs; arrays in the held form of ``numerics``. ``parts``: into how many tasks every kernel's range is cut."""
    signature = signature or contiguous_signature(module)
    return Launch(compile_image(module, signature, target), module, signature).run(inputs, parts)


@dataclass
class Launch:
    """One program with the module and signature it was made from."""

    image: ExecutableImage
    module: Module
    signature: Signature

    def run(self, inputs: Sequence[np.ndarray], parts: int = 1) -> list[np.ndarray]:
        buffers, scalars = [], []
        for parameter, layout, given in zip(self.module.parameters, self.signature.parameters, inputs):
            if layout is None:
                scalars.append(np.asarray(given, _SCALAR[parameter.dtype]).tobytes())
            else:
                buffers.append(_Buffer(parameter.shape, layout.strides, parameter.dtype, given))
        outputs = []
        for number, (result, layout) in enumerate(zip(self.module.results, self.signature.results)):
            donated = self.image.donations[number]
            outputs.append(buffers[donated] if donated >= 0 else _Buffer(result.shape, layout.strides, result.dtype, None))
        before = [buffer.raw.copy() for buffer in buffers]
        _execute(self.image, buffers, outputs, b"".join(scalars), parts)
        for number, buffer in enumerate(buffers):
            if number not in self.image.donations:
                assert np.array_equal(buffer.raw, before[number]), f"input {number} was changed"
        for buffer in (*buffers, *outputs):
            buffer.check_guards()
        return [buffer.read() for buffer in outputs]


class _Buffer:
    """Memory of a strided tensor with guard bytes around it; elements that no index reaches keep the guard's value."""

    MARGIN = 64

    def __init__(self, shape: Sequence[int], strides: Sequence[int], dtype: DType, values: np.ndarray | None) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        size = extent_bytes(shape, strides, dtype.itemsize)
        self.raw = np.full(size + 2 * self.MARGIN, GUARD, np.uint8)
        stored = to_storage(np.zeros(1, HELD_AS[dtype]), dtype).dtype
        item = stored.itemsize
        self.view = np.lib.stride_tricks.as_strided(
            self.raw[self.MARGIN : self.MARGIN + max(size, item)].view(stored), self.shape, [stride * item for stride in strides]
        )
        reached = np.zeros(size, bool)
        offsets = np.zeros((), np.int64)
        for extent, stride in zip(shape, strides):
            offsets = offsets[..., None] + np.arange(extent) * stride * item
        for byte in range(item):
            reached[(offsets + byte).ravel()] = True
        self._outside = np.concatenate([np.ones(self.MARGIN, bool), ~reached, np.ones(self.MARGIN, bool)])
        if values is not None:
            self.view[...] = to_storage(np.asarray(values), dtype)

    @property
    def address(self) -> int:
        return self.raw.ctypes.data + self.MARGIN

    def read(self) -> np.ndarray:
        return from_storage(self.view.copy(), self.dtype)

    def check_guards(self) -> None:
        assert (self.raw[self._outside] == GUARD).all(), "bytes outside of the tensor were written"


def _execute(image: ExecutableImage, inputs: Sequence[_Buffer], outputs: Sequence[_Buffer], scalars: bytes, parts: int) -> None:
    code = mmap.mmap(-1, max(len(image.code), 1), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(image.code)
    code_address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    scratch = np.full(image.scratch_bytes + 128, GUARD, np.uint8)
    constants = np.frombuffer(image.constants + bytes(128), np.uint8).copy()
    spaces = {Space.SCRATCH: _aligned(scratch), Space.CONSTANT: _aligned_copy(constants)}

    def address(ref: BufferRef) -> int:
        if ref.space in (Space.INPUT, Space.OUTPUT):
            return (inputs if ref.space is Space.INPUT else outputs)[ref.index].address + ref.offset
        return spaces[ref.space] + ref.offset

    scalar_block = ctypes.create_string_buffer(scalars, len(scalars) + 8)
    for step in image.steps:
        if isinstance(step, KernelStep):
            pointers = (ctypes.c_void_p * max(len(step.buffers), 1))(*[address(ref) for ref in step.buffers])
            params = (ctypes.c_int64 * max(len(step.params), 1))(*step.params)
            function = _FUNCTION(code_address + step.entry)
            bounds = sorted({round(part * step.range_ / parts) for part in range(parts + 1)})
            for begin, end in pairwise(bounds):
                status = function(ctypes.addressof(pointers), ctypes.addressof(params), ctypes.addressof(scalar_block), begin, end)
                if status:
                    raise KernelFailedError(image.messages[status - 1])
        else:
            run_library(step, address, scalars)
    assert scratch[-1] == GUARD


def _aligned(array: np.ndarray) -> int:
    return (array.ctypes.data + 63) // 64 * 64


def _aligned_copy(array: np.ndarray) -> int:
    start = -array.ctypes.data % 64
    array[start:] = array[: len(array) - start].copy()
    return array.ctypes.data + start
