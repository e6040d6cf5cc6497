"""Modules as StableHLO text, as XLA and other MLIR compilers read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir import Module, Operation, Value
from ..numerics import HELD_AS, identity_element
from ..types import DType, TensorType
from .legalize import legalize
from .literals import dense_literal

_CHLO = frozenset(
    ("erf", "erfc", "erf_inv", "lgamma", "digamma", "is_inf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
)
_COMPARE_TYPES = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED", "f": "FLOAT", "c": "FLOAT"}
_INDENT = "    "


def print_stablehlo(module: Module) -> str:
    """``module`` as one public function ``main``; scalar parameters are 0-d tensors.

    Composites are printed as their decomposition; NotImplementedError for one that has none and no operation of StableHLO's either (most
    of linear algebra, special functions). The ``fail`` messages of gathers and scatters, which StableHLO lacks, are not printed:
    out-of-range indices then clamp or are dropped.
    """
    legal = legalize(module)
    writer = _Writer()
    parameters = ", ".join(f"{writer.define(value)}: {value.type}" for value in legal.parameters)
    for operation in legal.operations:
        writer.write(operation)
    types = ", ".join(str(result.type) for result in legal.results)
    returned = f"return {', '.join(map(writer.name, legal.results))} : {types}" if legal.results else "return"
    symbol = module.name if re.fullmatch(r"[A-Za-z_][\w$.]*", module.name, re.ASCII) else f'"{module.name}"'
    header = f"module @{symbol} {{\n  func.func public @main({parameters}) -> ({types}) {{"
    return "\n".join([header, *writer.lines, f"{_INDENT}{returned}", "  }", "}"]) + "\n"


class _Writer:
    """The lines of the function's body and the names of its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Value, str] = {}
        self._count = 0

    def name(self, value: Value) -> str:
        return self._names[value]

    def define(self, value: Value) -> str:
        name = f"%arg{value.index}" if value.producer is None else self.fresh()
        self._names[value] = name
        return name

    def fresh(self) -> str:
        self._count += 1
        return f"%{self._count - 1}"

    def line(self, text: str) -> None:
        self.lines.append(_INDENT + text)

    def bind(self, value: Value, name: str) -> None:
        self._names[value] = name

    def group(self, count: int, text: str) -> str:
        """The name of ``count`` results, of which number i is name#i."""
        name = self.fresh()
        self.line(f"{name}:{count} = {text}")
        return name

    def index_along(self, x: Value, dim: int) -> str:
        """The name of a new i64 tensor of ``x``'s shape that holds the index along ``dim``."""
        name = self.fresh()
        self.line(f"{name} = stablehlo.iota dim = {dim} : {TensorType(x.shape, DType.I64)}")
        return name

    def constant(self, value: bool | int | float, dtype: DType) -> str:
        """The name of a new 0-d constant."""
        name = self.fresh()
        literal = dense_literal(np.asarray(value).astype(HELD_AS[dtype]), dtype)
        self.line(f"{name} = stablehlo.constant {literal} : {TensorType((), dtype)}")
        return name

    def write(self, operation: Operation) -> None:
        key = str(operation.attributes["name"]) if operation.name == "composite" else operation.name
        if operation.name == "composite" and key not in _FORMS:
            raise NotImplementedError(f"print_stablehlo: StableHLO has nothing for the composite {key!r}, which only a library computes")
        text = _FORMS.get(key, _elementwise)(self, operation)
        if text is not None:
            self.line(f"{self.define(operation.result)} = {text}")

    def operands(self, operation: Operation) -> str:
        return ", ".join(map(self.name, operation.operands))


# A form returns the text right of ``=``, after lines that it may write first; or None when it has defined the results itself.
Form = Callable[[_Writer, Operation], str | None]


def _types(operation: Operation, *extra: TensorType) -> str:
    """``(operand types) -> result type``; ``extra`` are types of further operands."""
    operands = ", ".join(str(type_) for type_ in (*(operand.type for operand in operation.operands), *extra))
    results = ", ".join(str(result.type) for result in operation.results)
    return f"({operands}) -> {results if len(operation.results) == 1 else f'({results})'}"


def _elementwise(writer: _Writer, operation: Operation) -> str:
    same = all(operand.type == operation.result.type for operand in operation.operands)
    if operation.name in _CHLO:
        return f"chlo.{operation.name} {writer.operands(operation)} : {operation.operands[0].type} -> {operation.result.type}"
    return f"stablehlo.{operation.name} {writer.operands(operation)} : {operation.result.type if same else _types(operation)}"


