"""Embedding, dropout and attention against CPU float64."""

from __future__ import annotations

import pytest
import torch
from lowering_reference import check, compare, run
from torch.testing import make_tensor

import torch_neuronx
from torch_neuronx.compiler.hlo.interpreter import LaunchError

aten = torch.ops.aten


def floats(*shape: int) -> torch.Tensor:
    return make_tensor(shape, device="cpu", dtype=torch.float32, low=-2, high=2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_embedding(dtype: torch.dtype) -> None:
    check(aten.embedding.default, floats(6, 3), torch.randint(6, (2, 4), dtype=dtype))


def test_an_index_outside_of_the_table_fails_the_launch() -> None:
    for index in (6, -1):
        with pytest.raises(LaunchError, match="outside of the table, which has 6 rows"):
            run(aten.embedding.default, [floats(6, 3), torch.tensor([index]), -1, False, False])


@pytest.mark.parametrize("by_frequency", [True, False])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_gradient_sums_equal_indices(padding: int, by_frequency: bool) -> None:
    indices = torch.tensor([[2, 0, 5], [0, 0, 2]])
    check(aten.embedding_dense_backward.default, floats(2, 3, 4), indices, 6, padding, by_frequency)


def test_dropout_keeps_its_share_scales_and_depends_on_seed_and_offset() -> None:
    x = torch.ones(4000)
    (out, mask), _ = run(aten.native_dropout.default, [x, 0.25, True], seed=3)
    assert out is not None
    assert mask is not None
    assert mask.dtype == torch.bool
    assert abs(mask.float().mean().item() - 0.75) < 0.03
    torch.testing.assert_close(out, mask.float() / 0.75)
    (_, again), _ = run(aten.native_dropout.default, [x, 0.25, True], seed=3)
    (_, other), _ = run(aten.native_dropout.default, [x, 0.25, True], seed=4)
    (_, later), _ = run(aten.native_dropout.default, [x, 0.25, True], seed=3, offset=1000)
    assert again is not None
    assert torch.equal(mask, again)
    assert not torch.equal(mask, other)
    assert not torch.equal(mask, later)


@pytest.mark.parametrize(("probability", "train", "kept"), [(0.0, True, 1.0), (1.0, True, 0.0), (0.5, False, 1.0)])
def test_dropout_that_is_certain(probability: float, train: bool, kept: float) -> None:
    x = floats(3, 4)
    (out, mask), _ = run(aten.native_dropout.default, [x, probability, train])
    compare("out", out, x * kept, 0, 0)
    compare("mask", mask, torch.full((3, 4), bool(kept)), 0, 0)


def test_dropout_gradient() -> None:
    check(aten.native_dropout_backward.default, floats(3, 4), torch.rand(3, 4) < 0.5, 2.0)


def attention_with_gradients(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None, causal: bool, grad: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    leaves = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    wide = None if bias is None else bias.double()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(
            *leaves, attn_mask=wide, is_causal=causal, enable_gqa=query.shape[1] != key.shape[1]
        )
    return out.detach(), *torch.autograd.grad(out, leaves, grad.double())


# (heads, key heads, rows, columns, shape of the bias, causal); PyTorch allows a bias or causal
ATTENTION_CASES = [
    (2, 2, 5, 5, None, True),
    (2, 2, 5, 5, None, False),
    (4, 2, 3, 6, None, True),
    (4, 2, 3, 6, None, False),
    (2, 2, 4, 6, (4, 6), False),
    (2, 2, 4, 6, (2, 1, 4, 6), False),
    (3, 1, 4, 4, (1, 3, 1, 4), False),
]


@pytest.mark.parametrize(("heads", "key_heads", "length", "keys", "bias_shape", "causal"), ATTENTION_CASES)
def test_attention(heads: int, key_heads: int, length: int, keys: int, bias_shape: tuple[int, ...] | None, causal: bool) -> None:
    query, key, value = floats(2, heads, length, 4), floats(2, key_heads, keys, 4), floats(2, key_heads, keys, 5)
    bias = None if bias_shape is None else floats(*bias_shape)
    grad = floats(2, heads, length, 5)
    expected = attention_with_gradients(query, key, value, bias, causal, grad)
    neuron = torch.ops.neuron
    (out, logsumexp), _ = run(neuron.attention.default, [query, key, value, bias, causal, 0.5])
    compare("out", out, expected[0], 1e-5, 1e-6)
    grads, _ = run(neuron.attention_backward.default, [grad, query, key, value, bias, out, logsumexp, causal, 0.5])
    for result, right in zip(grads, expected[1:], strict=True):
        compare("gradient", result, right, 1e-4, 1e-5)


def test_a_row_that_is_masked_whole_gives_zero() -> None:
    query, key, value = floats(1, 1, 2, 4), floats(1, 1, 3, 4), floats(1, 1, 3, 4)
    bias = torch.zeros(2, 3)
    bias[1] = float("-inf")
    (out, _), _ = run(torch.ops.neuron.attention.default, [query, key, value, bias, False, 0.5])
    assert out is not None
    assert out[0, 0, 1].tolist() == [0.0] * 4
    assert out[0, 0, 0].isfinite().all()


@pytest.mark.parametrize(("heads", "key_heads", "length", "keys", "bias_shape", "causal"), ATTENTION_CASES)
def test_attention_on_the_device_is_one_program_each_way(
    heads: int, key_heads: int, length: int, keys: int, bias_shape: tuple[int, ...] | None, causal: bool
) -> None:
    query, key, value = floats(2, heads, length, 4), floats(2, key_heads, keys, 4), floats(2, key_heads, keys, 5)
    bias = None if bias_shape is None else floats(*bias_shape)
    grad = floats(2, heads, length, 5)
    expected = attention_with_gradients(query, key, value, bias, causal, grad)
    leaves = [tensor.to("neuron").requires_grad_() for tensor in (query, key, value)]
    mask = None if bias is None else bias.to("neuron")
    torch_neuronx.clear_op_tracking()
    with torch_neuronx.fallback_policy("error"):
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=causal, enable_gqa=heads != key_heads)
        grads = torch.autograd.grad(out, leaves, grad.to("neuron"))
    for result, right in zip((out.detach(), *grads), expected, strict=True):
        compare("attention", result, right, 1e-4, 1e-5)
    executed = torch_neuronx.get_executed_ops()
    assert executed.count("neuron::attention") == 1
    assert executed.count("neuron::attention_backward") == 1


def test_attention_with_dropout_or_a_mask_that_learns_is_composed_of_other_operators() -> None:
    query = floats(1, 2, 3, 4).to("neuron").requires_grad_()
    mask = floats(3, 3).to("neuron").requires_grad_()
    torch_neuronx.clear_op_tracking()
    with torch_neuronx.fallback_policy("error"):
        torch.nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5).sum().backward()
        torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask).sum().backward()
    assert "neuron::attention" not in torch_neuronx.get_executed_ops()
    assert mask.grad is not None


def test_a_wrong_index_on_the_device_surfaces_at_the_next_synchronisation() -> None:
    table, indices = floats(6, 3).to("neuron"), torch.tensor([7]).to("neuron")
    torch.nn.functional.embedding(indices, table)
    with pytest.raises(RuntimeError, match=r"aten::embedding.*outside of the table, which has 6 rows"):
        torch.neuron.synchronize()
    assert table.sum().isfinite().item()
