"""Matrix and vector products: one contraction, and for the ``add…`` family a scaled sum.

``alpha`` and ``beta`` are part of the program, as they are 1 nearly always and a product then needs no scaling at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .activation import gelu
from .context import LoweringBuilder
from .precision import accumulation_dtype
from .registry import lowering

Scalar = bool | int | float | complex
SCALES = ("beta", "alpha")


def contract(
    b: LoweringBuilder, lhs: Value, rhs: Value, batch: Sequence[int], lhs_dim: int, rhs_dim: int, dtype: DType | None = None
) -> Value:
    """The product over ``lhs_dim`` and ``rhs_dim``, with leading ``batch`` dimensions in common."""
    return b.dot_general(lhs, rhs, batch, batch, (lhs_dim,), (rhs_dim,), dtype)


@lowering("aten::mm")
def mm(b: LoweringBuilder, self: Value, mat2: Value) -> Value:
    return contract(b, self, mat2, (), 1, 0)


@lowering("aten::bmm")
def bmm(b: LoweringBuilder, self: Value, mat2: Value) -> Value:
    return contract(b, self, mat2, (0,), 2, 1)


@lowering("aten::mm.dtype")
def mm_dtype(b: LoweringBuilder, self: Value, mat2: Value, out_dtype: torch.dtype) -> Value:
    return contract(b, self, mat2, (), 1, 0, b.dtype(out_dtype))


@lowering("aten::bmm.dtype")
def bmm_dtype(b: LoweringBuilder, self: Value, mat2: Value, out_dtype: torch.dtype) -> Value:
    return contract(b, self, mat2, (0,), 2, 1, b.dtype(out_dtype))


@lowering("aten::_grouped_mm")
def grouped_mm(b: LoweringBuilder, self: Value, mat2: Value, offs: Value | None, bias: None, out_dtype: torch.dtype | None) -> Value:
    """The sizes of the groups are data: new ones are no new program."""
    if offs is None:
        return bmm(b, self, mat2)
    (product,) = b.composite("grouped_matmul", (self, mat2, offs), {}, (TensorType(b.output.shape, self.dtype),))
    return product


@lowering("aten::mv")
def mv(b: LoweringBuilder, self: Value, vec: Value) -> Value:
    return contract(b, self, vec, (), 1, 0)


@lowering("aten::dot")
def dot(b: LoweringBuilder, self: Value, tensor: Value) -> Value:
    return contract(b, self, tensor, (), 0, 0)


@lowering("aten::vdot")
def vdot(b: LoweringBuilder, self: Value, other: Value) -> Value:
    """The dot product with the first vector conjugated."""
    conjugate = b.complex(b.real(self), b.negate(b.imag(self))) if self.dtype.is_complex else self
    return contract(b, conjugate, other, (), 0, 0)


@lowering("aten::addmm", static=SCALES)
def addmm(b: LoweringBuilder, self: Value, mat1: Value, mat2: Value, beta: Scalar, alpha: Scalar) -> Value:
    return scaled_sum(b, self, wide_product(b, mat1, mat2, (), 1, 0), beta, alpha)


@lowering("aten::_addmm_activation", static=SCALES)
def addmm_activation(b: LoweringBuilder, self: Value, mat1: Value, mat2: Value, beta: Scalar, alpha: Scalar, use_gelu: bool) -> Value:
    total = scaled_sum(b, self, wide_product(b, mat1, mat2, (), 1, 0), beta, alpha)
    return gelu(b, total) if use_gelu else b.maximum(total, b.like(0, total))


@lowering("aten::baddbmm", static=SCALES)
def baddbmm(b: LoweringBuilder, self: Value, batch1: Value, batch2: Value, beta: Scalar, alpha: Scalar) -> Value:
    return scaled_sum(b, self, wide_product(b, batch1, batch2, (0,), 2, 1), beta, alpha)


@lowering("aten::addbmm", static=SCALES)
def addbmm(b: LoweringBuilder, self: Value, batch1: Value, batch2: Value, beta: Scalar, alpha: Scalar) -> Value:
    """The products of the batch, summed: one contraction over the batch and the inner dimension."""
    product = b.dot_general(batch1, batch2, (), (), (0, 2), (0, 1), accumulation_dtype(batch1.dtype))
    return scaled_sum(b, self, product, beta, alpha)


@lowering("aten::addmv", static=SCALES)
def addmv(b: LoweringBuilder, self: Value, mat: Value, vec: Value, beta: Scalar, alpha: Scalar) -> Value:
    return scaled_sum(b, self, wide_product(b, mat, vec, (), 1, 0), beta, alpha)


@lowering("aten::addr", static=SCALES)
def addr(b: LoweringBuilder, self: Value, vec1: Value, vec2: Value, beta: Scalar, alpha: Scalar) -> Value:
    """The outer product, in the operands' promoted dtype."""
    dtype = accumulation_dtype(b.output.dtype)
    shape = (vec1.shape[0], vec2.shape[0])
    column = b.broadcast_in_dim(b.cast(vec1, dtype), shape, (0,))
    row = b.broadcast_in_dim(b.cast(vec2, dtype), shape, (1,))
    return scaled_sum(b, self, b.multiply(column, row), beta, alpha)


def wide_product(b: LoweringBuilder, lhs: Value, rhs: Value, batch: Sequence[int], lhs_dim: int, rhs_dim: int) -> Value:
    """A product that is not rounded to f16 or bf16 yet, as something is still to be added."""
    return contract(b, lhs, rhs, batch, lhs_dim, rhs_dim, accumulation_dtype(lhs.dtype))


def scaled_sum(b: LoweringBuilder, self: Value, product: Value, beta: Scalar, alpha: Scalar) -> Value:
    """``beta * self + alpha * product`` with ``self`` broadcast. For ``beta == 0`` nothing of ``self`` is read, not even its nans."""
    product = _scaled(b, product, alpha)
    if beta == 0:
        return product
    addend = b.broadcast(_scaled(b, b.cast(self, product.dtype), beta), product.shape)
    return b.add(product, addend)


def _scaled(b: LoweringBuilder, x: Value, factor: Any) -> Value:
    return x if factor == 1 else b.multiply(x, b.scalar(factor, x.dtype, x.shape))
