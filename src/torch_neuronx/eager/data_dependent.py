"""Operators whose result depends on data beyond what one program can express, as compositions of native ones.

A program has fixed sizes. These compute a result of the largest possible size on the device, read how much of it counts, and return a
view of that part; so they need no new program when the data changes.
"""

from __future__ import annotations

import torch

from .untraced import untraced

_KERNELS = torch.library.Library("aten", "IMPL")


def register_data_dependent_ops() -> None:
    """Registers the compositions for device ``neuron``; call it once."""
    for name, kernel in (("equal", equal), ("masked_select", masked_select), ("nonzero", nonzero)):
        _KERNELS.impl(name, untraced(kernel), "PrivateUse1")


def equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether both have the same size and elements; nan differs from everything."""
    if first.shape != second.shape:
        return False
    return bool(first.eq(second).all().item())


def masked_select(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements where ``mask`` is true, in row-major order."""
    if mask.dtype != torch.bool:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    values, mask = torch.broadcast_tensors(values, mask)
    place, count = _places(mask)
    room = values.new_empty(mask.numel() + 1)
    return room.scatter_(0, place, values.reshape(-1)).narrow(0, 0, count)


def nonzero(values: torch.Tensor) -> torch.Tensor:
    """The coordinates of the elements that are not 0, int64[count, dimensions], in row-major order."""
    place, count = _places(values.ne(0))
    rank = values.dim()
    room = torch.empty(values.numel() + 1, rank, dtype=torch.int64, device=values.device)
    for axis, extent in enumerate(values.shape):
        along = torch.arange(extent, device=values.device).reshape(-1, *[1] * (rank - 1 - axis))
        room.select(1, axis).scatter_(0, place, along.expand(values.shape).reshape(-1))
    return room.narrow(0, 0, count)


def _places(mask: torch.Tensor) -> tuple[torch.Tensor, int]:
    """For each element, in row-major order, which of the selected ones it is, or one past the end; and how many are selected."""
    flat = mask.reshape(-1)
    if flat.numel() == 0:
        return torch.empty(0, dtype=torch.int64, device=mask.device), 0
    order = flat.cumsum(0)
    return torch.where(flat, order - 1, flat.numel()), int(order[-1].item())
