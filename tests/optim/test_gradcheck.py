"""Finite differences agree with the gradients of the device where float64 is exact; the setting is read once, so a process has it."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import torch, torch_neuronx
from torch.autograd import gradcheck, gradgradcheck
torch_neuronx.fallback_policy("error")
torch.manual_seed(0)
x, w = (torch.randn(size, dtype=torch.float64).to("neuron").requires_grad_() for size in ((3, 4), (4, 2)))
for function in (
    lambda x, w: (x @ w).tanh(),
    lambda x, w: torch.softmax(x, 1) @ w,
    lambda x, w: torch.nn.functional.layer_norm(x, (4,)) @ w,
):
    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))
assert gradcheck(lambda x, w: (x @ w).tanh(), (x, w), check_forward_ad=True, check_batched_grad=True)
"""


def test_gradcheck_in_exact_float64() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "TORCH_NEURONX_FLOAT64": "exact"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
