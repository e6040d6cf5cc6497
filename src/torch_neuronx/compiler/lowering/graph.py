"""Lowering of a whole graph: the functional ATen graph that AOTAutograd makes, to one module."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..hlo.ir import Module, Signature, Value
from .context import LoweringBuilder
from .dtypes import to_dtype
from .edges import Binding, Edges, Results, scalar_kind, without_unread
from .node import lower_node
from .registry import Variant, find, name_of

# Sizes and strides of a tensor on the device; None for an input that is passed by value.
InputShape = tuple[tuple[int, ...], tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A module with its signature and binding, whose places are ``[input, -1]``.

    ``inputs``: one entry per placeholder. ``constants``: what the graph returns that is no tensor, by the position of the return; the
    binding has ``["none"]`` there. ``lazy``: PyTorch's lazy views (of the conjugate, of the negative) that the graph returns: the launch
    gives what the view is of.
    """

    module: Module
    signature: Signature
    binding: Binding
    inputs: tuple[InputShape, ...]
    constants: Mapping[int, Any]
    lazy: Mapping[int, Callable[[torch.Tensor], torch.Tensor]]


@dataclass(frozen=True, slots=True)
class MissingLowering:
    """A node that no lowering serves: its operator, why, and the line of the user's program that it comes from."""

    op: str
    reason: str
    line: str


class MissingLoweringsError(NotImplementedError):
    """Some operators of a graph cannot be lowered; ``missing`` has them all."""

    def __init__(self, name: str, missing: Sequence[MissingLowering]) -> None:
        self.missing = tuple(missing)
        shown = "\n".join(f"  {entry.op}: {entry.reason}{' at ' + entry.line if entry.line else ''}" for entry in missing)
        super().__init__(f"graph {name}: {len(missing)} operators have no lowering for device neuron:\n{shown}")


def lower_graph(graph: fx.Graph, name: str, sizes: Mapping[Any, Any] | None = None) -> LoweredGraph:
    """Lowers a graph whose nodes' ``meta["val"]`` are fake tensors, for one choice of its symbolic sizes.

    Nodes are functional, but for ``aten.copy_`` into a placeholder. ``sizes`` gives each symbol its number (both sympy's).
    MissingLoweringsError names every node that cannot be lowered; ValueError if a node is no operator or a symbol has no number.
    """
    lowering = _GraphLowering(name, _Numbers(name, sizes or {}))
    for node in graph.nodes:
        lowering.visit(node)
    if lowering.missing:
        raise MissingLoweringsError(name, lowering.missing)
    return lowering.build(graph)


class _Numbers:
    """Symbolic sizes as numbers."""

    def __init__(self, name: str, sizes: Mapping[Any, Any]) -> None:
        self._name = name
        self._sizes = sizes
        self._known: dict[Any, int] = {}

    def number(self, size: Any) -> Any:
        """``size`` itself unless it is symbolic."""
        if not isinstance(size, torch.SymInt | torch.SymBool):
            return size
        expression = size.node.expr
        if expression not in self._known:
            value = expression.xreplace(self._sizes)
            if value.free_symbols:
                raise ValueError(f"graph {self._name}: the size {expression} depends on {value.free_symbols}, which no input has")
            self._known[expression] = bool(value) if isinstance(size, torch.SymBool) else int(value)
        return self._known[expression]

    def meta(self, value: Any) -> Any:
        """A fake tensor as a meta tensor of fixed sizes, lists item by item; anything else as a number."""
        if isinstance(value, list | tuple):
            return [self.meta(item) for item in value]
        if not isinstance(value, torch.Tensor):
            return self.number(value)
        shape, strides = ([self.number(size) for size in sizes] for sizes in (value.shape, value.stride()))
        meta = torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
        meta = torch._conj(meta) if value.is_conj() else meta
        return torch._neg_view(meta) if value.is_neg() else meta


