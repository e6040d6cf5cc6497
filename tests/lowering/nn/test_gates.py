"""Forward derivatives of gated linear units, and the leaky ReLU with a random slope."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check

import torch_neuronx

aten = torch.ops.aten


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu_jvp(dim: int) -> None:
    x, dx = torch.randn(4, 6), torch.randn(4, 6)
    glu = torch.nn.functional.glu(x, dim)
    check(aten.glu_jvp.default, glu, x, dx, dim)
    grad, dgrad = torch.randn_like(glu), torch.randn_like(glu)
    check(aten.glu_backward_jvp.default, aten.glu_backward.default(grad, x, dim), grad, x, dgrad, dx, dim)


def test_rrelu_in_evaluation_is_a_leaky_relu() -> None:
    x = torch.randn(5, 4)
    check(aten.rrelu_with_noise.default, x, torch.zeros_like(x), 0.1, 0.3, False)
    check(aten.rrelu_with_noise_.default, x, torch.zeros_like(x), 0.1, 0.3, False)


def test_rrelu_draws_slopes_between_the_bounds_and_writes_them() -> None:
    torch.manual_seed(0)
    x = torch.randn(2000)
    y, noise, out = x.to("neuron"), torch.empty(2000, device="neuron"), torch.empty(2000, device="neuron")
    with torch_neuronx.fallback_policy("error"):
        aten.rrelu_with_noise.out(y, noise, 0.1, 0.3, True, out=out)
        slope = noise.cpu()
        torch.testing.assert_close(out.cpu(), x * slope)
        aten.rrelu_with_noise_.default(y, noise, 0.1, 0.3, True)
    assert torch.equal(slope[x > 0], torch.ones_like(slope[x > 0]))
    drawn = slope[x <= 0]
    assert drawn.min() >= 0.1
    assert drawn.max() < 0.3
    assert abs(drawn.mean() - 0.2) < 0.01
    torch.testing.assert_close(y.cpu(), x * noise.cpu())
    assert not torch.equal(noise.cpu(), slope), "a second call draws other numbers"
