"""Small modules with inputs, at least one for every operation and composite, in every dtype that it allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from hlo_sample import Sample, sample, special, typical
from library_samples import library

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.composites import DECOMPOSITIONS
from torch_neuronx.compiler.hlo.ir import Value
from torch_neuronx.compiler.hlo.ops import OPS, infer_types
from torch_neuronx.compiler.hlo.types import DType, TensorType


def all_samples() -> list[Sample]:
    families = (elementwise, conversions, layout, reductions, contractions, indexing, composites, library)
    return [each for family in families for each in family()]


def is_expressible(sample: Sample) -> bool:
    """Whether StableHLO has all that the sample does: linear algebra and special functions are a library's, all but one."""
    names = {operation.attributes["name"] for operation in sample.module.operations if operation.name == "composite"}
    return names <= DECOMPOSITIONS.keys() | {"sort", "fft", "triangular_solve"}


def elementwise() -> Iterator[Sample]:
    for name, spec in OPS.items():
        if spec.attributes or not spec.operands or spec.max_arity != spec.min_arity or name == "dynamic_update_slice":
            continue
        for dtype in DType:
            types = [TensorType((8,), dtype)] * spec.min_arity
            if name == "select":
                types[0] = TensorType((8,), DType.I1)
            if accepts(name, types):
                values = [
                    special(type_.dtype) if place % 2 == 0 else typical(type_.dtype, (8,), place) for place, type_ in enumerate(types)
                ]
                inputs = [(type_.dtype, value) for type_, value in zip(types, values, strict=True)]
                yield sample(f"{name} {dtype}", lambda b, *x, name=name: b.operation(name, x, {}), *inputs)
    for dtype in DType:
        for direction in ("EQ", "NE") if dtype.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE"):
            inputs = [(dtype, special(dtype)), (dtype, special(dtype)[::-1].copy())]
            yield sample(f"compare {direction} {dtype}", lambda b, x, y, how=direction: b.compare(x, y, how), *inputs)
        for value in (True, 1.5, -0.0, float("inf"), float("nan")) if dtype.is_float else (True, 0):
            yield sample(f"constant {value} {dtype}", lambda b, value=value, dtype=dtype: b.constant(value, dtype, (2, 3)))
        for shape in ((0, 3), (3,), (5, 7)):
            array = typical(dtype, shape)
            yield sample(f"constant {shape} {dtype}", lambda b, array=array, dtype=dtype: b.constant(array, dtype))
        if dtype is not DType.I1:
            yield sample(f"iota {dtype}", lambda b, dtype=dtype: b.iota((2, 5), dtype, 1))


def accepts(name: str, types: Sequence[TensorType]) -> bool:
    try:
        infer_types(name, types, {})
    except ValueError:
        return False
    return True


def conversions() -> Iterator[Sample]:
    for source in DType:
        for target in DType:
            x = typical(source, (9,)) if target.is_integer else np.concatenate([special(source), typical(source, (9,))])
            yield sample(f"convert {source} {target}", lambda b, x, target=target: b.convert(x, target), (source, x))
            if source.itemsize == target.itemsize and not ({source.kind, target.kind} & set("bc")):
                x = typical(source, (9,))
                yield sample(f"bitcast_convert {source} {target}", lambda b, x, target=target: b.bitcast_convert(x, target), (source, x))


