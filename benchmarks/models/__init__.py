"""The models that tests and benchmarks run: plain PyTorch, one file per family, each in a small size and in one that takes time.

``WORKLOADS`` maps a name to its ``Workload``. Weights and batches are drawn on the CPU from torch's default generator, so that a seed
gives every device the same.
"""

from __future__ import annotations

from benchmarks.models import convolutional, diffusion, encoders, gpt, llama, mixture_of_experts, recurrent
from benchmarks.models.workload import Batch, Size, Workload

_FAMILIES = (gpt, llama, encoders, mixture_of_experts, convolutional, diffusion, recurrent)
WORKLOADS: dict[str, Workload] = {workload.name: workload for family in _FAMILIES for workload in family.WORKLOADS}

__all__ = ["WORKLOADS", "Batch", "Size", "Workload"]
