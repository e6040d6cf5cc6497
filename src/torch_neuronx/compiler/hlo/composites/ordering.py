"""Order along one dimension."""

from __future__ import annotations

from ..builder import Builder
from ..ir import Value
from ..types import DType, TensorType


def decompose_topk(b: Builder, x: Value, *, k: int, dim: int, largest: bool) -> tuple[Value, ...]:
    """The first k of the sorted elements."""
    types = (x.type, TensorType(x.shape, DType.I64))
    ordered = b.composite("sort", (x,), {"dim": dim, "descending": largest, "stable": True}, types)
    limit = [k if axis == dim else extent for axis, extent in enumerate(x.shape)]
    return tuple(b.slice(each, (0,) * len(limit), limit) for each in ordered)


def decompose_scan(b: Builder, x: Value, *, kind: str, dim: int) -> Value:
    """A window of the whole extent that ends at each element."""
    extent = x.shape[dim]
    if extent == 0:
        return x
    window, padding = [1] * len(x.shape), [(0, 0)] * len(x.shape)
    window[dim], padding[dim] = extent, (extent - 1, 0)
    return b.reduce_window(x, kind, window, (1,) * len(x.shape), padding)
