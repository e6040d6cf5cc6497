"""Composites mean what PyTorch's operations mean, and decompositions mean what the interpreter says of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hlo_modules import module_of, run
from hlo_samples import all_samples
from torch.nn import functional

from torch_neuronx.compiler.hlo.composite_rules import pooled_shape
from torch_neuronx.compiler.hlo.composites import DECOMPOSITIONS, expand_composites
from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.ops import COMPOSITES
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.hlo.verify import verify

F64, I64 = DType.F64, DType.I64


def close(actual: Any, expected: torch.Tensor) -> None:
    assert actual.shape == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-10, atol=1e-12)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LIBRARY_ONLY = {
    *("sort", "fft", "special_function", "cholesky", "lu_factor", "lu_unpack", "lu_solve", "triangular_solve", "qr", "eigh", "eig", "svd"),
    *("geqrf", "householder_product", "householder_multiply", "ldl_factor", "ldl_solve", "matrix_exponential"),
    *("random_variate", "grouped_matmul"),
}


def test_what_only_a_library_computes_has_no_decomposition() -> None:
    assert set(COMPOSITES) - set(DECOMPOSITIONS) == LIBRARY_ONLY


def test_expanded_samples_have_the_same_results() -> None:
    for sample in all_samples():
        expanded = expand_composites(sample.module)
        verify(expanded)
        composites = [operation for operation in expanded.operations if operation.name == "composite"]
        assert all(operation.attributes["name"] in LIBRARY_ONLY for operation in composites), sample.label
        if expanded is not sample.module:
            for whole, parts in zip(interpret(sample.module, sample.inputs), interpret(expanded, sample.inputs), strict=True):
                np.testing.assert_allclose(parts, whole, rtol=1e-6, atol=1e-6, err_msg=sample.label)


def test_only_the_named_composites_are_expanded() -> None:
    module = module_of(lambda b, x: b.scan(b.scan(x, "add", 0), "maximum", 0), ((3,), F64))
    assert expand_composites(module, only=["topk"]) is module
    names = [operation.name for operation in expand_composites(module, only=["scan"]).operations]
    assert names == ["reduce_window", "reduce_window"]


def attention(q: Any, k: Any, v: Any, *mask: Any, causal: bool = False, scale: float = 0.4) -> list[Any]:
    """[out, logsumexp, dq, dk, dv] for the gradient 2 out."""

    def build(b: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
        attributes = {"causal": causal, "scale": scale}
        out_type = TensorType((*q.shape[:3], v.shape[3]), F64)
        out, logsumexp = b.composite("attention", (q, k, v, *mask), attributes, (out_type, TensorType(q.shape[:3], F64)))
        dout = b.add(out, out)
        return [
            out,
            logsumexp,
            *b.composite("attention_backward", (dout, q, k, v, out, logsumexp, *mask), attributes, (q.type, k.type, v.type)),
        ]

    return run(build, q.detach().numpy(), k.detach().numpy(), v.detach().numpy(), *(each.numpy() for each in mask))


@pytest.mark.parametrize(("mask", "causal"), [(None, False), (None, True), ("additive", False), ("boolean", False)])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_attention_and_its_gradient(mask: str | None, causal: bool, key_heads: int) -> None:
    q, k, v = (
        randn(*shape, seed=seed).requires_grad_() for seed, shape in enumerate([(2, 4, 3, 5), (2, key_heads, 6, 5), (2, key_heads, 6, 2)])
    )
    masks = {None: [], "additive": [randn(1, 4, 3, 6)], "boolean": [randn(2, 1, 1, 6) > -1]}[mask]
    expected = functional.scaled_dot_product_attention(
        q, k, v, masks[0] if masks else None, is_causal=causal, scale=0.4, enable_gqa=key_heads != 4
    )
    (expected * expected).sum().backward()
    out, _, dq, dk, dv = attention(q, k, v, *masks, causal=causal)
    for actual, reference in ((out, expected), (dq, q.grad), (dk, k.grad), (dv, v.grad)):
        close(actual, reference)


def test_attention_gives_logsumexp_of_scaled_scores() -> None:
    q, k = randn(1, 1, 3, 4), randn(1, 1, 5, 4, seed=1)
    close(attention(q, k, k)[1], torch.logsumexp(0.4 * q @ k.mT, -1))


def test_attention_of_a_row_without_columns_is_zero() -> None:
    q, k = randn(1, 1, 2, 4), randn(1, 1, 3, 4, seed=1)
    out, logsumexp, dq, dk, dv = attention(q, k, k, torch.tensor([[True, False, True], [False] * 3])[None, None])
    assert (out[0, 0, 1] == 0).all() and logsumexp[0, 0, 1] == -np.inf
    assert (dq[0, 0, 1] == 0).all() and np.isfinite(dk).all() and np.isfinite(dv).all() and (dv[0, 0, 1] == 0).all()


def test_attention_without_keys_is_zero() -> None:
    out, logsumexp, *_ = attention(randn(1, 2, 3, 4), randn(1, 2, 0, 4), randn(1, 2, 0, 5))
    assert (out == 0).all() and (logsumexp == -np.inf).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("groups", "stride", "padding", "dilation", "output_padding"),
    [
        (1, (1, 1), (0, 0), (1, 1), (0, 0)),
        (2, (2, 3), (1, 1), (1, 2), (1, 1)),
        (4, (3, 1), (0, 2), (2, 1), (2, 0)),
        (2, (1, 2), (3, 2), (1, 1), (0, 1)),
    ],
)
def test_convolution_gradients(transposed: bool, groups: int, stride: Any, padding: Any, dilation: Any, output_padding: Any) -> None:
    x = randn(2, 4, 8, 7).requires_grad_()
    weight = randn(*((4, 8 // groups) if transposed else (8, 4 // groups)), 3, 2, seed=1).requires_grad_()
    extra = output_padding if transposed else (0, 0)
    out = torch.convolution(x, weight, None, stride, padding, dilation, transposed, extra, groups)
    dout = randn(*out.shape, seed=2)
    out.backward(dout)
    attributes = {
        "strides": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "transposed": transposed,
        "output_padding": extra,
    }

    def build(b: Any, dout: Any, x: Any, w: Any) -> Any:
        (dx,) = b.composite("convolution_input_grad", (dout, w), {**attributes, "input_shape": x.shape}, (x.type,))
        (dw,) = b.composite("convolution_weight_grad", (dout, x), {**attributes, "weight_shape": w.shape}, (w.type,))
        return [dx, dw]

    dx, dw = run(build, dout.numpy(), x.detach().numpy(), weight.detach().numpy())
    close(dx, x.grad)
    close(dw, weight.grad)


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("window", "stride", "padding", "dilation"), [((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 2), (2, 3), (1, 1), (2, 1))])
def test_max_pool(window: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
    x = (randn(2, 3, 9, 8) * 2).round()
    x[0, 0, 3, 3], x[0, 1, :4] = torch.nan, -torch.inf
    x.requires_grad_()
    values, indices = functional.max_pool2d(x, window, stride, padding, dilation, ceil, return_indices=True)
    values.nansum().backward()
    attributes = {"window": window, "strides": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}

    def build(b: Any, x: Any) -> Any:
        shape = pooled_shape(x.type, window, stride, padding, dilation, ceil)
        values, indices = b.composite("max_pool", (x,), attributes, (TensorType(shape, F64), TensorType(shape, I64)))
        ones = b.convert(b.not_(b.is_nan(values)), F64)
        return [values, indices, *b.composite("max_pool_backward", (ones, indices), {"input_shape": x.shape}, (x.type,))]

    got_values, got_indices, gradient = run(build, x.detach().numpy())
    np.testing.assert_array_equal(got_values, values.detach().numpy())
    np.testing.assert_array_equal(got_indices, indices.numpy())
    close(gradient, x.grad)


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("include", "divisor"), [(True, None), (False, None), (True, 3)])
@pytest.mark.parametrize(("window", "stride", "padding"), [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 3), (1, 1))])
def test_avg_pool(window: Any, stride: Any, padding: Any, include: bool, divisor: int | None, ceil: bool) -> None:
    x = randn(2, 3, 9, 8).requires_grad_()
    out = functional.avg_pool2d(x, window, stride, padding, ceil, include, divisor)
    (out * out).sum().backward()
    attributes = {"window": window, "strides": stride, "padding": padding, "ceil_mode": ceil}
    attributes |= {"count_include_pad": include, "divisor": divisor}

    def build(b: Any, x: Any) -> Any:
        shape = pooled_shape(x.type, window, stride, padding, (1, 1), ceil)
        (out,) = b.composite("avg_pool", (x,), attributes, (TensorType(shape, F64),))
        return [out, *b.composite("avg_pool_backward", (b.add(out, out),), {**attributes, "input_shape": x.shape}, (x.type,))]

    got, gradient = run(build, x.detach().numpy())
    close(got, out)
    close(gradient, x.grad)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_with_nan_as_the_largest(descending: bool) -> None:
    x = torch.tensor([[3, torch.nan, -0.0, 0.0, -torch.inf, 3, torch.nan], [1, 1, 1, 0, 0, 2, 2]], dtype=torch.float64)
    types = (TensorType((2, 7), F64), TensorType((2, 7), I64))
    attributes = {"dim": 1, "descending": descending, "stable": True}
    values, indices = run(lambda b, x: b.composite("sort", (x,), attributes, types), x.numpy())
    expected = torch.sort(x, dim=1, descending=descending, stable=True)
    np.testing.assert_array_equal(values, expected.values.numpy())
    np.testing.assert_array_equal(indices, expected.indices.numpy())


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest: bool) -> None:
    x = randn(4, 5)
    types = (TensorType((2, 5), F64), TensorType((2, 5), I64))
    values, indices = run(lambda b, x: b.composite("topk", (x,), {"dim": 0, "k": 2, "largest": largest}, types), x.numpy())
    expected = torch.topk(x, 2, dim=0, largest=largest)
    close(values, expected.values)
    np.testing.assert_array_equal(indices, expected.indices.numpy())


def test_ctc_loss_and_its_gradient() -> None:
    logits = randn(6, 4, 5).requires_grad_()
    targets, sizes = torch.tensor([[1, 2, 1], [3, 3, 4], [2, 0, 0], [0, 0, 0]]), ([6, 5, 4, 2], [3, 3, 1, 0])
    log_probs, grad = logits.log_softmax(-1), randn(4, seed=1)
    expected = functional.ctc_loss(log_probs, targets, *sizes, reduction="none")
    expected.backward(grad)

    def build(b: Any, grad: Any, *operands: Any) -> Any:
        loss, alpha = b.composite("ctc_loss", operands, {"blank": 0}, (grad.type, TensorType((4, 6, 7), F64)))
        attributes = {"blank": 0, "zero_infinity": False}
        return [loss, *b.composite("ctc_loss_backward", (grad, *operands, loss, alpha), attributes, (operands[0].type,))]

    arrays = [grad.numpy(), log_probs.detach().numpy(), targets.numpy(), *(np.array(each) for each in sizes)]
    loss, gradient = run(build, *arrays)
    close(loss, expected)
    assert logits.grad is not None
    # The composite's gradient is by the logits already where probabilities are normalised, as they are here.
    close(gradient, logits.grad)


def test_scan() -> None:
    x = randn(3, 4)
    close(run(lambda b, x: b.scan(x, "add", 1), x.numpy()), x.cumsum(1))
    close(run(lambda b, x: b.scan(x, "multiply", 0), x.numpy()), x.cumprod(0))
    close(run(lambda b, x: b.scan(x, "maximum", 1), x.numpy()), x.cummax(1).values)
    close(run(lambda b, x: b.scan(x, "add", 0), np.zeros((0, 2))), torch.zeros(0, 2, dtype=torch.float64))


def test_philox_known_answer() -> None:
    # Random123's kat_vectors, "philox4x32 10" with counter and key zero.
    words = run(lambda b, s, o: b.composite("philox", (s, o), {"count": 4}, (TensorType((4,), DType.UI32),)), np.uint64(0), np.uint64(0))
    assert [hex(word) for word in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_philox_words_of_a_counter_lie_apart_and_counters_are_offsets() -> None:
    def draw(offset: int, count: int) -> Any:
        build = lambda b, s, o: b.composite("philox", (s, o), {"count": count}, (TensorType((count,), DType.UI32),))  # noqa: E731
        return run(build, np.uint64(7), np.uint64(offset))

    three = draw(2**40, 12).reshape(4, 3)
    np.testing.assert_array_equal(three[:, 2], draw(2**40 + 2, 4))
    np.testing.assert_array_equal(draw(2**40, 10), draw(2**40, 12)[:10])