def layout() -> Iterator[Sample]:
    for dtype in (DType.F32, DType.BF16, DType.I1, DType.I64, DType.C64, DType.F8E5M2):
        x, one = (dtype, typical(dtype, (2, 3, 4))), (dtype, typical(dtype, ()))
        starts = [(DType.I64, np.array(start)) for start in (1, -3, 9)]
        yield sample(f"broadcast_in_dim {dtype}", lambda b, x: b.broadcast_in_dim(x, (3, 5, 2), (0, 2)), (dtype, typical(dtype, (3, 1))))
        yield sample(f"broadcast_in_dim 0-d {dtype}", lambda b, x: b.broadcast(x, (2, 0, 2)), one)
        yield sample(f"broadcast_in_dim swap {dtype}", lambda b, x: b.broadcast_in_dim(x, (4, 3), (1, 0)), (dtype, typical(dtype, (3, 4))))
        yield sample(f"reshape {dtype}", lambda b, x: b.reshape(x, (4, 1, 6)), x)
        yield sample(f"reshape 0-d {dtype}", lambda b, x: b.reshape(x, (1, 1)), one)
        yield sample(f"transpose {dtype}", lambda b, x: b.transpose(x, (2, 0, 1)), x)
        yield sample(f"reverse {dtype}", lambda b, x: b.reverse(x, (0, 2)), x)
        yield sample(f"slice {dtype}", lambda b, x: b.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 3)), x)
        yield sample(f"slice empty {dtype}", lambda b, x: b.slice(x, (1, 1, 0), (1, 3, 4)), x)
        yield sample(f"pad {dtype}", lambda b, x, v: b.pad(x, v, (1, 0, -1), (0, 2, -1), (2, 0, 1)), x, one)
        yield sample(f"concatenate {dtype}", lambda b, x, y: b.concatenate((x, y, x), 1), x, (dtype, typical(dtype, (2, 1, 4))))
        yield sample(f"dynamic_slice {dtype}", lambda b, x, *s: b.dynamic_slice(x, s, (1, 2, 3)), x, *starts)
        update = (dtype, typical(dtype, (1, 2, 3), 1))
        yield sample(f"dynamic_update_slice {dtype}", lambda b, x, u, *s: b.dynamic_update_slice(x, u, s), x, update, *starts)


def reductions() -> Iterator[Sample]:
    for dtype in DType:
        x = (dtype, typical(dtype, (3, 4, 5)))
        for kind in ("add", "multiply", "maximum", "minimum", "and", "or"):
            shapes = {"some": ((3, 4, 5), (0, 2)), "all": ((3, 4), (0, 1)), "none": ((3,), ()), "empty": ((0, 2), (0,)), "0-d": ((), ())}
            if not allows_kind(kind, dtype):
                continue
            for label, (shape, dims) in shapes.items():
                build = lambda b, x, kind=kind, dims=dims: b.reduce(x, kind, dims)  # noqa: E731
                yield sample(f"reduce {kind} {label} {dtype}", build, (dtype, typical(dtype, shape)))
            window = ((1, 2, 3), (1, 2, 1), [(0, 0), (1, 0), (2, 1)], (1, 1, 2))
            yield sample(f"reduce_window {kind} {dtype}", lambda b, x, kind=kind, w=window: b.reduce_window(x, kind, *w), x)
        if not dtype.is_complex:
            ties = (dtype, np.stack([special(dtype), typical(dtype, (8,)), special(dtype)[::-1]]))
            for kind in ("maximum", "minimum"):
                yield sample(f"argreduce {kind} {dtype}", lambda b, x, kind=kind: b.argreduce(x, kind, 1), ties)
                yield sample(f"argreduce {kind} first {dtype}", lambda b, x, kind=kind: b.argreduce(x, kind, 0), ties)


def allows_kind(kind: str, dtype: DType) -> bool:
    try:
        infer_types("reduce", [TensorType((2,), dtype)], {"kind": kind, "dims": (0,)})
    except ValueError:
        return False
    return True


