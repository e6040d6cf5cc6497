"""Lowering of one node: an ATen overload applied to Values. Eager lowers one node per program, a graph as many as it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from ..hlo.ir import Value
from .context import LoweringBuilder, NodeFacts
from .dtypes import computed, to_dtype
from .registry import FACTORY_ARGUMENTS, Variant, name_of


@dataclass(frozen=True, slots=True)
class Node:
    """What a node's lowering gave: one result per destination of its variant, in the dtype of the destination."""

    variant: Variant
    results: tuple[Any, ...]
    # Meta tensors of the functional overload's returns; sizes, strides and dtypes of new tensors.
    outputs: tuple[Any, ...]


class LoweringError(RuntimeError):
    """A lowering returned something else than its operator's meta function promised."""


def lower_node(
    b: LoweringBuilder,
    variant: Variant,
    values: Mapping[str, Any],
    metas: Mapping[str, Any],
    outputs: tuple[Any, ...] | None = None,
) -> Node:
    """Lowers ``variant.op`` applied to ``values``.

    ``values`` and ``metas`` map the argument names of ``variant.op`` to arguments: in ``values`` tensors are Values and Scalars are
    Values or numbers, in ``metas`` they are meta tensors and numbers. Lists hold the same. A written argument's new value is a result;
    ``values`` is not changed. ``outputs`` are the meta tensors that the functional overload returns, if they are known; otherwise its
    meta function is called.
    """
    functional_metas = functional_arguments(variant, metas)
    if outputs is None:
        outputs = node_outputs(variant, functional_metas)
    outer, b.facts = b.facts, _facts(variant, functional_metas, outputs)
    try:
        operands = functional_arguments(variant, values).values()
        results = variant.lowering.function(b, *(_narrowed(b, operand) for operand in operands))
        likes = _destination_metas(variant, outputs, metas)
        flat = tuple(results) if isinstance(results, tuple) else (results,)
        if len(flat) != len(likes):
            raise LoweringError(f"{variant.lowering.name}: the lowering gave {len(flat)} results, its operator has {len(likes)}")
        converted = tuple(_converted(b, variant, result, like) for result, like in zip(flat, likes, strict=True))
    finally:
        b.facts = outer
    return Node(variant, converted, outputs)


def _facts(variant: Variant, metas: Mapping[str, Any], outputs: tuple[Any, ...]) -> NodeFacts:
    op = variant.functional
    return NodeFacts(metas, outputs, _scalar_arguments(op), _wrapped_numbers(op, metas), variant.lowering.exact)


def node_outputs(variant: Variant, metas: Mapping[str, Any]) -> tuple[Any, ...]:
    """Meta tensors of the functional overload's returns, from its arguments."""
    like, layout = variant.lowering.outputs_like, variant.lowering.layout
    outputs = tuple(_resembling(metas[name]) for name in like) if like else meta_outputs(variant.functional, metas)
    return outputs if layout is None else layout(metas, outputs)


def _resembling(meta: Any) -> Any:
    """A new tensor like another, dense where that one's elements overlap."""
    return torch.empty_like(meta) if isinstance(meta, torch.Tensor) else meta


def functional_arguments(variant: Variant, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the functional overload, from those of the overload called."""
    own = {}
    for argument in variant.functional._schema.arguments:
        if argument.name in arguments:
            own[argument.name] = arguments[argument.name]
        elif argument.name not in FACTORY_ARGUMENTS and argument.has_default_value():
            own[argument.name] = argument.default_value
        else:
            assert argument.name in FACTORY_ARGUMENTS, f"{name_of(variant.op)} has no argument {argument.name}"
            own[argument.name] = _factory_argument(argument.name, variant, arguments)
    return own


def _factory_argument(name: str, variant: Variant, arguments: Mapping[str, Any]) -> Any:
    """An out= overload of a factory: the tensor given decides dtype and device."""
    out = arguments[variant.destinations[0] or ""]
    if name == "dtype":
        return out.dtype if isinstance(out, torch.Tensor) else None
    return torch.device("meta") if name == "device" else None


def meta_outputs(op: torch._ops.OpOverload, metas: Mapping[str, Any]) -> tuple[Any, ...]:
    """PyTorch's meta function applied to ``metas``, one entry per schema return."""
    positional, keyword = [], {}
    for argument in op._schema.arguments:
        value = metas[argument.name]
        if argument.name == "device" and value is not None:
            value = torch.device("meta")
        if argument.kwarg_only:
            keyword[argument.name] = value
        else:
            positional.append(value)
    with torch.no_grad():
        result = op(*positional, **keyword)
    returns = len(op._schema.returns)
    if returns == 0:
        return ()
    return (result,) if returns == 1 else tuple(result)


@cache
def _scalar_arguments(op: torch._ops.OpOverload) -> frozenset[str]:
    return frozenset(a.name for a in op._schema.arguments if str(a.type) in ("number", "Optional[number]"))


def _wrapped_numbers(op: torch._ops.OpOverload, metas: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(a.name for a in op._schema.arguments if str(a.type) == "Tensor" and isinstance(metas[a.name], int | float | complex))


def _narrowed(b: LoweringBuilder, argument: Any) -> Any:
    """Operands under the float64 policy. Scalars stay as they are: f64 scalars are rounded where they meet a tensor."""
    if isinstance(argument, Value) and not argument.is_scalar and not b.facts.exact:
        return b.cast(argument, computed(argument.dtype))
    if isinstance(argument, list | tuple):
        items = [_narrowed(b, item) for item in argument]
        return items if any(isinstance(item, Value) for item in items) else tuple(items)
    return argument


def _destination_metas(variant: Variant, outputs: Sequence[Any], metas: Mapping[str, Any]) -> list[Any]:
    """For each result the meta tensors through whose dtypes it goes: the functional result's, then the destination's."""
    likes: list[Any] = []
    for position, destination in enumerate(variant.destinations):
        functional = outputs[position] if position < len(outputs) else None
        likes.append((functional, metas[destination] if destination else functional))
    return likes


def _converted(b: LoweringBuilder, variant: Variant, result: Any, like: tuple[Any, Any]) -> Any:
    functional, destination = like
    if result is None or destination is None:
        return None
    if isinstance(result, list):
        likes = zip(functional or [None] * len(result), destination, strict=True)
        return [_converted(b, variant, item, pair) for item, pair in zip(result, likes, strict=True)]
    expected = tuple(destination.shape)
    if result.shape != expected:
        raise LoweringError(f"{variant.lowering.name}: the lowering gave shape {result.shape}, the operator's is {expected}")
    if functional is not None:
        result = b.cast(result, to_dtype(functional.dtype))
    return b.cast(result, to_dtype(destination.dtype))
