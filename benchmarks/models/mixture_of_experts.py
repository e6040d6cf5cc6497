"""A transformer whose MLPs are mixtures of experts: top-k routing, and each expert's share gathered and added back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.models.encoders import Attention
from benchmarks.models.workload import Batch, Size, Workload, next_tokens, token_loss


class Experts(nn.Module):
    """Every token goes to the ``chosen`` experts with the highest scores, weighted by their softmax (Shazeer et al., 2017)."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights, indices = self.router(flat).float().softmax(-1).topk(self.chosen, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(flat.dtype)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            tokens, slot = torch.where(indices == number)
            out = out.index_add(0, tokens, (expert(flat[tokens]) * weights[tokens, slot, None]).to(out.dtype))
        return out.view_as(x)


class MixtureOfExperts(nn.Module):
    """Tokens int64 [batch, length] to logits [batch, length, vocabulary]."""

    def __init__(self, vocabulary: int, layers: int, width: int, heads: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.mixtures = nn.ModuleList(Experts(width, experts, chosen) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for number, (attention, mixture) in enumerate(zip(self.attentions, self.mixtures, strict=True)):
            x = x + attention(self.norms[2 * number](x))
            x = x + mixture(self.norms[2 * number + 1](x))
        return self.head(x)


def mixture_of_experts(size: Size) -> MixtureOfExperts:
    return MixtureOfExperts(64, 2, 32, 4, experts=4, chosen=2) if size == "small" else MixtureOfExperts(4096, 3, 384, 6, 8, 2)


def mixture_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 16) if size == "small" else next_tokens(4096, 4, 128)


WORKLOADS = (Workload("mixture of experts", mixture_of_experts, mixture_batch, token_loss),)
