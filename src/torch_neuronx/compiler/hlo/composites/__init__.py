"""What the composites mean: their decomposition into plain operations, one function per composite.

``sort`` and the composites of :mod:`library_rules` have none: every target and the interpreter implement them themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..builder import Builder
from ..ir import Module, Operation, Value
from ..rebuild import rebuild
from .attention import decompose_attention, decompose_attention_backward
from .convolution import decompose_convolution_input_grad, decompose_convolution_weight_grad
from .ctc import decompose_ctc_loss, decompose_ctc_loss_backward
from .ordering import decompose_scan, decompose_topk
from .philox import decompose_philox
from .pooling import decompose_avg_pool, decompose_avg_pool_backward, decompose_max_pool, decompose_max_pool_backward

# Builder, operands, and the composite's own attributes by keyword.
Decomposition = Callable[..., Value | tuple[Value, ...]]

DECOMPOSITIONS: Mapping[str, Decomposition] = MappingProxyType(
    {
        "attention": decompose_attention,
        "attention_backward": decompose_attention_backward,
        "convolution_input_grad": decompose_convolution_input_grad,
        "convolution_weight_grad": decompose_convolution_weight_grad,
        "max_pool": decompose_max_pool,
        "max_pool_backward": decompose_max_pool_backward,
        "avg_pool": decompose_avg_pool,
        "avg_pool_backward": decompose_avg_pool_backward,
        "ctc_loss": decompose_ctc_loss,
        "ctc_loss_backward": decompose_ctc_loss_backward,
        "topk": decompose_topk,
        "scan": decompose_scan,
        "philox": decompose_philox,
    }
)


def decompose(operation: Operation, builder: Builder, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Append the decomposition of a composite to ``builder``; ``operands`` are its values in place of ``operation.operands``.

    The results have the types of ``operation.results``. A ``topk`` contains a ``sort``; all else is plain operations.
    """
    attributes: dict[str, Any] = dict(operation.attributes)
    name = attributes.pop("name", None)
    if name not in DECOMPOSITIONS:
        known = ", ".join(sorted(DECOMPOSITIONS))
        raise ValueError(f"decompose: {operation.name} {name!r} has no decomposition; those with one are {known}")
    results = DECOMPOSITIONS[name](builder, *operands, **attributes)
    return (results,) if isinstance(results, Value) else results


def expand_composites(module: Module, only: Collection[str] | None = None) -> Module:
    """``module`` with the composites named in ``only`` (None: all that have a decomposition) replaced by their decomposition."""
    chosen = DECOMPOSITIONS.keys() if only is None else only

    def replace(builder: Builder, operation: Operation, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        expands = operation.name == "composite" and operation.attributes["name"] in chosen
        return decompose(operation, builder, operands) if expands else None

    return rebuild(module, replace)
