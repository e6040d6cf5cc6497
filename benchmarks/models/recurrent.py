"""Sequence models with state: LSTM, GRU, a speech-like model with CTC, a selective state space, and a bag of embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload, class_loss, next_tokens, token_loss

CLASSES = 10


class RecurrentTagger(nn.Module):
    """Tokens int64 [batch, length] to logits [batch, length, vocabulary] through a recurrent network of two layers."""

    def __init__(self, network: type[nn.LSTM] | type[nn.GRU], vocabulary: int, width: int, both_ways: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.network = network(width, width, num_layers=2, bidirectional=both_ways, batch_first=True)
        self.head = nn.Linear(width * (2 if both_ways else 1), vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.network(self.embedding(tokens))[0])


def lstm(size: Size) -> RecurrentTagger:
    return RecurrentTagger(nn.LSTM, 64, 24, both_ways=True) if size == "small" else RecurrentTagger(nn.LSTM, 1024, 256, both_ways=True)


def gru(size: Size) -> RecurrentTagger:
    return RecurrentTagger(nn.GRU, 64, 24, both_ways=False) if size == "small" else RecurrentTagger(nn.GRU, 1024, 256, both_ways=False)


def tagging_batch(size: Size) -> Batch:
    return next_tokens(64, 3, 9) if size == "small" else next_tokens(1024, 16, 48)


class SpeechModel(nn.Module):
    """Features [batch, time, bands] to log probabilities [time / 2, batch, symbols] for CTC: a strided convolution and a GRU."""

    def __init__(self, bands: int, width: int, symbols: int) -> None:
        super().__init__()
        self.reduce = nn.Conv1d(bands, width, 3, stride=2, padding=1)
        self.network = nn.GRU(width, width)
        self.head = nn.Linear(width, symbols)

    def forward(self, features: Tensor) -> Tensor:
        x = functional.gelu(self.reduce(features.transpose(1, 2))).permute(2, 0, 1)
        return self.head(self.network(x)[0]).log_softmax(-1)


def ctc_loss(log_probabilities: Tensor, batch: Batch) -> Tensor:
    time, count, _ = log_probabilities.shape
    symbols, lengths = batch.targets
    return functional.ctc_loss(log_probabilities.float(), symbols, (time,) * count, tuple(lengths.tolist()), zero_infinity=True)


def speech(size: Size) -> SpeechModel:
    return SpeechModel(8, 16, 12) if size == "small" else SpeechModel(80, 256, 32)


def speech_batch(size: Size) -> Batch:
    count, time, bands, symbols, longest = (3, 24, 8, 12, 5) if size == "small" else (8, 200, 80, 32, 30)
    lengths = torch.randint(1, longest + 1, (count,))
    return Batch((torch.randn(count, time, bands),), (torch.randint(1, symbols, (count, longest)), lengths))


class SelectiveStateSpace(nn.Module):
    """Mamba's block (Gu and Dao, 2023): a causal depthwise convolution, then a scan whose step sizes and couplings depend on the input."""

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.split = nn.Linear(width, 2 * width, bias=False)
        self.convolution = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.couplings = nn.Linear(width, 2 * state, bias=False)
        self.step = nn.Linear(width, width)
        self.rates = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner, gate = self.split(self.norm(x)).chunk(2, -1)
        inner = functional.silu(self.convolution(inner.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        write, read = self.couplings(inner).chunk(2, -1)
        steps = functional.softplus(self.step(inner))
        decay = torch.exp(steps[..., None] * -self.rates.exp())
        added = (steps * inner)[..., None] * write[:, :, None]
        state = torch.zeros_like(added[:, 0])
        outputs = []
        for time in range(x.shape[1]):
            state = decay[:, time] * state + added[:, time]
            outputs.append((state * read[:, time, None]).sum(-1))
        scanned = torch.stack(outputs, 1) + self.skip * inner
        return x + self.out((scanned * functional.silu(gate)).to(x.dtype))


class Mamba(nn.Module):
    """Tokens int64 [batch, length] to logits [batch, length, vocabulary]."""

    def __init__(self, vocabulary: int, layers: int, width: int, state: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(SelectiveStateSpace(width, state) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


def mamba(size: Size) -> Mamba:
    return Mamba(64, 2, 16, 4) if size == "small" else Mamba(1024, 2, 256, 16)


def mamba_batch(size: Size) -> Batch:
    return next_tokens(64, 2, 10) if size == "small" else next_tokens(1024, 4, 64)


class BagOfWords(nn.Module):
    """Tokens int64 [batch, length], each with a weight, to logits [batch, classes]: a weighted sum of embeddings and an MLP."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(vocabulary, width, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES))

    def forward(self, tokens: Tensor, weights: Tensor) -> Tensor:
        return self.mlp(self.bag(tokens, per_sample_weights=weights))


def bag_of_words(size: Size) -> BagOfWords:
    return BagOfWords(64, 16) if size == "small" else BagOfWords(50_000, 256)


def bag_batch(size: Size) -> Batch:
    vocabulary, count, length = (64, 5, 7) if size == "small" else (50_000, 256, 64)
    return Batch((torch.randint(vocabulary, (count, length)), torch.rand(count, length)), (torch.randint(CLASSES, (count,)),))


WORKLOADS = (
    Workload("lstm", lstm, tagging_batch, token_loss),
    Workload("gru", gru, tagging_batch, token_loss),
    Workload("ctc", speech, speech_batch, ctc_loss),
    Workload("mamba", mamba, mamba_batch, token_loss),
    Workload("embedding bag", bag_of_words, bag_batch, class_loss),
)
