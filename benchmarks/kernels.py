"""Generated kernels against ATen's on the same shapes, at one and two threads: medians of interleaved repeats.

A measurement is a run of equal operator calls on device "neuron" or on the CPU, and the wait for the last; results are written into
tensors that exist, so that memory allocation is not measured. Run as ``python -m benchmarks.kernels``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import torch_neuronx  # noqa: F401 - registers the device

REPEATS, CALLS = 15, 10
ROWS, WIDTH, CLASSES = 1024, 1536, 4096
aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """An operator call on inputs of the given shapes; ``call`` takes the results of an earlier call last, to write into."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    first: Callable[..., object]
    call: Callable[..., object]


def unary(name: str, shape: tuple[int, ...], op: Callable[..., Tensor]) -> Case:
    """``op(x, out=...)``."""
    return Case(name, (shape,), op, lambda x, out: op(x, out=out))


CASES = (
    Case("add", ((ROWS, WIDTH),) * 2, torch.add, lambda x, y, out: torch.add(x, y, out=out)),
    Case("add a row", ((ROWS, WIDTH), (WIDTH,)), torch.add, lambda x, y, out: torch.add(x, y, out=out)),
    unary("gelu", (ROWS, WIDTH), aten.gelu),
    unary("exp", (ROWS, WIDTH), torch.exp),
    Case(
        "layer_norm",
        ((ROWS, 384), (384,), (384,)),
        lambda x, w, b: aten.native_layer_norm(x, [384], w, b, 1e-5),
        lambda x, w, b, out: aten.native_layer_norm.out(x, [384], w, b, 1e-5, out0=out[0], out1=out[1], out2=out[2]),
    ),
    Case("softmax", ((ROWS, CLASSES),), lambda x: aten._softmax(x, 1, False), lambda x, out: aten._softmax.out(x, 1, False, out=out)),
    Case(
        "softmax down columns",
        ((ROWS, WIDTH),),
        lambda x: aten._softmax(x, 0, False),
        lambda x, out: aten._softmax.out(x, 0, False, out=out),
    ),
    Case("sum of rows", ((ROWS, WIDTH),), lambda x: x.sum(1), lambda x, out: torch.sum(x, 1, out=out)),
    Case("sum of columns", ((ROWS, WIDTH),), lambda x: x.sum(0), lambda x, out: torch.sum(x, 0, out=out)),
    Case("sum of all", ((ROWS, WIDTH),), lambda x: x.sum((0, 1)), lambda x, out: torch.sum(x, (0, 1), out=out)),
    Case("argmax of rows", ((ROWS, WIDTH),), lambda x: x.argmax(1), lambda x, out: torch.argmax(x, 1, out=out)),
    Case("transposed copy", ((ROWS, WIDTH),), lambda x: x.t().contiguous(), lambda x, out: out.copy_(x.t())),
    Case("heads to the front", ((4, 256, 6, 64),), lambda x: x.transpose(1, 2).contiguous(), lambda x, out: out.copy_(x.transpose(1, 2))),
    Case("to bfloat16", ((ROWS, WIDTH),), lambda x: x.bfloat16(), lambda x, out: out.copy_(x)),
)


def microseconds(case: Case, inputs: list[Tensor], output: object, synchronize: Callable[[], None]) -> float:
    """Per call, of several with one wait at the end."""
    start = time.perf_counter()
    for _ in range(CALLS):
        case.call(*inputs, output)
    synchronize()
    return (time.perf_counter() - start) * 1e6 / CALLS


def measure(case: Case, repeats: int) -> tuple[float, float]:
    """Median microseconds of a call on neuron and on the CPU."""
    torch.manual_seed(0)
    on_cpu = [torch.randn(shape) for shape in case.shapes]
    on_neuron = [x.to("neuron") for x in on_cpu]
    sides = [(on_neuron, case.first(*on_neuron), torch.neuron.synchronize), (on_cpu, case.first(*on_cpu), lambda: None)]
    for side in sides:
        microseconds(case, *side)
    times = [[microseconds(case, *side) for side in sides] for _ in range(repeats)]
    neuron, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    return neuron, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="measurements per kernel, device and thread count (default: %(default)s)"
    )
    repeats = parser.parse_args().repeats
    table = Table(title="Kernels, float32: microseconds, and neuron / cpu")
    for column in ("", "threads", "neuron", "cpu", "ratio"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for case in CASES:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            neuron, cpu = measure(case, repeats)
            table.add_row(case.name if threads == 1 else "", str(threads), f"{neuron:.0f}", f"{cpu:.0f}", f"{neuron / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
