"""GPT, as examples/gpt.py has it."""

from __future__ import annotations

from benchmarks.models.workload import Batch, Size, Workload, next_tokens, token_loss
from examples.gpt import GPT


def gpt(size: Size) -> GPT:
    if size == "small":
        return GPT(vocabulary=64, context=16, layers=2, width=32, heads=4)
    return GPT(vocabulary=4096, context=256, layers=4, width=384, heads=6)


def gpt_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 16) if size == "small" else next_tokens(4096, 4, 256)


WORKLOADS = (Workload("gpt", gpt, gpt_batch, token_loss),)
