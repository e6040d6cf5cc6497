"""Trains a small CNN on scikit-learn's handwritten digits, on device "neuron" and on the CPU from the same seed, and compares the two."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

SEED = 0
BATCH = 64
TEST_IMAGES = 360
REQUIRED_ACCURACY = 0.97


@dataclass
class Digits:
    """Images float32 [n, 1, 8, 8] in [0, 1] and labels int64 [n], split into a training and a test part."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass
class Run:
    """What one training on one device showed."""

    device: str
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    accuracy: float = 0.0

    @property
    def steady_step(self) -> float:
        """Median seconds of a step after the first epoch's warm-up."""
        return statistics.median(self.step_seconds[len(self.step_seconds) // 4 :])


class Network(nn.Module):
    """Two convolution stages with batch norm and pooling, and a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.stages(images).flatten(1))


def load(device: str) -> Digits:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return Digits(*(part.to(device) for part in (images[train], labels[train], images[test], labels[test])))


def train(device: str, epochs: int, progress: Progress) -> Run:
    """Same initial weights and batch order on every device: both are drawn on the CPU from the seed."""
    torch.manual_seed(SEED)
    network = Network().to(device)
    digits = load(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    shuffle = torch.Generator().manual_seed(SEED)
    steps_per_epoch = len(digits.train_images) // BATCH
    task = progress.add_task(device, total=epochs * steps_per_epoch, loss=float("nan"))
    run = Run(device)
    for _ in range(epochs):
        order = torch.randperm(len(digits.train_images), generator=shuffle).to(device)
        for batch in order[: steps_per_epoch * BATCH].split(BATCH):
            start = time.perf_counter()
            optimizer.zero_grad()
            # Smoothed labels keep the loss away from zero, so that relative differences between devices mean something to the end.
            loss = functional.cross_entropy(network(digits.train_images[batch]), digits.train_labels[batch], label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            run.losses.append(loss.item())
            run.step_seconds.append(time.perf_counter() - start)
            progress.update(task, advance=1, loss=run.losses[-1])
    network.eval()
    with torch.no_grad():
        predictions = network(digits.test_images).argmax(dim=1)
    run.accuracy = (predictions == digits.test_labels).float().mean().item()
    return run


def largest_relative_difference(left: list[float], right: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(left, right, strict=True))


def report(runs: list[Run]) -> Table:
    table = Table(title=f"{len(runs[0].losses)} training steps of {BATCH} images")
    table.add_column("", no_wrap=True)
    for run in runs:
        table.add_column(run.device, justify="right")
    neuron = neuron_rows() if any(run.device == "neuron" for run in runs) else {}
    rows = {
        "test accuracy": [f"{run.accuracy:.2%}" for run in runs],
        "loss, first and last step": [f"{run.losses[0]:.4f}  {run.losses[-1]:.4f}" for run in runs],
        "first step": [f"{run.step_seconds[0] * 1e3:.1f} ms" for run in runs],
        "steady step (median)": [f"{run.steady_step * 1e3:.2f} ms" for run in runs],
    }
    for label, value in neuron.items():
        rows[label] = [value if run.device == "neuron" else "" for run in runs]
    if len(runs) == 2:
        rows["losses: largest relative difference"] = [f"{largest_relative_difference(runs[0].losses, runs[1].losses):.1e}", ""]
    for label, cells in rows.items():
        table.add_row(label, *cells)
    return table


def neuron_rows() -> dict[str, str]:
    """What the device says about this process: ops, programs, compile time and memory."""
    import torch_neuronx.eager

    programs = torch_neuronx.eager.statistics()
    return {
        "ops executed natively": f"{len(torch_neuronx.get_executed_ops()):,}",
        "ops fallen back to the CPU": f"{len(torch_neuronx.get_fallback_ops()):,}",
        "distinct executables": f"{programs.executables:,} ({programs.disk_hits:,} from disk)",
        "time spent compiling": f"{programs.compile_seconds:.2f} s",
        "peak device memory": f"{torch.neuron.max_memory_allocated() / 2**20:.1f} MiB",
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"Exit status 1 if a test accuracy is below {REQUIRED_ACCURACY:.0%}. A second run finds its programs in the disk cache.",
    )
    parser.add_argument("--device", choices=["neuron", "cpu"], help="train on this device only (default: on both, and compare)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training images (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {arguments.epochs}")

    console = Console()
    columns = (
        TextColumn("{task.description:7}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        runs = [train(device, arguments.epochs, progress) for device in ([arguments.device] if arguments.device else ["neuron", "cpu"])]
    console.print(report(runs))
    return 0 if all(run.accuracy >= REQUIRED_ACCURACY for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
