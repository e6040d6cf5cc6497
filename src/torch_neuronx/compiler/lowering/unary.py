"""Elementwise functions of one tensor."""

from __future__ import annotations

from ..hlo.ir import Value
from .context import LoweringBuilder
from .pointwise import Kind, pointwise


@pointwise("aten::gelu", kind=Kind.DEFAULT)
def gelu(b: LoweringBuilder, x: Value, approximate: str) -> Value:
    half = b.scalar(0.5, x.dtype, x.shape)
    return b.multiply(half, x)
