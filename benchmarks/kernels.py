"""Generated kernels against ATen's on the same shapes, at one and two threads: medians of interleaved repeats.

A measurement is a run of equal operator calls on device "neuron" or on the CPU, and the wait for the last. Results are written into tensors
that exist, so that memory allocation is not measured; where ATen has no kernel that does (the backward rows of norms, and dropout), both
sides allocate. Each device has a process of its own: the OpenMP threads of both in one process are more than two processors, and libgomp
then lets idle threads sleep after a few iterations, which makes every short kernel of either device wait for a wake-up. Run as
``python -m benchmarks.kernels``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

REPEATS, CALLS = 15, 10
THREADS = (1, 2)
DEVICES = ("neuron", "cpu")
# An idle OpenMP thread of libgomp spins for about 10 ms; the other device's turn comes after that.
SPIN_SECONDS = 0.02
ROWS, WIDTH, CLASSES = 1024, 1536, 4096
IMAGES = (16, 64, 28, 28)
VOCABULARY, EMBEDDED, TOKENS = 4096, 384, 2048
aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """An operator call. ``inputs`` are made on the CPU; ``call`` takes the results of ``first`` last, to write into."""

    name: str
    inputs: Callable[[], list[Tensor]]
    first: Callable[..., object]
    call: Callable[..., object]


def normal(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], list[Tensor]]:
    """Makers of normally distributed inputs."""
    return lambda: [torch.randn(shape, dtype=dtype) for shape in shapes]


def mixed(*parts: Callable[[], Tensor]) -> Callable[[], list[Tensor]]:
    """Inputs of which each has its own maker."""
    return lambda: [part() for part in parts]


def matrix() -> Tensor:
    return torch.randn(ROWS, WIDTH)


def integers(high: int, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(high, shape)


def floats(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape)


def unary(name: str, op: Callable[..., Tensor], dtype: torch.dtype = torch.float32) -> Case:
    """``op(x, out=...)``."""
    return Case(name, normal((ROWS, WIDTH), dtype=dtype), op, lambda x, out: op(x, out=out))


def allocating(name: str, inputs: Callable[[], list[Tensor]], op: Callable[..., object]) -> Case:
    """An op whose results are new tensors."""
    return Case(name, inputs, op, lambda *inputs: op(*inputs[:-1]))


def copying(name: str, shape: tuple[int, ...], view: Callable[[Tensor], Tensor]) -> Case:
    """A view made contiguous."""
    return Case(name, normal(shape), lambda x: view(x).contiguous(), lambda x, out: out.copy_(view(x)))


def assigning(name: str, shape: tuple[int, ...], view: Callable[[Tensor], Tensor]) -> Case:
    """A contiguous tensor written into a view."""

    def inputs() -> list[Tensor]:
        x = torch.randn(shape)
        return [x, torch.randn(view(x).shape)]

    return Case(name, inputs, lambda x, y: view(x).copy_(y), lambda x, y, out: out.copy_(y))


def updating(name: str, inputs: Callable[[], list[Tensor]], op: Callable[..., Tensor]) -> Case:
    """An op that writes into its first input."""
    return Case(name, inputs, op, lambda *inputs: op(*inputs[:-1]))


def row_cases(suffix: str, dtype: torch.dtype) -> tuple[Case, ...]:
    """The usual kernels of a transformer in one dtype."""
    pair = normal((ROWS, WIDTH), (ROWS, WIDTH), dtype=dtype)
    return (
        Case("add" + suffix, pair, torch.add, lambda x, y, out: torch.add(x, y, out=out)),
        unary("gelu" + suffix, aten.gelu, dtype),
        Case(
            "layer_norm" + suffix,
            normal((ROWS, EMBEDDED), (EMBEDDED,), (EMBEDDED,), dtype=dtype),
            lambda x, w, b: aten.native_layer_norm(x, [EMBEDDED], w, b, 1e-5),
            lambda x, w, b, out: aten.native_layer_norm.out(x, [EMBEDDED], w, b, 1e-5, out0=out[0], out1=out[1], out2=out[2]),
        ),
        Case(
            "softmax" + suffix,
            normal((ROWS, CLASSES), dtype=dtype),
            lambda x: aten._softmax(x, 1, False),
            lambda x, out: aten._softmax.out(x, 1, False, out=out),
        ),
    )


def layer_norm_backward(gradient: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor, b: Tensor) -> object:
    return aten.native_layer_norm_backward(gradient, x, [EMBEDDED], mean, rstd, w, b, [True, True, True])


def batch_norm_backward(gradient: Tensor, x: Tensor, w: Tensor, mean: Tensor, variance: Tensor) -> object:
    return aten.native_batch_norm_backward(gradient, x, w, None, None, mean, variance, True, 1e-5, [True, True, True])


CASES = (
    *row_cases("", torch.float32),
    *row_cases(" bf16", torch.bfloat16),
    Case("add a row", normal((ROWS, WIDTH), (WIDTH,)), torch.add, lambda x, y, out: torch.add(x, y, out=out)),
    unary("exp", torch.exp),
    Case(
        "where",
        normal((ROWS, WIDTH), (ROWS, WIDTH)),
        lambda x, y: (x > 0, torch.where(x > 0, x, y)),
        lambda x, y, out: torch.where(out[0], x, y, out=out[1]),
    ),
    updating("masked_fill_", mixed(matrix, lambda: matrix() > 0), lambda x, mask: x.masked_fill_(mask, 1.5)),
    allocating("dropout", normal((ROWS, WIDTH)), lambda x: aten.native_dropout(x, 0.1, True)),
    Case(
        "softmax down columns",
        normal((ROWS, WIDTH)),
        lambda x: aten._softmax(x, 0, False),
        lambda x, out: aten._softmax.out(x, 0, False, out=out),
    ),
    Case(
        "softmax backward",
        normal((ROWS, CLASSES), (ROWS, CLASSES)),
        lambda g, y: aten._softmax_backward_data(g, y, 1, torch.float32),
        lambda g, y, out: aten._softmax_backward_data.out(g, y, 1, torch.float32, grad_input=out),
    ),
    allocating(
        "layer_norm backward",
        normal((ROWS, EMBEDDED), (ROWS, EMBEDDED), (ROWS, 1), (ROWS, 1), (EMBEDDED,), (EMBEDDED,)),
        layer_norm_backward,
    ),
    allocating(
        "batch_norm",
        normal(IMAGES, (IMAGES[1],), (IMAGES[1],)),
        lambda x, w, b: aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
    ),
    allocating("batch_norm backward", normal(IMAGES, IMAGES, *((IMAGES[1],),) * 3), batch_norm_backward),
    Case(
        "cross entropy",
        mixed(floats(ROWS, CLASSES), integers(CLASSES, ROWS)),
        lambda x, y: torch.nn.functional.cross_entropy(x, y),
        lambda x, y, out: torch.nn.functional.cross_entropy(x, y),
    ),
    Case("sum of rows", normal((ROWS, WIDTH)), lambda x: x.sum(1), lambda x, out: torch.sum(x, 1, out=out)),
    Case("sum of columns", normal((ROWS, WIDTH)), lambda x: x.sum(0), lambda x, out: torch.sum(x, 0, out=out)),
    Case("sum of all", normal((ROWS, WIDTH)), lambda x: x.sum((0, 1)), lambda x, out: torch.sum(x, (0, 1), out=out)),
    Case("argmax of rows", normal((ROWS, WIDTH)), lambda x: x.argmax(1), lambda x, out: torch.argmax(x, 1, out=out)),
    Case("copy", normal((ROWS, WIDTH)), torch.clone, lambda x, out: out.copy_(x)),
    Case("copy of all of x", normal((ROWS, 2 * WIDTH)), torch.clone, lambda x, out: out.copy_(x)),
    copying("transposed copy", (ROWS, WIDTH), lambda x: x.t()),
    copying("heads to the front", (4, 256, 6, 64), lambda x: x.transpose(1, 2)),
    copying("NCHW to NHWC", IMAGES, lambda x: x.permute(0, 2, 3, 1)),
    copying("NHWC to NCHW", (IMAGES[0], *IMAGES[2:], IMAGES[1]), lambda x: x.permute(0, 3, 1, 2)),
    copying("y = x[:, ::2]", (ROWS, 2 * WIDTH), lambda x: x[:, ::2]),
    assigning("x[:, ::2] = y", (ROWS, 2 * WIDTH), lambda x: x[:, ::2]),
    assigning("x[:, :, 1:-1] = y", (64, 16, WIDTH + 2), lambda x: x[:, :, 1:-1]),
    Case("to bfloat16", normal((ROWS, WIDTH)), lambda x: x.bfloat16(), lambda x, out: out.copy_(x)),
    Case(
        "cat of columns",
        normal((ROWS, WIDTH // 2), (ROWS, WIDTH // 2)),
        lambda x, y: torch.cat([x, y], 1),
        lambda x, y, out: torch.cat([x, y], 1, out=out),
    ),
    Case(
        "embedding",
        mixed(floats(VOCABULARY, EMBEDDED), integers(VOCABULARY, TOKENS)),
        aten.embedding,
        lambda w, i, out: torch.index_select(w, 0, i, out=out),
    ),
    allocating(
        "embedding backward",
        mixed(floats(TOKENS, EMBEDDED), integers(VOCABULARY, TOKENS)),
        lambda g, i: aten.embedding_dense_backward(g, i, VOCABULARY, -1, False),
    ),
    updating(
        "index_add_ of rows",
        mixed(floats(VOCABULARY, EMBEDDED), integers(VOCABULARY, TOKENS), floats(TOKENS, EMBEDDED)),
        lambda x, i, y: x.index_add_(0, i, y),
    ),
    Case(
        "gather",
        mixed(matrix, integers(WIDTH, ROWS, WIDTH)),
        lambda x, i: x.gather(1, i),
        lambda x, i, out: torch.gather(x, 1, i, out=out),
    ),
    updating("scatter_add_", mixed(matrix, integers(WIDTH, ROWS, WIDTH), matrix), lambda x, i, y: x.scatter_add_(1, i, y)),
)


def serve(device: str, threads: int, requests: Connection) -> None:
    """The process of one device: answers the number of a case with microseconds per call, of several with one wait at the end."""
    import torch_neuronx  # noqa: F401 - registers the device

    torch.set_num_threads(threads)
    synchronize = torch.neuron.synchronize if device == "neuron" else lambda: None
    prepared: tuple[int, list[Tensor], object] | None = None
    while (number := requests.recv()) is not None:
        case = CASES[number]
        if prepared is None or prepared[0] != number:
            torch.manual_seed(0)
            inputs = [x.to(device) for x in case.inputs()]
            prepared = (number, inputs, case.first(*inputs))
            case.call(*inputs, prepared[2])
            synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            case.call(*prepared[1], prepared[2])
        synchronize()
        elapsed = (time.perf_counter() - start) * 1e6 / CALLS
        time.sleep(SPIN_SECONDS)
        requests.send(elapsed)


@contextmanager
def server(device: str, threads: int) -> Iterator[Callable[[int], float]]:
    """A process of ``device``, as a function from a case's number to a measurement."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(device, threads, theirs))
    process.start()
    theirs.close()

    def measure(number: int) -> float:
        ours.send(number)
        elapsed: float = ours.recv()
        return elapsed

    try:
        yield measure
        ours.send(None)
    finally:
        ours.close()
        process.join()


def medians(numbers: list[int], threads: int, repeats: int) -> list[tuple[float, ...]]:
    """Median microseconds of a call of each case, per device."""
    with server(DEVICES[0], threads) as neuron, server(DEVICES[1], threads) as cpu:
        results = []
        for number in numbers:
            neuron(number), cpu(number)  # compiles, and warms up
            times = [(neuron(number), cpu(number)) for _ in range(repeats)]
            results.append(tuple(statistics.median(column) for column in zip(*times, strict=True)))
        return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="measurements per kernel, device and thread count (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    numbers = [number for number, case in enumerate(CASES) if arguments.only in case.name]
    table = Table(title="Kernels: microseconds, and neuron / cpu")
    for column in ("", "threads", "neuron", "cpu", "ratio"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    measured = [medians(numbers, threads, arguments.repeats) for threads in THREADS]
    for number, *results in zip(numbers, *measured, strict=True):
        for threads, (neuron, cpu) in zip(THREADS, results, strict=True):
            name = CASES[number].name if threads == THREADS[0] else ""
            table.add_row(name, str(threads), f"{neuron:.0f}", f"{cpu:.0f}", f"{neuron / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
