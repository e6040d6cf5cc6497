"""A GPT training step on device "neuron" against CPU eager: medians of interleaved repeats, and how far the losses differ.

4 layers, width 384, 6 heads, vocabulary 4096, batch 4 x 256, AdamW(foreach), no dropout, float32. Run as ``python -m benchmarks.eager``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

from examples.gpt import GPT

VOCABULARY, CONTEXT, LAYERS, WIDTH, HEADS, BATCH = 4096, 256, 4, 384, 6, 4


@dataclass
class Training:
    """A model, its optimizer and its data on one device; ``seconds`` and ``losses`` grow with every step."""

    device: str
    model: GPT
    optimizer: torch.optim.Optimizer
    batches: list[tuple[Tensor, Tensor]]
    seconds: list[float]
    losses: list[float]

    @staticmethod
    def start(device: str, steps: int) -> Training:
        """The same weights and tokens on every device: both are drawn on the CPU from one seed."""
        torch.manual_seed(0)
        model = GPT(VOCABULARY, CONTEXT, LAYERS, WIDTH, HEADS).to(device)
        tokens = torch.randint(VOCABULARY, (steps, BATCH, CONTEXT + 1)).to(device)
        batches = [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in tokens]
        return Training(device, model, torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True), batches, [], [])

    def step(self) -> None:
        """One optimizer step, timed until its loss is on the host."""
        start = time.perf_counter()
        inputs, targets = self.batches[len(self.losses)]
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimizer.step()
        if self.device == "neuron":
            torch.neuron.synchronize()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - start)

    def steady(self) -> float:
        """Median seconds of a step, the first two left out."""
        return statistics.median(self.seconds[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="steps per device (default: %(default)s, at least 3)")
    arguments = parser.parse_args()
    if arguments.steps < 3:
        parser.error(f"--steps must be at least 3, got {arguments.steps}")
    neuron, cpu = (Training.start(device, arguments.steps) for device in ("neuron", "cpu"))
    for _ in range(arguments.steps):
        neuron.step()
        cpu.step()
    difference = max(abs(a - b) / abs(b) for a, b in zip(neuron.losses, cpu.losses, strict=True))

    table = Table(title=f"GPT training step, {torch.get_num_threads()} threads, {arguments.steps} interleaved steps")
    for column in ("", "neuron", "cpu", "neuron / cpu"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for label, ours, theirs in (
        ("first step", neuron.seconds[0], cpu.seconds[0]),
        ("steady step (median)", neuron.steady(), cpu.steady()),
        ("fastest step", min(neuron.seconds), min(cpu.seconds)),
    ):
        table.add_row(label, f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms", f"{ours / theirs:.2f}")
    table.add_row("losses: largest relative difference", "", "", f"{difference:.1e}")
    Console().print(table)


if __name__ == "__main__":
    main()
