"""Products and convolutions with a bias in one library call; on narrow operands in their dtype, rounded once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from host_launch import compile_image

from torch_neuronx.compiler.executable import LibraryStep
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Module, Value
from torch_neuronx.compiler.hlo.types import DType, TensorType

NARROW = {DType.BF16: torch.bfloat16, DType.F16: torch.float16}


def linear(dtype: DType, bias_shape: tuple[int, ...], beta: float = 1.0, alpha: float = 1.0, keep_wide: bool = False) -> Module:
    """``beta * bias + alpha * lhs rhs`` in f32, rounded to ``dtype``, as the lowerings of the ``addmm`` family write it."""
    b = Builder("m")
    bias, lhs, rhs = (b.parameter(TensorType(shape, dtype)) for shape in (bias_shape, (30, 40), (40, 20)))
    product = b.dot_general(lhs, rhs, (), (), (1,), (0,), DType.F32)
    wide = b.add(scaled(b, product, alpha), b.broadcast(scaled(b, b.convert(bias, DType.F32), beta), product.shape))
    return b.build([b.convert(wide, dtype), wide] if keep_wide else [b.convert(wide, dtype)])


def scaled(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.multiply(x, b.constant(factor, x.dtype, x.shape))


def symbols(module: Module) -> list[str]:
    return [step.symbol if isinstance(step, LibraryStep) else "kernel" for step in compile_image(module).steps]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("bias_shape", [(20,), (30, 20)], ids=["vector", "matrix"])
@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.5, 2.0)])
def test_a_narrow_product_and_its_bias_are_one_call(dtype: DType, bias_shape: tuple[int, ...], beta: float, alpha: float) -> None:
    (step,) = compile_image(linear(dtype, bias_shape, beta, alpha)).steps
    assert isinstance(step, LibraryStep)
    assert (step.symbol, step.floats) == ("addmm", (beta, alpha))
    assert {tensor.dtype_code for tensor in step.tensors} == {dtype.code}


def test_a_wide_sum_that_something_else_needs_stays_wide() -> None:
    assert symbols(linear(DType.BF16, (20,), keep_wide=True)) == ["matmul", "kernel"]


@pytest.mark.parametrize("dtype", NARROW)
def test_a_product_that_is_rounded_at_once_is_narrow(dtype: DType) -> None:
    b = Builder("m")
    lhs, rhs = (b.parameter(TensorType(shape, dtype)) for shape in ((30, 40), (40, 20)))
    product = b.dot_general(lhs, rhs, (), (), (1,), (0,), DType.F32)
    assert symbols(b.build([b.convert(product, dtype)])) == ["matmul"]


@pytest.mark.parametrize("dtype", [DType.F32, *NARROW])
def test_a_convolution_and_its_bias_are_one_call(dtype: DType) -> None:
    b = Builder("m")
    x, weight, bias = (b.parameter(TensorType(shape, dtype)) for shape in ((2, 3, 8, 8), (5, 3, 3, 3), (5,)))
    result = b.convolution(x, weight, (1, 1), [(1, 1), (1, 1)], (1, 1), (1, 1), 1)
    (step,) = compile_image(b.build([b.add(result, b.broadcast_in_dim(bias, result.shape, (1,)))])).steps
    assert isinstance(step, LibraryStep) and step.symbol == "convolution" and len(step.tensors) == 4


@pytest.mark.parametrize("dtype", NARROW.values(), ids=str)
def test_a_convolution_and_its_bias_round_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    operands = [torch.randn(size).to(dtype) for size in ((2, 3, 16, 16), (5, 3, 3, 3), (5,))]
    actual = torch.nn.functional.conv2d(*(x.to("neuron") for x in operands)).cpu().double()
    exact = torch.nn.functional.conv2d(*(x.double() for x in operands))
    assert ((actual - exact).abs() <= torch.finfo(dtype).eps / 2 * exact.abs() * 1.001 + 1e-5).all()


@pytest.mark.parametrize("dtype", NARROW.values(), ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 4), (64, 700, 48)], ids=["small", "large"])
@pytest.mark.parametrize("name", ["addmm", "baddbmm", "addbmm", "addmv"])
def test_sums_and_products_round_once(name: str, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Within the half unit of the last place that rounding takes, and a float32 sum's error."""
    rows, depth, columns = shape
    torch.manual_seed(0)
    sizes = {
        "addmm": [(columns,), (rows, depth), (depth, columns)],
        "baddbmm": [(2, rows, columns), (2, rows, depth), (2, depth, columns)],
        "addbmm": [(rows, columns), (2, rows, depth), (2, depth, columns)],
        "addmv": [(rows,), (rows, depth), (depth,)],
    }[name]
    operands = [torch.randn(size).to(dtype) for size in sizes]
    actual = getattr(torch, name)(*(x.to("neuron") for x in operands), beta=3.0, alpha=0.5).cpu().double()
    exact = getattr(torch, name)(*(x.double() for x in operands), beta=3.0, alpha=0.5)
    allowed = torch.finfo(dtype).eps / 2 * exact.abs() * 1.001 + 1e-5 * np.sqrt(depth)
    assert ((actual - exact).abs() <= allowed).all()
