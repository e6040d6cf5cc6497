"""Transformers: GPT."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload
from examples.gpt import GPT


def token_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of logits [batch, length, vocabulary] against the tokens that follow."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), batch.targets[0].flatten())


def next_tokens(vocabulary: int, batch: int, length: int) -> Batch:
    tokens = torch.randint(vocabulary, (batch, length + 1))
    return Batch((tokens[:, :-1].contiguous(),), (tokens[:, 1:].contiguous(),))


def gpt(size: Size) -> GPT:
    if size == "small":
        return GPT(vocabulary=64, context=16, layers=2, width=32, heads=4)
    return GPT(vocabulary=4096, context=256, layers=4, width=384, heads=6)


def gpt_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 16) if size == "small" else next_tokens(4096, 4, 256)


WORKLOADS = (Workload("gpt", gpt, gpt_batch, token_loss),)