def contractions() -> Iterator[Sample]:
    dtypes = (DType.F32, DType.F64, DType.BF16, DType.F16, DType.I32, DType.I64, DType.UI8, DType.C64)
    for dtype in dtypes:
        lhs, rhs = (dtype, typical(dtype, (2, 3, 4))), (dtype, typical(dtype, (4, 5, 2), 1))
        yield sample(f"dot_general batch {dtype}", lambda b, x, y: b.dot_general(x, y, (0,), (2,), (2,), (0,)), lhs, rhs)
        yield sample(f"dot_general outer {dtype}", lambda b, x, y: b.dot_general(x, y, (), (), (), ()), lhs, rhs)
        yield sample(f"dot_general two {dtype}", lambda b, x, y: b.dot_general(x, y, (), (), (0, 2), (2, 0)), lhs, rhs)
        empty = (dtype, typical(dtype, (3, 0)))
        yield sample(f"dot_general empty {dtype}", lambda b, x, y: b.dot_general(x, y, (), (), (1,), (1,)), empty, empty)
        image, kernel = (dtype, typical(dtype, (2, 4, 7, 6))), (dtype, typical(dtype, (6, 2, 3, 2), 1))
        spec = ((2, 1), [(1, 2), (-1, 1)], (1, 2), (2, 1), 2)
        yield sample(f"convolution {dtype}", lambda b, x, w, spec=spec: b.convolution(x, w, *spec), image, kernel)
        line = (dtype, typical(dtype, (1, 2, 5)))
        yield sample(f"convolution 1d {dtype}", lambda b, x: b.convolution(x, x, (1,), [(4, 4)], (1,), (1,), 1), line)
    for dtype in (DType.F16, DType.BF16):
        x = (dtype, typical(dtype, (3, 4)))
        yield sample(f"dot_general wide {dtype}", lambda b, x: b.dot_general(x, x, (), (), (1,), (1,), DType.F32), x)


def indexing() -> Iterator[Sample]:
    for dtype in (DType.F32, DType.BF16, DType.I64, DType.I1, DType.C64):
        x, rows = (dtype, typical(dtype, (4, 3, 5))), (DType.I64, np.array([[3, 0], [1, 9]]))
        for dim in range(3):
            yield sample(f"gather take {dim} {dtype}", lambda b, x, i, dim=dim: b.take(x, i, dim), x, rows)
        yield sample(f"gather take scalar {dtype}", lambda b, x, i: b.take(x, i, 1), x, (DType.I64, np.array(2)))
        pairs = (DType.I32, np.array([[0, 2], [3, 1], [-1, 4]], np.int32))
        yield sample(f"gather pairs {dtype}", lambda b, x, i: b.gather(x, i, (1,), (0, 2), (2, 0), 1, (1, 3, 1)), x, pairs)
        yield sample(
            f"gather window {dtype}",
            lambda b, x, i: b.gather(x, i, (0, 2), (1,), (2, 0), 0, (2, 1, 2)),
            x,
            (DType.I64, np.eye(2, 3, dtype=int)),
        )
        kinds = [
            kind for kind in ("set", "add", "multiply", "maximum", "minimum") if kind in ("set", "add", "multiply") or not dtype.is_complex
        ]
        for kind in kinds:
            where = (DType.I64, np.array([2, 0, 2, 7, -1]))
            updates = (dtype, typical(dtype, (5, 3, 5), 1))
            build = lambda b, x, i, u, kind=kind: b.scatter(x, i, u, kind, (1, 2), (0,), (0,), 1)  # noqa: E731
            yield sample(f"scatter {kind} {dtype}", build, x, where, updates)
        where = (DType.UI8, np.array([[1], [4], [2]], np.uint8))
        build = lambda b, x, i, u: b.scatter(x, i, u, "add", (0, 2, 3), (), (2,), 1)  # noqa: E731
        yield sample(f"scatter window {dtype}", build, x, where, (dtype, typical(dtype, (4, 3, 3, 2), 1)))


def composites() -> Iterator[Sample]:
    yield from attention()
    yield from pooling()
    yield from convolution_grads()
    yield from ctc()
    yield from ordering()
    for count in (0, 1, 11, 64):
        inputs = [(DType.UI64, np.array(0xFEDCBA9876543210, np.uint64)), (DType.UI64, np.array(2**32 - 2, np.uint64))]
        build = lambda b, s, o, count=count: b.composite("philox", (s, o), {"count": count}, [TensorType((count,), DType.UI32)])  # noqa: E731
        yield sample(f"philox {count}", build, *inputs)


