"""The library kernels that the tests of this room need, in NumPy on the same memory: enough to see that steps are encoded rightly."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from torch_neuronx.compiler.executable import ABSENT_DTYPE, BufferRef, LibraryStep, TensorRef
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.types import DType

_DTYPES = {dtype.code: HELD_AS[dtype] for dtype in DType}


def run_library(step: LibraryStep, address: Callable[[BufferRef], int], scalars: bytes) -> None:
    tensors = [None if ref.dtype_code == ABSENT_DTYPE else _array(ref, address) for ref in step.tensors]
    _KERNELS[step.symbol](step, *tensors)


def _array(ref: TensorRef, address: Callable[[BufferRef], int]) -> np.ndarray:
    dtype = _DTYPES[ref.dtype_code]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(ref.sizes, ref.strides))
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address(ref.buffer))
    strides = [stride * dtype.itemsize for stride in ref.strides]
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, dtype), ref.sizes, strides)


def _writable(out: np.ndarray, values: np.ndarray) -> None:
    out.flags.writeable = True
    out[...] = values


def _matmul(step: LibraryStep, out: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> None:
    _writable(out, np.matmul(lhs, rhs, dtype=out.dtype))


def _addmm(step: LibraryStep, out: np.ndarray, bias: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> None:
    beta, alpha = step.floats
    _writable(out, beta * bias + alpha * np.matmul(lhs, rhs))


def _scan(step: LibraryStep, out: np.ndarray, x: np.ndarray) -> None:
    kind, dim = step.ints
    _writable(out, (np.add, np.multiply, np.maximum, np.minimum)[kind].accumulate(x, axis=dim, dtype=x.dtype))


_KERNELS = {"matmul": _matmul, "addmm": _addmm, "scan": _scan}
