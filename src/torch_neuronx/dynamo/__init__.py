"""``torch.compile(backend="neuron")``: whole graphs, forward and backward, on the compiler core that eager uses."""

from .backend import create_neuron_backend, neuron_backend

__all__ = ["create_neuron_backend", "neuron_backend"]
