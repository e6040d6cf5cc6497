"""The convolution library kernels against autograd through float64 convolutions."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

from torch_neuronx import _C


@dataclass(frozen=True)
class Case:
    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    @property
    def ints(self) -> list[int]:
        rank = len(self.stride)
        output_padding = self.output_padding or (0,) * rank
        return [rank, *self.stride, *self.padding, *self.dilation, self.transposed, *output_padding, self.groups]

    def expected(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        rank = len(self.stride)
        if self.transposed:
            convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
            return convolve(x, weight, bias, self.stride, self.padding, self.output_padding or 0, self.groups, self.dilation)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        return convolve(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


CASES = {
    "plane": Case((2, 3, 8, 9), (4, 3, 3, 2), (1, 1), (1, 0), (1, 1)),
    "strided_dilated": Case((2, 3, 11, 9), (4, 3, 3, 2), (2, 1), (1, 2), (2, 1)),
    "grouped": Case((2, 4, 8, 8), (6, 2, 3, 3), (1, 1), (1, 1), (1, 1), groups=2),
    "depthwise": Case((2, 4, 8, 8), (4, 1, 3, 3), (2, 2), (1, 1), (1, 1), groups=4),
    "line": Case((2, 3, 10), (4, 3, 3), (2,), (1,), (1,)),
    "volume": Case((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
    "transposed": Case((2, 4, 5, 6), (4, 3, 3, 3), (2, 2), (1, 0), (1, 1), transposed=True, output_padding=(1, 0)),
    "transposed_grouped": Case((2, 4, 5, 5), (4, 3, 2, 2), (2, 2), (0, 0), (1, 1), groups=2, transposed=True),
}


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_convolution(case: Case, with_bias: bool) -> None:
    x, weight = torch.randn(case.input), torch.randn(case.weight)
    channels = case.weight[1] * case.groups if case.transposed else case.weight[0]
    bias = torch.randn(channels) if with_bias else None
    expected = case.expected(x.double(), weight.double(), bias.double() if bias is not None else None)
    out = torch.empty(expected.shape)
    _C._run_library("convolution", [out, x, weight, bias], case.ints)
    assert_close(out, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolution_gradients(case: Case) -> None:
    x, weight = torch.randn(case.input), torch.randn(case.weight)
    wide_x, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    result = case.expected(wide_x, wide_weight, None)
    gradient = torch.randn(result.shape)
    result.backward(gradient.double())
    dinput, dweight = torch.full_like(x, float("nan")), torch.full_like(weight, float("nan"))
    _C._run_library("convolution_input_grad", [dinput, gradient, weight], case.ints)
    _C._run_library("convolution_weight_grad", [dweight, gradient, x], case.ints)
    assert_close(dinput, wide_x.grad)
    assert_close(dweight, wide_weight.grad)


def test_convolution_takes_and_gives_channels_last() -> None:
    x, weight = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)
    out = torch.empty(2, 4, 8, 8).to(memory_format=torch.channels_last)
    _C._run_library("convolution", [out, x, weight, None], [2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1])
    assert_close(out, F.conv2d(x.double(), weight.double(), padding=1))
