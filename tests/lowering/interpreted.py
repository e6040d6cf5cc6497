"""Runs an overload through its lowering and the reference interpreter, without a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.lowering.call import LoweredCall, lower_call, map_tensors
from torch_neuronx.compiler.lowering.dtypes import to_torch
from torch_neuronx.compiler.lowering.registry import find

Op = torch._ops.OpOverload
Place = tuple[int, int]


def interpreted(op: Op, arguments: Sequence[Any], seed: int = 0, offset: int = 0) -> tuple[list[Any], dict[Place, torch.Tensor]]:
    """What ``op`` returns for ``arguments`` (all of them, in schema order), one entry per schema return; and the new values of written
    tensors by place. Nothing is changed. NotImplementedError if there is no lowering for these arguments."""
    variant = find(op)
    assert variant is not None, f"{op} has no lowering"
    metas: dict[int, torch.Tensor] = {}

    def meta(tensor: torch.Tensor, place: Place) -> torch.Tensor:
        if id(tensor) not in metas:
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            empty = torch._conj(empty) if tensor.is_conj() else empty
            metas[id(tensor)] = torch._neg_view(empty) if tensor.is_neg() else empty
        return metas[id(tensor)]

    lowered = lower_call(variant, map_tensors(arguments, meta))
    outputs = interpret(lowered.module, _inputs(lowered, arguments, seed, offset))
    tensors = [_to_torch(array, value.dtype) for array, value in zip(outputs, lowered.module.results, strict=True)]
    written = {tuple(spec["arg"]): tensors[i] for i, spec in enumerate(lowered.binding.outputs) if "arg" in spec}
    return [_returned(place, tensors, written, arguments) for place in lowered.binding.returns], written


def in_schema_order(op: Op, positional: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
    """One argument per schema argument; what was not given has its default."""
    rest = op._schema.arguments[len(positional) :]
    unknown = keywords.keys() - {argument.name for argument in rest}
    assert not unknown, f"{op} has no arguments {unknown}"
    return [*positional, *(keywords.get(argument.name, argument.default_value) for argument in rest)]


def _inputs(lowered: LoweredCall, arguments: Sequence[Any], seed: int, offset: int) -> list[np.ndarray[Any, Any]]:
    """Parameters in module order; scalar parameters stand between the tensors where the lowering first wanted them."""
    tensors, scalars = iter(lowered.binding.inputs), iter(lowered.binding.scalars)
    values = []
    for parameter in lowered.module.parameters:
        if not parameter.is_scalar:
            values.append(_from_torch(_at(arguments, *next(tensors)), parameter.dtype))
            continue
        source = next(scalars)
        number = {"seed": seed, "offset": offset}.get(source[0])
        values.append(np.asarray(_at(arguments, *source[1:3]) if number is None else number, HELD_AS[parameter.dtype]))
    return values


def _at(arguments: Sequence[Any], position: int, element: int) -> Any:
    return arguments[position] if element < 0 else arguments[position][element]


def _returned(place: list[Any], tensors: list[torch.Tensor], written: dict[Place, torch.Tensor], arguments: Sequence[Any]) -> Any:
    match place:
        case ["output", index]:
            return tensors[index]
        case ["arg", position, element]:
            return written.get((position, element), _at(arguments, position, element))
        case ["list", places]:
            return [_returned(item, tensors, written, arguments) for item in places]
        case _:
            return None


def _from_torch(tensor: torch.Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    """The buffer's elements: a lazy conjugate or negative is resolved by the program, not here."""
    tensor = tensor.detach()
    tensor = torch._neg_view(tensor) if tensor.is_neg() else tensor
    tensor = tensor.conj() if tensor.is_conj() else tensor
    wide = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2) else tensor
    return wide.numpy().astype(HELD_AS[dtype])


def _to_torch(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(to_torch(dtype))
