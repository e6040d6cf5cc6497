"""A module's edges: how its parameters and results meet the tensors and numbers of a call or of a graph's inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..hlo.builder import Builder
from ..hlo.ir import Layout, Module, Value
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .dtypes import to_dtype

# A tensor of a call: position of the argument, and of the element in a list (−1: the argument itself).
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Binding:
    """How a program meets a call; the fields are those of docs/architecture.md, seam 4, as plain JSON data."""

    inputs: list[list[int]]
    scalars: list[list[Any]]
    outputs: list[dict[str, Any]]
    returns: list[list[Any]]
    rng_draws: int


class Edges:
    """Makes the module's parameters from a call's arguments, each when it is first wanted, and remembers their order."""

    def __init__(self, b: LoweringBuilder) -> None:
        self.b = b
        self.layouts: list[Layout | None] = []
        self.sources: list[list[Any]] = []
        self.by_tensor: dict[int, Value] = {}
        self.place_of: dict[int, Place] = {}

    def tensor(self, meta: torch.Tensor, place: Place) -> Value:
        """The elements of a tensor: its buffer's, conjugated or negated if it is a lazy conjugate or negative."""
        value = self._buffer(meta, place)
        if meta.is_conj():
            value = self.b.complex(self.b.real(value), self.b.negate(self.b.imag(value)))
        return self.b.negate(value) if meta.is_neg() else value

    def _buffer(self, meta: torch.Tensor, place: Place) -> Value:
        """A parameter per distinct meta tensor: identical tensors of a call share theirs."""
        if (known := self.by_tensor.get(id(meta))) is not None:
            return known
        value = self.b.parameter(TensorType(tuple(meta.shape), to_dtype(meta.dtype)))
        self._remember(Layout(tuple(meta.stride())), list(place))
        self.by_tensor[id(meta)] = value
        self.place_of[id(meta)] = place
        return value

    def number(self, kind: DType, place: Place) -> Value:
        value = self.b.parameter(TensorType((), kind), is_scalar=True)
        self._remember(None, ["arg", *place, str(kind)])
        return value

    def random_state(self) -> None:
        """Called after lowering: the generator's state comes after all other parameters."""
        if self.b.seed is not None and self.b.offset is not None:
            self._remember(None, ["seed"])
            self._remember(None, ["offset"])

    def _remember(self, layout: Layout | None, source: list[Any]) -> None:
        self.layouts.append(layout)
        self.sources.append(source)


def scalar_kind(dtype: torch.dtype) -> DType:
    if dtype.is_complex:
        raise NotImplementedError(f"a 0-d CPU tensor of {dtype} cannot be passed by value to a program of device neuron")
    return DType.F64 if dtype.is_floating_point else DType.I64


@dataclass(slots=True)
class Results:
    """The module's results: their values, layouts and entries in the binding."""

    values: list[Value] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, value: Value, meta: torch.Tensor, place: list[int] | None) -> list[Any]:
        """A result for ``value``, new or written into the tensor at ``place``; returns how a return refers to it."""
        if place is not None and (meta.is_conj() or meta.is_neg()):
            raise NotImplementedError("a lazy conjugate or negative is written into")
        self.values.append(value)
        self.layouts.append(Layout(tuple(meta.stride())))
        self.outputs.append(_output(meta, place))
        return ["output", len(self.values) - 1]


def _output(meta: torch.Tensor, place: list[int] | None) -> dict[str, Any]:
    if place is not None:
        return {"arg": place}
    return {"sizes": list(meta.shape), "strides": list(meta.stride()), "dtype": str(meta.dtype).removeprefix("torch.")}


def without_unread(module: Module) -> tuple[Module, list[int]]:
    """``module`` with only those parameters that its results depend on, and their former positions."""
    read: set[Value] = set()
    pending = list(module.results)
    while pending:
        value = pending.pop()
        if value not in read:
            read.add(value)
            pending += value.producer.operands if value.producer is not None else ()
    kept = [index for index, parameter in enumerate(module.parameters) if parameter in read]
    if len(kept) == len(module.parameters):
        return module, kept
    b = Builder(module.name)
    copies = {old: b.parameter(old.type, old.is_scalar) for old in module.parameters if old in read}
    for operation in module.operations:
        if any(result in read for result in operation.results):
            results = b.copy(operation, tuple(copies[operand] for operand in operation.operands))
            copies.update(zip(operation.results, results, strict=True))
    return b.build([copies[result] for result in module.results]), kept
