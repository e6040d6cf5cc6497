"""A small module with inputs, and values to feed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.numerics import HELD_AS, Array, round_to
from torch_neuronx.compiler.hlo.types import DType, TensorType

Build = Callable[..., Value | Sequence[Value]]


@dataclass(frozen=True)
class Sample:
    label: str
    module: Module
    inputs: list[Array]

    @property
    def op(self) -> str:
        return self.label.split()[0]


def sample(label: str, build: Build, *inputs: tuple[DType, Array]) -> Sample:
    """A module of ``build(builder, *parameters)``."""
    b = Builder(label.split()[0])
    values = [b.parameter(TensorType(array.shape, dtype)) for dtype, array in inputs]
    results = build(b, *values)
    return Sample(label, b.build([results] if isinstance(results, Value) else results), [array for _, array in inputs])


def typical(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Values of moderate size, positive and negative where the type has both."""
    rng = np.random.default_rng(seed)
    if dtype is DType.I1:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        low = -5 if dtype.kind == "i" else 0
        return rng.integers(low, 6, shape).astype(HELD_AS[dtype])
    if dtype.is_complex:
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(HELD_AS[dtype])
    return round_to(np.asarray(rng.normal(size=shape)), dtype)


def special(dtype: DType) -> Array:
    """Eight values with the extremes of the type."""
    if dtype is DType.I1:
        return np.array([0, 1, 1, 0, 1, 0, 0, 1], np.bool_)
    if dtype.is_integer:
        info = np.iinfo(HELD_AS[dtype])
        return np.array([0, 1, info.max, info.min, 7, info.max - 2, 3, info.min + 5], HELD_AS[dtype])
    if dtype.is_complex:
        return np.array([0.5 + 1j, -2, 1j, 0.25 - 0.75j, -1.5 + 0.5j, 1, 3 - 2j, 0.125]).astype(HELD_AS[dtype])
    return round_to(np.array([-0.0, 0.0, 0.625, -2.5, np.inf, -np.inf, np.nan, 5.25]), dtype)
