"""What Python does on a miss: checks, resizing, float64, the disk cache, failures of the compiler."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C, compiler, eager
from torch_neuronx.compiler import cache
from torch_neuronx.eager import miss


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="neuron")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, device: x.add_(1.5),
        lambda x, device: x + torch.ones(7, device=device),
        lambda x, device: torch.add(x, 1.5, out=x),
        lambda x, device: x.float().sum(5),
        lambda x, device: torch.mm(x.float(), x.float()),
        lambda x, device: x[torch.zeros(3, 3, 3, dtype=torch.bool, device=device)],
    ],
)
def test_a_wrong_call_raises_what_it_raises_on_the_cpu(wrong: Any) -> None:
    with pytest.raises(Exception) as expected:
        wrong(torch.ones(3, dtype=torch.int64), "cpu")
    with pytest.raises(type(expected.value)) as raised:
        wrong(ones(3, dtype=torch.int64), "neuron")
    assert str(raised.value) == str(expected.value)


def test_out_of_another_size_is_resized_with_pytorchs_warning() -> None:
    out = ones(5)
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(ones(2, 3), 1, out=out)
    assert out.tolist() == [[2.0] * 3] * 2
    empty = torch.empty(0, device="neuron")
    assert torch.add(ones(4), 2, out=empty) is empty
    assert empty.tolist() == [3.0] * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(7, device="neuron"),
        lambda: torch.linspace(0, 1, 7, device="neuron"),
        lambda: torch.eye(3, 4, device="neuron"),
        lambda: torch.max(ones(2, 3), 1, out=(torch.empty(0, device="neuron"), torch.empty(0, device="neuron").long()))[1],
        lambda: torch.mm(ones(2, 3), ones(3, 2), out=torch.empty(0, device="neuron")),
    ],
    ids=["arange", "linspace", "eye", "max", "mm"],
)
def test_empty_results_are_resized_without_python_after_the_first_call(make: Any) -> None:
    first = make().cpu()
    misses = _C._eager_stats()["misses"]
    again, third = make(), make()
    assert _C._eager_stats()["misses"] == misses
    assert torch.equal(again.cpu(), first) and torch.equal(third.cpu(), first)
    assert again.data_ptr() != third.data_ptr()


def test_resizing_keeps_the_storage_and_its_views() -> None:
    for _ in range(2):
        base = torch.empty(0, device="neuron")
        twin = base.detach()
        torch.add(ones(3), 1, out=base)
        assert twin.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        tail = torch.zeros(6, device="neuron")[4:4]
        torch.add(ones(2), 1, out=tail)
        assert tail.storage_offset() == 4 and tail.tolist() == [2.0, 2.0]


def test_out_keeps_its_dtype_and_strides() -> None:
    out = torch.empty(3, 2, dtype=torch.float64, device="neuron").t()
    torch.mul(ones(2, 3), 3, out=out)
    assert out.stride() == (1, 2)
    assert out.dtype == torch.float64
    assert out.tolist() == [[3.0] * 3] * 2


def test_new_scalars_need_no_new_program() -> None:
    x = ones(11)
    (x * 1.25).add_(x, alpha=0.5)
    before = eager.statistics().misses
    assert (x * 7.5).add_(x, alpha=2.0).tolist() == [9.5] * 11
    assert eager.statistics().misses == before


def test_a_program_for_one_tensor_twice_is_not_used_for_two() -> None:
    x, y = ones(13), ones(13) * 3
    assert (x * x).tolist() == [1.0] * 13
    assert (x * y).tolist() == [3.0] * 13
    x.add_(x)
    assert x.add_(y).tolist() == [5.0] * 13


def test_float64_warns_once_and_keeps_its_dtype() -> None:
    code = """
import warnings, torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = torch.full((3,), 1 / 3, dtype=torch.float64).to("neuron")
    y = x.exp(); z = x * 2; copied = x.clone()
assert copied.cpu()[0].item() == 1 / 3
assert y.dtype == torch.float64 and z.dtype == torch.float64
assert z.cpu()[0].item() == torch.tensor(1 / 3).mul(2).item(), z.cpu()[0].item()
assert sum("float64" in str(w.message) for w in caught) == 1, [str(w.message) for w in caught]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_float64_exact_computes_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import warnings, torch
warnings.simplefilter("error")
x = torch.full((3,), 1 / 3, dtype=torch.float64)
assert torch.equal((x.to("neuron") * 2 + 1e-12).cpu(), x * 2 + 1e-12)
"""
    monkeypatch.setenv("TORCH_NEURONX_FLOAT64", "exact")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_second_process_finds_its_programs_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import sys, torch
from torch_neuronx import eager
x = torch.arange(6.0).reshape(2, 3).to("neuron")
assert (x.t() * 2 + 1).sum(0).tolist() == [9.0, 27.0]
print(eager.statistics().disk_hits, "llvmlite" in sys.modules)
"""
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split() for _ in range(2)]
    assert runs == [["0", "True"], ["3", "False"]]


