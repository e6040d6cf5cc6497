"""A miss of the dispatcher's cache: what the call's program is, from the disk cache or the compiler."""

from __future__ import annotations

import json
import logging
import struct
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from torch_neuronx import _C

from .. import compiler, envvars
from ..compiler import cache
from ..compiler.lowering import registry
from ..compiler.lowering.call import lower_call, map_tensors
from ..compiler.lowering.dtypes import float64_is_exact, warn_float64_is_narrowed
from ..compiler.lowering.edges import Place
from ..compiler.lowering.node import functional_arguments, meta_outputs, node_outputs
from .tracking import count_disk_hit

log = logging.getLogger("torch_neuronx.eager")


class CompileError(RuntimeError):
    """An op that has a lowering failed to compile, and falling back was not allowed."""


def compile_call(op_name: str, arguments: Sequence[Any]) -> _C.EagerProgram | None:
    """The program for ``op_name`` applied to ``arguments``, or None if it must fall back to the CPU.

    ``arguments`` are the call's, in schema order, defaults included; a number given as a tensor is a Python number. An ``out=`` argument
    of another size is resized here, with PyTorch's warning. Raises what the op's meta function raises (wrong shapes or dtypes), and
    CompileError if the compiler fails while TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS=1.
    """
    variant = registry.find(registry.overload(op_name))
    if variant is None:
        return None
    try:
        return _program(op_name, variant, arguments)
    except NotImplementedError as reason:
        log.info("%s: no native program for these arguments: %s", op_name, reason)
        return None


def _program(op_name: str, variant: registry.Variant, arguments: Sequence[Any]) -> _C.EagerProgram:
    metas, host_scalars = _metas(arguments, _writes(variant))
    if not variant.lowering.exact and not float64_is_exact() and _has_float64(arguments):
        warn_float64_is_narrowed()
    key = _key(op_name, variant, metas, host_scalars)
    stored = _load(key)
    if stored is None:
        _check_and_resize(variant, arguments, metas)
        resized_key = _key(op_name, variant, metas, host_scalars)
        if resized_key != key:
            key, stored = resized_key, _load(resized_key)
    if stored is not None:
        count_disk_hit()
        return _C.EagerProgram(*stored)
    image, binding = _compile(op_name, variant, arguments, metas, host_scalars)
    _store(key, image, binding)
    return _C.EagerProgram(image, binding)


def _writes(variant: registry.Variant) -> bool:
    return any(destination is not None for destination in variant.destinations)


def _metas(arguments: Sequence[Any], share: bool) -> tuple[list[Any], frozenset[Place]]:
    """The arguments with meta tensors for tensors, and which of them are 0-d CPU tensors.

    With ``share`` identical tensors have one meta tensor. Only an op that writes may want that: the dispatcher's key tells which tensors
    are identical for such ops only, so that another op's program must not depend on it.
    """
    by_identity: dict[tuple[Any, ...], torch.Tensor] = {}
    host_scalars: set[Place] = set()

    def meta(tensor: torch.Tensor, place: Place) -> torch.Tensor:
        if tensor.device.type == "cpu":
            host_scalars.add(place)
            return torch.empty_strided((), (), dtype=tensor.dtype, device="meta")
        if tensor._is_zerotensor():
            return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype, device="meta").as_strided(tensor.shape, tensor.stride())
        identity = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg())
        known = by_identity.get(identity) if share and tensor.numel() else None
        if known is None:
            known = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            known = torch._conj(known) if tensor.is_conj() else known
            known = torch._neg_view(known) if tensor.is_neg() else known
            by_identity[identity] = known
        return known

    metas = map_tensors(arguments, meta)
    return [None if isinstance(argument, torch.Generator) else argument for argument in metas], frozenset(host_scalars)


def _has_float64(arguments: Sequence[Any]) -> bool:
    wide = (torch.float64, torch.complex128)
    found = False

    def look(tensor: torch.Tensor, place: Place) -> None:
        nonlocal found
        found |= tensor.dtype in wide and tensor.device.type != "cpu"

    map_tensors(arguments, look)
    return found


def _check_and_resize(variant: registry.Variant, arguments: Sequence[Any], metas: Sequence[Any]) -> None:
    """Runs PyTorch's own checks on a call that writes into its arguments, and gives ``out=`` tensors the size they must have."""
    schema = variant.op._schema
    if not _writes(variant):
        return  # the lowering runs the functional overload's meta function itself
    if variant.op.namespace != "aten":
        return  # the device's own copy, whose arguments are checked already
    given = {argument.name: meta for argument, meta in zip(schema.arguments, metas, strict=True)}
    try:
        _run_meta_function(variant, given)
    except Exception as error:
        _raise_what_the_host_raises(variant, arguments)
        raise NotImplementedError(f"PyTorch's meta function refuses the call: {error}") from error
    for argument, tensor, meta in zip(schema.arguments, arguments, metas, strict=True):
        if argument.is_out and isinstance(tensor, torch.Tensor) and (tensor.shape != meta.shape or tensor.stride() != meta.stride()):
            tensor.resize_(meta.shape)
            tensor.as_strided_(meta.shape, meta.stride())


