"""Llama-style decoders: RMSNorm, rotary positions in the real and the complex form, grouped-query attention, SwiGLU, and a KV cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload, next_tokens, token_loss

ROPE_BASE = 10000.0


def rotary_angles(positions: Tensor, width: int) -> Tensor:
    """Angles float32 [length, width / 2] of the rotary embedding (Su et al., 2021) at ``positions``."""
    frequencies = ROPE_BASE ** (-torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width)
    return torch.outer(positions.float(), frequencies)


def rotate_real(x: Tensor, angles: Tensor) -> Tensor:
    """Rotates [..., length, width] with the halves of the width as the two coordinates."""
    cos, sin = (torch.cat([part, part], -1).to(x.dtype) for part in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def rotate_complex(x: Tensor, angles: Tensor) -> Tensor:
    """Rotates [..., length, width] with neighbours as the parts of complex numbers."""
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


class Attention(nn.Module):
    """Grouped-query attention: ``heads`` queries share ``kv_heads`` keys and values."""

    def __init__(self, width: int, heads: int, kv_heads: int, complex_rotary: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.head_width = width // heads
        self.rotate = rotate_complex if complex_rotary else rotate_real
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor, cache: tuple[Tensor, Tensor] | None, positions: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            layer(x).view(batch, length, -1, self.head_width).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        query, key = self.rotate(query, angles), self.rotate(key, angles)
        if cache is not None:
            key, value = (kept.index_copy_(2, positions, new.to(kept.dtype)) for kept, new in zip(cache, (key, value), strict=True))
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, complex_rotary: bool) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads, complex_rotary)
        hidden = 8 * width // 3 // 32 * 32
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor, cache: tuple[Tensor, Tensor] | None, positions: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), angles, cache, positions, mask)
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Tokens int64 [batch, length] to logits [batch, length, vocabulary]; the embedding is the head too."""

    def __init__(self, vocabulary: int, layers: int, width: int, heads: int, kv_heads: int, complex_rotary: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, complex_rotary) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.decode(tokens, positions, [None] * len(self.blocks), None)

    def decode(self, tokens: Tensor, positions: Tensor, caches: list[tuple[Tensor, Tensor] | None], mask: Tensor | None) -> Tensor:
        """Logits of ``tokens`` at ``positions`` int64 [length], with keys and values put into the layers' caches in place.

        A cache is a pair [batch, kv_heads, capacity, head width]; ``mask`` bool [length, capacity] says which places are filled.
        """
        angles = rotary_angles(positions, self.blocks[0].attention.head_width)
        x = self.embedding(tokens)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, angles, cache, positions, mask)
        return functional.linear(self.norm(x), self.embedding.weight)

    def make_caches(self, batch: int, capacity: int) -> list[tuple[Tensor, Tensor]]:
        like = self.embedding.weight
        shapes = ((batch, block.attention.kv_heads, capacity, block.attention.head_width) for block in self.blocks)
        return [(like.new_zeros(shape), like.new_zeros(shape)) for shape in shapes]


class LlamaDecode(nn.Module):
    """One token at a time through a KV cache; the logits of every step, [batch, length, vocabulary]."""

    def __init__(self, model: Llama, capacity: int) -> None:
        super().__init__()
        self.model, self.capacity = model, capacity

    def forward(self, tokens: Tensor) -> Tensor:
        caches = self.model.make_caches(tokens.shape[0], self.capacity)
        places = torch.arange(self.capacity, device=tokens.device)
        steps = []
        for index in range(tokens.shape[1]):
            position = torch.full((1,), index, device=tokens.device)
            steps.append(self.model.decode(tokens[:, index : index + 1], position, list(caches), places[None] <= position))
        return torch.cat(steps, 1)


def llama(size: Size) -> Llama:
    return Llama(64, 2, 32, heads=4, kv_heads=2) if size == "small" else Llama(4096, 4, 384, heads=6, kv_heads=2)


def complex_llama(size: Size) -> Llama:
    return (
        Llama(64, 2, 32, heads=4, kv_heads=2, complex_rotary=True)
        if size == "small"
        else Llama(4096, 4, 384, heads=6, kv_heads=2, complex_rotary=True)
    )


def llama_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 16) if size == "small" else next_tokens(4096, 4, 256)


def llama_decode(size: Size) -> LlamaDecode:
    return LlamaDecode(llama(size).requires_grad_(False).eval(), capacity=16 if size == "small" else 128)


def decode_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 12) if size == "small" else next_tokens(4096, 1, 16)


WORKLOADS = (
    Workload("llama", llama, llama_batch, token_loss),
    Workload("llama complex rotary", complex_llama, llama_batch, token_loss),
    Workload("llama decode", llama_decode, decode_batch, token_loss, trains=False),
)