def _constant(writer: _Writer, operation: Operation) -> str:
    literal = dense_literal(operation.attributes["value"], operation.result.dtype)
    if operation.result.type.size == 0:
        literal = "dense<>"
    return f"stablehlo.constant {literal} : {operation.result.type}"


def _compare(writer: _Writer, operation: Operation) -> str:
    kind = _COMPARE_TYPES[operation.operands[0].dtype.kind]
    return f"stablehlo.compare {operation.attributes['direction']}, {writer.operands(operation)}, {kind} : {_types(operation)}"


def _complex(writer: _Writer, operation: Operation) -> str:
    return f"stablehlo.complex {writer.operands(operation)} : {operation.result.type}"


def _select(writer: _Writer, operation: Operation) -> str:
    pred, on_true, _ = operation.operands
    return f"stablehlo.select {writer.operands(operation)} : {pred.type}, {on_true.type}"


def _slice(writer: _Writer, operation: Operation) -> str:
    attributes = operation.attributes
    ranges = (f"{a}:{b}:{s}" for a, b, s in zip(attributes["start"], attributes["limit"], attributes["strides"], strict=True))
    return f"stablehlo.slice {writer.operands(operation)} [{', '.join(ranges)}] : {_types(operation)}"


def _with_attributes(*attributes: tuple[str, str]) -> Form:
    """``name operands, label = value, ... : types`` for pairs of label and attribute."""

    def form(writer: _Writer, operation: Operation) -> str:
        values = [f"{label} = {_list(operation.attributes[attribute])}" for label, attribute in attributes]
        return f"stablehlo.{operation.name} {', '.join([writer.operands(operation), *values])} : {_types(operation)}"

    return form


def _reverse(writer: _Writer, operation: Operation) -> str:
    return f"stablehlo.reverse {writer.operands(operation)}, dims = {_list(operation.attributes['dims'])} : {operation.result.type}"


def _iota(writer: _Writer, operation: Operation) -> str:
    return f"stablehlo.iota dim = {operation.attributes['dim']} : {operation.result.type}"


def _functional(writer: _Writer, operation: Operation) -> str:
    return f"stablehlo.{operation.name} {writer.operands(operation)} : {_types(operation)}"


def _dot_general(writer: _Writer, operation: Operation) -> str:
    a = operation.attributes
    batching = f"batching_dims = {_list(a['lhs_batch'])} x {_list(a['rhs_batch'])}, " if a["lhs_batch"] else ""
    contracting = f"contracting_dims = {_list(a['lhs_contract'])} x {_list(a['rhs_contract'])}"
    return f"stablehlo.dot_general {writer.operands(operation)}, {batching}{contracting} : {_types(operation)}"


def _convolution(writer: _Writer, operation: Operation) -> str:
    a = operation.attributes
    spatial = [str(axis) for axis in range(len(a["strides"]))]
    image, kernel = ", ".join(["b", "f", *spatial]), ", ".join(["o", "i", *spatial])
    window = ", ".join(
        f"{label} = {_list(a[attribute])}"
        for label, attribute in (("stride", "strides"), ("pad", "padding"), ("lhs_dilate", "lhs_dilation"), ("rhs_dilate", "rhs_dilation"))
    )
    counts = f"{{batch_group_count = 1 : i64, feature_group_count = {a['groups']} : i64}}"
    return (
        f"stablehlo.convolution({writer.operands(operation)}) dim_numbers = [{image}]x[{kernel}]->[{image}], "
        f"window = {{{window}}} {counts} : {_types(operation)}"
    )


def _reduce(writer: _Writer, operation: Operation) -> str:
    kind, dtype = operation.attributes["kind"], operation.result.dtype
    initial = writer.constant(identity_element(kind, dtype), dtype)
    dims = _list(operation.attributes["dims"])
    types = _types(operation, TensorType((), dtype))
    return f"stablehlo.reduce({writer.operands(operation)} init: {initial}) applies stablehlo.{kind} across dimensions = {dims} : {types}"


