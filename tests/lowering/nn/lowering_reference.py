"""Checks a lowering twice: the reference interpreter runs its module, the device its compiled program; CPU float64 says what is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import torch_neuronx
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.lowering.call import LoweredCall, lower_call, map_tensors
from torch_neuronx.compiler.lowering.dtypes import to_torch
from torch_neuronx.compiler.lowering.registry import find

Op = torch._ops.OpOverload
RTOL, ATOL = 2e-5, 2e-6


def check(op: Op, *arguments: Any, rtol: float = RTOL, atol: float = ATOL, **keywords: Any) -> None:
    """All results and all written arguments of ``op`` agree with CPU float64, by the interpreter and on the device, without a fallback."""
    complete = complete_arguments(op, arguments, keywords)
    reference = map_tensors(complete, lambda tensor, _: tensor.double() if tensor.is_floating_point() else tensor.clone())
    expected = as_list(call(op, reference))
    results, written = run(op, complete)
    arguments = [written.get(position, argument) for position, argument in enumerate(complete)]
    _compare_all(f"{op} interpreted", results, expected, arguments, reference, rtol, atol)
    on_device = map_tensors(complete, lambda tensor, _: torch.empty_like(tensor, device="neuron").copy_(tensor))
    with torch_neuronx.fallback_policy("error"):
        results = as_list(call(op, on_device))
    _compare_all(f"{op} on neuron", results, expected, on_device, reference, rtol, atol)


def _compare_all(
    what: str, results: list[Any], expected: list[Any], arguments: list[Any], reference: list[Any], rtol: float, atol: float
) -> None:
    assert len(results) == len(expected), f"{what} gives {len(results)} results, not {len(expected)}"
    for position, (result, right) in enumerate(zip(results, expected, strict=True)):
        compare(f"{what}, result {position}", result, right, rtol, atol)
    for position, (argument, right) in enumerate(zip(arguments, reference, strict=True)):
        if isinstance(argument, torch.Tensor):
            compare(f"{what}, argument {position} afterwards", argument, right, rtol, atol)


def compare(what: str, result: torch.Tensor | None, expected: torch.Tensor | None, rtol: float, atol: float) -> None:
    if expected is None or not isinstance(expected, torch.Tensor):
        assert result is None, f"{what} is a tensor, expected none"
        return
    assert result is not None, f"{what} is missing"
    torch.testing.assert_close(
        result.cpu().double(), expected.double(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{what}: {text}"
    )


def run(op: Op, arguments: Sequence[Any], seed: int = 0, offset: int = 0) -> tuple[list[torch.Tensor | None], dict[int, torch.Tensor]]:
    """The results by the interpreter, and the new values of written arguments by position."""
    metas_by_id: dict[int, torch.Tensor] = {}

    def meta(tensor: torch.Tensor, _: object) -> torch.Tensor:
        if id(tensor) not in metas_by_id:
            metas_by_id[id(tensor)] = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return metas_by_id[id(tensor)]

    variant = find(op)
    assert variant is not None, f"{op} has no lowering"
    lowered = lower_call(variant, map_tensors(arguments, meta))
    outputs = interpret(lowered.module, _inputs(lowered, arguments, seed, offset))
    tensors = [_to_torch(array, value.dtype) for array, value in zip(outputs, lowered.module.results, strict=True)]
    written = {spec["arg"][0]: tensors[i] for i, spec in enumerate(lowered.binding.outputs) if "arg" in spec}
    results = [_returned(place, tensors, written, arguments) for place in lowered.binding.returns]
    return results, written


def complete_arguments(op: Op, arguments: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
    """One argument per schema argument; what was not given has its default."""
    rest = op._schema.arguments[len(arguments) :]
    unknown = keywords.keys() - {argument.name for argument in rest}
    assert not unknown, f"{op} has no arguments {unknown}"
    return [*arguments, *(keywords.get(argument.name, argument.default_value) for argument in rest)]


def call(op: Op, complete: Sequence[Any]) -> Any:
    schema = op._schema.arguments
    positional = [value for argument, value in zip(schema, complete, strict=True) if not argument.kwarg_only]
    return op(*positional, **{argument.name: value for argument, value in zip(schema, complete, strict=True) if argument.kwarg_only})


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


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


def _returned(
    place: list[Any], tensors: list[torch.Tensor], written: dict[int, torch.Tensor], arguments: Sequence[Any]
) -> torch.Tensor | None:
    match place:
        case ["output", index]:
            return tensors[index]
        case ["arg", position, _]:
            return written.get(position, arguments[position])
        case ["none"]:
            return None
        case _:
            raise AssertionError(f"unexpected return {place}")


def _from_torch(tensor: torch.Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return wide.detach().numpy().astype(HELD_AS[dtype])


def _to_torch(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(to_torch(dtype))
