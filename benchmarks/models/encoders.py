"""Encoders and encoder-decoders: BERT, ViT, T5 with relative positions, CLIP, MLP-Mixer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload, class_loss, next_tokens, token_loss

CLASSES = 10


class Bert(nn.Module):
    """PyTorch's own encoder layers over tokens int64 [batch, length], with a padding mask: logits [batch, length, vocabulary]."""

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.encoder(x, src_key_padding_mask=padding))


def bert(size: Size) -> Bert:
    return Bert(64, 16, 2, 32, 4) if size == "small" else Bert(4096, 128, 4, 384, 6)


def bert_batch(size: Size) -> Batch:
    vocabulary, batch, length = (64, 3, 16) if size == "small" else (4096, 8, 128)
    tokens = torch.randint(vocabulary, (batch, length))
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    return Batch((tokens, torch.arange(length) >= lengths), (torch.randint(vocabulary, (batch, length)),))


class Attention(nn.Module):
    """Multi-head attention of x over ``memory`` (x itself if not given), with an additive bias [heads, length, memory length]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        query, key, value = (
            layer(source).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, source in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        mask = None if bias is None else bias.to(query.dtype)[None]
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(attended.transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    """A pre-norm transformer layer, with attention over ``memory`` between its two halves if it is a decoder's."""

    def __init__(self, width: int, heads: int, crosses: bool = False) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.cross_norm = nn.LayerNorm(width) if crosses else None
        self.cross = Attention(width, heads) if crosses else None
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, bias: Tensor | None = None, memory: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), bias=bias)
        if self.cross is not None and self.cross_norm is not None:
            x = x + self.cross(self.cross_norm(x), memory)
        return x + self.mlp(self.mlp_norm(x))


class VisionTransformer(nn.Module):
    """Images [batch, 3, side, side] to logits [batch, classes]: patches by a strided convolution, a class token, encoder blocks."""

    def __init__(self, side: int, patch: int, layers: int, width: int, heads: int, classes: int = CLASSES) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit(size: Size) -> VisionTransformer:
    return VisionTransformer(16, 4, 2, 32, 4) if size == "small" else VisionTransformer(112, 16, 4, 384, 6)


def vit_batch(size: Size) -> Batch:
    count, side = (4, 16) if size == "small" else (16, 112)
    return Batch((torch.randn(count, 3, side, side),), (torch.randint(CLASSES, (count,)),))


class RelativeBias(nn.Module):
    """T5's relative positions: a learned number per head and per bucket of distance (Raffel et al., 2020); [heads, length, length]."""

    BUCKETS, FURTHEST = 32, 128

    def __init__(self, heads: int, both_ways: bool) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.table = nn.Embedding(self.BUCKETS, heads)

    def forward(self, length: int) -> Tensor:
        places = torch.arange(length, device=self.table.weight.device)
        distance = places[None, :] - places[:, None]
        bias = self.table(self._bucket(distance)).permute(2, 0, 1)
        return bias if self.both_ways else bias.masked_fill(distance > 0, float("-inf"))

    def _bucket(self, distance: Tensor) -> Tensor:
        buckets = self.BUCKETS // 2 if self.both_ways else self.BUCKETS
        side = (distance > 0).long() * buckets if self.both_ways else torch.zeros_like(distance)
        distance = distance.abs() if self.both_ways else (-distance).clamp_min(0)
        exact = buckets // 2
        scale = (buckets - exact) / math.log(self.FURTHEST / exact)
        far = exact + (torch.log(distance.clamp_min(1).float() / exact) * scale).long()
        return side + torch.where(distance < exact, distance, far.clamp_max(buckets - 1))


class T5(nn.Module):
    """Source and target tokens to logits of the target: encoder and decoder share an embedding and have relative positions."""

    def __init__(self, vocabulary: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.encoder = nn.ModuleList(EncoderBlock(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(EncoderBlock(width, heads, crosses=True) for _ in range(layers))
        self.encoder_bias, self.decoder_bias = RelativeBias(heads, both_ways=True), RelativeBias(heads, both_ways=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, x = self.embedding(source), self.embedding(target)
        encoder_bias, decoder_bias = self.encoder_bias(source.shape[1]), self.decoder_bias(target.shape[1])
        for block in self.encoder:
            memory = block(memory, encoder_bias)
        for block in self.decoder:
            x = block(x, decoder_bias, memory)
        return functional.linear(self.norm(x), self.embedding.weight)


def t5(size: Size) -> T5:
    return T5(64, 2, 32, 4) if size == "small" else T5(4096, 3, 384, 6)


def t5_batch(size: Size) -> Batch:
    vocabulary, batch, length = (64, 2, 16) if size == "small" else (4096, 4, 128)
    target = next_tokens(vocabulary, batch, length)
    return Batch((torch.randint(vocabulary, (batch, length + 5)), *target.inputs), target.targets)


class Clip(nn.Module):
    """Images and texts to their similarity [batch, batch], scaled: two towers and a learned temperature (Radford et al., 2021)."""

    def __init__(self, side: int, patch: int, vocabulary: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.vision = VisionTransformer(side, patch, layers, width, heads, classes=width)
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.text = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(layers)))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        seen = functional.normalize(self.vision(images), dim=-1)
        hidden = self.text(self.tokens(tokens) + self.positions)
        last = hidden[torch.arange(len(tokens), device=tokens.device), tokens.argmax(-1)]
        return self.logit_scale.exp() * seen @ functional.normalize(last, dim=-1).t()


def contrastive_loss(similarity: Tensor, batch: Batch) -> Tensor:
    """Each image belongs to the text of its row, and each text to its image."""
    labels = torch.arange(len(similarity), device=similarity.device)
    return (functional.cross_entropy(similarity, labels) + functional.cross_entropy(similarity.t(), labels)) / 2


def clip(size: Size) -> Clip:
    return Clip(16, 4, 64, 12, 2, 32, 4) if size == "small" else Clip(112, 16, 4096, 64, 3, 384, 6)


def clip_batch(size: Size) -> Batch:
    count, side, vocabulary, length = (6, 16, 64, 12) if size == "small" else (16, 112, 4096, 64)
    return Batch((torch.randn(count, 3, side, side), torch.randint(vocabulary, (count, length))))


class MixerBlock(nn.Module):
    """An MLP over the tokens, then one over the channels (Tolstikhin et al., 2021)."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.token_norm, self.channel_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.over_channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_tokens(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.channel_norm(x))


class Mixer(nn.Module):
    """Images [batch, 3, side, side] to logits [batch, classes]."""

    def __init__(self, side: int, patch: int, layers: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.blocks = nn.Sequential(*(MixerBlock((side // patch) ** 2, width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.patches(images).flatten(2).transpose(1, 2))).mean(1))


def mixer(size: Size) -> Mixer:
    return Mixer(16, 4, 2, 32) if size == "small" else Mixer(112, 16, 4, 384)


WORKLOADS = (
    Workload("bert", bert, bert_batch, token_loss),
    Workload("vit", vit, vit_batch, class_loss),
    Workload("t5", t5, t5_batch, token_loss),
    Workload("clip", clip, clip_batch, contrastive_loss),
    Workload("mixer", mixer, vit_batch, class_loss),
)
