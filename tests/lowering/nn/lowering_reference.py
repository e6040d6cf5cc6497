"""Checks a lowering twice: the reference interpreter runs its module, the device its compiled program; CPU float64 says what is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from interpreted import in_schema_order, interpreted

import torch_neuronx
from torch_neuronx.compiler.lowering.call import map_tensors

Op = torch._ops.OpOverload
RTOL, ATOL = 2e-5, 2e-6


def check(op: Op, *arguments: Any, rtol: float = RTOL, atol: float = ATOL, **keywords: Any) -> None:
    """All results and all written arguments of ``op`` agree with CPU float64, by the interpreter and on the device, without a fallback."""
    complete = in_schema_order(op, arguments, keywords)
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
    results, written = interpreted(op, arguments, seed, offset)
    return results, {position: tensor for (position, _), tensor in written.items()}


def call(op: Op, complete: Sequence[Any]) -> Any:
    schema = op._schema.arguments
    positional = [value for argument, value in zip(schema, complete, strict=True) if not argument.kwarg_only]
    return op(*positional, **{argument.name: value for argument, value in zip(schema, complete, strict=True) if argument.kwarg_only})


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]
