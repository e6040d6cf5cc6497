"""Lanczos resampling, which PyTorch's operator samples leave out, against CPU float64."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check

aten = torch.ops.aten


@pytest.mark.parametrize("extents", [[3, 4], [9, 13], [6, 2]])
@pytest.mark.parametrize("align_corners", [False, True])
def test_lanczos_and_its_gradient(extents: list[int], align_corners: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 7)
    check(aten._upsample_lanczos2d_aa.default, x, extents, align_corners)
    grad = torch.randn(2, 3, *extents)
    check(aten._upsample_lanczos2d_aa_backward.default, grad, extents, [2, 3, 6, 7], align_corners)
