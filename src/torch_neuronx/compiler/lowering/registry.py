"""The table of lowerings, and which overloads of an operator each of them serves.

A lowering is a small function for one *functional* overload::

    @lowering("aten::gelu")
    def gelu(b: LoweringBuilder, x: Value, approximate: str) -> Value: ...

Arguments come in schema order, positional. A tensor is a Value (None if optional and not given), a tensor list a list of Values, an
int list a tuple. A ``Scalar`` is a Python number if it is known while compiling (always so for names in ``static``), else a 0-d f64 or
i64 Value; ``b.scalar(x, dtype)`` takes both. Everything else is the plain Python value. float64 operands arrive as float32 under the
float64 policy unless ``exact=True``. Results are one per schema return (a Value, a list of Values, or None for an undefined tensor),
then the new values of ``mutates``; each is converted to the dtype the operator's meta function gives, so a lowering may return what it
computed in.

In-place and ``out=`` overloads of the operator are found by their schemas and served by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
Layout = Callable[[Mapping[str, Any], tuple[Any, ...]], tuple[Any, ...]]

# Arguments of factory functions that their out= overloads do not have, as the tensor given says it all.
FACTORY_ARGUMENTS = frozenset({"dtype", "layout", "device", "pin_memory"})


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one functional overload is lowered.

    ``name``: ``"aten::add.Tensor"``. ``static``: Scalar arguments whose value is part of the program. ``mutates``: arguments that the
    operator writes although its schema does not say so. ``exact``: keeps float64. ``native``: False for operators that only graphs
    contain (eager reaches them through others). ``decomposed``: taken from PyTorch's own decomposition. ``outputs_like``: for operators
    without a meta function, the argument that each return resembles in size, strides and dtype. ``layout``: other results (meta tensors)
    than those of the meta function or of ``outputs_like``, from the arguments and these: in strides, or where nothing resembles them.
    """

    name: str
    function: Callable[..., Any]
    static: frozenset[str] = frozenset()
    mutates: tuple[str, ...] = ()
    exact: bool = False
    native: bool = True
    decomposed: bool = False
    outputs_like: tuple[str, ...] = ()
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """An overload as served by a lowering of ``functional``.

    ``destinations``: for each result of the lowering, the argument it is written into, or None for a new tensor.
    ``returns``: for each return of the overload's schema, a result's index or the name of the argument returned.
    """

    op: torch._ops.OpOverload
    functional: torch._ops.OpOverload
    lowering: Lowering
    destinations: tuple[str | None, ...]
    returns: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class NativeOp:
    """What the eager dispatcher must know of an overload: its name, its functional, and the positions of its static arguments and of those
    that it writes although its schema does not say so."""

    name: str
    functional: str
    static_arguments: tuple[int, ...]
    written_arguments: tuple[int, ...]


_LOWERINGS: dict[str, Lowering] = {}

# The device's own copy within one device has arguments of aten's, less the options that do not matter to it.
_ALIASES = {"neuron::copy_": "aten::copy_"}


def lowering(
    *names: str,
    static: Iterable[str] = (),
    mutates: Iterable[str] = (),
    exact: bool = False,
    native: bool = True,
    outputs_like: Iterable[str] = (),
    layout: Layout | None = None,
) -> Callable[[Function], Function]:
    """Registers a function as the lowering of the functional overloads ``names``; see the module's text for what it is given."""

    def register(function: Function) -> Function:
        for name in names:
            add(Lowering(name, function, frozenset(static), tuple(mutates), exact, native, outputs_like=tuple(outputs_like), layout=layout))
        return function

    return register


def add(entry: Lowering) -> None:
    """Adds a lowering; a second one for the same overload is an error."""
    if entry.name in _LOWERINGS:
        raise ValueError(f"lowering: {entry.name} is registered twice, by {_LOWERINGS[entry.name].function} and {entry.function}")
    _LOWERINGS[entry.name] = entry


def lowerings() -> dict[str, Lowering]:
    """All lowerings by functional overload name, with every family loaded."""
    _load_families()
    return _LOWERINGS


@cache
def overload(name: str) -> torch._ops.OpOverload:
    """``"aten::add.Tensor"`` → ``torch.ops.aten.add.Tensor``. Raises AttributeError if this torch has no such operator."""
    namespace, _, rest = name.partition("::")
    packet, _, suffix = rest.partition(".")
    op: torch._ops.OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), suffix or "default")
    return op


def name_of(op: torch._ops.OpOverload) -> str:
    """``torch.ops.aten.add.Tensor`` → ``"aten::add.Tensor"``; the default overload has no suffix."""
    return str(op._schema.name) + (f".{op._schema.overload_name}" if op._schema.overload_name else "")


def find(op: torch._ops.OpOverload) -> Variant | None:
    """How ``op`` is served, or None if there is no lowering for it."""
    name = name_of(op)
    if name in _ALIASES:
        return replace(_variants()[_ALIASES[name]], op=op)
    return _variants().get(name)


