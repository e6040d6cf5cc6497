"""What a model of the catalogue is: how it is built, what it is fed, and the loss it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Size: TypeAlias = Literal["small", "large"]
"""``small`` runs in well under a second and has every feature; ``large`` is dominated by arithmetic, as real training is."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step consumes: positional inputs of the model and targets of the loss."""

    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...] = ()

    def to(self, device: str, dtype: torch.dtype = torch.float32) -> Batch:
        """The batch on ``device``, its floating-point inputs in ``dtype``."""
        inputs = (part.to(device, dtype) if part.is_floating_point() else part.to(device) for part in self.inputs)
        return Batch(tuple(inputs), tuple(part.to(device) for part in self.targets))


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and its training task.

    ``model(size)`` and ``batch(size)`` draw from torch's default CPU generator; ``loss(output, batch)`` is a 0-d tensor. What does
    not ``trains`` is for inference only.
    """

    name: str
    model: Callable[[Size], nn.Module]
    batch: Callable[[Size], Batch]
    loss: Callable[[Any, Batch], Tensor]
    trains: bool = True


def token_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of logits [batch, length, vocabulary] against the tokens that follow."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), batch.targets[0].flatten())


def class_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of logits [batch, classes]."""
    return functional.cross_entropy(logits.float(), batch.targets[0])


def next_tokens(vocabulary: int, batch: int, length: int) -> Batch:
    """Random tokens, and as targets those that follow each."""
    tokens = torch.randint(vocabulary, (batch, length + 1))
    return Batch((tokens[:, :-1].contiguous(),), (tokens[:, 1:].contiguous(),))
