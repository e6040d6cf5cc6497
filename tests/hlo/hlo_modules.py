"""Short ways to make and run modules in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.numerics import HELD_AS
from torch_neuronx.compiler.hlo.types import DType, TensorType

Build = Callable[..., Value | Sequence[Value]]

NATURAL = {dtype: kind for kind, dtype in HELD_AS.items() if kind not in (DType.BF16, DType.F8E4M3FN, DType.F8E5M2)}


def module_of(build: Build, *types: tuple[Sequence[int], DType]) -> Module:
    """The module ``m`` of ``build(builder, *parameters)``."""
    b = Builder("m")
    results = build(b, *(b.parameter(TensorType(tuple(shape), dtype)) for shape, dtype in types))
    return b.build([results] if isinstance(results, Value) else results)


def run(build: Build, *inputs: Any, dtype: DType | None = None) -> Any:
    """The result (a list if there are several) of ``build(builder, *inputs)``, interpreted.

    Inputs have the dtype of their arrays, or ``dtype``.
    """
    arrays = [np.asarray(value, None if dtype is None else HELD_AS[dtype]) for value in inputs]
    module = module_of(build, *((array.shape, dtype or NATURAL[array.dtype]) for array in arrays))
    results = interpret(module, arrays)
    return results[0] if len(results) == 1 else results
