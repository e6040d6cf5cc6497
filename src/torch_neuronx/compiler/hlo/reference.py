"""The reference page of the IR, written from the op table."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from .numerics import HELD_AS
from .ops import COMPOSITES, OPS, OpSpec
from .types import DType

_PAGE = Template("""\
# The HLO IR

<!-- Written by docs/generate.py from compiler/hlo/ops.py. -->

A module is a function from tensors to tensors: a list of operations in SSA form, in an order in which every operand is defined before
it is used. `Builder` makes modules, `verify` checks them, `interpret` runs them, `print_module` shows them, `print_stablehlo` hands
them to other compilers.

```python
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.printer import print_module
from torch_neuronx.compiler.hlo.types import DType, TensorType

b = Builder("mean")
x = b.parameter(TensorType((2, 4), DType.F32))
total = b.reduce(x, "add", (1,))
module = b.build([b.divide(total, b.constant(4, DType.F32, total.shape))])
print(print_module(module))
interpret(module, [numpy.ones((2, 4), numpy.float32)])
```

## Rules that hold for all operations

* Operands are written as in the tables: `*name` is any number of operands, `name?` may be absent. Attributes are plain immutable data:
  integers, tuples, strings, `DType`, None, and for constants a read-only NumPy array.
* Elementwise operations take operands of one shape and dtype; nothing broadcasts by itself. The result has the operands' type unless
  said.
* Dimensions are counted from 0 and are never negative.
* Floating results are rounded once, to nearest even. Sums and products over dimensions accumulate in f32 or wider. The interpreter
  computes in float64 and rounds at the end, which is more precise than any target.
* Integers wrap. Booleans are 0 and 1: their sum is *or*, their product *and*.
* A gather or scatter with a `fail` text checks its indices; one that is outside makes the launch fail with that text. Passes never
  remove such a check.
* A scalar parameter is a 0-d f64, i64 or ui64 whose value is passed at each launch.
* A reduction over nothing gives the identity: 0, 1, -inf or the lowest value, inf or the highest, all bits set, 0 for add, multiply,
  maximum, minimum, and, or.

## Element types

$dtypes

bf16 and the f8 types are held in NumPy as float32 arrays of already rounded values; `to_storage` and `from_storage` of
`compiler/hlo/numerics.py` convert to and from the bits in memory. A value too large for f8E4M3FN, which has no infinity, becomes its
largest one.

## Operations

The builder's method has the operation's name; `not`, `and`, `or` are `not_`, `and_`, `or_`. Methods with a shorter way: `broadcast` (as
in NumPy, over `broadcast_in_dim`), `take` (as in NumPy, over `gather`), `scan` (the composite).

$operations

## Composites

An operation that a target may know as a whole. `compiler/hlo/composites` gives its decomposition into the operations above, which is
its meaning; `expand_composites` puts that in its place. `sort`, `grouped_matmul`, linear
algebra, `fft`, `special_function` and `random_variate` have none: they are kernels of a library on every target.

$composites
""")


def markdown() -> str:
    """The text of docs/hlo.md."""
    return _PAGE.substitute(dtypes=_dtypes(), operations=_specs(OPS), composites=_specs(COMPOSITES))


def _dtypes() -> str:
    rows = [f"| `{dtype}` | {dtype.itemsize} | {dtype.code} | {HELD_AS[dtype]} |" for dtype in DType]
    return "\n".join(["| Type | Bytes | Code in executables | Held in NumPy as |", "|---|---|---|---|", *rows])


def _specs(table: Mapping[str, OpSpec]) -> str:
    rows = []
    for spec in table.values():
        cells = (f"`{spec.name}`", " ".join(spec.operands), " ".join(spec.attributes), spec.meaning)
        rows.append(f"| {' | '.join(cell.replace('*', '&#42;').replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(["| Name | Operands | Attributes | Meaning |", "|---|---|---|---|", *rows])