def _reduce_window(writer: _Writer, operation: Operation) -> str:
    a, dtype = operation.attributes, operation.result.dtype
    initial = writer.constant(identity_element(a["kind"], dtype), dtype)
    rank = len(operation.result.shape)
    properties = ", ".join(
        [
            f"base_dilations = {_array((1,) * rank)}",
            f"padding = dense<{_list(a['padding']) if rank else ''}> : tensor<{rank}x2xi64>",
            f"window_dilations = {_array(a['dilation'])}",
            f"window_dimensions = {_array(a['window'])}",
            f"window_strides = {_array(a['strides'])}",
        ]
    )
    region = _combine_region(a["kind"], dtype)
    scalar = TensorType((), dtype)
    return f'"stablehlo.reduce_window"({writer.operands(operation)}, {initial}) <{{{properties}}}> {region} : {_types(operation, scalar)}'


def _argreduce(writer: _Writer, operation: Operation) -> None:
    """A reduction of pairs (value, index). The initial pair loses to every element, even to an equal one."""
    (x,), dim, kind = operation.operands, operation.attributes["dim"], operation.attributes["kind"]
    index = writer.index_along(x, dim)
    worst = writer.constant(identity_element(kind, x.dtype), x.dtype)
    beyond = writer.constant(np.iinfo(np.int64).max, DType.I64)
    value, position = TensorType((), x.dtype), TensorType((), DType.I64)
    region = [
        f"^bb0(%lhs: {value}, %lhs_index: {position}, %rhs: {value}, %rhs_index: {position}):",
        *_precedes(x.dtype, "GT" if kind == "maximum" else "LT", nan_first=True),
        f"%equal = stablehlo.compare EQ, %lhs, %rhs, {_COMPARE_TYPES[x.dtype.kind]} : ({value}, {value}) -> tensor<i1>",
        f"%same = stablehlo.or %equal, {'%both_nan' if x.dtype.is_float else '%equal'} : tensor<i1>",
        f"%earlier = stablehlo.compare LT, %lhs_index, %rhs_index, SIGNED : ({position}, {position}) -> tensor<i1>",
        "%tie = stablehlo.and %same, %earlier : tensor<i1>",
        "%keep = stablehlo.or %precedes, %tie : tensor<i1>",
        f"%best = stablehlo.select %keep, %lhs, %rhs : tensor<i1>, {value}",
        f"%best_index = stablehlo.select %keep, %lhs_index, %rhs_index : tensor<i1>, {position}",
        f"stablehlo.return %best, %best_index : {value}, {position}",
    ]
    values = TensorType(operation.result.shape, x.dtype)
    types = f"({x.type}, {TensorType(x.shape, DType.I64)}, {value}, {position}) -> ({values}, {operation.result.type})"
    operands = f"{writer.name(x)}, {index}, {worst}, {beyond}"
    group = writer.group(2, f'"stablehlo.reduce"({operands}) <{{dimensions = {_array((dim,))}}}> {_region(region)} : {types}')
    writer.bind(operation.result, f"{group}#1")


def _sort(writer: _Writer, operation: Operation) -> None:
    """A stable sort of pairs (value, index) by value."""
    (x,), dim, descending = operation.operands, operation.attributes["dim"], operation.attributes["descending"]
    index = writer.index_along(x, dim)
    value, position = TensorType((), x.dtype), TensorType((), DType.I64)
    region = [
        f"^bb0(%lhs: {value}, %rhs: {value}, %lhs_index: {position}, %rhs_index: {position}):",
        *_precedes(x.dtype, "GT" if descending else "LT", nan_first=descending),
        "stablehlo.return %precedes : tensor<i1>",
    ]
    types = f"{x.type}, {TensorType(x.shape, DType.I64)}"
    properties = f"dimension = {dim} : i64, is_stable = true"
    text = f'"stablehlo.sort"({writer.name(x)}, {index}) <{{{properties}}}> {_region(region)} : ({types}) -> ({types})'
    group = writer.group(2, text)
    for place, result in enumerate(operation.results):
        writer.bind(result, f"{group}#{place}")


def _precedes(dtype: DType, direction: str, nan_first: bool) -> list[str]:
    """Lines that define %precedes: %lhs comes strictly before %rhs. Those of floats also define %both_nan."""
    scalar = TensorType((), dtype)
    pair = f"{_COMPARE_TYPES[dtype.kind]} : ({scalar}, {scalar}) -> tensor<i1>"
    if not dtype.is_float:
        return [f"%precedes = stablehlo.compare {direction}, %lhs, %rhs, {pair}"]
    first, other = ("lhs", "rhs") if nan_first else ("rhs", "lhs")
    return [
        f"%ordered = stablehlo.compare {direction}, %lhs, %rhs, {pair}",
        f"%lhs_nan = stablehlo.compare NE, %lhs, %lhs, {pair}",
        f"%rhs_nan = stablehlo.compare NE, %rhs, %rhs, {pair}",
        f"%other_value = stablehlo.not %{other}_nan : tensor<i1>",
        f"%by_nan = stablehlo.and %{first}_nan, %other_value : tensor<i1>",
        "%precedes = stablehlo.or %ordered, %by_nan : tensor<i1>",
        "%both_nan = stablehlo.and %lhs_nan, %rhs_nan : tensor<i1>",
    ]


