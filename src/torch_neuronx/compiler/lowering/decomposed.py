"""Operators taken as PyTorch decomposes them: the decomposition runs on meta tensors, and each operator in it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from ..hlo.ir import Value
from .context import LoweringBuilder
from .node import lower_node
from .precision import widened
from .registry import Lowering, Variant, add, find, name_of, overload

# Overloads whose decomposition is exact and as good as a lowering by hand.
DECOMPOSED: tuple[str, ...] = (
    "aten::_chunk_cat",
    "aten::_safe_softmax",
    "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate",
    "aten::block_diag",
    "aten::col2im",
    "aten::dist",
    "aten::glu",
    "aten::glu_backward",
    "aten::im2col",
    "aten::isin.Scalar_Tensor",
    "aten::isin.Tensor_Scalar",
    "aten::isin.Tensor_Tensor",
    "aten::ldexp.Tensor",
    "aten::linalg_cross",
    "aten::linspace.Scalar_Tensor",
    "aten::linspace.Tensor_Scalar",
    "aten::linspace.Tensor_Tensor",
    "aten::logspace.Scalar_Tensor",
    "aten::logspace.Tensor_Scalar",
    "aten::logspace.Tensor_Tensor",
    "aten::max_unpool2d",
    "aten::max_unpool3d",
    "aten::multi_margin_loss",
    "aten::mvlgamma",
    "aten::narrow_copy",
    "aten::renorm",
    "aten::rot90",
    "aten::rrelu_with_noise_backward",
    "aten::unsafe_split.Tensor",
    "aten::unsafe_split_with_sizes",
)


class _Lowering(TorchDispatchMode):
    """Lowers every operator that runs on meta tensors, and keeps the Value of each tensor."""

    def __init__(self, b: LoweringBuilder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.b = b
        # The tensor is held so that its id stays its own.
        self._values: dict[int, tuple[torch.Tensor, Value]] = {}

    def value(self, tensor: torch.Tensor) -> Value:
        return self._values[id(tensor)][1]

    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        self._values[id(tensor)] = (tensor, value)

    def __torch_dispatch__(self, op: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        variant = find(op)
        if variant is None:
            return self._decompose(op, args, kwargs)
        result = op(*args, **kwargs)
        schema = op._schema.arguments
        given = {argument.name: value for argument, value in zip(schema, args, strict=False)} | dict(kwargs)
        metas = {argument.name: given.get(argument.name, argument.default_value) for argument in schema}
        values = {name: self._as_value(meta) for name, meta in metas.items()}
        node = lower_node(self.b, variant, values, metas)
        self._remember(variant, node.results, metas, result)
        return result

    def _decompose(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with self:
            if op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
                return op.decompose(*args, **kwargs)
            if op in decomposition_table:
                return decomposition_table[op](*args, **kwargs)
        raise NotImplementedError(f"{name_of(op)} has neither a lowering nor a decomposition")

    def _as_value(self, meta: Any) -> Any:
        if isinstance(meta, torch.Tensor):
            return self.value(meta)
        return [self._as_value(item) for item in meta] if isinstance(meta, list | tuple) else meta

    def _remember(self, variant: Variant, results: Sequence[Any], metas: Mapping[str, Any], returned: Any) -> None:
        """Binds new tensors to the node's results, and written ones to their new values."""
        for value, destination in zip(results, variant.destinations, strict=True):
            if destination is not None and value is not None:
                if metas[destination]._is_view():
                    raise NotImplementedError(f"{name_of(variant.op)} writes into a view within a decomposition")
                self.bind(metas[destination], value)
        returns = returned if isinstance(returned, tuple) else (returned,)
        for tensor, index in zip(returns, variant.returns, strict=True):
            if isinstance(index, int):
                for one, value in _pairs(tensor, results[index]):
                    self.bind(one, value)


def _pairs(tensor: Any, value: Any) -> list[tuple[torch.Tensor, Value]]:
    if isinstance(tensor, list | tuple):
        return list(zip(tensor, value, strict=True))
    return [] if value is None else [(tensor, value)]


def _decomposition(name: str) -> Callable[..., Any]:
    def lower(b: LoweringBuilder, *arguments: Any) -> Any:
        op = overload(name)
        mode = _Lowering(b)
        metas = {name: _widened_meta(meta) for name, meta in b.metas.items()}
        for meta, value in zip(metas.values(), arguments, strict=True):
            for tensor, one in _pairs(meta, value) if isinstance(meta, torch.Tensor | list | tuple) else []:
                if isinstance(tensor, torch.Tensor):
                    mode.bind(tensor, widened(b, one))
        positional = [metas[argument.name] for argument in op._schema.arguments if not argument.kwarg_only]
        keywords = {argument.name: metas[argument.name] for argument in op._schema.arguments if argument.kwarg_only}
        if keywords.get("device") is not None:
            keywords["device"] = torch.device("meta")
        with torch.no_grad(), mode:
            result = decomposition_table[op](*positional, **keywords)
        if result is NotImplemented:
            raise NotImplementedError(f"{name}: PyTorch's decomposition does not cover these arguments")
        results = tuple(result) if len(op._schema.returns) > 1 else (result,)
        return tuple(None if tensor is None else mode._as_value(tensor) for tensor in results)

    return lower


def _widened_meta(meta: Any) -> Any:
    """f16 and bf16 tensors as f32: a decomposition would round after each of its operators. The caller converts the results."""
    if isinstance(meta, torch.Tensor):
        return meta.float() if meta.dtype in (torch.float16, torch.bfloat16) else meta
    return [_widened_meta(item) for item in meta] if isinstance(meta, list | tuple) else meta


def _scalars(op: torch._ops.OpOverload) -> frozenset[str]:
    return frozenset(argument.name for argument in op._schema.arguments if "number" in str(argument.type))


for _name in DECOMPOSED:
    add(Lowering(_name, _decomposition(_name), static=_scalars(overload(_name)), exact=True, decomposed=True))