def attention() -> Iterator[Sample]:
    def build(b: Builder, q: Value, k: Value, v: Value, *mask: Value, causal: bool) -> list[Value]:
        wide = DType.F64 if q.dtype is DType.F64 else DType.F32
        out_type = TensorType((*q.shape[:3], v.shape[3]), q.dtype)
        attributes = {"causal": causal, "scale": 0.5}
        out, logsumexp = b.composite("attention", (q, k, v, *mask), attributes, (out_type, TensorType(q.shape[:3], wide)))
        grads = b.composite("attention_backward", (out, q, k, v, out, logsumexp, *mask), attributes, (q.type, k.type, v.type))
        return [out, logsumexp, *grads]

    removed = np.array([[True] * 5, [False] * 5, [True, False] * 2 + [True]])[np.newaxis, np.newaxis]
    for dtype in (DType.F32, DType.F64, DType.BF16, DType.F16):
        masks = {"": [], "i1": [(DType.I1, removed)], "f32": [(DType.F32, typical(DType.F32, (2, 1, 1, 5)))]}
        for label, mask in masks.items():
            for causal in (False, True):
                q, k, v = ((dtype, typical(dtype, shape, 1)) for shape in ((2, 4, 3, 6), (2, 2, 5, 6), (2, 2, 5, 2)))
                yield sample(
                    f"attention {label} {causal} {dtype}", lambda b, *x, causal=causal: build(b, *x, causal=causal), q, k, v, *mask
                )


def pooling() -> Iterator[Sample]:
    from torch_neuronx.compiler.hlo.composite_rules import pooled_shape

    def maximum(b: Builder, x: Value, **attributes: object) -> list[Value]:
        shape = pooled_shape(x.type, **attributes)
        values, indices = b.composite("max_pool", (x,), attributes, (TensorType(shape, x.dtype), TensorType(shape, DType.I64)))
        if not x.dtype.is_float:
            return [values, indices]
        return [values, indices, *b.composite("max_pool_backward", (values, indices), {"input_shape": x.shape}, (x.type,))]

    def average(b: Builder, x: Value, **attributes: object) -> list[Value]:
        base = {name: attributes[name] for name in ("window", "strides", "padding", "ceil_mode")}
        shape = pooled_shape(x.type, dilation=(1,) * (len(x.shape) - 2), **base)
        (out,) = b.composite("avg_pool", (x,), attributes, (TensorType(shape, x.dtype),))
        return [out, *b.composite("avg_pool_backward", (out,), {**attributes, "input_shape": x.shape}, (x.type,))]

    plane = {"window": (3, 2), "strides": (2, 2), "padding": (1, 0)}
    for dtype in (DType.F32, DType.BF16, DType.F64, DType.I32):
        for ceil in (False, True):
            attributes = {**plane, "dilation": (1, 2), "ceil_mode": ceil}
            x = typical(dtype, (2, 3, 6, 7))
            x.reshape(-1)[:4] = x.reshape(-1)[20]
            if dtype.is_float:
                x.reshape(-1)[[8, 9, 70]] = np.nan, -np.inf, np.nan
            yield sample(f"max_pool {ceil} {dtype}", lambda b, x, a=attributes: maximum(b, x, **a), (dtype, x))
            if dtype.is_float:
                for include, divisor in ((True, None), (False, None), (True, 5)):
                    more = {**plane, "ceil_mode": ceil, "count_include_pad": include, "divisor": divisor}
                    x = typical(dtype, (2, 3, 6, 7))
                    yield sample(f"avg_pool {ceil} {include} {divisor} {dtype}", lambda b, x, a=more: average(b, x, **a), (dtype, x))
    line = {"window": (2,), "strides": (3,), "padding": (1,), "dilation": (1,), "ceil_mode": False}
    yield sample("max_pool 1d f32", lambda b, x: maximum(b, x, **line), (DType.F32, typical(DType.F32, (1, 2, 5))))


