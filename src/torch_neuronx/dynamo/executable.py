"""One graph made executable: from the disk cache, or lowered and compiled."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import fx

from torch_neuronx import _C

from .. import compiler
from ..compiler import cache
from ..compiler.hlo.fingerprint import module_fingerprint
from ..compiler.lowering.graph import LoweredGraph, lower_graph


class CompiledGraph:
    """A graph of AOTAutograd as it calls it: a list of inputs, which is emptied so that they may die, to a list of outputs; one launch."""

    def __init__(self, lowered: LoweredGraph, name: str) -> None:
        self._program = _C.GraphProgram(name, _image(lowered), asdict(lowered.binding), lowered.inputs)
        self._constants = lowered.constants
        self._boxed_call = True  # what AOTAutograd asks for; it looks into the instance

    def __call__(self, inputs: list[Any]) -> list[Any]:
        outputs = self._program(inputs)
        inputs.clear()
        for position, value in self._constants.items():
            outputs[position] = value
        return outputs


def compile_graph(gm: fx.GraphModule, name: str) -> CompiledGraph:
    """Lowers and compiles ``gm``, or takes what the disk cache has."""
    return CompiledGraph(lower_graph(gm.graph, name), name)


def _image(lowered: LoweredGraph) -> bytes:
    key = f"graph {module_fingerprint(lowered.module, lowered.signature)} {cache.compiler_fingerprint()}"
    store = cache.process_cache()
    image = store.get(key) if store is not None else None
    if image is None:
        image = compiler.compile_module(lowered.module, lowered.signature)
        if store is not None:
            store.put(key, image)
    return image
