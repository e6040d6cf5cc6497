"""The IR: values, operations and modules, in SSA form.

A module is a straight list of operations in an order where every operand is defined before its use. Build modules with
:class:`~torch_neuronx.compiler.hlo.builder.Builder`; passes return new modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .types import DType, TensorType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Value:
    """One SSA value: a parameter of the module or one result of an operation. Compared and hashed by identity."""

    type: TensorType
    # None for a parameter of the module.
    producer: Operation | None = None
    # Which result of the producer, or which parameter of the module.
    index: int = 0
    is_scalar: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __repr__(self) -> str:
        origin = f"parameter {self.index}" if self.producer is None else f"result {self.index} of {self.producer.name}"
        return f"Value({origin}: {self.type})"


@dataclass(slots=True, eq=False)
class Operation:
    """One operation: a name from the op table, operands, attributes (plain immutable Python data) and results.

    A ``composite`` operation has the attribute ``name`` (for example ``"attention"``); its other attributes are its own.
    """

    name: str
    operands: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    results: tuple[Value, ...] = ()

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A function from parameters to results."""

    name: str
    parameters: tuple[Value, ...]
    operations: tuple[Operation, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a tensor lie in its buffer: strides in elements, one per dimension."""

    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """How a module meets its buffers.

    ``parameters``: one layout per module parameter, None for scalar parameters. ``results``: one layout per result.
    ``donations``: result index → parameter index whose buffer the result is written into (same dtype, shape and layout).
    """

    parameters: tuple[Layout | None, ...]
    results: tuple[Layout, ...]
    donations: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    # Shown in errors and traces, for example "aten::add.Tensor(f32[4,4], f32[4,4])".
    text: str = ""
