"""Programs made by hand from library steps, and a stand-in for the compiler that hands them to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_neuronx import _C
from torch_neuronx.compiler.executable import BufferRef, ExecutableImage, LibraryStep, Space, TensorRef

FLOAT32 = 11


def tensor_ref(space: Space, index: int, tensor: torch.Tensor) -> TensorRef:
    return TensorRef(BufferRef(space, index), FLOAT32, tuple(tensor.shape), tuple(tensor.stride()))


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last."""
    if tensor.numel() == 0:
        return 0
    return 4 * (1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))


def library_image(symbol: str, outputs: list[torch.Tensor], inputs: list[torch.Tensor], ints=(), floats=(), donations=None) -> bytes:
    """One library step over whole float32 buffers; the tensors say shapes and strides only."""
    refs = [tensor_ref(Space.OUTPUT, i, tensor) for i, tensor in enumerate(outputs)]
    refs += [tensor_ref(Space.INPUT, i, tensor) for i, tensor in enumerate(inputs)]
    return ExecutableImage(
        name=f"handmade {symbol}",
        signature=symbol,
        input_bytes=tuple(map(extent, inputs)),
        output_bytes=tuple(map(extent, outputs)),
        donations=tuple(donations or [-1] * len(outputs)),
        scalar_count=0,
        scratch_bytes=0,
        work=1000,
        parallel=False,
        steps=(LibraryStep(symbol, tuple(refs), tuple(ints), tuple(floats)),),
    ).encode()


def output(tensor: torch.Tensor) -> dict[str, Any]:
    return {"sizes": list(tensor.shape), "strides": list(tensor.stride()), "dtype": "float32"}


def binding(inputs, outputs, returns, scalars=(), rng_draws=0) -> dict[str, Any]:
    return {"inputs": inputs, "scalars": list(scalars), "outputs": outputs, "returns": returns, "rng_draws": rng_draws}


def mm_program(lhs: torch.Tensor, rhs: torch.Tensor) -> _C.EagerProgram:
    """A program for ``aten::mm`` of tensors like these."""
    result = torch.empty(lhs.shape[0], rhs.shape[1])
    image = library_image("matmul", [result], [lhs, rhs])
    return _C.EagerProgram(image, binding([[0, -1], [1, -1]], [output(result)], [["output", 0]]))


class Compiler:
    """Stands in for ``compile_call``: answers by op name and records what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.answers: dict[str, Callable[..., _C.EagerProgram | None]] = {"aten::mm": mm_program}

    def __call__(self, op_name: str, arguments: list[Any]) -> _C.EagerProgram | None:
        self.calls.append((op_name, arguments))
        answer = self.answers.get(op_name)
        return answer(*arguments) if answer else None

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]
