"""Rewrites of operations that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..hlo.builder import Builder
from ..hlo.ir import Operation, Value
from .patterns import Rule, literal, made_by


def keep_shape(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """reshape, broadcast or slice to the shape that the operand has → operand."""
    (x,) = operands
    moves = operation.name == "broadcast_in_dim" and operation.attributes["dims"] != tuple(range(len(x.shape)))
    return (x,) if x.shape == operation.result.shape and not moves else None


def merge_reshapes(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """reshape(reshape(x)) → reshape(x)."""
    inner = made_by(operands[0], "reshape")
    return (b.reshape(inner.operands[0], operation.result.shape),) if inner else None


def drop_identity_transpose(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    permutation = operation.attributes["permutation"]
    return operands if permutation == tuple(range(len(permutation))) else None


def merge_transposes(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """transpose(transpose(x, p), q) → transpose(x, p[q])."""
    inner = made_by(operands[0], "transpose")
    if inner is None:
        return None
    return (b.transpose(inner.operands[0], [inner.attributes["permutation"][axis] for axis in operation.attributes["permutation"]]),)


def merge_broadcasts(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """broadcast(broadcast(x, d), e) → broadcast(x, e[d])."""
    inner = made_by(operands[0], "broadcast_in_dim")
    if inner is None:
        return None
    dims = operation.attributes["dims"]
    return (b.broadcast_in_dim(inner.operands[0], operation.result.shape, [dims[dim] for dim in inner.attributes["dims"]]),)


def merge_unit_dimensions_into_broadcast(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """broadcast(reshape(x)) → broadcast(x) where the reshape only inserts dimensions of extent 1."""
    inner = made_by(operands[0], "reshape")
    if inner is None:
        return None
    (x,), dims = inner.operands, operation.attributes["dims"]
    places = _places_between_ones(x.shape, inner.result.shape)
    return None if places is None else (b.broadcast_in_dim(x, operation.result.shape, [dims[place] for place in places]),)


def _places_between_ones(shape: tuple[int, ...], longer: tuple[int, ...]) -> list[int] | None:
    """Where the extents of ``shape`` lie in ``longer``, in order; None unless all others are 1."""
    places: list[int] = []
    for place, extent in enumerate(longer):
        if len(places) < len(shape) and shape[len(places)] == extent:
            places.append(place)
        elif extent != 1:
            return None
    return places if len(places) == len(shape) else None


def drop_trivial_reverse(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """Along dimensions of extent 0 or 1 nothing is reversed."""
    return operands if all(operands[0].shape[dim] <= 1 for dim in operation.attributes["dims"]) else None


def cancel_reverses(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """reverse(reverse(x, d), e) → reverse(x, the dimensions in one of d and e)."""
    inner = made_by(operands[0], "reverse")
    if inner is None:
        return None
    return (b.reverse(inner.operands[0], sorted(set(inner.attributes["dims"]) ^ set(operation.attributes["dims"]))),)


def merge_slices(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """slice(slice(x)) → slice(x)."""
    inner = made_by(operands[0], "slice")
    if inner is None:
        return None
    outer, (x,) = operation.attributes, inner.operands
    starts, limits, strides = [], [], []
    for axis, count in enumerate(operation.result.shape):
        step = inner.attributes["strides"][axis]
        start = inner.attributes["start"][axis] + outer["start"][axis] * step
        stride = step * outer["strides"][axis]
        # An empty range may start at the end of the inner one, which can lie beyond x.
        start = min(start, x.shape[axis])
        starts.append(start)
        limits.append(start + (count - 1) * stride + 1 if count else start)
        strides.append(stride)
    return (b.slice(x, starts, limits, strides),)


def drop_empty_pad(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    keeps = not any((*operation.attributes["low"], *operation.attributes["high"])) and operation.result.shape == operands[0].shape
    return operands[:1] if keeps else None


def drop_empty_parts(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """concatenate of one part → that part; of several → of those that have elements."""
    if len(operands) == 1:
        return operands
    dim = operation.attributes["dim"]
    parts = [part for part in operands if part.shape[dim]] or list(operands[:1])
    return None if len(parts) == len(operands) else (b.concatenate(parts, dim),)


def make_slice_static(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """dynamic_slice at constant starts → slice."""
    x, *starts = operands
    known = [literal(start) for start in starts]
    sizes = operation.attributes["sizes"]
    first = []
    for start, extent, size in zip(known, x.shape, sizes, strict=True):
        if start is None:
            return None
        first.append(min(max(int(start), 0), extent - size))
    return (b.slice(x, first, [start + size for start, size in zip(first, sizes, strict=True)]),)


def take_whole_update(b: Builder, operation: Operation, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    """dynamic_update_slice by an update of the whole shape → update."""
    x, update, *_ = operands
    return (update,) if update.shape == x.shape else None


RULES: Mapping[str, tuple[Rule, ...]] = {
    "reshape": (keep_shape, merge_reshapes),
    "transpose": (drop_identity_transpose, merge_transposes),
    "broadcast_in_dim": (keep_shape, merge_broadcasts, merge_unit_dimensions_into_broadcast),
    "reverse": (drop_trivial_reverse, cancel_reverses),
    "slice": (keep_shape, merge_slices),
    "pad": (drop_empty_pad,),
    "concatenate": (drop_empty_parts,),
    "dynamic_slice": (make_slice_static,),
    "dynamic_update_slice": (take_whole_update,),
}
