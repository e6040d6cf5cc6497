"""What a model of the catalogue is: how it is built, what it is fed, and the loss it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

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

    ``model(size)`` and ``batch(size)`` draw from torch's default CPU generator; ``loss(output, batch)`` is a 0-d tensor.
    """

    name: str
    model: Callable[[Size], nn.Module]
    batch: Callable[[Size], Batch]
    loss: Callable[[Any, Batch], Tensor]