def convolution_grads() -> Iterator[Sample]:
    def build(b: Builder, x: Value, w: Value, dout: Value, **attributes: object) -> list[Value]:
        (dx,) = b.composite("convolution_input_grad", (dout, w), {**attributes, "input_shape": x.shape}, (x.type,))
        (dw,) = b.composite("convolution_weight_grad", (dout, x), {**attributes, "weight_shape": w.shape}, (w.type,))
        return [dx, dw]

    shapes = {
        False: ((2, 4, 7, 6), (6, 2, 3, 2), (2, 6, 4, 3)),
        True: ((2, 4, 3, 2), (4, 3, 3, 2), (2, 6, 6, 5)),
    }
    for dtype in (DType.F32, DType.F64, DType.BF16):
        for transposed, (x, w, dout) in shapes.items():
            attributes = {"strides": (2, 2), "padding": (1, 1), "dilation": (1, 2), "groups": 2, "transposed": transposed}
            attributes["output_padding"] = (1, 0 + 2 * transposed) if transposed else (0, 0)
            if transposed:
                dout = (2, 6, (3 - 1) * 2 - 2 + 2 + 1 + 1, (2 - 1) * 2 - 2 + 2 + 2 + 1)
            inputs = [(dtype, typical(dtype, shape, seed)) for seed, shape in enumerate((x, w, dout))]
            yield sample(f"convolution_grads {transposed} {dtype}", lambda b, *v, a=attributes: build(b, *v, **a), *inputs)


def ctc() -> Iterator[Sample]:
    def build(b: Builder, dloss: Value, *operands: Value, zero_infinity: bool) -> list[Value]:
        (time, batch, _), states = operands[0].shape, 2 * operands[1].shape[1] + 1
        types = (dloss.type, TensorType((batch, time, states), dloss.dtype))
        loss, log_alpha = b.composite("ctc_loss", operands, {"blank": 1}, types)
        attributes = {"blank": 1, "zero_infinity": zero_infinity}
        return [loss, *b.composite("ctc_loss_backward", (dloss, *operands, loss, log_alpha), attributes, (operands[0].type,))]

    # Repeated symbols, a target shorter than the longest, an empty one, and one that does not fit.
    targets = (DType.I64, np.array([[0, 2], [2, 2], [0, -1], [0, 0], [3, 3]]))
    lengths = ((DType.I64, np.array(numbers)) for numbers in ([4, 4, 3, 2, 2], [2, 2, 1, 0, 2]))
    operands = [targets, *lengths]
    for dtype in (DType.F32, DType.F64):
        scores = typical(dtype, (4, 5, 4))
        log_probs = (dtype, scores - np.log(np.exp(scores).sum(-1, keepdims=True)))
        for flag in (False, True):
            inputs = ((dtype, typical(dtype, (5,), 1)), log_probs, *operands)
            yield sample(f"ctc_loss {flag} {dtype}", lambda b, *x, flag=flag: build(b, *x, zero_infinity=flag), *inputs)


def ordering() -> Iterator[Sample]:
    for dtype in DType:
        if dtype.is_complex:
            continue
        x = np.stack([special(dtype), typical(dtype, (8,)), special(dtype)[::-1]])
        for flag in (False, True):
            both = (TensorType((3, 8), dtype), TensorType((3, 8), DType.I64))
            yield sample(
                f"sort {flag} {dtype}",
                lambda b, x, flag=flag, t=both: b.composite("sort", (x,), {"dim": 1, "descending": flag, "stable": True}, t),
                (dtype, x),
            )
            first = (TensorType((3, 4), dtype), TensorType((3, 4), DType.I64))
            yield sample(
                f"topk {flag} {dtype}",
                lambda b, x, flag=flag, t=first: b.composite("topk", (x,), {"dim": 1, "k": 4, "largest": flag}, t),
                (dtype, x),
            )
        for kind in ("add", "multiply", "maximum", "minimum"):
            if dtype.is_float or dtype.is_integer:
                yield sample(f"scan {kind} {dtype}", lambda b, x, kind=kind: b.scan(x, kind, 0), (dtype, typical(dtype, (4, 3))))
