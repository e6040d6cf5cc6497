"""Fake quantization against the CPU in float32, as its scales have no other dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interpreted import in_schema_order, interpreted
from lowering_reference import as_list, call

import torch_neuronx
from torch_neuronx.compiler.lowering.call import map_tensors

aten = torch.ops.aten


def check(op: Any, *arguments: Any) -> list[Any]:
    """Results and written arguments as on the CPU, by the interpreter and on the device."""
    complete = in_schema_order(op, arguments, {})
    reference = map_tensors(complete, lambda tensor, _: tensor.clone())
    expected = as_list(call(op, reference))
    results, _ = interpreted(op, complete)
    on_device = map_tensors(complete, lambda tensor, _: torch.empty_like(tensor, device="neuron").copy_(tensor))
    with torch_neuronx.fallback_policy("error"):
        native = as_list(call(op, on_device))
    for mine in (results, native):
        for result, right in zip(mine, expected, strict=True):
            assert (result.dtype, result.shape) == (right.dtype, right.shape)
            torch.testing.assert_close(result.cpu(), right, rtol=1e-6, atol=1e-6, equal_nan=True)
    for written, right in zip(on_device, reference, strict=True):
        if isinstance(written, torch.Tensor):
            torch.testing.assert_close(written.cpu(), right, rtol=1e-6, atol=1e-6, equal_nan=True)
    return expected


def numbers(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return 4 * torch.randn(shape)


X = {
    "matrix": numbers(5, 6),
    "strided": numbers(6, 5).t(),
    "0-d": torch.tensor(0.7),
    "empty": numbers(0, 3),
    "ties": torch.arange(-20, 20) / 8,
    "nan": torch.tensor([float("nan"), 1.0, -100.0, 100.0]),
}


@pytest.mark.parametrize("kind", X)
def test_per_tensor(kind: str) -> None:
    x = X[kind]
    check(aten.fake_quantize_per_tensor_affine_cachemask.default, x, 0.25, 3, -8, 20)
    scale, point = torch.tensor([0.25]), torch.tensor([3], dtype=torch.int32)
    for enabled in (0, 1):
        flag = torch.tensor([enabled], dtype=torch.uint8)
        check(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default, x, scale, point, flag, -8, 20)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_per_channel(axis: int, dtype: torch.dtype) -> None:
    x = numbers(5, 6)
    scale = torch.rand(x.shape[axis]) + 0.1
    point = torch.arange(x.shape[axis]).to(dtype) + (0.25 if dtype.is_floating_point else 0)
    check(aten.fake_quantize_per_channel_affine_cachemask.default, x, scale, point, axis, -8, 20)


@pytest.mark.parametrize("point", [2.0, 2.4, -3.6, 2.5, 100.0])
def test_learnable_per_tensor_and_its_gradients(point: float) -> None:
    x, scale, zero = numbers(5, 6), torch.tensor([0.3]), torch.tensor([point])
    check(aten._fake_quantize_learnable_per_tensor_affine.default, x, scale, zero, -8, 20, 1.0)
    check(aten._fake_quantize_learnable_per_tensor_affine_backward.default, torch.randn(5, 6), x, scale, zero, -8, 20, 0.7)


@pytest.mark.parametrize("axis", [0, 1])
def test_learnable_per_channel_and_its_gradients(axis: int) -> None:
    x = numbers(5, 6)
    scale = torch.rand(x.shape[axis]) + 0.1
    zero = torch.linspace(-3.6, 4.2, x.shape[axis])
    check(aten._fake_quantize_learnable_per_channel_affine.default, x, scale, zero, axis, -8, 20, 1.0)
    check(aten._fake_quantize_learnable_per_channel_affine_backward.default, torch.randn(5, 6), x, scale, zero, axis, -8, 20, 0.7)


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("observed", ["nothing", "something"])
@pytest.mark.parametrize("shift", [0.0, 30.0, -30.0])
def test_moving_average_observer(per_row: bool, symmetric: bool, observed: str, shift: float) -> None:
    x = numbers(4, 6) + shift
    channels = 4 if per_row else 1
    infinite = torch.full((channels,), float("inf"))
    low, high = (infinite, -infinite) if observed == "nothing" else (torch.full((channels,), -1.0), torch.full((channels,), 2.0))
    for on in (torch.tensor([1]), torch.tensor([0])):
        for quantize in (torch.tensor([1]), torch.tensor([0])):
            state = [low.clone(), high.clone(), torch.full((channels,), 0.5), torch.zeros(channels, dtype=torch.int32)]
            check(
                aten._fused_moving_avg_obs_fq_helper.default, x, on, quantize, *state, 0.01, -128, 127, 0, per_row, symmetric
            )  # fmt: skip


@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-3])
def test_parameters_of_narrow_ranges(spread: float) -> None:
    x = torch.linspace(-spread, 2 * spread, 7)
    infinite = torch.tensor([float("inf")])
    state = [infinite, -infinite, torch.ones(1), torch.zeros(1, dtype=torch.int32)]
    on = torch.tensor([1])
    check(aten._fused_moving_avg_obs_fq_helper.default, x, on, on, *state, 0.01, 0, 255, -1, False, False)


def test_straight_through_gradients_and_out() -> None:
    x = numbers(20)
    mine = x.to("neuron").requires_grad_()
    with torch_neuronx.fallback_policy("error"):
        torch.fake_quantize_per_tensor_affine(mine, 0.25, 0, -8, 7).sum().backward()
        rounded, mask = torch.empty(0, device="neuron"), torch.empty(0, dtype=torch.bool, device="neuron")
        aten.fake_quantize_per_tensor_affine_cachemask.out(mine.detach(), 0.25, 0, -8, 7, out0=rounded, out1=mask)
    x.requires_grad_()
    torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -8, 7).sum().backward()
    assert torch.equal(mine.grad.cpu(), x.grad)
    assert torch.equal(mask.cpu(), x.grad.bool())


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_wrong_arguments_raise_what_they_raise_on_the_cpu(device: str) -> None:
    x = torch.randn(4, device=device)
    with pytest.raises(RuntimeError, match="`quant_min` should be less than or"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 4)
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 9, 0, 7)
    with pytest.raises(RuntimeError, match="scale and zero-point need to have the same dimensions"):
        torch.fake_quantize_per_channel_affine(x, torch.ones(4, device=device), torch.zeros(3, dtype=torch.int32, device=device), 0, 0, 7)


def test_a_quantization_aware_model_trains_natively() -> None:
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize

    def losses(device: str) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), FusedMovingAvgObsFakeQuantize(), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(
            device
        )
        data = torch.randn(32, 4, generator=torch.Generator().manual_seed(1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        found = []
        for _ in range(5):
            loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    with torch_neuronx.fallback_policy("error"):
        mine = losses("neuron")
    assert mine == pytest.approx(losses("cpu"), rel=1e-3)
