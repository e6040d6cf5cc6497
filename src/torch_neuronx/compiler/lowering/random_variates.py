"""Distributions that numbers are drawn from by rejection, and the derivatives of such numbers by the parameters."""

from __future__ import annotations

import torch

from ..hlo.ir import Value
from ..hlo.library_rules import DIRICHLET_GRADIENT, GAMMA_GRADIENT
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering


def _wide(b: LoweringBuilder, x: Value) -> Value:
    return x if x.dtype is DType.F64 else b.cast(x, DType.F32)


def _positive(b: LoweringBuilder, x: Value, argument: str) -> Value:
    """At least the smallest normal number of an argument's dtype, as PyTorch promises of what has a logarithm."""
    computed = torch.float64 if x.dtype is DType.F64 else torch.float32
    return b.maximum(x, b.like(max(torch.finfo(dtype).tiny for dtype in (computed, b.metas[argument].dtype)), x))


@lowering("aten::poisson")
def poisson(b: LoweringBuilder, rate: Value, generator: None) -> Value:
    if not rate.dtype.is_float:
        raise NotImplementedError(f"poisson has rates of {rate.dtype}, which PyTorch refuses")
    return b.random_variates("poisson", _wide(b, rate))


@lowering("aten::binomial", outputs_like=("count",))
def binomial(b: LoweringBuilder, count: Value, probability: Value, generator: None) -> Value:
    """Both operands have one dtype; they are not promoted."""
    if b.metas["count"].dtype != b.metas["prob"].dtype:
        raise ValueError(f"binomial: count is {count.dtype} and prob is {probability.dtype}; they must be of one dtype")
    return b.random_variates("binomial", _wide(b, count), b.broadcast(_wide(b, probability), count.shape))


@lowering("aten::_standard_gamma")
def standard_gamma(b: LoweringBuilder, shape: Value, generator: None) -> Value:
    return _positive(b, b.random_variates("gamma", _wide(b, shape)), "self")


@lowering("aten::_sample_dirichlet", outputs_like=("self",))
def sample_dirichlet(b: LoweringBuilder, concentration: Value, generator: None) -> Value:
    """Gamma numbers divided by their sum; in float64, as those of small shapes are tiny."""
    shapes = b.reshape(concentration, concentration.shape or (1,))
    numbers = b.random_variates("gamma", b.cast(shapes, DType.F64))
    last = len(numbers.shape) - 1
    total = b.broadcast_in_dim(b.reduce(numbers, "add", (last,)), numbers.shape, range(last))
    shares = b.cast(b.divide(numbers, total), _wide(b, concentration).dtype)
    return b.reshape(_positive(b, shares, "self"), concentration.shape)


@lowering("aten::_standard_gamma_grad", outputs_like=("self",))
def standard_gamma_grad(b: LoweringBuilder, shape: Value, output: Value) -> Value:
    return _gradient(b, GAMMA_GRADIENT, shape, output)


@lowering("aten::_dirichlet_grad", outputs_like=("x",))
def dirichlet_grad(b: LoweringBuilder, x: Value, alpha: Value, total: Value) -> Value:
    return _gradient(b, DIRICHLET_GRADIENT, x, alpha, total)


def _gradient(b: LoweringBuilder, function: str, *operands: Value) -> Value:
    shape = operands[0].shape
    wide = [b.broadcast(_wide(b, operand), shape) for operand in operands]
    (result,) = b.composite("special_function", wide, {"function": function}, (wide[0].type,))
    return result