def test_processes_that_compile_the_same_ops_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import sys, torch
from torch_neuronx import eager
torch.neuron.init()
print("ready", flush=True)
sys.stdin.readline()
x = torch.arange(6.0).reshape(2, 3).to("neuron")
print((x.t() * 2 + 1).sum(0).tolist(), eager.statistics().executables, eager.statistics().disk_hits)
"""
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    processes = [start(), start()]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert all(output.startswith("[9.0, 27.0] 3 ") for output in outputs), outputs
    assert start().communicate("go\n")[0].splitlines()[-1] == "[9.0, 27.0] 3 3"
    assert not [path for path in tmp_path.rglob("*") if "tmp" in path.name]


def test_a_compiler_failure_falls_back_with_a_warning_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> bytes:
        raise ValueError("no such luck")

    monkeypatch.setattr(compiler, "compile_module", fail)
    monkeypatch.setattr(cache, "process_cache", lambda: None)
    with pytest.warns(UserWarning, match=r"aten::add.Tensor\(f32\[17\], f32\[17\]\) failed to compile.*no such luck"):
        assert (ones(17) + ones(17)).tolist() == [2.0] * 17
    monkeypatch.setenv("TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS", "1")
    with pytest.raises(miss.CompileError, match=r"aten::mul.Tensor\(f32\[17\], f32\[17\]\) has a lowering but failed to compile: no such"):
        ones(17) * ones(17)


def unserved() -> torch.Tensor:
    """Calls an operator that PyTorch has for its own tests, on the CPU only."""
    return torch._test_functorch_fallback(ones(2, 2), ones(2, 2))


def test_fallback_policy_as_function_and_context() -> None:
    with torch_neuronx.fallback_policy("error"):
        with pytest.raises(NotImplementedError, match="fallback_policy"):
            unserved()
        with torch_neuronx.fallback_policy("silent"), warnings.catch_warnings():
            warnings.simplefilter("error")
            unserved()
        assert torch_neuronx.fallback_policy().policy == "error"
    with pytest.raises(ValueError, match="'warn', 'silent' and 'error'"):
        torch_neuronx.fallback_policy("quiet")


def test_tracking_lists_every_invocation() -> None:
    torch_neuronx.clear_op_tracking()
    x = ones(2)
    torch_neuronx.clear_op_tracking()
    x + x, x + 1
    with torch_neuronx.fallback_policy("silent"):
        unserved()
    assert torch_neuronx.get_executed_ops().count("aten::add.Tensor") == 2
    assert torch_neuronx.get_fallback_ops() == ["aten::_test_functorch_fallback"]


def test_printing_runs_nothing_on_the_device() -> None:
    x = ones(2, dtype=torch.int32)
    torch_neuronx.clear_op_tracking()
    assert repr(x) == "tensor([1, 1], device='neuron:0', dtype=torch.int32)"
    assert not torch_neuronx.get_executed_ops()


def test_results_whose_size_depends_on_data_are_native() -> None:
    host = torch.tensor([[0.0, 3.0, -1.0], [2.0, 0.0, 5.0]])
    x = host.to("neuron")
    with torch_neuronx.fallback_policy("error"):
        assert torch.equal(x.masked_select(x > 0).cpu(), host.masked_select(host > 0))
        assert torch.equal(x.masked_select(x[0] > 0).cpu(), host.masked_select(host[0] > 0))
        assert torch.equal(x.nonzero().cpu(), host.nonzero())
        assert torch.tensor(3, device="neuron").nonzero().shape == (1, 0)
        assert ones(0, 3).nonzero().shape == (0, 2)
        assert ones(0).masked_select(ones(0) > 0).shape == (0,)
        assert torch.equal(x, x.clone())
        assert not torch.equal(x, x + 1)
        assert not torch.equal(x, x[0])


def test_random_numbers_follow_the_seed_and_advance() -> None:
    torch.manual_seed(3)
    first, second = torch.randn(6, device="neuron"), torch.randn(6, device="neuron")
    torch.manual_seed(3)
    assert torch.equal(torch.randn(6, device="neuron"), first)
    assert not torch.equal(first, second)
    assert sorted(torch.randperm(20, device="neuron").tolist()) == list(range(20))
    assert torch.randint(5, 8, (200,), device="neuron").unique().tolist() == [5, 6, 7]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("form", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_an_optimizer_step_agrees_with_the_cpu_and_a_new_rate_needs_no_program(optimizer: Any, form: dict[str, bool]) -> None:
    start = torch.linspace(-1, 1, 6).reshape(2, 3)
    results = []
    for device in ("cpu", "neuron"):
        parameter = torch.nn.Parameter(start.clone().to(device))
        stepper = optimizer([parameter], lr=0.1, weight_decay=0.01, **form)
        for rate in (0.1, 0.05, 0.025, 0.0125):
            stepper.param_groups[0]["lr"] = rate
            before = eager.statistics().misses
            parameter.grad = (parameter.detach() ** 2 + 0.5).clone()
            with torch_neuronx.fallback_policy("error"):
                stepper.step()
        results.append(parameter.detach().cpu())
    assert eager.statistics().misses == before
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=1e-6)
