"""Copies, casts and fills: results that are the tensor's own values, or one value everywhere."""

from __future__ import annotations

from typing import Any

import torch

from ..hlo.ir import Value
from .context import LoweringBuilder
from .registry import lowering


@lowering("aten::clone", "aten::alias_copy", "aten::detach_copy", exact=True)
def clone(b: LoweringBuilder, x: Value, memory_format: Any = None) -> Value:
    return x


@lowering("aten::_to_copy", exact=True)
def to_copy(b: LoweringBuilder, x: Value, *options: Any) -> Value:
    return b.cast(x, b.output.dtype)


@lowering("prims::convert_element_type", exact=True, native=False)
def convert_element_type(b: LoweringBuilder, x: Value, dtype: torch.dtype) -> Value:
    """Only in PyTorch's decompositions."""
    return b.cast(x, b.output.dtype)


@lowering("aten::copy", exact=True, native=False)
def copy(b: LoweringBuilder, target: Value, source: Value, non_blocking: bool) -> Value:
    """Served by the device's own copy in eager, which also crosses devices."""
    return b.broadcast(b.cast(source, b.output.dtype), b.output.shape)


@lowering("aten::fill.Scalar", "aten::fill.Tensor", exact=True)
def fill(b: LoweringBuilder, x: Value, value: Value | int | float | complex) -> Value:
    return b.scalar(value, b.output.dtype, b.output.shape)


@lowering("aten::zero", exact=True)
def zero(b: LoweringBuilder, x: Value) -> Value:
    return b.like(0, x)
