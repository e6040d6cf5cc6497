"""Tensors are printed from a copy on the host.

PyTorch formats a tensor with a dozen small operators on its own device, in float64. For devices that compile it copies the tensor first,
but the list of such devices is a literal in ``torch/_tensor_str.py`` (``["xla", "lazy", "ipu", "mtia"]``) without a way to join it; hence
this patch.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import _tensor_str

DEVICE = "neuron"


def print_from_host() -> None:
    """Makes ``repr`` of a neuron tensor format a host copy; call it once."""
    format_contents = _tensor_str._tensor_str

    @wraps(format_contents)
    def format_on_host(tensor: torch.Tensor, indent: int) -> Any:
        return format_contents(tensor.cpu() if tensor.device.type == DEVICE else tensor, indent)  # type: ignore[no-untyped-call]

    _tensor_str._tensor_str = format_on_host
