"""Shape rules of the composites; the same form as in :mod:`shape_rules`."""

from __future__ import annotations

from .shape_rules import (
    FLOAT,
    REAL,
    REAL_FLOAT,
    check_count,
    check_dims,
    check_dtype,
    check_member,
    check_reduction,
    check_scalar,
    window_extent,
)
from .types import DType, TensorType

Ints = tuple[int, ...]

SCAN_KINDS = ("add", "multiply", "maximum", "minimum")


def attention(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, causal: bool, scale: float
) -> tuple[TensorType, TensorType]:
    _check_heads(q, k, v)
    batch, heads, length, _ = q.shape
    if mask is not None:
        full = (batch, heads, length, k.shape[2])
        broadcasts = mask.rank == 4 and all(extent in (1, whole) for extent, whole in zip(mask.shape, full, strict=True))
        if mask.dtype not in (DType.I1, DType.F32, q.dtype) or not broadcasts:
            raise ValueError(f"the mask is {mask}; it must be i1, f32 or {q.dtype} and of a shape that broadcasts to {full}")
    return TensorType((batch, heads, length, v.shape[3]), q.dtype), TensorType((batch, heads, length), statistics_dtype(q.dtype))


def attention_backward(
    dout: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    out: TensorType,
    logsumexp: TensorType,
    mask: TensorType | None = None,
    *,
    causal: bool,
    scale: float,
) -> tuple[TensorType, TensorType, TensorType]:
    expected = attention(q, k, v, *([] if mask is None else [mask]), causal=causal, scale=scale)
    if (out, logsumexp) != expected or dout != out:
        raise ValueError(f"dout {dout}, out {out}, logsumexp {logsumexp} must be {expected[0]}, {expected[0]}, {expected[1]}")
    return q, k, v


def statistics_dtype(dtype: DType) -> DType:
    """The type of an attention's logsumexp: f32, and f64 for f64."""
    return DType.F64 if dtype is DType.F64 else DType.F32


def _check_heads(q: TensorType, k: TensorType, v: TensorType) -> None:
    check_dtype(q, REAL_FLOAT)
    fits = q.rank == k.rank == v.rank == 4 and q.dtype is k.dtype is v.dtype
    fits = fits and k.shape[:3] == v.shape[:3] and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
    if not fits or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"q {q}, k {k}, v {v} must be [B,H,L,D], [B,Hkv,S,D], [B,Hkv,S,Dv] of one dtype with H a multiple of Hkv")


def convolution_input_grad(
    dout: TensorType,
    weight: TensorType,
    *,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool,
    output_padding: Ints,
    input_shape: Ints,
) -> TensorType:
    check_dtype(dout, FLOAT)
    result = TensorType(input_shape, weight.dtype)
    _check_convolution(result, weight, dout, strides, padding, dilation, groups, transposed, output_padding)
    return result


def convolution_weight_grad(
    dout: TensorType,
    x: TensorType,
    *,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool,
    output_padding: Ints,
    weight_shape: Ints,
) -> TensorType:
    check_dtype(dout, FLOAT)
    result = TensorType(weight_shape, x.dtype)
    _check_convolution(x, result, dout, strides, padding, dilation, groups, transposed, output_padding)
    return result


def _check_convolution(
    x: TensorType,
    weight: TensorType,
    dout: TensorType,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool,
    output_padding: Ints,
) -> None:
    """``dout`` has the type of PyTorch's convolution(x, weight) with these attributes."""
    spatial = x.rank - 2
    if spatial < 1 or weight.rank != x.rank or dout.rank != x.rank:
        raise ValueError(f"input {x}, weight {weight} and dout {dout} must have one rank ≥ 3")
    for name, numbers in (("strides", strides), ("padding", padding), ("dilation", dilation), ("output_padding", output_padding)):
        check_count(name, numbers, spatial)
    check_member("groups", groups, range(1, max(groups, 1) + 1))
    in_channels, out_channels = (weight.shape[1] * groups, weight.shape[0])
    if transposed:
        in_channels, out_channels = (weight.shape[0], weight.shape[1] * groups)
    shape = [x.shape[0], out_channels]
    for axis in range(spatial):
        extent, reach = x.shape[2 + axis], (weight.shape[2 + axis] - 1) * dilation[axis]
        if transposed:
            shape.append((extent - 1) * strides[axis] - 2 * padding[axis] + reach + output_padding[axis] + 1)
        else:
            shape.append(window_extent(extent, weight.shape[2 + axis], strides[axis], (padding[axis], padding[axis]), dilation[axis]))
    if x.shape[1] != in_channels or list(dout.shape) != shape or not x.dtype is weight.dtype is dout.dtype:
        raise ValueError(f"input {x}, weight {weight}, groups {groups} make {TensorType(tuple(shape), x.dtype)}; dout is {dout}")


