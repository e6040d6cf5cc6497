"""The builder that lowerings write with: HLO's own, plus what the operator at hand is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..hlo.builder import Builder
from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .dtypes import computed, to_dtype

ResultType = TensorType | list[TensorType] | None


class LoweringBuilder(Builder):
    """A Builder that knows the node being lowered.

    ``outputs``: one type per schema return of the functional overload, from PyTorch's meta function; dtypes follow the float64 policy
    (f32 for float64) unless the lowering is ``exact``. ``metas``: the node's arguments by name, with meta tensors in place of tensors
    (for strides and torch dtypes) and Python numbers in place of scalars. ``scalar_arguments``: names of the arguments whose schema type
    is ``Scalar``.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.outputs: tuple[Any, ...] = ()
        self.metas: Mapping[str, Any] = {}
        self.scalar_arguments: frozenset[str] = frozenset()
        self.exact = False
        self.seed: Value | None = None
        self.offset: Value | None = None
        self.random_draws = 0

    @property
    def output(self) -> TensorType:
        """The type of the only result."""
        (only,) = self.outputs
        return only

    def dtype(self, dtype: torch.dtype) -> DType:
        """The element type to compute ``dtype`` in: f32 for float64 under the float64 policy, unless the lowering is exact."""
        return to_dtype(dtype) if self.exact else computed(to_dtype(dtype))

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` as ``dtype``; ``x`` itself if it is that already."""
        return x if x.dtype is dtype else self.convert(x, dtype)

    def scalar(self, x: Value | bool | int | float | complex, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """A number, or a 0-d Value, as a Value of ``dtype`` that fills ``shape``."""
        if isinstance(x, Value):
            return self.broadcast(self.cast(x, dtype), shape)
        return self.constant(x, dtype, shape)

    def random_bits(self, count: int) -> Value:
        """``count`` fresh random 32-bit words, ui32[count]. A program's draws follow each other in the generator's Philox stream."""
        scalar = TensorType((), DType.UI64)
        if self.seed is None or self.offset is None:
            self.seed = self.parameter(scalar, is_scalar=True)
            self.offset = self.parameter(scalar, is_scalar=True)
        offset = self.add(self.offset, self.constant(self.random_draws, DType.UI64)) if self.random_draws else self.offset
        (words,) = self.composite("philox", (self.seed, offset), {"count": count}, (TensorType((count,), DType.UI32),))
        self.random_draws += -(-count // 4)
        return words
