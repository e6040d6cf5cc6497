"""One training step on device neuron and on the CPU, from the same weights and the same batch: all that it leaves behind is compared."""

from __future__ import annotations

import copy
import statistics
from contextlib import nullcontext

import torch
from torch import Tensor, nn

import torch_neuronx
from benchmarks.models import Batch, Workload

LEARNING_RATE = 0.1
F32_TOLERANCE = 1e-5
"""Of a tensor's largest magnitude."""


def training_step(model: nn.Module, batch: Batch, workload: Workload, autocast: torch.dtype | None) -> dict[str, Tensor]:
    """Forward, backward and one step of SGD with momentum, which is linear in the gradients: it neither hides nor blows up errors.

    Returns what the step computed by name, on the CPU: the output, the loss, every gradient, every updated parameter and every buffer.
    """
    device = next(model.parameters()).device.type
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, foreach=True)
    with torch.autocast(device, dtype=autocast) if autocast else nullcontext():
        output = model(*batch.inputs)
        loss = workload.loss(output, batch)
    loss.backward()
    values = {"output": output.detach().cpu()} if isinstance(output, Tensor) else {}
    values["loss"] = loss.detach().cpu()
    values |= {f"{name}.grad": parameter.grad.cpu() for name, parameter in model.named_parameters() if parameter.grad is not None}
    optimizer.step()
    values |= {name: value.detach().cpu() for name, value in model.state_dict().items()}
    return values


def relative_error(actual: Tensor, expected: Tensor, floor: float) -> float:
    """The largest difference in units of the expected tensor's largest magnitude, but of ``floor`` at least."""
    if actual.numel() == 0:
        return 0.0
    actual, expected = actual.double(), expected.double()
    return float((actual - expected).abs().max() / expected.abs().max().clamp_min(max(floor, 1e-30)))


# What is exactly zero in theory (the gradient of a bias that a norm takes away again) is rounding noise beside the others of its kind.
NOISE = 1e-2


def errors_of(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """For every value the largest difference in units of its largest magnitude, or of NOISE times the largest gradient (for a parameter, of
    what a step makes of that).
    """
    gradients = [value.abs().max().double() for name, value in expected.items() if name.endswith(".grad")]
    floor = NOISE * float(max(gradients, default=torch.tensor(0.0)))

    def floor_of(name: str) -> float:
        # The step carries a gradient's noise into the parameter, which shows where the parameter began at zero.
        return floor if name.endswith(".grad") else LEARNING_RATE * floor if f"{name}.grad" in expected else 0.0

    return {name: relative_error(actual[name], value, floor_of(name)) for name, value in expected.items()}


def steps(workload: Workload, dtype: torch.dtype, autocast: torch.dtype | None, devices: tuple[str, ...]) -> list[dict[str, Tensor]]:
    """The values of one step per device, all from the same weights and batch; an op that falls back is an error."""
    torch.manual_seed(0)
    model, batch = workload.model("small"), workload.batch("small")
    with torch_neuronx.fallback_policy("error"):
        return [training_step(copy.deepcopy(model).to(device, dtype), batch.to(device, dtype), workload, autocast) for device in devices]


def check_training_step(workload: Workload, tolerance: float = F32_TOLERANCE) -> None:
    """Asserts that in float32 outputs, gradients, parameters and buffers equal the CPU's to ``tolerance`` of each tensor's scale."""
    expected, actual = steps(workload, torch.float32, None, ("cpu", "neuron"))
    assert actual.keys() == expected.keys()
    errors = errors_of(actual, expected)
    wrong = {name: error for name, error in errors.items() if not error <= tolerance}
    assert not wrong, f"{workload.name}: beyond {tolerance}: {wrong}"


def check_low_precision_step(workload: Workload, dtype: torch.dtype, autocast: torch.dtype | None) -> None:
    """Asserts that the device is about as near to float32's results as the CPU is in the same precision.

    Both round at other places, so neither is the truth for the other: one tensor may be a few times worse, all of them together may not.
    """
    (exact,) = steps(workload, torch.float32, None, ("cpu",))
    with torch.backends.mkldnn.flags(enabled=False):  # oneDNN has no recurrent networks in float16 on every CPU, and does not say so
        (expected,) = steps(workload, dtype, autocast, ("cpu",))
    (actual,) = steps(workload, dtype, autocast, ("neuron",))
    # The output's own type follows CUDA's autocast lists on the device and the CPU's on the CPU.
    assert all(actual[name].dtype == value.dtype for name, value in expected.items() if name != "output")
    rounding = torch.finfo(autocast or dtype).eps
    of_neuron, of_cpu = errors_of(actual, exact), errors_of(expected, exact)
    errors = {name: (of_neuron[name], of_cpu[name]) for name in exact}
    wrong = {name: (ours, cpu) for name, (ours, cpu) in errors.items() if not ours <= 4 * cpu + 2 * rounding}
    assert not wrong, f"{workload.name}: (neuron's error, the CPU's error) {wrong}"
    ours, cpu = (statistics.geometric_mean(max(error[side], rounding / 4) for error in errors.values()) for side in (0, 1))
    assert ours <= 1.3 * cpu, f"{workload.name}: mean errors {ours:.2e} against the CPU's {cpu:.2e}"
