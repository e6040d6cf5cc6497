"""Library steps of a program under test: the real library kernels, on views of the test's own memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import torch

from torch_neuronx.compiler.executable import ABSENT_DTYPE, BufferRef, LibraryStep, TensorRef
from torch_neuronx.compiler.hlo.types import DType

_TORCH = {
    DType.I1: torch.bool, DType.I8: torch.int8, DType.I16: torch.int16, DType.I32: torch.int32, DType.I64: torch.int64,
    DType.UI8: torch.uint8, DType.UI16: torch.uint16, DType.UI32: torch.uint32, DType.UI64: torch.uint64, DType.F16: torch.float16,
    DType.BF16: torch.bfloat16, DType.F32: torch.float32, DType.F64: torch.float64,
    DType.C64: torch.complex64, DType.C128: torch.complex128, DType.F8E4M3FN: torch.float8_e4m3fn, DType.F8E5M2: torch.float8_e5m2,
}  # fmt: skip
_TYPES = {dtype.code: kind for dtype, kind in _TORCH.items()}


def run_library(step: LibraryStep, address: Callable[[BufferRef], int], scalars: bytes) -> None:
    """Runs a step on the memory that ``address`` gives for its buffers; ``scalars`` are the launch's 8-byte slots."""
    from torch_neuronx import _C

    slots = [struct.unpack_from("<Q", scalars, 8 * slot)[0] for slot in step.scalars]
    _C._run_library(step.symbol, [_tensor(ref, address) for ref in step.tensors], list(step.ints), list(step.floats), slots)


def _tensor(ref: TensorRef, address: Callable[[BufferRef], int]) -> torch.Tensor | None:
    if ref.dtype_code == ABSENT_DTYPE:
        return None
    dtype = _TYPES[ref.dtype_code]
    if 0 in ref.sizes:
        return torch.empty(ref.sizes, dtype=dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(ref.sizes, ref.strides))
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address(ref.buffer))
    return torch.frombuffer(memory, dtype=dtype).as_strided(ref.sizes, ref.strides)
