"""Ops without a native program: they run on the CPU, visibly, or are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from handmade_programs import Compiler

import torch_neuronx

HERE = Path(__file__)


def run(program: str, **environment: str) -> str:
    """What a fresh Python process prints, with what it writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


# An op that PyTorch has for its own tests and on the CPU only, so that it falls back with the real compiler as well.
UNSERVED = "x = torch.ones(3, device='neuron'); torch._test_functorch_fallback(x, x)"


def test_results_and_written_arguments_come_back(compiler: Compiler) -> None:
    x = torch.randn(4, 3)
    on_device = x.to("neuron")
    torch.testing.assert_close(on_device.cumsum(0).cpu(), x.cumsum(0))
    assert on_device.mul_(2) is on_device
    torch.testing.assert_close(on_device.cpu(), x * 2)
    out = torch.empty(0, device="neuron")
    torch.add(on_device, 1, out=out)
    torch.testing.assert_close(out.cpu(), x * 2 + 1)


def test_tensor_lists_are_copied_there_and_back(compiler: Compiler) -> None:
    xs = [torch.randn(3), torch.randn(2)]
    torch.testing.assert_close(torch.cat([x.to("neuron") for x in xs]).cpu(), torch.cat(xs))


def test_what_pytorch_composes_of_other_ops_is_no_fallback_itself(compiler: Compiler) -> None:
    xs = [torch.randn(3), torch.randn(2, 2)]
    on_device = [x.to("neuron") for x in xs]
    torch_neuronx.clear_op_tracking()
    torch._foreach_add_(on_device, 1.0)
    for x, y in zip(xs, on_device, strict=True):
        torch.testing.assert_close(y.cpu(), x + 1)
    assert torch_neuronx.get_fallback_ops() == ["aten::add_.Tensor"] * 2


def test_writes_that_the_schema_hides_come_back(compiler: Compiler) -> None:
    x = torch.randn(8, 3)
    mean, var = torch.zeros(3), torch.ones(3)
    mean_on_device, var_on_device = mean.to("neuron"), var.to("neuron")
    torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)
    torch.native_batch_norm(x.to("neuron"), None, None, mean_on_device, var_on_device, True, 0.1, 1e-5)
    torch.testing.assert_close(mean_on_device.cpu(), mean)
    torch.testing.assert_close(var_on_device.cpu(), var)


def test_every_fallback_is_counted_with_its_overload(compiler: Compiler) -> None:
    x = torch.randn(4, device="cpu").to("neuron")
    torch_neuronx.clear_op_tracking()
    x + x
    x + x
    torch.add(x, x, out=torch.empty_like(x))
    assert sorted(torch_neuronx.get_fallback_ops()) == ["aten::add.Tensor", "aten::add.Tensor", "aten::add.out"]
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_fallback_ops() == []


def test_views_never_count(compiler: Compiler) -> None:
    x = torch.randn(4, 6).to("neuron")
    complex_x = torch.randn(4, 2, dtype=torch.complex64).to("neuron")
    torch_neuronx.clear_op_tracking()
    x.view(24), x.T, x[1:, ::2], x.unfold(1, 2, 2), x.expand(2, 4, 6), x.diagonal(), x.unsqueeze(0), x.split(2), x.detach()
    torch.view_as_real(complex_x), torch.view_as_complex(x.view(4, 3, 2)), complex_x.real, complex_x.conj(), x.view(torch.int32)
    assert torch_neuronx.get_fallback_ops() == []


def test_the_error_policy_names_op_and_line(compiler: Compiler) -> None:
    x = torch.randn(4).to("neuron")
    with (
        torch_neuronx.fallback_policy("error"),
        pytest.raises(NotImplementedError, match=rf"'aten::add.Tensor'.*at .*{HERE.name}:\d+ in test_"),
    ):
        x + x
    torch.testing.assert_close((x + x).cpu(), x.cpu() * 2)


def test_the_policy_is_checked(compiler: Compiler) -> None:
    with pytest.raises(ValueError, match="got 'ignore', allowed are 'warn', 'silent' and 'error'"):
        torch_neuronx.fallback_policy("ignore")


def test_the_policy_may_change_while_other_threads_fall_back(compiler: Compiler) -> None:
    x = torch.randn(4).to("neuron")
    outcomes: set[str] = set()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                x + x
                outcomes.add("ran")
            except NotImplementedError:
                outcomes.add("refused")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(1000):
            for policy in ("error", "silent"):
                torch_neuronx.fallback_policy(policy)
            if outcomes == {"ran", "refused"}:
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert "ran" in outcomes


def test_one_warning_per_op_name() -> None:
    shown = run(f"import torch\nfor _ in range(3): {UNSERVED}")
    assert shown.count("UserWarning: Operator 'aten::_test_functorch_fallback' fell back to CPU") == 1
    assert "TORCH_NEURONX_ENABLE_STACK_TRACE=1" in shown


def test_the_warning_names_the_line_if_asked_to() -> None:
    shown = run(f"import torch\ndef step(): {UNSERVED}\nstep()", TORCH_NEURONX_ENABLE_STACK_TRACE="1")
    assert "fell back to CPU (at <string>:2 in step)" in shown


def test_warning_filters_apply() -> None:
    attempt = f"try:\n  {UNSERVED}\nexcept UserWarning as warning: print('caught', warning)"
    shown = run(f"import torch\nimport warnings\nwarnings.simplefilter('error')\n{attempt}")
    assert "caught Operator 'aten::_test_functorch_fallback' fell back to CPU" in shown


def test_the_silent_policy_is_silent(compiler: Compiler) -> None:
    x = torch.randn(4).to("neuron")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.frac() + x.erfinv()


def test_an_op_without_a_cpu_kernel_is_refused_by_name(compiler: Compiler) -> None:
    x = torch.randn(2, 8).to("neuron")
    with pytest.raises(NotImplementedError, match="'aten::_thnn_fused_lstm_cell' has neither a native program for device neuron nor a CPU"):
        torch.ops.aten._thnn_fused_lstm_cell(x, x, torch.zeros(2, 2, device="neuron"))


def test_random_fallbacks_follow_the_device_generator_and_leave_the_cpus_alone(compiler: Compiler) -> None:
    torch.manual_seed(1)
    cpu_state = torch.get_rng_state()
    probabilities = torch.full((64,), 0.5).to("neuron")
    first = torch.poisson(probabilities).cpu()
    second = torch.poisson(probabilities).cpu()
    assert torch.equal(torch.get_rng_state(), cpu_state)
    assert not torch.equal(first, second)
    torch.neuron.manual_seed(1)
    assert torch.equal(torch.poisson(probabilities).cpu(), first)


def test_random_fallbacks_draw_from_the_generator_they_are_given(compiler: Compiler) -> None:
    probabilities = torch.full((64,), 0.5).to("neuron")
    state = torch.neuron.get_rng_state()
    draws = [torch.poisson(probabilities, generator=torch.Generator("neuron").manual_seed(3)).cpu() for _ in range(2)]
    assert torch.equal(*draws)
    assert torch.equal(torch.neuron.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type for generator but found 'cpu'"):
        torch.poisson(probabilities, generator=torch.Generator())


def test_factories_fall_back_to_their_device(compiler: Compiler) -> None:
    device = torch.device("neuron", torch.neuron.device_count() - 1)
    x = torch.arange(5, device=device)
    assert x.device == device
    assert x.tolist() == [0, 1, 2, 3, 4]