def _fft(writer: _Writer, operation: Operation) -> str:
    kind, length = operation.attributes["kind"], operation.attributes["length"]
    properties = f"fft_length = {_array(length)}, fft_type = #stablehlo<fft_type {kind}>"
    return f'"stablehlo.fft"({writer.operands(operation)}) <{{{properties}}}> : {_types(operation)}'


def _triangular_solve(writer: _Writer, operation: Operation) -> str:
    a = operation.attributes
    flags = {"left_side": a["left"], "lower": not a["upper"], "unit_diagonal": a["unit_diagonal"]}
    properties = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())
    properties += ", transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    return f'"stablehlo.triangular_solve"({writer.operands(operation)}) <{{{properties}}}> : {_types(operation)}'


def _gather(writer: _Writer, operation: Operation) -> str:
    a = operation.attributes
    numbers = ", ".join(f"{name} = {_list(a[name])}" for name in ("offset_dims", "collapsed_slice_dims", "start_index_map"))
    numbers += f", index_vector_dim = {a['index_vector_dim']}"
    return (
        f'"stablehlo.gather"({writer.operands(operation)}) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
        f"indices_are_sorted = false, slice_sizes = {_array(a['slice_sizes'])}}}> : {_types(operation)}"
    )


def _scatter(writer: _Writer, operation: Operation) -> str:
    a = operation.attributes
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    numbers = ", ".join(f"{name} = {_list(a[name])}" for name in names)
    return (
        f'"stablehlo.scatter"({writer.operands(operation)}) <{{indices_are_sorted = false, scatter_dimension_numbers = '
        f"#stablehlo.scatter<{numbers}, index_vector_dim = {a['index_vector_dim']}>, unique_indices = false}}> "
        f"{_combine_region(a['kind'], operation.result.dtype)} : {_types(operation)}"
    )


def _combine_region(kind: str, dtype: DType) -> str:
    """A region of two scalars that returns their combination; of ``set`` the second."""
    scalar = TensorType((), dtype)
    arguments = f"^bb0(%lhs: {scalar}, %rhs: {scalar}):"
    if kind == "set":
        return _region([arguments, f"stablehlo.return %rhs : {scalar}"])
    return _region([arguments, f"%both = stablehlo.{kind} %lhs, %rhs : {scalar}", f"stablehlo.return %both : {scalar}"])


def _region(lines: Sequence[str]) -> str:
    """A region of one block, whose first line is its label."""
    label, *body = lines
    return "\n".join(["({", _INDENT + label, *(f"{_INDENT}  {line}" for line in body), _INDENT + "})"])


def _list(value: int | Sequence[Any]) -> str:
    """An integer, or a possibly nested list of them."""
    return str(value) if isinstance(value, int) else f"[{', '.join(map(_list, value))}]"


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


_FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "constant": _constant,
        "iota": _iota,
        "compare": _compare,
        "complex": _complex,
        "select": _select,
        "convert": _functional,
        "bitcast_convert": _functional,
        "reshape": _functional,
        "dynamic_update_slice": _functional,
        "slice": _slice,
        "reverse": _reverse,
        "broadcast_in_dim": _with_attributes(("dims", "dims")),
        "transpose": _with_attributes(("dims", "permutation")),
        "pad": _with_attributes(("low", "low"), ("high", "high"), ("interior", "interior")),
        "concatenate": _with_attributes(("dim", "dim")),
        "dynamic_slice": _with_attributes(("sizes", "sizes")),
        "reduce": _reduce,
        "reduce_window": _reduce_window,
        "argreduce": _argreduce,
        "dot_general": _dot_general,
        "convolution": _convolution,
        "gather": _gather,
        "scatter": _scatter,
        "sort": _sort,
        "fft": _fft,
        "triangular_solve": _triangular_solve,
    }
)