def variants() -> list[NativeOp]:
    """Every overload that the eager dispatcher can serve natively.

    Left out: views (they only make metadata), overloads without a tensor argument or with a device argument (PyTorch makes the tensor
    and fills it or copies to it), and composites that are differentiated through their parts.
    """
    return [
        NativeOp(
            name, name_of(variant.functional), _positions(variant, variant.lowering.static), _positions(variant, variant.lowering.mutates)
        )
        for name, variant in _variants().items()
        if variant.lowering.native and _runs_on_one_device(variant.op) and not _is_view(variant.op) and not _is_implicit(variant.op)
    ]


@cache
def _load_families() -> None:
    package = import_module(__package__ or "")
    for module in iter_modules(package.__path__):
        if not module.name.startswith("_"):
            import_module(f"{package.__name__}.{module.name}")


@cache
def _variants() -> dict[str, Variant]:
    table: dict[str, Variant] = {}
    for entry in lowerings().values():
        for variant in _variants_of(entry):
            table.setdefault(name_of(variant.op), variant)
    return table


def _variants_of(entry: Lowering) -> Iterator[Variant]:
    functional = overload(entry.name)
    returns = len(functional._schema.returns)
    yield Variant(functional, functional, entry, (None,) * returns + entry.mutates, tuple(range(returns)))
    for candidate in _relatives(functional):
        if variant := _in_place(candidate, functional, entry) or _out(candidate, functional, entry):
            yield variant


def _relatives(functional: torch._ops.OpOverload) -> Iterator[torch._ops.OpOverload]:
    """Overloads of the operator and of its in-place twin."""
    namespace, _, packet = functional._schema.name.partition("::")
    base = packet.removesuffix("_functional")
    for name in dict.fromkeys((packet, base, base + "_")):
        relative = getattr(getattr(torch.ops, namespace), name, None)
        if relative is None:
            continue
        for suffix in relative.overloads():
            candidate = getattr(relative, suffix)
            if candidate is not functional:
                yield candidate


def _written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _key(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _in_place(candidate: torch._ops.OpOverload, functional: torch._ops.OpOverload, entry: Lowering) -> Variant | None:
    """``add_.Tensor`` for ``add.Tensor``: the same arguments, some of them written; results come as returns, then written arguments."""
    schema = candidate._schema
    written = [argument for argument in schema.arguments if _written(argument)]
    if not written or any(argument.is_out for argument in written) or torch.Tag.inplace_view in candidate.tags:
        return None
    if [_key(argument) for argument in schema.arguments] != [_key(argument) for argument in functional._schema.arguments]:
        return None
    fresh = [position for position, result in enumerate(schema.returns) if result.alias_info is None]
    if len(fresh) + len(written) != len(functional._schema.returns) + len(entry.mutates):
        return None
    destinations = (None,) * len(fresh) + tuple(argument.name for argument in written)
    return Variant(candidate, functional, entry, destinations, _returns(schema, written, fresh))


def _out(candidate: torch._ops.OpOverload, functional: torch._ops.OpOverload, entry: Lowering) -> Variant | None:
    """``add.out`` for ``add.Tensor``: the same arguments, then one written tensor per result. Where the functional overload returns the
    new values of arguments last, the ``out=`` overload writes those arguments."""
    schema = candidate._schema
    outs = [argument for argument in schema.arguments if argument.is_out]
    own = [argument for argument in schema.arguments if not argument.is_out]
    written = [argument for argument in own if _written(argument)]
    if not outs or len(outs) + len(written) != len(functional._schema.returns):
        return None
    wanted = {_key(argument) for argument in functional._schema.arguments}
    factory = {key for key in wanted if key[0] in FACTORY_ARGUMENTS}
    if {_key(argument) for argument in own} not in (wanted, wanted - factory):
        return None
    destinations = (*(argument.name for argument in (*outs, *written)), *entry.mutates)
    return Variant(candidate, functional, entry, destinations, _returns(schema, outs, []))


def _returns(schema: Any, written: list[Any], fresh: list[int]) -> tuple[int | str, ...]:
    by_alias = {alias: argument.name for argument in written for alias in argument.alias_info.before_set}
    return tuple(
        fresh.index(position) if result.alias_info is None else by_alias[next(iter(result.alias_info.before_set))]
        for position, result in enumerate(schema.returns)
    )


def _positions(variant: Variant, names: Iterable[str]) -> tuple[int, ...]:
    wanted = frozenset(names)
    return tuple(position for position, argument in enumerate(variant.op._schema.arguments) if argument.name in wanted)


def _is_view(op: torch._ops.OpOverload) -> bool:
    return any(argument.alias_info is not None and not argument.alias_info.is_write for argument in op._schema.arguments)


def _runs_on_one_device(op: torch._ops.OpOverload) -> bool:
    """It has tensor arguments, and no argument that asks for a device."""
    arguments = op._schema.arguments
    return any("Tensor" in str(argument.type) for argument in arguments) and not any(argument.name == "device" for argument in arguments)


def _is_implicit(op: torch._ops.OpOverload) -> bool:
    """A composite that autograd looks into: native kernels would hide its parts. One with a derivative of its own is not."""
    # Asked of the dispatcher, not of the overload object: PyTorch adds Python decompositions there.
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(name_of(op), "CompositeImplicitAutograd") and not has_kernel(name_of(op), "Autograd")
