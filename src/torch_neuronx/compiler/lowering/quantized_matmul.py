"""Products of matrices of narrow numbers: 8-bit integers and floats with scales."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .matmul import contract
from .precision import accumulation_dtype
from .registry import lowering

# Magnitudes of products of two 8-bit integers, and below which sums of them every order of additions is exact in float32.
_LARGEST_PRODUCT, _EXACT_IN_F32 = 2**16, 2**24
# How ``_scaled_mm_v2`` names a scale for the whole matrix and one per row: the values of torch.nn.functional.ScalingType.
_TENSOR_WISE, _ROW_WISE = 0, 1


@lowering("aten::_int_mm")
def int_mm(b: LoweringBuilder, self: Value, mat2: Value) -> Value:
    """Exact sums of products, in a float that holds them all, which is many times faster than integers; wrapped to 32 bits."""
    dtype = DType.F32 if self.shape[1] * _LARGEST_PRODUCT <= _EXACT_IN_F32 else DType.F64
    return b.cast(b.cast(contract(b, b.cast(self, dtype), b.cast(mat2, dtype), (), 1, 0), DType.I64), DType.I32)


@lowering("aten::_weight_int8pack_mm")
def weight_int8pack_mm(b: LoweringBuilder, self: Value, mat2: Value, scales: Value) -> Value:
    """Times a weight [out, in] of integers that each row has a scale for. Every float dtype holds 8-bit integers exactly."""
    wide = accumulation_dtype(self.dtype)
    product = contract(b, self, b.cast(mat2, self.dtype), (), 1, 1, wide)
    return b.multiply(product, b.broadcast_in_dim(b.cast(scales, wide), product.shape, (1,)))


@lowering("aten::_scaled_mm")
def scaled_mm(
    b: LoweringBuilder,
    self: Value,
    mat2: Value,
    scale_a: Value,
    scale_b: Value,
    bias: Value | None,
    scale_result: Value | None,
    out_dtype: torch.dtype | None,
    use_fast_accum: bool,
) -> Value:
    """In float32, rounded once. ``scale_result`` divides a result that is asked for in float8 and is nothing to others, as on the CPU."""
    product = _scaled_product(b, self, mat2, scale_a, scale_b, bias)
    if scale_result is not None and out_dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        product = b.divide(product, _spread(b, scale_result, product))
    return product


@lowering("aten::_scaled_mm_v2")
def scaled_mm_v2(
    b: LoweringBuilder,
    self: Value,
    mat2: Value,
    scale_a: Sequence[Value],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[Value],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: Value | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int],
    use_fast_accum: bool,
) -> Value:
    recipes = (*recipe_a, *recipe_b)
    if len(recipes) != 2 or not set(recipes) <= {_TENSOR_WISE, _ROW_WISE} or any((*swizzle_a, *swizzle_b)) or contraction_dim:
        raise NotImplementedError(f"scales of the whole matrix or of its rows have a lowering, not the recipes {recipes}")
    return _scaled_product(b, self, mat2, scale_a[0], scale_b[0], bias)


def _scaled_product(b: LoweringBuilder, lhs: Value, rhs: Value, scale_lhs: Value, scale_rhs: Value, bias: Value | None) -> Value:
    left, right = b.cast(lhs, DType.F32), b.cast(rhs, DType.F32)
    left, right = b.multiply(left, _spread(b, scale_lhs, left)), b.multiply(right, _spread(b, scale_rhs, right))
    product = contract(b, left, right, (), 1, 0)
    return product if bias is None else b.add(product, b.broadcast(b.cast(bias, DType.F32), product.shape))


def _spread(b: LoweringBuilder, scale: Value, matrix: Value) -> Value:
    """One number, or one per row or column."""
    scale = b.cast(scale, matrix.dtype)
    return b.broadcast(b.reshape(scale, ()) if scale.type.size == 1 else scale, matrix.shape)
