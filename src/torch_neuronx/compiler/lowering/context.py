"""The builder that lowerings write with: HLO's own, plus what the operator at hand is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..hlo.builder import Builder
from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .dtypes import computed, to_dtype


def dtype_number(x: bool | int | float | complex, dtype: DType) -> bool | int | float | complex:
    """A number as PyTorch converts a Scalar to a tensor's dtype: truncated for integers, wrapping at their width."""
    match dtype.kind:
        case "b":
            return bool(x)
        case "i" | "u":
            assert not isinstance(x, complex)
            bits = 8 * dtype.itemsize
            wrapped = int(x) % (1 << bits)
            return wrapped - (1 << bits) if dtype.kind == "i" and wrapped >> (bits - 1) else wrapped
        case "f":
            assert not isinstance(x, complex)
            return float(x)
        case _:
            return complex(x)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of the node being lowered besides its operands.

    ``metas``: the functional overload's arguments by name, with meta tensors in place of tensors (for strides and torch dtypes) and Python
    numbers in place of scalars. ``output_metas``: what its meta function returns. ``scalar_arguments``: names of the arguments whose schema
    type is ``Scalar``; ``wrapped_numbers``: of those whose schema type is ``Tensor`` and that are a number here. ``exact``: float64 stays.
    """

    metas: Mapping[str, Any] = field(default_factory=dict)
    output_metas: tuple[Any, ...] = ()
    scalar_arguments: frozenset[str] = frozenset()
    wrapped_numbers: frozenset[str] = frozenset()
    exact: bool = False


class LoweringBuilder(Builder):
    """A Builder that knows the node being lowered, and hands out the generator's random bits."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.facts = NodeFacts()
        self.seed: Value | None = None
        self.offset: Value | None = None
        self.random_draws = 0

    @property
    def metas(self) -> Mapping[str, Any]:
        return self.facts.metas

    @property
    def outputs(self) -> tuple[Any, ...]:
        """One type per schema return (a list for a list, None for None); f32 for float64 under the float64 policy."""
        return tuple(self._type_of(output) for output in self.facts.output_metas)

    def _type_of(self, meta: Any) -> Any:
        if meta is None:
            return None
        if isinstance(meta, torch.Tensor):
            return TensorType(tuple(meta.shape), self.dtype(meta.dtype))
        return [self._type_of(item) for item in meta]

    @property
    def output(self) -> TensorType:
        """The type of the only result."""
        only: TensorType
        (only,) = self.outputs
        return only

    def dtype(self, dtype: torch.dtype) -> DType:
        """The element type to compute ``dtype`` in: f32 for float64 under the float64 policy, unless the lowering is exact."""
        return to_dtype(dtype) if self.facts.exact else computed(to_dtype(dtype))

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` as ``dtype``; ``x`` itself if it is that already."""
        return x if x.dtype is dtype else self.convert(x, dtype)

    def scalar(self, x: Value | bool | int | float | complex, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """A number, or a 0-d Value, as a Value of ``dtype`` that fills ``shape``."""
        if isinstance(x, Value):
            return self.broadcast(self.cast(x, dtype), shape)
        return self.constant(dtype_number(x, dtype), dtype, shape)

    def like(self, x: bool | int | float | complex, other: Value) -> Value:
        """A number in the dtype and shape of ``other``."""
        return self.scalar(x, other.dtype, other.shape)

    def is_zero(self, x: Value) -> Value:
        return self.not_(x) if x.dtype is DType.I1 else self.compare(x, self.like(0, x), "EQ")

    def is_nonzero(self, x: Value) -> Value:
        return x if x.dtype is DType.I1 else self.compare(x, self.like(0, x), "NE")

    def require_real(self, x: Value) -> None:
        """NotImplementedError for a complex operand: the operator is lowered for real numbers only."""
        if x.dtype.is_complex:
            raise NotImplementedError(f"it is lowered for real numbers only, and an operand is {x.type}")

    def is_one(self, x: Value) -> bool:
        """Whether ``x`` is known to be 1 while compiling."""
        producer = x.producer
        return producer is not None and producer.name == "constant" and bool((producer.attributes["value"] == 1).all())

    def finite_limit(self, argument: str) -> float:
        """The largest finite value of the dtype that an argument tensor has."""
        return float(torch.finfo(self.metas[argument].dtype).max)

    def random_bits(self, count: int) -> Value:
        """``count`` fresh random 32-bit words, ui32[count]. A program's draws follow each other in the generator's Philox stream."""
        seed, offset = self._random_state()
        offset = self.add(offset, self.constant(self.random_draws, DType.UI64)) if self.random_draws else offset
        (words,) = self.composite("philox", (seed, offset), {"count": count}, (TensorType((count,), DType.UI32),))
        self.random_draws += -(-count // 4)
        return words

    def random_variates(self, distribution: str, *parameters: Value) -> Value:
        """A fresh number of the distribution for each element of its parameters, which are f32 or f64. It takes one block of the stream."""
        seed, offset = self._random_state()
        attributes = {"distribution": distribution, "start": self.random_draws}
        (numbers,) = self.composite("random_variate", (seed, offset, *parameters), attributes, (parameters[0].type,))
        self.random_draws += 1
        return numbers

    def _random_state(self) -> tuple[Value, Value]:
        """The generator's seed and offset at the launch."""
        if self.seed is None or self.offset is None:
            scalar = TensorType((), DType.UI64)
            self.seed = self.parameter(scalar, is_scalar=True)
            self.offset = self.parameter(scalar, is_scalar=True)
        return self.seed, self.offset
