"""Dropout, with the device's own random numbers."""

from __future__ import annotations

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering


@lowering("aten::native_dropout")
def native_dropout(b: LoweringBuilder, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """The input with each element zeroed with probability ``p`` and the rest scaled by 1 / (1 - p), and the mask of those kept."""
    if train is False or p == 0:
        return input, b.constant(True, DType.I1, input.shape)
    if p == 1:
        return b.constant(0, input.dtype, input.shape), b.constant(False, DType.I1, input.shape)
    bits = b.reshape(b.random_bits(input.type.size), input.shape)
    # A 32-bit word is below this threshold with probability 1 - p, to 2⁻³².
    threshold = min(round((1 - p) * 2**32), 2**32 - 1)
    kept = b.compare(bits, b.constant(threshold, DType.UI32, input.shape), "LT")
    return _scaled(b, input, kept, 1 / (1 - p)), kept


@lowering("aten::native_dropout_backward")
def native_dropout_backward(b: LoweringBuilder, grad_output: Value, mask: Value, scale: float) -> Value:
    return _scaled(b, grad_output, b.cast(mask, DType.I1), scale)


def _scaled(b: LoweringBuilder, x: Value, kept: Value, scale: float) -> Value:
    """``x * kept * scale``: a product, so that a dropped nan stays nan as in PyTorch."""
    wide = widened(b, x)
    return b.multiply(b.multiply(wide, b.convert(kept, wide.dtype)), b.constant(scale, wide.dtype, wide.shape))
