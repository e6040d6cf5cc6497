"""One graph made executable: from the disk cache, or lowered and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any

import sympy
import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_neuronx import _C

from .. import compiler
from ..compiler import cache
from ..compiler.hlo.fingerprint import module_fingerprint
from ..compiler.lowering.graph import LoweredGraph, lower_graph


class CompiledGraph:
    """A graph of AOTAutograd as it calls it: from a list of inputs, which is emptied so that they may die, to a list of outputs.

    Programs have fixed sizes. A graph with symbolic ones compiles a program for each choice of their values when it first meets it.
    """

    def __init__(self, gm: fx.GraphModule, name: str) -> None:
        self._graph = gm.graph
        self._name = name
        self._symbols = _symbols(gm.graph)
        self._programs: dict[tuple[int, ...], _Program] = {}
        self._boxed_call = True  # what AOTAutograd asks for; it looks into the instance
        if not self._symbols:
            self._programs[()] = self._compile({})

    def __call__(self, inputs: list[Any]) -> list[Any]:
        sizes = tuple([source(inputs) for source in self._symbols.values()])
        program = self._programs.get(sizes)
        if program is None:
            program = self._programs[sizes] = self._compile(dict(zip(self._symbols, map(sympy.Integer, sizes), strict=True)))
        outputs = program(inputs)
        inputs.clear()
        return outputs

    def _compile(self, sizes: Mapping[Any, Any]) -> _Program:
        # Lowerings compute with meta tensors; the fake tensors of a trace that may be going on are none of them.
        with unset_fake_temporarily():
            return _Program(lower_graph(self._graph, self._name, sizes), self._name)


class _Program:
    """One launch, and what the graph returns besides tensors."""

    def __init__(self, lowered: LoweredGraph, name: str) -> None:
        self._launch = _C.GraphProgram(name, _image(lowered), asdict(lowered.binding), lowered.inputs)
        self._constants = lowered.constants
        self._lazy = lowered.lazy

    def __call__(self, inputs: list[Any]) -> list[Any]:
        outputs = self._launch(inputs)
        for position, view in self._lazy.items():
            outputs[position] = view(outputs[position])
        for position, value in self._constants.items():
            outputs[position] = value
        return outputs


def _symbols(graph: fx.Graph) -> dict[Any, Callable[[list[Any]], int]]:
    """The graph's symbolic sizes (sympy symbols), and how the value of each is read off the inputs."""
    found: dict[Any, Callable[[list[Any]], int]] = {}

    def bind(size: Any, source: Callable[[list[Any]], int]) -> None:
        if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
            found.setdefault(size.node.expr, source)

    for index, node in enumerate(graph.find_nodes(op="placeholder")):
        example = node.meta["val"]
        bind(example, itemgetter(index))
        if isinstance(example, torch.Tensor):
            for dim, size in enumerate(example.shape):
                bind(size, partial(_size, index, dim))
    return found


def _size(index: int, dim: int, inputs: list[Any]) -> int:
    size: int = inputs[index].shape[dim]
    return size


def _image(lowered: LoweredGraph) -> bytes:
    key = f"graph {module_fingerprint(lowered.module, lowered.signature)} {cache.compiler_fingerprint()}"
    store = cache.process_cache()
    image = store.get(key) if store is not None else None
    if image is None:
        image = compiler.compile_module(lowered.module, lowered.signature)
        if store is not None:
            store.put(key, image)
    return image
