"""Fused optimizer steps whose learning rate is a number.

A ``float`` argument is part of a program, and a schedule changes the learning rate at every step. The overloads with a tensor for it take
a 0-d host tensor by value, so that one program serves all rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .untraced import untraced

_KERNELS = torch.library.Library("aten", "IMPL")
_STEPS = ("_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_")


def register_fused_steps() -> None:
    """Registers the steps with a number for device ``neuron``; call it once."""
    for name in _STEPS:
        _KERNELS.impl(name, _with_tensor_rate(name), "PrivateUse1")


def _with_tensor_rate(name: str) -> Callable[..., None]:
    step = getattr(torch.ops.aten, name).tensor_lr

    @untraced
    def kernel(*tensors: Any, lr: float, **options: Any) -> None:
        step(*tensors, lr=torch.tensor(lr, dtype=torch.float64), **options)

    return kernel
