"""In which precision sums and products of narrow floats are formed."""

from __future__ import annotations

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder

_WIDER = {DType.F16: DType.F32, DType.BF16: DType.F32}


def accumulation_dtype(dtype: DType) -> DType:
    """f32 for f16 and bf16, otherwise the dtype itself."""
    return _WIDER.get(dtype, dtype)


def widened(b: LoweringBuilder, x: Value) -> Value:
    """``x`` in its accumulation dtype. Results are narrowed again by the caller of the lowering."""
    return b.cast(x, accumulation_dtype(x.dtype))
