"""A dispatch mode that compares every lowered op that runs under it with CPU float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from interpreted import in_schema_order, interpreted
from torch.utils._python_dispatch import TorchDispatchMode

from torch_neuronx.compiler.lowering.call import map_tensors
from torch_neuronx.compiler.lowering.registry import find, name_of

# Results that are an index of an element, where PyTorch leaves open which of several equal elements.
_FREE_AMONG_EQUALS = {("aten::kthvalue", 1), ("aten::topk", 1), ("aten::median.dim", 1)}
_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
# Results that only the same device's own gradient reads; the CPU leaves some of them empty.
_WORKSPACES = {(f"aten::_embedding_bag{suffix}", position) for suffix in ("", "_forward_only") for position in (1, 2, 3)}


class CheckLowerings(TorchDispatchMode):
    """Runs ops on the CPU as always, and each that has a lowering through the interpreter too.

    ``failures``: texts of disagreements; ``checked``: names of compared ops; ``unserved``: names of ops without a lowering for their
    arguments, with the reason.
    """

    def __init__(self, rtol: float = 1e-5, atol: float = 1e-5, in_float64: bool = True) -> None:
        super().__init__()
        self.rtol, self.atol = rtol, atol
        # False: the reference is the CPU's float32, for ops that take nothing else.
        self.wider = _WIDER if in_float64 else {}
        self.failures: list[str] = []
        self.checked: set[str] = set()
        self.unserved: dict[str, str] = {}

    def __torch_dispatch__(self, op: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        arguments = in_schema_order(op, args, kwargs or {})
        if not self._is_comparable(op, arguments):
            return op(*args, **(kwargs or {}))
        before = _copies(arguments)
        result = op(*args, **(kwargs or {}))
        try:
            self._compare(op, before, arguments, result)
        except NotImplementedError as reason:
            self.unserved[name_of(op)] = str(reason)
        except Exception as error:
            self.failures.append(f"{describe(op, before)}: {type(error).__name__}: {error}")
        return result

    def _is_comparable(self, op: Any, arguments: Sequence[Any]) -> bool:
        if find(op) is None:
            self.unserved[name_of(op)] = "no lowering"
            return False
        return torch.Tag.nondeterministic_seeded not in op.tags and "empty" not in name_of(op)

    def _compare(self, op: Any, before: Sequence[Any], after: Sequence[Any], result: Any) -> None:
        returns, written = interpreted(op, before)
        wide = map_tensors(before, lambda tensor, _: tensor.to(self.wider.get(tensor.dtype, tensor.dtype)))
        wide = [self.wider.get(a, a) if isinstance(a, torch.dtype) else a for a in wide]
        reference = _call(op, wide)
        reference = list(reference) if isinstance(reference, tuple) else [reference] if op._schema.returns else []
        actual = list(result) if isinstance(result, tuple) else [result] if op._schema.returns else []
        for position, (mine, theirs, right) in enumerate(zip(returns, actual, reference, strict=True)):
            if (name_of(op), position) not in _FREE_AMONG_EQUALS | _WORKSPACES:
                self._assert_close(f"result {position}", mine, theirs, right)
        for (position, element), mine in written.items():
            pick = lambda values: values[position] if element < 0 else values[position][element]  # noqa: E731, B023
            self._assert_close(f"argument {position}", mine, pick(after), pick(wide))
        self.checked.add(name_of(op))

    def _assert_close(self, what: str, mine: Any, actual: Any, right: Any) -> None:
        """``mine`` has the dtype and shape of the CPU's float32 result and the values of its float64 one."""
        if isinstance(mine, list):
            for one, two, three in zip(mine, actual, right, strict=True):
                self._assert_close(what, one, two, three)
            return
        if not isinstance(actual, torch.Tensor):
            assert mine is None, f"{what}: expected {actual}, got a tensor"
            return
        assert mine is not None, f"{what} is missing"
        assert mine.dtype == actual.dtype, f"{what}: dtype {mine.dtype}, expected {actual.dtype}"
        right = right.resolve_conj().resolve_neg()
        kwargs = (
            {"rtol": self.rtol, "atol": self.atol} if right.dtype.is_floating_point or right.dtype.is_complex else {"rtol": 0, "atol": 0}
        )
        torch.testing.assert_close(mine.to(right.dtype), right, equal_nan=True, check_stride=False, msg=lambda m: f"{what}: {m}", **kwargs)


def _call(op: Any, arguments: Sequence[Any]) -> Any:
    positional = [value for argument, value in zip(op._schema.arguments, arguments, strict=True) if not argument.kwarg_only]
    keywords = {a.name: value for a, value in zip(op._schema.arguments, arguments, strict=True) if a.kwarg_only}
    return op(*positional, **keywords)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    """The same arguments with tensors of their own memory; identical tensors stay identical."""
    copies: dict[int, torch.Tensor] = {}

    def copy(tensor: torch.Tensor, _: Any) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone()
        return copies[id(tensor)]

    return list(map_tensors(arguments, copy))


def describe(op: Any, arguments: Sequence[Any]) -> str:
    """``aten::add.Tensor(float32[2, 3], 1)``."""
    shown = map_tensors(arguments, lambda tensor, _: f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}")
    return f"{name_of(op)}({', '.join(map(str, shown))})"