def max_pool(
    x: TensorType, *, window: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[TensorType, TensorType]:
    check_dtype(x, REAL)
    shape = pooled_shape(x, window, strides, padding, dilation, ceil_mode)
    return TensorType(shape, x.dtype), TensorType(shape, DType.I64)


def max_pool_backward(dout: TensorType, indices: TensorType, *, input_shape: Ints) -> TensorType:
    check_dtype(dout, REAL_FLOAT)
    if indices != TensorType(dout.shape, DType.I64):
        raise ValueError(f"indices are {indices}; they must be {TensorType(dout.shape, DType.I64)}")
    check_count("input_shape", input_shape, dout.rank)
    if dout.rank < 3 or input_shape[:2] != dout.shape[:2]:
        raise ValueError(f"dout {dout} and input_shape {input_shape} must be [N, C, spatial...] with equal N and C")
    return TensorType(input_shape, dout.dtype)


def avg_pool(
    x: TensorType, *, window: Ints, strides: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> TensorType:
    check_dtype(x, REAL_FLOAT)
    if divisor == 0:
        raise ValueError("divisor is 0; it must be None or another number")
    return TensorType(pooled_shape(x, window, strides, padding, (1,) * len(window), ceil_mode), x.dtype)


def avg_pool_backward(
    dout: TensorType,
    *,
    window: Ints,
    strides: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    input_shape: Ints,
) -> TensorType:
    x = TensorType(input_shape, dout.dtype)
    expected = avg_pool(
        x, window=window, strides=strides, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor=divisor
    )
    if dout != expected:
        raise ValueError(f"dout is {dout}; for the input {x} it must be {expected}")
    return x


def pooled_shape(x: TensorType, window: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    """The result shape of a pooling of [N, C, spatial...], by PyTorch's rule.

    In ``ceil_mode`` a last partial window counts if it starts inside the input or the left padding.
    """
    spatial = len(window)
    for name, numbers in (("strides", strides), ("padding", padding), ("dilation", dilation)):
        check_count(name, numbers, spatial)
    if spatial < 1 or x.rank != spatial + 2:
        raise ValueError(f"window {window} needs an operand [N, C, {spatial} spatial dimensions], got {x}")
    if any(not 0 <= pad <= size // 2 for pad, size in zip(padding, window, strict=True)):
        raise ValueError(f"padding {padding} must lie in [0, window / 2] for window {window}")
    shape = list(x.shape[:2])
    for extent, size, stride, pad, step in zip(x.shape[2:], window, strides, padding, dilation, strict=True):
        windows = window_extent(extent, size, stride, (pad, pad + (stride - 1 if ceil_mode else 0)), step)
        if ceil_mode and (windows - 1) * stride >= extent + pad:
            windows -= 1
        shape.append(windows)
    return tuple(shape)


def ctc_loss(
    log_probs: TensorType, targets: TensorType, input_lengths: TensorType, target_lengths: TensorType, *, blank: int
) -> tuple[TensorType, TensorType]:
    check_member("dtype", log_probs.dtype, (DType.F32, DType.F64))
    if log_probs.rank != 3 or targets.rank != 2 or targets.dtype is not DType.I64 or targets.shape[0] != log_probs.shape[1]:
        raise ValueError(f"log_probs {log_probs} and targets {targets} must be [T,B,C] and i64[B,S]")
    time, batch, classes = log_probs.shape
    lengths = TensorType((batch,), DType.I64)
    if input_lengths != lengths or target_lengths != lengths:
        raise ValueError(f"input_lengths {input_lengths} and target_lengths {target_lengths} must be {lengths}")
    if not 0 <= blank < classes:
        raise ValueError(f"blank is {blank}; it must lie in [0, {classes})")
    states = 2 * targets.shape[1] + 1
    return TensorType((batch,), log_probs.dtype), TensorType((batch, time, states), log_probs.dtype)


def ctc_loss_backward(
    grad: TensorType,
    log_probs: TensorType,
    targets: TensorType,
    input_lengths: TensorType,
    target_lengths: TensorType,
    loss: TensorType,
    log_alpha: TensorType,
    *,
    blank: int,
    zero_infinity: bool,
) -> TensorType:
    expected = ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=blank)
    if (loss, log_alpha) != expected or grad != loss:
        raise ValueError(f"grad {grad}, loss {loss}, log_alpha {log_alpha} must be {expected[0]}, {expected[0]}, {expected[1]}")
    return log_probs


def sort(x: TensorType, *, dim: int, descending: bool, stable: bool) -> tuple[TensorType, TensorType]:
    check_dtype(x, REAL)
    check_dims("dim", (dim,), x.rank)
    return x, TensorType(x.shape, DType.I64)


def topk(x: TensorType, *, k: int, dim: int, largest: bool) -> tuple[TensorType, TensorType]:
    check_dtype(x, REAL)
    check_dims("dim", (dim,), x.rank)
    if not 0 <= k <= x.shape[dim]:
        raise ValueError(f"k is {k}; it must lie in [0, {x.shape[dim]}] for dimension {dim} of {x}")
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    return TensorType(shape, x.dtype), TensorType(shape, DType.I64)


def scan(x: TensorType, *, kind: str, dim: int) -> TensorType:
    check_member("kind", kind, SCAN_KINDS)
    check_reduction(x, kind)
    check_dims("dim", (dim,), x.rank)
    return x


def philox(seed: TensorType, offset: TensorType, *, count: int) -> TensorType:
    check_scalar("seed", seed, DType.UI64)
    check_scalar("offset", offset, DType.UI64)
    if count < 0:
        raise ValueError(f"count is {count}; it must be ≥ 0")
    return TensorType((count,), DType.UI32)
