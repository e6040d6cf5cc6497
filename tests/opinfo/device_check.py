"""Runs an operator's samples on the device, forward and backward, and compares them with CPU float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import torch_neuronx

SAMPLES = 4
MAX_ELEMENTS = 3000
RTOL, ATOL = 2e-5, 2e-5
# How much farther than the CPU's float32 a result may be from float64, where float32 itself is far.
SLACK = 4.0


def name_of(info: OpInfo) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def operators() -> dict[str, OpInfo]:
    """PyTorch's operator descriptions that have float32 samples, by name; not those whose contents are undefined."""
    defined = (info for info in op_db if not info.name.startswith(("empty", "new_empty")))
    return {name_of(info): info for info in defined if torch.float32 in info.supported_dtypes("cpu")}


def check_operator(info: OpInfo) -> None:
    """Some samples of the operator agree, without any fallback. AssertionError, or what the operator raises."""
    with torch_neuronx.fallback_policy("error"):
        for sample in samples(info):
            check_sample(info, sample)


def samples(info: OpInfo) -> Iterator[SampleInput]:
    """The first samples that are small."""
    torch.manual_seed(0)
    given = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
    small = (s for s in given if not isinstance(s.input, torch.Tensor) or s.input.numel() <= MAX_ELEMENTS)
    return itertools.islice(small, SAMPLES)


def check_sample(info: OpInfo, sample: SampleInput) -> None:
    on_device = _run(info, sample, lambda x: x.to("neuron"))
    narrow = _run(info, sample, lambda x: x.clone())
    wide = _run(info, sample, lambda x: x.double() if x.dtype == torch.float32 else x.clone())
    for what, mine, near, exact in zip(("results", "gradients"), on_device, narrow, wide, strict=True):
        assert len(mine) == len(exact), f"{len(mine)} {what}, expected {len(exact)}"
        for position, tensors in enumerate(zip(mine, near, exact, strict=True)):
            _assert_close(f"{what} {position}", *tensors)


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


def _assert_close(what: str, mine: Any, near: Any, exact: Any) -> None:
    """``mine`` has dtype and shape of the CPU's float32 result, and is as close to float64 as float32 can be expected to be."""
    if exact is None:
        assert mine is None, f"{what}: a gradient that the CPU does not have"
        return
    assert mine is not None, f"{what} is missing"
    assert (mine.dtype, mine.shape) == (near.dtype, near.shape), f"{what}: {mine.dtype} {mine.shape}, expected {near.dtype} {near.shape}"
    mine, near, exact = (x.resolve_conj().resolve_neg().to(exact.dtype) for x in (mine, near, exact))
    if not (exact.dtype.is_floating_point or exact.dtype.is_complex):
        assert torch.equal(mine, exact), f"{what}: {mine}, expected {exact}"
        return
    torch.testing.assert_close(mine.isfinite(), near.isfinite(), msg=lambda m: f"{what}, where finite: {m}")
    finite = exact.isfinite() & near.isfinite()
    allowed = ATOL + RTOL * exact.abs() + SLACK * (near - exact).abs()
    excess = torch.where(finite, (mine - exact).abs() - allowed, 0.0)
    assert not (excess > 0).any(), f"{what}: off by up to {(mine - exact).abs()[finite].max():.3g}: {mine}, expected {exact}"
    assert torch.equal(mine.isnan() & ~finite, near.isnan() & ~finite), f"{what}: nan in other places than on the CPU"
