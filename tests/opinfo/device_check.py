"""Runs an operator's samples on the device, forward and backward, and compares them with CPU float64 of the same inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import torch_neuronx

MAX_ELEMENTS = 3000


@dataclass(frozen=True, slots=True)
class Precision:
    """How many samples are tried in a dtype, and how far from float64 they may be: relatively, absolutely, and ``slack`` times as far as
    the CPU in that dtype, where the CPU itself is far. Gradients come of several operators that round between them, which matters where
    large parts cancel: they may be farther by ``between`` of the tensor's largest magnitude.
    """

    samples: int
    rtol: float
    atol: float
    slack: float
    between: float = 0.0


PRECISIONS = {
    torch.float32: Precision(samples=4, rtol=2e-5, atol=2e-5, slack=4.0),
    torch.bfloat16: Precision(samples=2, rtol=2**-7, atol=2**-10, slack=2.0, between=2**-8),
    torch.float16: Precision(samples=2, rtol=2**-10, atol=2**-13, slack=2.0, between=2**-11),
}


def name_of(info: OpInfo) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def operators() -> dict[str, OpInfo]:
    """PyTorch's operator descriptions that have float32 samples, by name; not those whose contents are undefined."""
    defined = (info for info in op_db if not info.name.startswith(("empty", "new_empty")))
    return {name_of(info): info for info in defined if torch.float32 in info.supported_dtypes("cpu")}


def check_operator(info: OpInfo, dtype: torch.dtype = torch.float32) -> None:
    """Some samples of the operator agree, without any fallback. AssertionError, or what the operator raises."""
    with torch_neuronx.fallback_policy("error"):
        for sample in samples(info, dtype):
            check_sample(info, sample, PRECISIONS[dtype])


def samples(info: OpInfo, dtype: torch.dtype = torch.float32) -> Iterator[SampleInput]:
    """The first samples that are small."""
    torch.manual_seed(0)
    given = info.sample_inputs("cpu", dtype, requires_grad=has_gradients(info, dtype))
    small = (s for s in given if not isinstance(s.input, torch.Tensor) or s.input.numel() <= MAX_ELEMENTS)
    return itertools.islice(small, PRECISIONS[dtype].samples)


def has_gradients(info: OpInfo, dtype: torch.dtype) -> bool:
    return info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")


def check_sample(info: OpInfo, sample: SampleInput, precision: Precision) -> None:
    on_device = _run(info, sample, lambda x: x.to("neuron"))
    near = _run(info, sample, lambda x: x.clone())
    exact = _run(info, sample, lambda x: x.double() if x.is_floating_point() else x.clone())
    precisions = (replace(precision, between=0.0), precision)
    for what, allowed, mine, cpu, wide in zip(("results", "gradients"), precisions, on_device, near, exact, strict=True):
        assert len(mine) == len(wide), f"{len(mine)} {what}, expected {len(wide)}"
        for position, tensors in enumerate(zip(mine, cpu, wide, strict=True)):
            _assert_close(f"{what} {position}", *tensors, allowed)


def _run(info: OpInfo, sample: SampleInput, move: Callable[[torch.Tensor], torch.Tensor]) -> tuple[list[Any], list[Any]]:
    """Results and gradients of all inputs that have one."""
    leaves: list[torch.Tensor] = []

    def moved(x: torch.Tensor) -> torch.Tensor:
        leaf = move(x.detach()).requires_grad_(x.requires_grad)
        leaves.append(leaf)
        return leaf

    arguments = _mapped((sample.input, sample.args, sample.kwargs), moved)
    results: list[torch.Tensor] = []
    _mapped(info(arguments[0], *arguments[1], **arguments[2]), results.append)
    differentiable = [x for x in results if x.requires_grad and x.numel()]
    if differentiable:
        torch.autograd.backward(differentiable, [_cotangent(x) for x in differentiable])
    return [x.detach().cpu() for x in results], [None if x.grad is None else x.grad.cpu() for x in leaves]


def _cotangent(x: torch.Tensor) -> torch.Tensor:
    """The same numbers for the same shape, on every device and in every precision."""
    numbers = torch.cos(torch.arange(x.numel(), dtype=torch.float32)).reshape(x.shape)
    return numbers.to(x.dtype).to(x.device)


def _mapped(x: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(x, torch.Tensor):
        return function(x)
    if isinstance(x, dict):
        return {key: _mapped(value, function) for key, value in x.items()}
    if isinstance(x, list | tuple) and not isinstance(x, torch.Size):
        items = [_mapped(item, function) for item in x]
        return items if isinstance(x, list) or hasattr(x, "_fields") else tuple(items)
    return x


def _assert_close(what: str, mine: Any, near: Any, exact: Any, precision: Precision) -> None:
    """``mine`` has dtype and shape of the CPU's result in the same dtype, and is as close to float64 as can be expected of it."""
    if exact is None:
        assert mine is None, f"{what}: a gradient that the CPU does not have"
        return
    assert mine is not None, f"{what} is missing"
    assert (mine.dtype, mine.shape) == (near.dtype, near.shape), f"{what}: {mine.dtype} {mine.shape}, expected {near.dtype} {near.shape}"
    mine, near, exact = (x.resolve_conj().resolve_neg().to(exact.dtype) for x in (mine, near, exact))
    if not (exact.dtype.is_floating_point or exact.dtype.is_complex):
        assert torch.equal(mine, exact), f"{what}: {mine}, expected {exact}"
        return
    # Where the CPU overflows and float64 does not, anything between them is right.
    known = near.isfinite() == exact.isfinite()
    assert torch.equal(mine.isfinite() & known, exact.isfinite() & known), f"{what}: finite in other places than on the CPU: {mine}"
    finite = exact.isfinite() & near.isfinite()
    scale = torch.where(finite, exact.abs(), 0.0).max() if exact.numel() else 0.0
    allowed = precision.atol + precision.rtol * exact.abs() + precision.slack * (near - exact).abs() + precision.between * scale
    excess = torch.where(finite, (mine - exact).abs() - allowed, 0.0)
    if (excess > 0).any():
        worst = int(excess.argmax())
        device, cpu, wide = (x.flatten()[worst].item() for x in (mine, near, exact))
        raise AssertionError(f"{what}, element {worst}: {device}, the CPU has {cpu}, float64 {wide}: {mine}")
    assert torch.equal(mine.isnan() & ~finite & known, near.isnan() & ~finite & known), f"{what}: nan in other places than on the CPU"
