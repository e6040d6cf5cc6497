"""Trains a character-level GPT on the English text of Python's own documentation (pydoc_data.topics) and prints a sample of its writing."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from pydoc_data.topics import topics

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn
from torch.nn import functional

SEED = 0
CONTEXT = 128
BATCH = 16
PEAK_LEARNING_RATE = 2e-3


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


def train(model: GPT, text: Text, device: str, steps: int, progress: Progress) -> list[float]:
    """The loss, in nats per character, of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, betas=(0.9, 0.95), foreach=True)
    generator = torch.Generator().manual_seed(SEED)
    task = progress.add_task(device, total=steps, loss=float("nan"))
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        inputs, targets = (part.to(device) for part in text.batch(generator))
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        progress.update(task, advance=1, loss=losses[-1])
    return losses


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


def save_picture(losses: list[float], path: Path, device: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    window = max(1, len(losses) // 50)
    smooth = [sum(losses[max(0, i - window + 1) : i + 1]) / min(i + 1, window) for i in range(len(losses))]
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    axes.plot(losses, color="0.75", linewidth=0.8, label="every step")
    axes.plot(smooth, linewidth=1.8, label=f"mean of {window} steps")
    axes.set(xlabel="step", ylabel="loss, nats per character", title=f"Character-level GPT on {device}")
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["neuron", "cpu"], default="neuron", help="where to train (default: %(default)s)")
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

    console = Console()
    text = Text()
    torch.manual_seed(SEED)
    model = GPT(len(text.characters), CONTEXT, arguments.layers, arguments.width, heads=arguments.width // 32).to(arguments.device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"{len(text.numbers):,} characters, {len(text.characters)} distinct; {parameters:,} parameters on {arguments.device}")
    columns = (
        TextColumn("{task.description:7}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
    )
    start = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        losses = train(model, text, arguments.device, arguments.steps, progress)
    seconds = time.perf_counter() - start
    console.print(
        f"loss {losses[0]:.3f} → {losses[-1]:.3f} nats per character in {seconds:.1f} s ({seconds / len(losses) * 1e3:.1f} ms a step)"
    )
    save_picture(losses, arguments.picture, arguments.device)
    console.print(f"loss curve: {arguments.picture}")
    console.rule("sample")
    console.print(sample(model, text, arguments.device, arguments.sample), markup=False, highlight=False)


if __name__ == "__main__":
    main()
