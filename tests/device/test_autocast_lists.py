"""Every operator that PyTorch's own autocast tests list for CUDA runs in the listed dtype, and computes what it computes there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists

import torch_neuronx

torch.manual_seed(0)
LISTS = AutocastTestLists("cpu")
LOW_PRECISION = [torch.bfloat16, torch.float16]


def function_of(module: Any, name: str) -> Callable[..., Any]:
    if module is torch.Tensor:
        return lambda self, *arguments, **keywords: getattr(self, name)(*arguments, **keywords)
    return getattr(module, name)


def entries(module: Any, *lists: list[tuple[Any, ...]]) -> list[Any]:
    """(function, arguments, keywords), with the name as the test's; not those of cuDNN, nor einsum, whose equation does not fit."""
    named = [(name, rest) for entries in lists for name, *rest in entries if not name.startswith("cudnn") and name != "einsum"]
    return [
        pytest.param(
            function_of(module, name),
            rest[0],
            rest[1] if len(rest) > 1 and isinstance(rest[1], dict) else {},
            id=f"{name}-{position}",
        )
        for position, (name, rest) in enumerate(named)
    ]


LOWER = [
    *entries(torch, LISTS.torch_fp16),
    *entries(torch._C._nn, LISTS.nn_fp16),
    *entries(torch._C._linalg, LISTS.linalg_fp16),
    *entries(torch.Tensor, LISTS.methods_fp16),
]
FLOAT32 = [*entries(torch, LISTS.torch_fp32), *entries(torch._C._nn, LISTS.nn_fp32), *entries(torch.Tensor, LISTS.methods_fp32)]
WIDEST = entries(torch, LISTS.torch_need_autocast_promote)


def moved(value: Any, dtype: torch.dtype | None = None) -> Any:
    """``value`` with its tensors on the device, the floating-point ones in ``dtype``."""
    if isinstance(value, torch.Tensor):
        return value.to("neuron", dtype if dtype is not None and value.is_floating_point() else value.dtype)
    return type(value)(moved(item, dtype) for item in value) if isinstance(value, tuple | list) else value


def first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def check(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any], runs_in: torch.dtype, autocast: torch.dtype) -> None:
    """Under autocast the result has dtype ``runs_in`` and is that of arguments converted by hand."""
    with torch_neuronx.fallback_policy("silent"), torch.autocast("neuron", dtype=autocast):
        actual = first(function(*moved(arguments), **keywords))
        with torch.autocast("neuron", enabled=False):
            expected = first(function(*moved(arguments, runs_in), **keywords))
    assert actual.dtype == runs_in
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("dtype", LOW_PRECISION, ids=str)
@pytest.mark.parametrize(("function", "arguments", "keywords"), LOWER)
def test_runs_in_low_precision(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any], dtype: torch.dtype) -> None:
    check(function, arguments, keywords, dtype, dtype)


@pytest.mark.parametrize("dtype", LOW_PRECISION, ids=str)
def test_einsum_runs_in_low_precision(dtype: torch.dtype) -> None:
    check(torch.einsum, ("ij,jk->ik", torch.randn(3, 4), torch.randn(4, 5)), {}, dtype, dtype)


@pytest.mark.parametrize(("function", "arguments", "keywords"), FLOAT32)
def test_runs_in_float32(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> None:
    check(function, arguments, keywords, torch.float32, torch.float16)


@pytest.mark.parametrize(("function", "arguments", "keywords"), WIDEST)
def test_runs_in_the_widest_of_its_arguments(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> None:
    check(function, arguments, keywords, torch.float32, torch.float16)


@pytest.mark.parametrize(
    ("module", "name", "arguments", "dtype"),
    [
        pytest.param(module, name, arguments, dtype, id=name)
        for module, listed in ((torch, LISTS.torch_expect_builtin_promote), (torch.Tensor, LISTS.methods_expect_builtin_promote))
        for name, arguments, dtype in listed
        if name != "__div__"
    ],
)
def test_operators_without_a_rule_promote_by_themselves(module: Any, name: str, arguments: Any, dtype: torch.dtype) -> None:
    with torch.autocast("neuron"):
        result = function_of(module, name)(*moved(arguments))
    assert isinstance(result, bool) if name == "equal" else result.dtype == dtype


@pytest.mark.parametrize("name", [name for name, *_ in LISTS.banned])
def test_unsafe_operators_are_refused(name: str) -> None:
    (arguments,) = (arguments for listed, arguments, _ in LISTS.banned if listed == name)
    with torch.autocast("neuron"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        getattr(torch._C._nn, name)(*moved(arguments))
