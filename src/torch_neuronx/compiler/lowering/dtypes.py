"""Torch dtypes and IR dtypes, and the one place that knows the float64 policy.

Policy: a device computes float64 as float32 and keeps the result's dtype, unless ``TORCH_NEURONX_FLOAT64=exact``. Lowerings that
only move data (``exact=True`` in the registry) always keep float64 as it is.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch

from ... import envvars
from ..hlo.types import DType

_PAIRS: tuple[tuple[torch.dtype, DType], ...] = (
    (torch.bool, DType.I1),
    (torch.int8, DType.I8),
    (torch.int16, DType.I16),
    (torch.int32, DType.I32),
    (torch.int64, DType.I64),
    (torch.uint8, DType.UI8),
    (torch.uint16, DType.UI16),
    (torch.uint32, DType.UI32),
    (torch.uint64, DType.UI64),
    (torch.float16, DType.F16),
    (torch.bfloat16, DType.BF16),
    (torch.float32, DType.F32),
    (torch.float64, DType.F64),
    (torch.complex64, DType.C64),
    (torch.complex128, DType.C128),
    (torch.float8_e4m3fn, DType.F8E4M3FN),
    (torch.float8_e5m2, DType.F8E5M2),
)
_TO_HLO = dict(_PAIRS)
_TO_TORCH = {hlo: dtype for dtype, hlo in _PAIRS}

_NARROWED = {DType.F64: DType.F32, DType.C128: DType.C64}


class UnsupportedDTypeError(NotImplementedError):
    """A torch dtype that the device has no element type for."""


def to_dtype(dtype: torch.dtype) -> DType:
    """The element type of a torch dtype. Raises UnsupportedDTypeError for quantized, sub-byte and complex32 types."""
    try:
        return _TO_HLO[dtype]
    except KeyError:
        raise UnsupportedDTypeError(
            f"{dtype} has no element type on device neuron; supported: {', '.join(str(d) for d in _TO_HLO)}"
        ) from None


def to_torch(dtype: DType) -> torch.dtype:
    """The torch dtype of an element type."""
    return _TO_TORCH[dtype]


def float64_is_exact() -> bool:
    """Whether float64 is computed in float64: ``TORCH_NEURONX_FLOAT64=exact``; the default is ``float32``."""
    return envvars.FLOAT64.get() == "exact"


def computed(dtype: DType) -> DType:
    """The dtype that values of ``dtype`` are computed in under the float64 policy: f64 → f32 and complex<f64> → complex<f32>."""
    return dtype if float64_is_exact() else _NARROWED.get(dtype, dtype)


@cache
def warn_float64_is_narrowed() -> None:
    """Says once per process that float64 is computed as float32."""
    warnings.warn(
        "float64 on device neuron is computed as float32 (results keep its dtype); set TORCH_NEURONX_FLOAT64=exact for float64",
        UserWarning,
        stacklevel=2,
    )
