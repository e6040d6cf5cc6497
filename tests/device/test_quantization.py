"""Quantized dtypes are refused with a reason; integers with scales beside them work natively."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed

import torch_neuronx

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        lambda x: torch.quantize_per_tensor(x, torch.tensor(0.1), torch.tensor(0), torch.qint8),
        lambda x: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 0, torch.qint8),
        lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint8, False),
        lambda x: torch.quantize_per_tensor(x.cpu(), 0.1, 0, torch.qint8).to("neuron"),
        lambda x: torch._empty_affine_quantized((3,), scale=1.0, zero_point=0, dtype=torch.qint8, device="neuron"),
        lambda x: torch._make_per_tensor_quantized_tensor(x.to(torch.int8), 0.1, 0),
    ],
)
def test_quantized_dtypes_are_refused(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(NotImplementedError, match="device neuron has no tensors of quantized dtypes"):
        make(torch.randn(3, device="neuron"))


def test_dequantizing_floats_makes_them_float32() -> None:
    x = torch.randn(3, dtype=torch.bfloat16, device="neuron")
    with torch_neuronx.fallback_policy("error"):
        assert x.dequantize().dtype == torch.float32


def test_integers_with_scales_beside_them() -> None:
    ops, x = torch.ops.quantized_decomposed, torch.randn(4, 6)
    scales, points = torch.rand(4) + 0.1, torch.zeros(4, dtype=torch.int64)

    def there_and_back(device: str) -> list[torch.Tensor]:
        values, own_scales, own_points = x.to(device), scales.to(device), points.to(device)
        by_tensor = ops.quantize_per_tensor(values, 0.05, 3, -128, 127, torch.int8)
        by_channel = ops.quantize_per_channel(values, own_scales, own_points, 0, -128, 127, torch.int8)
        return [
            by_tensor,
            ops.dequantize_per_tensor(by_tensor, 0.05, 3, -128, 127, torch.int8),
            by_channel,
            ops.dequantize_per_channel(by_channel, own_scales, own_points, 0, -128, 127, torch.int8),
        ]

    with torch_neuronx.fallback_policy("error"):
        results = there_and_back("neuron")
    for mine, expected in zip(results, there_and_back("cpu"), strict=True):
        torch.testing.assert_close(mine.cpu(), expected)
