"""The driver of elementwise operators: PyTorch's type promotion and broadcasting around one small function.

The function sees only Values of one dtype and one shape, plus Python values for whatever is neither tensor nor Scalar::

    @pointwise("aten::add.Tensor")
    def add(b, x, y, alpha):
        return b.add(x, b.multiply(y, alpha))

float16 and bfloat16 are computed in float32, as PyTorch does. The result is converted by the caller of the lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .registry import lowering

Kind = ELEMENTWISE_TYPE_PROMOTION_KIND
Function = TypeVar("Function", bound=Callable[..., Any])

# Scalar arguments of these names take part in type promotion; others (alpha, value, weight …) do not.
PROMOTING_SCALARS = frozenset({"self", "other", "min", "max", "exponent"})


def pointwise(
    *names: str, kind: Kind = Kind.DEFAULT, static: Iterable[str] = (), keep: Iterable[str] = ()
) -> Callable[[Function], Function]:
    """Registers an elementwise lowering.

    ``kind``: PyTorch's promotion kind of the operator. ``static``: Scalars that the function wants as Python numbers. ``keep``: tensors
    that stay in their own dtype and take no part in promotion (conditions and masks).
    """
    kept = frozenset(keep)
    as_numbers = frozenset(static)

    def register(function: Function) -> Function:
        @wraps(function)
        def lower(b: LoweringBuilder, *arguments: Any) -> Any:
            dtype = computation_dtype(b, kind, kept)
            return function(b, *operands(b, arguments, dtype, kept, as_numbers))

        lowering(*names, static=as_numbers)(lower)
        return function

    return register


def computation_dtype(b: LoweringBuilder, kind: Kind, keep: frozenset[str] = frozenset()) -> DType:
    """The dtype that the node's tensors and promoting scalars are computed in."""
    numbers = PROMOTING_SCALARS & b.facts.scalar_arguments | b.facts.wrapped_numbers
    promoting = [
        meta
        for name, meta in b.metas.items()
        if name not in keep and (isinstance(meta, torch.Tensor) or (name in numbers and meta is not None))
    ]
    dtype, _ = elementwise_dtypes(*promoting, type_promotion_kind=kind)
    return b.dtype(dtype)


def operands(b: LoweringBuilder, arguments: tuple[Any, ...], dtype: DType, keep: frozenset[str], as_numbers: frozenset[str]) -> list[Any]:
    """The node's arguments with tensors and Scalars as Values of ``dtype`` in their common shape."""
    metas = list(b.metas.items())
    shape = tuple(torch.broadcast_shapes(*(meta.shape for _, meta in metas if isinstance(meta, torch.Tensor))))
    scalars = b.facts.scalar_arguments | b.facts.wrapped_numbers
    converted: list[Any] = []
    for (name, meta), argument in zip(metas, arguments, strict=True):
        if isinstance(meta, torch.Tensor):
            assert isinstance(argument, Value)
            converted.append(b.broadcast(argument if name in keep else b.cast(argument, dtype), shape))
        elif name in scalars and name not in as_numbers and argument is not None:
            converted.append(b.scalar(argument, dtype, shape))
        else:
            converted.append(argument)
    return converted
