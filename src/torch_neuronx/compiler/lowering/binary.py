"""Elementwise functions of two tensors."""

from __future__ import annotations

from ..hlo.ir import Value
from .context import LoweringBuilder
from .pointwise import Kind, pointwise


@pointwise("aten::add.Tensor")
def add(b: LoweringBuilder, x: Value, y: Value, alpha: Value) -> Value:
    return b.add(x, b.multiply(y, alpha))


@pointwise("aten::div.Tensor", kind=Kind.INT_TO_FLOAT)
def divide(b: LoweringBuilder, x: Value, y: Value) -> Value:
    return b.divide(x, y)
