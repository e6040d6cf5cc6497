"""Operators that are compositions of vector math, as functions of one tensor. For the tests and benchmarks/vector_math.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

Operator = Callable[[Tensor], Tensor]


def _backward(name: str, *arguments: object, **keywords: object) -> Operator:
    """The derivative by the operator's backward, at the tensor: with a gradient of ones."""
    op = getattr(torch.ops.aten, name)
    return lambda x: op(torch.ones_like(x), *(x if argument is Ellipsis else argument for argument in arguments), **keywords)


OPERATORS: dict[str, Operator] = {
    "celu": functional.celu,
    "elu": functional.elu,
    "elu_backward": _backward("elu_backward", 1.0, 1.0, 1.0, False, ...),
    "exp2": torch.exp2,
    "gelu": functional.gelu,
    "gelu_backward": _backward("gelu_backward", ...),
    "gelu_backward, tanh": _backward("gelu_backward", ..., approximate="tanh"),
    "gelu, tanh": partial(functional.gelu, approximate="tanh"),
    "log10": torch.log10,
    "log2": torch.log2,
    "log_sigmoid": functional.logsigmoid,
    "log_sigmoid_backward": lambda x: torch.ops.aten.log_sigmoid_backward(torch.ones_like(x), x, torch.exp(-x.abs())),
    "logit": torch.logit,
    "mish": functional.mish,
    "mish_backward": _backward("mish_backward", ...),
    "selu": functional.selu,
    "sigmoid_backward": _backward("sigmoid_backward", ...),
    "silu": functional.silu,
    "silu_backward": _backward("silu_backward", ...),
    "softplus": functional.softplus,
    "softplus_backward": _backward("softplus_backward", ..., 1, 20),
    "tanh_backward": _backward("tanh_backward", ...),
}
"""By the name of the operator, with ``tanh`` for that approximation of GELU. The backward of sigmoid and tanh takes their result."""
