"""Lowering of one eager call to a module: a graph of one node, and how the module's edges meet the call's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..hlo.builder import Builder
from ..hlo.ir import Layout, Module, Signature, Value
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .dtypes import to_dtype
from .node import lower_node
from .registry import Variant, name_of

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


@dataclass(frozen=True, slots=True)
class LoweredCall:
    """A module with its signature and binding."""

    module: Module
    signature: Signature
    binding: Binding


def map_tensors(arguments: Any, function: Callable[[torch.Tensor, Place], Any]) -> Any:
    """``arguments`` (in schema order) with ``function(tensor, place)`` in place of every tensor; lists are copied."""
    mapped: list[Any] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            mapped.append(function(argument, (position, -1)))
        elif isinstance(argument, list | tuple) and any(isinstance(item, torch.Tensor) for item in argument):
            mapped.append([function(item, (position, i)) if isinstance(item, torch.Tensor) else item for i, item in enumerate(argument)])
        else:
            mapped.append(argument)
    return mapped


class _Edges:
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


def lower_call(variant: Variant, metas: Sequence[Any], host_scalars: frozenset[Place] = frozenset()) -> LoweredCall:
    """Lowers one call.

    ``metas``: the call's arguments in schema order, with a meta tensor for every tensor (the same meta tensor where the call has the
    same tensor, out= arguments already of their final size). ``host_scalars``: places of 0-d CPU tensors, passed by value.
    """
    name = name_of(variant.op)
    b = LoweringBuilder(name)
    edges = _Edges(b)
    arguments = variant.op._schema.arguments
    outs = {argument.name for argument in arguments if argument.is_out}

    def value(meta: torch.Tensor, place: Place) -> Any:
        if arguments[place[0]].name in outs:
            return None
        if place in host_scalars:
            return b.cast(edges.number(_scalar_kind(meta.dtype), place), to_dtype(meta.dtype))
        return edges.tensor(meta, place)

    values = map_tensors(metas, value)
    for position, argument in enumerate(arguments):
        if argument.name not in variant.lowering.static:
            values[position] = _scalars(edges, str(argument.type), values[position], position)
    names = [argument.name for argument in arguments]
    node = lower_node(b, variant, dict(zip(names, values, strict=True)), dict(zip(names, metas, strict=True)))
    edges.random_state()
    return _assemble(b, edges, variant, node.results, node.outputs, metas)


def _scalar_kind(dtype: torch.dtype) -> DType:
    if dtype.is_complex:
        raise NotImplementedError(f"a 0-d CPU tensor of {dtype} cannot be passed by value to a program of device neuron")
    return DType.F64 if dtype.is_floating_point else DType.I64


def _scalars(edges: _Edges, type_name: str, argument: Any, position: int) -> Any:
    """Numbers given as Scalar, or as a tensor, become scalar parameters; complex ones stay part of the program."""
    if not type_name.startswith(("number", "Optional[number]", "List[number]", "Tensor")):
        return argument
    if isinstance(argument, list | tuple):
        return [_number(edges, item, (position, i)) for i, item in enumerate(argument)]
    return _number(edges, argument, (position, -1))


def _number(edges: _Edges, number: Any, place: Place) -> Any:
    if isinstance(number, bool | int):
        return edges.number(DType.I64, place)
    return edges.number(DType.F64, place) if isinstance(number, float) else number


@dataclass(slots=True)
class _Results:
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


def _assemble(
    b: LoweringBuilder, edges: _Edges, variant: Variant, results: Sequence[Any], outputs: Sequence[Any], metas: Sequence[Any]
) -> LoweredCall:
    """Chooses each result's buffer and builds the module, without tensors that nothing reads."""
    positions = {argument.name: position for position, argument in enumerate(variant.op._schema.arguments)}
    chosen = _Results()

    def place(value: Value | None, meta: torch.Tensor, argument: list[int] | None) -> list[Any]:
        keeps = argument is not None and value is edges.by_tensor.get(id(meta))
        return ["none"] if value is None or keeps else chosen.add(value, meta, argument)

    placed: list[Any] = []
    for result, destination, output in zip(results, variant.destinations, [*outputs, *[None] * len(results)]):
        meta = metas[positions[destination]] if destination else output
        position = positions[destination] if destination else -1
        if isinstance(result, list):
            items = enumerate(zip(result, meta, strict=True))
            placed.append(["list", [place(value, one, [position, i] if destination else None) for i, (value, one) in items]])
        else:
            placed.append(place(result, meta, [position, -1] if destination else None))
    module, kept = _without_unread(b.build(chosen.values))
    sources = [edges.sources[i] for i in kept]
    index_of = {tuple(source): index for index, source in enumerate(sources)}
    donations = {
        index: index_of[source]
        for index, output in enumerate(chosen.outputs)
        if "arg" in output and (source := _first_place(edges, metas, output["arg"])) in index_of
    }
    if len(set(donations.values())) < len(donations):
        raise NotImplementedError("one tensor is written twice")
    signature = Signature(tuple(edges.layouts[i] for i in kept), tuple(chosen.layouts), donations, _text(variant, metas))
    tensors = [source for source in sources if isinstance(source[0], int)]
    scalars = [source for source in sources if not isinstance(source[0], int)]
    returns = [placed[r] if isinstance(r, int) else _argument_return(positions[r], metas) for r in variant.returns]
    return LoweredCall(module, signature, Binding(tensors, scalars, chosen.outputs, returns, b.random_draws))


def _without_unread(module: Module) -> tuple[Module, list[int]]:
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


def _first_place(edges: _Edges, metas: Sequence[Any], place: list[int]) -> tuple[int, ...] | None:
    """Where the parameter for the tensor at ``place`` was made: identical tensors share the first one's."""
    return edges.place_of.get(id(_element(metas, place)))


def _output(meta: torch.Tensor, place: list[int] | None) -> dict[str, Any]:
    if place is not None:
        return {"arg": place}
    return {"sizes": list(meta.shape), "strides": list(meta.stride()), "dtype": str(meta.dtype).removeprefix("torch.")}


def _element(metas: Sequence[Any], place: list[int]) -> torch.Tensor:
    argument = metas[place[0]]
    tensor: torch.Tensor = argument[place[1]] if place[1] >= 0 else argument
    return tensor


def _argument_return(position: int, metas: Sequence[Any]) -> list[Any]:
    argument = metas[position]
    if isinstance(argument, list | tuple):
        return ["list", [["arg", position, element] for element in range(len(argument))]]
    return ["none"] if argument is None else ["arg", position, -1]


def _text(variant: Variant, metas: Sequence[Any]) -> str:
    """``aten::add.Tensor(f32[4,4], f32[4,4])``."""
    shown: list[str] = []
    for argument in metas:
        tensors = argument if isinstance(argument, list | tuple) else [argument]
        types = [f"{to_dtype(t.dtype)}[{','.join(map(str, t.shape))}]" for t in tensors if isinstance(t, torch.Tensor)]
        if types:
            shown.append(f"[{', '.join(types)}]" if isinstance(argument, list | tuple) else types[0])
    return f"{name_of(variant.op)}({', '.join(shown)})"
