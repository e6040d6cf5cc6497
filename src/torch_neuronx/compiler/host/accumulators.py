"""Running results of reductions: identity, combination and final value.

Sums of floating-point numbers are blocked: a block is summed in registers in the type of the elements (f32 for bf16 and f16), with as
many partial sums as the vectoriser likes, and blocks are added up in f64. The error is that of summing one block, for any length.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..hlo.types import DType
from . import scalar_code
from .kernel import Reduction
from .llvm_text import SHORT, KernelText
from .nests import identity_of

# Elements of one block along a row. Vectorised, each of 64 partial sums adds up 32 of them.
ROW_BLOCK = 2048
# Rows of one block, for sums down columns.
COLUMN_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A reduction's type of partial results (``block``) and of the running result over blocks (``total``; equal if it is not blocked)."""

    kind: str
    dtype: DType
    block: str
    total: str

    @property
    def is_blocked(self) -> bool:
        return self.block != self.total

    def identity(self, type_: str) -> str:
        value = identity_of(self.kind, self.dtype)
        return scalar_code.literal(value, DType.F64 if type_ == "double" else self.dtype)

    def combine(self, text: KernelText, accumulated: str, element: str) -> str:
        """One more element (or partial result) of the ``block`` type."""
        emitter = text.emitter
        match self.kind, self.block:
            case "add" | "or", "i1":
                return text.define(f"or i1 {accumulated}, {element}")
            case "multiply" | "and", "i1":
                return text.define(f"and i1 {accumulated}, {element}")
            case (("add" | "multiply"), ("float" | "double")):
                # Only the order of accumulation is free, not what is accumulated.
                return text.define(f"f{_MNEMONIC[self.kind]} reassoc {self.block} {accumulated}, {element}")
            case (("maximum" | "minimum"), _):
                return scalar_code.extremum(emitter, self.kind, self.dtype, accumulated, element)
            case _:
                return text.define(f"{_MNEMONIC[self.kind]} {self.block} {accumulated}, {element}")

    def combine_exactly(self, text: KernelText, accumulated: str, element: str) -> str:
        """As ``combine``, in the given order and rounded to the dtype each time."""
        if self.kind in ("add", "multiply") and self.block in ("float", "double"):
            combined = text.define(f"f{_MNEMONIC[self.kind]} {self.block} {accumulated}, {element}")
            return scalar_code.round_register(text.emitter, self.dtype, combined)
        return self.combine(text, accumulated, element)

    def add_block(self, text: KernelText, total: str, block: str) -> str:
        return text.define(f"fadd double {total}, {text.define(f'fpext float {block} to double')}")

    def add_block_array(self, text: KernelText, totals: str, blocks: str, count: int) -> None:
        """As ``add_block`` for whole arrays in memory."""
        total = text.define(f"load <{count} x double>, ptr {totals}")
        block = text.define(f"load <{count} x float>, ptr {blocks}")
        wide = text.define(f"fpext <{count} x float> {block} to <{count} x double>")
        text.do(f"store <{count} x double> {text.define(f'fadd <{count} x double> {total}, {wide}')}, ptr {totals}")

    def finish(self, text: KernelText, total: str) -> str:
        """The register of the result."""
        narrow = text.define(f"fptrunc double {total} to float") if self.is_blocked else total
        return scalar_code.round_register(text.emitter, self.dtype, narrow)


_MNEMONIC = {"add": "add", "multiply": "mul", "and": "and", "or": "or"}


def accumulator_of(reduction: Reduction, length: int) -> Accumulator:
    """The accumulator for ``length`` elements: so few that they fit into one block of either kind are summed as they are."""
    dtype = reduction.expression.dtype
    type_ = scalar_code.register_type(dtype)
    blocked = reduction.kind == "add" and type_ == "float" and length > SHORT
    return Accumulator(reduction.kind, dtype, type_, "double" if blocked else type_)
