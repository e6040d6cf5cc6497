"""Short ways to make modules and to show what passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.printer import print_module
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.hlo.verify import verify


def module_of(build: Callable[..., Value | Sequence[Value]], *types: tuple[Sequence[int], DType]) -> Module:
    """The module ``m`` of ``build(builder, *parameters)``."""
    b = Builder("m")
    results = build(b, *(b.parameter(TensorType(tuple(shape), dtype)) for shape, dtype in types))
    return b.build([results] if isinstance(results, Value) else results)


def after(run: Callable[[Module], Module], module: Module) -> list[str]:
    """The printed body of ``run(module)``, which is verified, one line per operation and ``return`` last."""
    result = run(module)
    verify(result)
    return [line.strip() for line in print_module(result).splitlines()[1:]]
