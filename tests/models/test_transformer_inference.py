"""PyTorch's own transformer layers in evaluation, where they call operators of their own for inference; and decoding with a KV cache."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

import torch_neuronx
from benchmarks.models.llama import LlamaDecode, decode_batch, llama

MODES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def padding(batch: int, length: int) -> Tensor:
    """True where a sequence has ended; the first is full."""
    return torch.arange(length) >= torch.tensor([length, *range(length - 1, length - batch, -1)])[:, None]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "both"])
def test_an_encoder_in_evaluation(mode: str, norm_first: bool, activation: str, masks: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation=activation, norm_first=norm_first, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 6, 16)
    options = {}
    if masks in ("padding", "both"):
        options["src_key_padding_mask"] = padding(3, 6)
    if masks in ("causal", "both"):
        options["mask"] = torch.ones(6, 6).triu(1).bool()
    expected = copy.deepcopy(encoder).double()(x.double(), **options)
    device_encoder = copy.deepcopy(encoder).to("neuron")
    with torch_neuronx.fallback_policy("error"), MODES[mode]():
        actual = device_encoder(x.to("neuron"), **{name: mask.to("neuron") for name, mask in options.items()}).cpu()
    kept = ~options["src_key_padding_mask"] if "src_key_padding_mask" in options else torch.ones(3, 6, dtype=torch.bool)
    torch.testing.assert_close(actual[kept], expected[kept].float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_multi_head_attention_in_evaluation(need_weights: bool, average: bool) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x, mask = torch.randn(3, 6, 16), padding(3, 6)
    options = {"need_weights": need_weights, "average_attn_weights": average}
    expected = copy.deepcopy(attention).double()(*(x.double(),) * 3, key_padding_mask=mask, **options)
    device_attention, there = copy.deepcopy(attention).to("neuron"), x.to("neuron")
    with torch_neuronx.fallback_policy("error"), torch.inference_mode():
        actual = device_attention(there, there, there, key_padding_mask=mask.to("neuron"), **options)
    torch.testing.assert_close(actual[0].cpu(), expected[0].float(), rtol=1e-4, atol=1e-5)
    assert (actual[1] is None) == (expected[1] is None)
    if expected[1] is not None:
        torch.testing.assert_close(actual[1].cpu(), expected[1].float(), rtol=1e-4, atol=1e-5)


def test_decoding_through_a_cache_needs_programs_for_the_first_steps_only() -> None:
    torch.manual_seed(0)
    model = LlamaDecode(llama("small").requires_grad_(False).eval(), capacity=16)
    tokens = decode_batch("small").inputs[0]
    device_model, there, other = copy.deepcopy(model).to("neuron"), tokens.to("neuron"), tokens.flip(1)
    with torch_neuronx.fallback_policy("error"), torch.no_grad():
        actual = device_model(there)
        known = torch_neuronx.eager.statistics().executables
        torch.testing.assert_close(device_model(other.to("neuron")).cpu(), model(other), rtol=1e-4, atol=1e-5)
    assert torch_neuronx.eager.statistics().executables == known
    torch.testing.assert_close(actual.cpu(), model(tokens), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(tokens), model.model(tokens), rtol=1e-4, atol=1e-5)
