"""Tells PyTorch's dispatcher which ops have native programs."""

from __future__ import annotations

from functools import cache

from torch_neuronx import _C

from ..compiler.lowering import registry
from ..compiler.lowering.dtypes import float64_is_exact
from .data_dependent import register_data_dependent_ops
from .printing import print_from_host
from .recurrent import register_recurrent_networks

_FLAG_FLOAT64_EXACT = 1


@cache
def install_native_ops() -> None:
    """Registers every overload that a lowering serves, and the compositions of them; once per process."""
    _C._set_compile_flags(_FLAG_FLOAT64_EXACT if float64_is_exact() else 0)
    for op in registry.variants():
        _C._register_native_op(op.name, op.static_arguments, op.written_arguments)
    register_data_dependent_ops()
    register_recurrent_networks()
    print_from_host()
