"""Trains a character-level GPT on the English text of Python's own documentation (pydoc_data.topics) and prints a sample of its writing.

``--autocast bf16`` trains in mixed precision; ``--compare`` trains the same model on the CPU as well and draws both loss curves.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn
from torch.nn import functional

from torch_neuronx import eager

SEED = 0
CONTEXT = 128
BATCH = 16
PEAK_LEARNING_RATE = 2e-3
AUTOCAST = {"off": None, "bf16": torch.bfloat16, "f16": torch.float16}


class Block(nn.Module):
    """One pre-norm transformer layer: causal self-attention and an MLP of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        projected = self.attention_in(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    """Tokens int64 [batch, length] to logits float32 [batch, length, vocabulary]; length is at most ``context``."""

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token_embedding(tokens) + self.position_embedding(positions))))


class Text:
    """The training text as character numbers."""

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics))
        self.characters = sorted(set(text))
        number = {character: index for index, character in enumerate(self.characters)}
        self.numbers = torch.tensor([number[character] for character in text])

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets int64 [BATCH, CONTEXT]; the target of a character is the next one."""
        starts = torch.randint(len(self.numbers) - CONTEXT, (BATCH, 1), generator=generator)
        rows = self.numbers[starts + torch.arange(CONTEXT + 1)]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def decode(self, numbers: list[int]) -> str:
        return "".join(self.characters[number] for number in numbers)


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up over the first tenth, then a cosine down to zero."""
    warm_up = max(1, steps // 10)
    if step < warm_up:
        return PEAK_LEARNING_RATE * (step + 1) / warm_up
    return PEAK_LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


@dataclass
class Run:
    """A training run: the loss of every step in nats per character, and what the device ``neuron`` holds after it."""

    device: str
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    allocated: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    executables: list[int] = field(default_factory=list)

    def record(self, loss: float) -> None:
        """Appends a step. The peak is that of the step alone."""
        self.losses.append(loss)
        if self.device == "neuron":
            self.allocated.append(torch.neuron.memory_allocated())
            self.peaks.append(torch.neuron.max_memory_allocated())
            self.executables.append(eager.statistics().executables)
            torch.neuron.reset_peak_memory_stats()


def train(model: GPT, text: Text, device: str, steps: int, autocast: torch.dtype | None, progress: Progress) -> Run:
    """Trains in float32, or with autocast in its dtype; the small gradients of float16 need a scaled loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, betas=(0.9, 0.95), foreach=True)
    scaler = torch.amp.GradScaler(device, enabled=autocast is torch.float16)
    generator = torch.Generator().manual_seed(SEED)
    task = progress.add_task(device, total=steps, loss=float("nan"))
    run = Run(device)
    start = time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        inputs, targets = (part.to(device) for part in text.batch(generator))
        with precision(device, autocast):
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        run.record(loss.item())
        progress.update(task, advance=1, loss=run.losses[-1])
    run.seconds = time.perf_counter() - start
    return run


def precision(device: str, autocast: torch.dtype | None) -> AbstractContextManager[object]:
    return torch.autocast(device, dtype=autocast) if autocast else nullcontext()


@torch.no_grad()
def sample(model: GPT, text: Text, device: str, length: int, temperature: float = 0.8) -> str:
    """Text that the model continues from a newline. The window always has CONTEXT tokens, so that one set of programs serves all steps."""
    generator = torch.Generator().manual_seed(SEED)
    numbers = [text.characters.index("\n")]
    for _ in range(length):
        window = numbers[-CONTEXT:]
        padded = torch.tensor([window + [0] * (CONTEXT - len(window))])
        logits = model(padded.to(device))[0, len(window) - 1].cpu()
        numbers.append(int(torch.multinomial((logits / temperature).softmax(0), 1, generator=generator)))
    return text.decode(numbers)


def smooth(losses: Sequence[float], window: int) -> list[float]:
    """At every step the mean of the last ``window`` steps."""
    return [sum(losses[max(0, i - window + 1) : i + 1]) / min(i + 1, window) for i in range(len(losses))]


def save_picture(runs: Sequence[Run], path: Path, title: str) -> None:
    """Loss curves, one colour per device; dashes let a curve be seen that lies under another."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    window = max(1, len(runs[0].losses) // 50)
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for run, colour, style in zip(runs, ("C0", "C1"), ("-", "--")):
        axes.plot(run.losses, color=colour, alpha=0.25, linewidth=0.8)
        axes.plot(smooth(run.losses, window), color=colour, linestyle=style, linewidth=1.8, label=f"{run.device}, mean of {window} steps")
    axes.set(xlabel="step", ylabel="loss, nats per character", title=title)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def report(run: Run, console: Console) -> None:
    """Prints how the loss and the step time came out, and whether memory and the number of executables stood still from step 2 on."""
    console.print(
        f"{run.device}: loss {run.losses[0]:.3f} → {run.losses[-1]:.3f} nats per character in {run.seconds:.1f} s "
        f"({run.seconds / len(run.losses) * 1e3:.1f} ms a step)"
    )
    if run.device == "neuron" and len(run.losses) > 1:
        for what, values in (("bytes after a step", run.allocated), ("bytes at its peak", run.peaks), ("executables", run.executables)):
            console.print(f"  {what}, from step 2 on: {min(values[1:]):,} to {max(values[1:]):,}")


def compare(mine: Run, reference: Run, console: Console) -> None:
    """Prints how far apart two loss curves are."""
    window = max(1, len(mine.losses) // 50)
    differences = [abs(a - b) for a, b in zip(smooth(mine.losses, window), smooth(reference.losses, window), strict=True)]
    console.print(
        f"{mine.device} against {reference.device}, means of {window} steps: the losses differ by "
        f"{sum(differences) / len(differences):.4f} on average, by at most {max(differences):.4f} nats per character"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["neuron", "cpu"], default="neuron", help="where to train (default: %(default)s)")
    parser.add_argument("--autocast", choices=list(AUTOCAST), default="off", help="mixed precision (default: %(default)s)")
    parser.add_argument("--compare", action="store_true", help="train on the CPU too, from the same weights, and draw both curves")
    parser.add_argument("--steps", type=int, default=400, help=f"optimizer steps of {BATCH} x {CONTEXT} characters (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="transformer layers (default: %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="model width, a multiple of 32 (default: %(default)s)")
    parser.add_argument("--sample", type=int, default=400, help="characters to write at the end (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=Path("out/gpt-loss.png"), help="loss curve, a PNG file (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, got {arguments.steps}")
    if arguments.width % 32:
        parser.error(f"--width must be a multiple of 32, got {arguments.width}")
    if arguments.compare and arguments.device == "cpu":
        parser.error("--compare compares with the CPU; give it with --device neuron")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    console = Console()
    text = Text()
    torch.manual_seed(SEED)
    initial = GPT(len(text.characters), CONTEXT, arguments.layers, arguments.width, heads=arguments.width // 32)
    parameters = sum(parameter.numel() for parameter in initial.parameters())
    console.print(f"{len(text.numbers):,} characters, {len(text.characters)} distinct; {parameters:,} parameters on {arguments.device}")
    columns = (
        TextColumn("{task.description:7}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
    )
    devices = [arguments.device, "cpu"] if arguments.compare else [arguments.device]
    models = [copy.deepcopy(initial).to(device) for device in devices]
    autocast = AUTOCAST[arguments.autocast]
    with Progress(*columns, console=console) as progress:
        runs = [train(model, text, device, arguments.steps, autocast, progress) for model, device in zip(models, devices)]
    for run in runs:
        report(run, console)
    if arguments.compare:
        compare(*runs, console)
    save_picture(runs, arguments.picture, f"Character-level GPT, autocast {arguments.autocast}")
    console.print(f"loss curve: {arguments.picture}")
    console.rule("sample")
    console.print(sample(models[0], text, arguments.device, arguments.sample), markup=False, highlight=False)


if __name__ == "__main__":
    main()
