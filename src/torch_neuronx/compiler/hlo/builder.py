"""Builds modules: one method per op, with checks and inferred result types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from .ir import Module, Operation, Value
from .numerics import HELD_AS, Array, round_to
from .ops import find_spec, infer_types
from .types import DType, TensorType

SCALAR_DTYPES = (DType.F64, DType.I64, DType.UI64)

Number = bool | int | float | complex


def _unary(name: str) -> Callable[[Builder, Value], Value]:
    def method(self: Builder, x: Value) -> Value:
        return self._one(name, (x,))

    method.__name__ = method.__qualname__ = name
    return method


def _binary(name: str) -> Callable[[Builder, Value, Value], Value]:
    def method(self: Builder, lhs: Value, rhs: Value) -> Value:
        return self._one(name, (lhs, rhs))

    method.__name__ = method.__qualname__ = name
    return method


class Builder:
    """Appends operations to a module under construction.

    Every method takes and returns values of this builder. A wrong operand or attribute is a ValueError that names the op, what was given
    and what is allowed. Dimensions are counted from 0 and are not negative.
    """

    def __init__(self, name: str, parameters: Sequence[Value] = ()) -> None:
        """``parameters`` are those of a module that is rewritten."""
        self._name = name
        self._parameters = list(parameters)
        self._operations: list[Operation] = []
        self._values = set(parameters)

    # The module

    def parameter(self, type: TensorType, is_scalar: bool = False) -> Value:
        """The next parameter. A scalar one is 0-d, of dtype f64, i64 or ui64, and passed by value at each launch."""
        if is_scalar and (type.shape or type.dtype not in SCALAR_DTYPES):
            raise ValueError(f"parameter: a scalar must be 0-d and of {', '.join(map(str, SCALAR_DTYPES))}, got {type}")
        value = Value(type, None, len(self._parameters), is_scalar)
        self._parameters.append(value)
        self._values.add(value)
        return value

    def build(self, results: Sequence[Value]) -> Module:
        """The module that returns ``results``."""
        for position, value in enumerate(results):
            self._check_owned("build", position, value)
        return Module(self._name, tuple(self._parameters), tuple(self._operations), tuple(results))

    def operation(self, name: str, operands: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[Value, ...]:
        """The results of any op of the table; the typed methods below are made of this one."""
        for position, value in enumerate(operands):
            self._check_owned(name, position, value)
        types = infer_types(name, [value.type for value in operands], attributes)
        operation = Operation(name, tuple(operands), MappingProxyType(dict(attributes)))
        operation.results = tuple(Value(type, operation, index) for index, type in enumerate(types))
        self._operations.append(operation)
        self._values.update(operation.results)
        return operation.results

    def copy(self, operation: Operation, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        """The results of an operation of another module on ``operands``. On its own ones it is that operation, not a new one."""
        if operands != operation.operands:
            return self.operation(operation.name, operands, operation.attributes)
        for position, value in enumerate(operands):
            self._check_owned(operation.name, position, value)
        self._operations.append(operation)
        self._values.update(operation.results)
        return operation.results

    def composite(
        self, name: str, operands: Sequence[Value], attributes: Mapping[str, Any], result_types: Sequence[TensorType]
    ) -> tuple[Value, ...]:
        """The results of a composite, whose types must be ``result_types``."""
        defaults = find_spec("composite", {"name": name}).defaults
        complete = {"name": name, **defaults, **{key: _frozen(value) for key, value in attributes.items()}}
        inferred = infer_types("composite", [value.type for value in operands], complete)
        if inferred != tuple(result_types):
            raise ValueError(f"{name}: the result types are {', '.join(map(str, inferred))}, not {', '.join(map(str, result_types))}")
        return self.operation("composite", operands, complete)

    def _one(self, name: str, operands: Sequence[Value], **attributes: Any) -> Value:
        (result,) = self.operation(name, operands, attributes)
        return result

    def _check_owned(self, name: str, position: int, value: Value) -> None:
        if value not in self._values:
            raise ValueError(f"{name}: operand {position} is {value!r}; it must be a value of the builder of module {self._name!r}")

    # Sources

    def constant(self, value: Number | np.ndarray[Any, Any], dtype: DType, shape: Sequence[int] = ()) -> Value:
        """A literal. A number, or a 0-d array, fills ``shape``; an array with dimensions gives the shape.

        Values are rounded to ``dtype``; an integer that does not fit is an error.
        """
        held = _held_literal(value, dtype)
        return self._one("constant", (), value=held, shape=held.shape or tuple(shape), dtype=dtype)

    def iota(self, shape: Sequence[int], dtype: DType, dim: int) -> Value:
        return self._one("iota", (), shape=tuple(shape), dtype=dtype, dim=dim)

    # Elementwise

    abs = _unary("abs")
    negate = _unary("negate")
    sign = _unary("sign")
    floor = _unary("floor")
    ceil = _unary("ceil")
    round_nearest_even = _unary("round_nearest_even")
    round_nearest_afz = _unary("round_nearest_afz")
    exponential = _unary("exponential")
    exponential_minus_one = _unary("exponential_minus_one")
    log = _unary("log")
    log_plus_one = _unary("log_plus_one")
    logistic = _unary("logistic")
    tanh = _unary("tanh")
    sine = _unary("sine")
    cosine = _unary("cosine")
    tan = _unary("tan")
    sqrt = _unary("sqrt")
    rsqrt = _unary("rsqrt")
    cbrt = _unary("cbrt")
    not_ = _unary("not")
    popcnt = _unary("popcnt")
    count_leading_zeros = _unary("count_leading_zeros")
    is_finite = _unary("is_finite")
    is_nan = _unary("is_nan")
    is_inf = _unary("is_inf")
    real = _unary("real")
    imag = _unary("imag")
    erf = _unary("erf")
    erfc = _unary("erfc")
    erf_inv = _unary("erf_inv")
    lgamma = _unary("lgamma")
    digamma = _unary("digamma")
    asin = _unary("asin")
    acos = _unary("acos")
    atan = _unary("atan")
    sinh = _unary("sinh")
    cosh = _unary("cosh")
    asinh = _unary("asinh")
    acosh = _unary("acosh")
    atanh = _unary("atanh")

    add = _binary("add")
    subtract = _binary("subtract")
    multiply = _binary("multiply")
    divide = _binary("divide")
    remainder = _binary("remainder")
    power = _binary("power")
    atan2 = _binary("atan2")
    maximum = _binary("maximum")
    minimum = _binary("minimum")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    shift_left = _binary("shift_left")
    shift_right_arithmetic = _binary("shift_right_arithmetic")
    shift_right_logical = _binary("shift_right_logical")
    complex = _binary("complex")

    def convert(self, x: Value, dtype: DType) -> Value:
        return self._one("convert", (x,), dtype=dtype)

    def bitcast_convert(self, x: Value, dtype: DType) -> Value:
        return self._one("bitcast_convert", (x,), dtype=dtype)

    def compare(self, lhs: Value, rhs: Value, direction: str) -> Value:
        return self._one("compare", (lhs, rhs), direction=direction)

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        return self._one("select", (pred, on_true, on_false))

    def clamp(self, lo: Value, x: Value, hi: Value) -> Value:
        return self._one("clamp", (lo, x, hi))

    # Layout

    def broadcast_in_dim(self, x: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        return self._one("broadcast_in_dim", (x,), shape=tuple(shape), dims=tuple(dims))

    def broadcast(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` as ``numpy.broadcast_to(x, shape)``; ``x`` itself if it has that shape."""
        if x.shape == tuple(shape):
            return x
        return self.broadcast_in_dim(x, shape, range(len(shape) - len(x.shape), len(shape)))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self._one("reshape", (x,), shape=tuple(shape))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        return self._one("transpose", (x,), permutation=tuple(permutation))

    def reverse(self, x: Value, dims: Sequence[int]) -> Value:
        return self._one("reverse", (x,), dims=tuple(dims))

    def slice(self, x: Value, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None) -> Value:
        steps = tuple(strides) if strides is not None else (1,) * len(x.shape)
        return self._one("slice", (x,), start=tuple(start), limit=tuple(limit), strides=steps)

    def pad(self, x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None) -> Value:
        between = tuple(interior) if interior is not None else (0,) * len(x.shape)
        return self._one("pad", (x, value), low=tuple(low), high=tuple(high), interior=between)

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        return self._one("concatenate", values, dim=dim)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        return self._one("dynamic_slice", (x, *starts), sizes=tuple(sizes))

    def dynamic_update_slice(self, x: Value, update: Value, starts: Sequence[Value]) -> Value:
        return self._one("dynamic_update_slice", (x, update, *starts))

    # Reductions

    def reduce(self, x: Value, kind: str, dims: Sequence[int]) -> Value:
        return self._one("reduce", (x,), kind=kind, dims=tuple(dims))

    def argreduce(self, x: Value, kind: str, dim: int) -> Value:
        return self._one("argreduce", (x,), kind=kind, dim=dim)

    def reduce_window(
        self,
        x: Value,
        kind: str,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int] | None = None,
    ) -> Value:
        attributes = {"window": window, "strides": strides, "padding": padding, "dilation": dilation or (1,) * len(x.shape)}
        return self._one("reduce_window", (x,), kind=kind, **{name: _frozen(value) for name, value in attributes.items()})

    def scan(self, x: Value, kind: str, dim: int) -> Value:
        """Inclusive cumulative op along ``dim``; a composite."""
        (result,) = self.composite("scan", (x,), {"kind": kind, "dim": dim}, (x.type,))
        return result

    # Contractions

    def dot_general(
        self,
        lhs: Value,
        rhs: Value,
        lhs_batch: Sequence[int],
        rhs_batch: Sequence[int],
        lhs_contract: Sequence[int],
        rhs_contract: Sequence[int],
        dtype: DType | None = None,
    ) -> Value:
        attributes = {"lhs_batch": lhs_batch, "rhs_batch": rhs_batch, "lhs_contract": lhs_contract, "rhs_contract": rhs_contract}
        dims = {name: tuple(value) for name, value in attributes.items()}
        return self._one("dot_general", (lhs, rhs), **dims, dtype=dtype or lhs.dtype)

    def convolution(
        self,
        input: Value,
        weight: Value,
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        lhs_dilation: Sequence[int],
        rhs_dilation: Sequence[int],
        groups: int,
    ) -> Value:
        attributes = {"strides": strides, "padding": padding, "lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation}
        frozen = {name: _frozen(value) for name, value in attributes.items()}
        return self._one("convolution", (input, weight), **frozen, groups=groups)

    # Indexing

    def gather(
        self,
        operand: Value,
        indices: Value,
        offset_dims: Sequence[int],
        collapsed_slice_dims: Sequence[int],
        start_index_map: Sequence[int],
        index_vector_dim: int,
        slice_sizes: Sequence[int],
        fail: str | None = None,
    ) -> Value:
        return self._one(
            "gather",
            (operand, indices),
            offset_dims=tuple(offset_dims),
            collapsed_slice_dims=tuple(collapsed_slice_dims),
            start_index_map=tuple(start_index_map),
            index_vector_dim=index_vector_dim,
            slice_sizes=tuple(slice_sizes),
            fail=fail,
        )

    def scatter(
        self,
        operand: Value,
        indices: Value,
        updates: Value,
        kind: str,
        update_window_dims: Sequence[int],
        inserted_window_dims: Sequence[int],
        scatter_dims_to_operand_dims: Sequence[int],
        index_vector_dim: int,
        fail: str | None = None,
    ) -> Value:
        return self._one(
            "scatter",
            (operand, indices, updates),
            kind=kind,
            update_window_dims=tuple(update_window_dims),
            inserted_window_dims=tuple(inserted_window_dims),
            scatter_dims_to_operand_dims=tuple(scatter_dims_to_operand_dims),
            index_vector_dim=index_vector_dim,
            fail=fail,
        )

    def take(self, x: Value, indices: Value, dim: int, fail: str | None = None) -> Value:
        """``numpy.take(x, indices, axis=dim)`` with indices that clamp, or with ``fail`` fail the launch."""
        index_rank = len(indices.shape)
        sizes = [1 if axis == dim else extent for axis, extent in enumerate(x.shape)]
        offsets = [axis if axis < dim else axis + index_rank - 1 for axis in range(len(x.shape)) if axis != dim]
        return self.gather(x, indices, offsets, (dim,), (dim,), index_rank, sizes, fail)


def _held_literal(value: Number | np.ndarray[Any, Any], dtype: DType) -> Array:
    """``value`` as a read-only array in the held form of ``dtype``."""
    array = np.asarray(value)
    if dtype.is_integer and not np.array_equal(array.astype(HELD_AS[dtype]), array):
        raise ValueError(f"constant: {value!r} is not a value of {dtype}")
    rounds = dtype.is_float and not np.iscomplexobj(array)
    wide = array.astype(np.float64) if rounds and array.dtype.kind != "f" else array
    held = round_to(wide, dtype) if rounds else array.astype(HELD_AS[dtype])
    held = held.copy()
    held.flags.writeable = False
    return held


def _frozen(value: Any) -> Any:
    """Lists and ranges, at any depth, as tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, Sequence) and not isinstance(value, str) else value
