"""Lowering of one eager call to a module: a graph of one node, and how the module's edges meet the call's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..hlo.ir import Module, Signature, Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .dtypes import to_dtype
from .edges import Binding, Edges, Place, Results, scalar_kind, without_unread
from .node import lower_node
from .registry import Variant, name_of


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


def lower_call(variant: Variant, metas: Sequence[Any], host_scalars: frozenset[Place] = frozenset()) -> LoweredCall:
    """Lowers one call.

    ``metas``: the call's arguments in schema order, with a meta tensor for every tensor (the same meta tensor where the call has the
    same tensor, out= arguments already of their final size). ``host_scalars``: places of 0-d CPU tensors, passed by value.
    """
    name = name_of(variant.op)
    b = LoweringBuilder(name)
    edges = Edges(b)
    arguments = variant.op._schema.arguments
    outs = {argument.name for argument in arguments if argument.is_out}

    def value(meta: torch.Tensor, place: Place) -> Any:
        if arguments[place[0]].name in outs:
            return None
        if place in host_scalars:
            return b.cast(edges.number(scalar_kind(meta.dtype), place), to_dtype(meta.dtype))
        if meta._is_zerotensor():
            return b.constant(0, to_dtype(meta.dtype), tuple(meta.shape))
        return edges.tensor(meta, place)

    values = map_tensors(metas, value)
    for position, argument in enumerate(arguments):
        if argument.name not in variant.lowering.static:
            values[position] = _scalars(edges, str(argument.type), values[position], position)
    names = [argument.name for argument in arguments]
    node = lower_node(b, variant, dict(zip(names, values, strict=True)), dict(zip(names, metas, strict=True)))
    edges.random_state()
    return _assemble(b, edges, variant, node.results, node.outputs, metas)


def _scalars(edges: Edges, type_name: str, argument: Any, position: int) -> Any:
    """Numbers given as Scalar, or as a tensor, become scalar parameters; complex ones stay part of the program."""
    if not type_name.startswith(("number", "Optional[number]", "List[number]", "Tensor")):
        return argument
    if isinstance(argument, list | tuple):
        return [_number(edges, item, (position, i)) for i, item in enumerate(argument)]
    return _number(edges, argument, (position, -1))


def _number(edges: Edges, number: Any, place: Place) -> Any:
    if isinstance(number, bool | int):
        return edges.number(DType.I64, place)
    return edges.number(DType.F64, place) if isinstance(number, float) else number


def _assemble(
    b: LoweringBuilder, edges: Edges, variant: Variant, results: Sequence[Any], outputs: Sequence[Any], metas: Sequence[Any]
) -> LoweredCall:
    """Chooses each result's buffer and builds the module, without tensors that nothing reads."""
    positions = {argument.name: position for position, argument in enumerate(variant.op._schema.arguments)}
    chosen = Results()

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
    module, kept = without_unread(b.build(chosen.values))
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


def _first_place(edges: Edges, metas: Sequence[Any], place: list[int]) -> tuple[int, ...] | None:
    """Where the parameter for the tensor at ``place`` was made: identical tensors share the first one's."""
    return edges.place_of.get(id(_element(metas, place)))


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
