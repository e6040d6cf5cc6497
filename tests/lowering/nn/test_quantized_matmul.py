"""Products of matrices of 8-bit numbers, and sums with an activation, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_reference import as_list
from torch.testing import make_tensor

import torch_neuronx

aten = torch.ops.aten
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def check(op: Any, *arguments: Any, rtol: float = 1e-5, atol: float = 1e-5, **keywords: Any) -> None:
    """As on the CPU in the same dtypes, natively, with the CPU's dtype, shape and strides."""

    def moved(x: Any) -> Any:
        if isinstance(x, list):
            return [moved(item) for item in x]
        return torch.empty_like(x, device="neuron").copy_(x) if isinstance(x, torch.Tensor) else x

    own, own_keywords = list(map(moved, arguments)), {name: moved(value) for name, value in keywords.items()}
    expected = as_list(op(*arguments, **keywords))
    with torch_neuronx.fallback_policy("error"):
        results = as_list(op(*own, **own_keywords))
    for result, right in zip(results, expected, strict=True):
        assert (result.dtype, result.stride()) == (right.dtype, right.stride())
        torch.testing.assert_close(result.cpu().to(torch.float64), right.to(torch.float64), rtol=rtol, atol=atol)


def integers(*shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return make_tensor(shape, dtype=dtype, device="cpu", low=torch.iinfo(dtype).min, high=torch.iinfo(dtype).max + 1)


@pytest.mark.parametrize("inner", [0, 5, 256, 257, 3000])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_int_mm_is_exact(inner: int, dtype: torch.dtype) -> None:
    check(torch._int_mm, integers(17, inner, dtype=dtype), integers(inner, 24), rtol=0, atol=0)
    check(
        torch._int_mm,
        torch.full((2, inner), torch.iinfo(dtype).max, dtype=dtype),
        torch.full((inner, 3), -128, dtype=torch.int8),
        rtol=0,
        atol=0,
    )


def test_int_mm_of_transposed_matrices_and_without_columns() -> None:
    check(torch._int_mm, integers(8, 6).t(), integers(5, 8).t())
    check(torch._int_mm, integers(3, 5), integers(5, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weight_int8pack_mm(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    exact = 1e-5 if dtype == torch.float32 else 1e-2
    check(aten._weight_int8pack_mm, torch.randn(4, 32).to(dtype), integers(16, 32), torch.rand(16).to(dtype), rtol=exact, atol=exact)


def scaled(first: torch.dtype = E4M3, second: torch.dtype = E4M3) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(16, 32).to(first), torch.randn(16, 32).to(second).t()


SCALE, OTHER = torch.tensor(1.5), torch.tensor(0.5)


@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)])
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16, torch.float16, None])
def test_scaled_mm(dtypes: tuple[torch.dtype, torch.dtype], out: torch.dtype | None) -> None:
    close = {torch.float32: 1e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10, None: 2**-2}[out]
    check(torch._scaled_mm, *scaled(*dtypes), SCALE, OTHER, out_dtype=out, rtol=close, atol=1e-5 if out else 0.1)


def test_scaled_mm_with_a_bias_scales_per_row_and_a_scaled_result() -> None:
    check(torch._scaled_mm, *scaled(), SCALE, OTHER, bias=torch.randn(16), out_dtype=torch.float32)
    check(torch._scaled_mm, *scaled(), torch.rand(16, 1), torch.rand(1, 16), out_dtype=torch.bfloat16, rtol=2**-8, atol=1e-3)
    for out in (E4M3, None):
        check(torch._scaled_mm, *scaled(), SCALE, OTHER, scale_result=torch.tensor(2.0), out_dtype=out, rtol=2**-2, atol=0.1)
    check(torch._scaled_mm, *scaled(), SCALE, OTHER, scale_result=torch.tensor(2.0), out_dtype=torch.float32)


def test_scaled_mm_by_recipes() -> None:
    recipes = torch.nn.functional.ScalingType
    keywords = {"output_dtype": torch.float32}
    check(torch.nn.functional.scaled_mm, *scaled(), SCALE, recipes.TensorWise, OTHER, recipes.TensorWise, **keywords)


def test_float8_results_saturate() -> None:
    large = torch.full((16, 32), 448.0).to(E4M3)
    check(torch._scaled_mm, large, large.t(), SCALE, OTHER, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("use_gelu", [False, True])
def test_addmm_activation(dtype: torch.dtype, use_gelu: bool) -> None:
    torch.manual_seed(0)
    close = 1e-5 if dtype == torch.float32 else 2**-6
    operands = [torch.randn(shape).to(dtype) for shape in ((4,), (3, 5), (5, 4))]
    check(torch._addmm_activation, *operands, beta=0.5, alpha=2.0, use_gelu=use_gelu, rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_add_relu_and_its_overloads(dtype: torch.dtype) -> None:
    x, y = (make_tensor((3, 4), dtype=dtype, device="cpu", low=-9, high=9) for _ in range(2))
    check(aten._add_relu.Tensor, x, y, alpha=2)
    check(aten._add_relu.Tensor, x, y[0])
    check(aten._add_relu_.Tensor, x.clone(), y)
    check(aten._add_relu.out, x, y, out=torch.empty_like(x))


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_wrong_operands_raise_what_they_raise_on_the_cpu(device: str) -> None:
    x, y = integers(3, 5).to(device), integers(4, 2).to(device)
    with pytest.raises(RuntimeError):
        torch._int_mm(x, y)
    with pytest.raises(RuntimeError):
        torch._int_mm(x.int(), x.t().int())
    with pytest.raises(RuntimeError):
        torch._addmm_activation(torch.randn(4, device=device), torch.randn(3, 5, device=device), torch.randn(4, 4, device=device))
