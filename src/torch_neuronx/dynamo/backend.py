"""The Dynamo backend: options, AOTAutograd, and one executable per graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .decompositions import decompositions
from .executable import CompiledGraph

OPTIONS = {"model_name": str, "fallback_execution": bool}
"""What ``torch.compile(options=...)`` takes, with the type of each."""


def neuron_backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """What ``torch.compile(backend="neuron")`` calls with each graph that Dynamo captures.

    ValueError for an unknown option and TypeError for one of another type, which name those allowed; another ``mode`` than the default
    warns. ``MissingLoweringsError`` if the graph has operators that the device lacks.
    """
    checked = _check_options(options or {})
    if mode not in (None, "default"):
        warnings.warn(f"torch.compile(mode={mode!r}) has no effect with backend 'neuron', which has only mode 'default'", stacklevel=2)
    name = checked.get("model_name", "graph")
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(_compile, f"{name}.forward"),
        bw_compiler=partial(_compile, f"{name}.backward"),
        inference_compiler=partial(_compile, f"{name}.inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    return compiled


def create_neuron_backend(**options: Any) -> Callable[..., Any]:
    """A backend with these options, for ``torch.compile(backend=create_neuron_backend(model_name="llama"))``."""
    _check_options(options)
    return partial(neuron_backend, options=options)


def _check_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in options.items():
        if name not in OPTIONS:
            raise ValueError(f"torch.compile(options): {name!r} is unknown to backend 'neuron'; known are {', '.join(sorted(OPTIONS))}")
        if not isinstance(value, OPTIONS[name]):
            raise TypeError(f"torch.compile(options): {name}={value!r} must be a {OPTIONS[name].__name__}")
    return options


def _compile(name: str, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return CompiledGraph(gm, name)