def _run_meta_function(variant: registry.Variant, metas: dict[str, Any]) -> None:
    """That of the overload, or where it has none, what it would do."""
    if variant.lowering.outputs_like:
        return _resize_like_results(variant, metas)
    try:
        meta_outputs(variant.op, metas)
    except NotImplementedError:
        _resize_like_results(variant, metas)


def _resize_like_results(variant: registry.Variant, metas: dict[str, Any]) -> None:
    """Gives ``out=`` arguments the sizes of the functional overload's results."""
    outs = {argument.name for argument in variant.op._schema.arguments if argument.is_out}
    outputs = node_outputs(variant, functional_arguments(variant, metas)) if outs else ()
    for destination, output in zip(variant.destinations, outputs, strict=False):
        if destination in outs:
            torch.ops.aten._resize_output_(metas[destination], output.shape, metas[destination].device)


def _raise_what_the_host_raises(variant: registry.Variant, arguments: Sequence[Any]) -> None:
    """Tries a call that a meta function refused on host copies: if it is wrong, its error has the words users know."""
    schema = variant.op._schema.arguments
    copies = map_tensors(arguments, lambda tensor, place: tensor.detach().cpu())
    given = {a.name: None if isinstance(copy, torch.Generator) else copy for a, copy in zip(schema, copies, strict=True)}
    variant.op(*(given[a.name] for a in schema if not a.kwarg_only), **{a.name: given[a.name] for a in schema if a.kwarg_only})


def _compile(
    op_name: str, variant: registry.Variant, arguments: Sequence[Any], metas: Sequence[Any], host_scalars: frozenset[Place]
) -> tuple[bytes, dict[str, Any]]:
    """Lowers and compiles. A failure of either is a NotImplementedError, so that the op falls back, unless that was forbidden."""
    try:
        call = lower_call(variant, metas, host_scalars)
    except NotImplementedError:
        raise
    except Exception as error:
        _raise_what_the_host_raises(variant, arguments)
        raise _failure(op_name, error) from error
    try:
        return compiler.compile_module(call.module, call.signature), asdict(call.binding)
    except NotImplementedError:
        raise
    except Exception as error:
        raise _failure(call.signature.text, error) from error


def _failure(what: str, error: Exception) -> Exception:
    """What is raised when an op with a lowering cannot be compiled; a NotImplementedError lets it fall back."""
    if envvars.FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS.get():
        return CompileError(f"{what} has a lowering but failed to compile: {error}")
    log.info("%s has a lowering but failed to compile and falls back to the CPU", what, exc_info=error)
    warnings.warn(f"{what} failed to compile and falls back to the CPU: {error}", UserWarning, stacklevel=2)
    return NotImplementedError(f"it failed to compile: {error}")


def _key(op_name: str, variant: registry.Variant, metas: Sequence[Any], host_scalars: frozenset[Place]) -> str:
    """Everything that the program depends on, as text."""
    seen: dict[int, int] = {}

    def describe(meta: torch.Tensor, place: Place) -> tuple[Any, ...]:
        number = seen.setdefault(id(meta), len(seen))
        flags = (meta.is_conj(), meta.is_neg(), meta._is_zerotensor(), place in host_scalars)
        return (number, str(meta.dtype), tuple(meta.shape), meta.stride(), *flags)

    described = map_tensors(metas, describe)
    for position, argument in enumerate(variant.op._schema.arguments):
        if argument.name not in variant.lowering.static:
            described[position] = _kinds(described[position], str(argument.type))
    return repr((op_name, described, float64_is_exact(), cache.compiler_fingerprint()))


def _kinds(argument: Any, type_name: str) -> Any:
    """Numbers that are passed at launch count by their kind only."""
    if not any(name in type_name for name in ("number", "Tensor")):
        return argument
    if isinstance(argument, list):
        return [_kinds(item, type_name) for item in argument]
    return type(argument).__name__ if isinstance(argument, bool | int | float) else argument


def _load(key: str) -> tuple[bytes, dict[str, Any]] | None:
    store = cache.process_cache()
    payload = store.get(key) if store is not None else None
    if payload is None:
        return None
    (length,) = struct.unpack_from("<I", payload)
    binding = json.loads(payload[4 : 4 + length])
    return payload[4 + length :], binding


def _store(key: str, image: bytes, binding: dict[str, Any]) -> None:
    store = cache.process_cache()
    if store is not None:
        text = json.dumps(binding).encode()
        store.put(key, struct.pack("<I", len(text)) + text + image)