class _GraphLowering:
    def __init__(self, name: str, numbers: _Numbers) -> None:
        self.name = name
        self.numbers = numbers
        self.b = LoweringBuilder(name)
        self.edges = Edges(self.b)
        # Values (or lists of them, or numbers) and meta tensors of the nodes so far.
        self.values: dict[fx.Node, Any] = {}
        self.metas: dict[fx.Node, Any] = {}
        self.inputs: list[InputShape] = []
        self.positions: dict[fx.Node, int] = {}
        self.written: dict[fx.Node, Value] = {}
        self.missing: list[MissingLowering] = []

    def visit(self, node: fx.Node) -> None:
        match node.op:
            case "placeholder":
                self._placeholder(node)
            case "call_function" if node.target is operator.getitem:
                source, index = node.args
                assert isinstance(source, fx.Node)
                self.metas[node] = self.metas[source][index]
                if source in self.values:
                    self.values[node] = self.values[source][index]
            case "call_function" if isinstance(node.meta["val"], torch.SymInt | torch.SymBool | int):
                self.values[node] = self.metas[node] = self.numbers.number(node.meta["val"])
            case "call_function" if isinstance(node.target, torch._ops.OpOverload):
                self._operator(node, node.target)
            case "output":
                pass
            case _:
                raise ValueError(f"graph {self.name}: node {node.format_node()} is neither an input nor an ATen operator")

    def _placeholder(self, node: fx.Node) -> None:
        place = (len(self.inputs), -1)
        self.positions[node] = place[0]
        example = node.meta["val"]
        meta = self.metas[node] = self.numbers.meta(example)
        if not isinstance(meta, torch.Tensor):
            self.values[node] = meta
            self.inputs.append(None)
            return
        if example.device.type == "cpu":
            if example.dim():
                raise ValueError(f"graph {self.name}: input {place[0]} is a CPU tensor of sizes {tuple(example.shape)}")
            self.values[node] = self.b.cast(self.edges.number(scalar_kind(meta.dtype), place), to_dtype(meta.dtype))
            self.inputs.append(None)
            return
        self.values[node] = self.edges.tensor(meta, place)
        self.inputs.append((tuple(meta.shape), tuple(meta.stride())))

    def _operator(self, node: fx.Node, op: torch._ops.OpOverload) -> None:
        self.metas[node] = self.numbers.meta(node.meta["val"])
        variant = find(op)
        if variant is None:
            self._miss(node, op, "there is none")
            return
        arguments = _arguments(node, op)
        if not all(operand in self.values for operand in node.all_input_nodes):
            return  # it uses what could not be lowered, which is reported
        values = {name: _mapped(argument, self.values.__getitem__) for name, argument in arguments.items()}
        metas = {name: _mapped(argument, self.metas.__getitem__) for name, argument in arguments.items()}
        try:
            results = lower_node(self.b, variant, values, metas, self._outputs(node, variant)).results
        except NotImplementedError as reason:
            self._miss(node, op, str(reason))
            return
        returned = [results[r] if isinstance(r, int) else None for r in variant.returns]
        self.values[node] = returned[0] if len(op._schema.returns) == 1 else returned
        for result, destination in zip(results, variant.destinations, strict=True):
            if destination is not None:
                self._write(arguments[destination], result)

    def _outputs(self, node: fx.Node, variant: Variant) -> tuple[Any, ...] | None:
        """The fake results as meta tensors, where the node's overload is the functional one."""
        if variant.op is not variant.functional:
            return None
        result = self.metas[node]
        return (result,) if len(variant.op._schema.returns) == 1 else tuple(result)

    def _write(self, target: Any, value: Value) -> None:
        """AOTAutograd leaves one kind of mutation: at the end, into an input."""
        if not isinstance(target, fx.Node) or target.op != "placeholder":
            raise ValueError(f"graph {self.name}: {target} is written and is no input")
        self.values[target] = self.written[target] = value

    def _miss(self, node: fx.Node, op: torch._ops.OpOverload, reason: str) -> None:
        self.missing.append(MissingLowering(name_of(op), reason, _source_line(node)))

    def build(self, graph: fx.Graph) -> LoweredGraph:
        self.edges.random_state()
        results = Results()
        constants: dict[int, Any] = {}
        lazy: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {}
        returns = []
        returned: dict[fx.Node, list[Any]] = {}
        for target, value in self.written.items():
            place = [self.positions[target], -1]
            results.add(value, self.metas[target], place)
            returned[target] = ["arg", *place]
        outputs: Any = graph.output_node().args[0]
        for position, output in enumerate(outputs):
            if not isinstance(output, fx.Node) or not isinstance(self.values[output], Value):
                constants[position] = None if output is None else self._constant(output)
                returns.append(["none"])
                continue
            if output not in returned:
                own = output.op == "placeholder" and self.inputs[self.positions[output]] is not None
                returned[output] = ["arg", self.positions[output], -1] if own else self._add(results, output)
            if returned[output][0] == "output" and (view := _lazy_view(self.metas[output])):
                lazy[position] = view
            returns.append(returned[output])
        given = {position: value for position, value in constants.items() if value is not None}
        return self._assemble(results, returns, given, lazy)

    def _add(self, results: Results, output: fx.Node) -> list[Any]:
        """A new tensor for an output: what is behind a lazy view, as the program that gets it will look through the view."""
        value, meta = self.values[output], self.metas[output]
        if meta.is_conj():
            value = self.b.complex(self.b.real(value), self.b.negate(self.b.imag(value)))
        return results.add(self.b.negate(value) if meta.is_neg() else value, meta, None)

    def _constant(self, output: Any) -> Any:
        return self.values[output] if isinstance(output, fx.Node) else output

    def _assemble(
        self,
        results: Results,
        returns: list[list[Any]],
        constants: Mapping[int, Any],
        lazy: Mapping[int, Callable[[torch.Tensor], torch.Tensor]],
    ) -> LoweredGraph:
        module, kept = without_unread(self.b.build(results.values))
        sources = [self.edges.sources[i] for i in kept]
        tensors = [source for source in sources if isinstance(source[0], int)]
        index_of = {source[0]: index for index, source in enumerate(sources) if isinstance(source[0], int)}
        donations = {
            index: index_of[output["arg"][0]]
            for index, output in enumerate(results.outputs)
            if "arg" in output and output["arg"][0] in index_of
        }
        layouts = tuple(self.edges.layouts[i] for i in kept)
        signature = Signature(layouts, tuple(results.layouts), donations, self.name)
        scalars = [source for source in sources if not isinstance(source[0], int)]
        binding = Binding(tensors, scalars, results.outputs, returns, self.b.random_draws)
        return LoweredGraph(module, signature, binding, tuple(self.inputs), constants, lazy)


def _lazy_view(meta: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor] | None:
    if meta.is_conj() and meta.is_neg():
        return lambda tensor: torch._neg_view(torch._conj(tensor))
    if meta.is_conj():
        return torch._conj
    return torch._neg_view if meta.is_neg() else None


def _arguments(node: fx.Node, op: torch._ops.OpOverload) -> dict[str, Any]:
    """The node's arguments by name, defaults filled in."""
    named = {}
    for position, argument in enumerate(op._schema.arguments):
        if position < len(node.args):
            named[argument.name] = node.args[position]
        else:
            named[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return named


def _mapped(argument: Any, function: Callable[[fx.Node], Any]) -> Any:
    if isinstance(argument, fx.Node):
        return function(argument)
    if isinstance(argument, list | tuple):
        return [_mapped(item, function) for item in argument]
    return argument


def _source_line(node: fx.Node) -> str:
    """``model.py:12 in forward``: the innermost frame of the node's stack trace."""
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else ""
