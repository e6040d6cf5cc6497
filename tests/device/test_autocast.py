"""Mixed precision: which dtype ops run in, the default, and the gradient scaler."""

import threading

import pytest
import torch


def test_default_dtype_is_bfloat16():
    assert torch.get_autocast_dtype("neuron") == torch.bfloat16
    assert torch.neuron.get_amp_supported_dtype() == [torch.bfloat16, torch.float16] and torch.neuron.is_bf16_supported()


def test_default_dtype_holds_in_other_threads():
    seen = []

    def look():
        with torch.autocast("neuron"):
            seen.append(torch.get_autocast_dtype("neuron"))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [torch.bfloat16]


def test_a_default_that_the_user_sets_stays():
    torch.set_autocast_dtype("neuron", torch.float16)
    try:
        with torch.autocast("neuron"):
            assert torch.get_autocast_dtype("neuron") == torch.float16
    finally:
        torch.set_autocast_dtype("neuron", torch.bfloat16)


def test_autocast_of_other_devices_is_untouched():
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_products_run_in_low_precision_and_sensitive_ops_in_float32():
    a = torch.ones(2, 2).to("neuron")
    with torch.autocast("neuron"):
        product = a @ a
        assert product.dtype == torch.nn.functional.linear(a, a).dtype == torch.bfloat16
        assert torch.softmax(product, -1).dtype == product.exp().dtype == product.sum().dtype == torch.float32
        assert torch.nn.functional.layer_norm(product, (2,)).dtype == torch.float32
        assert torch.addcmul(a, product, product).dtype == torch.float32
        assert (product + 1).dtype == torch.bfloat16
    with torch.autocast("neuron", dtype=torch.float16):
        assert (a @ a).dtype == torch.float16
    assert (a @ a).dtype == torch.float32


def test_weights_are_cast_once_and_receive_float32_gradients():
    weight = torch.ones(2, 2).to("neuron").requires_grad_()
    with torch.autocast("neuron"):
        loss = (weight @ weight).float().sum()
    loss.backward()
    assert weight.grad.dtype == torch.float32 and weight.grad.cpu().tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_binary_cross_entropy_is_refused():
    half = torch.full((2,), 0.5).to("neuron")
    with torch.autocast("neuron"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        torch.nn.functional.binary_cross_entropy(half, half)


def test_grad_scaler_skips_a_step_with_infinite_gradients():
    weight = torch.nn.Parameter(torch.ones(2).to("neuron"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("neuron", init_scale=4.0)
    scaler.scale((weight * 0.5).sum()).backward()
    assert weight.grad.tolist() == [2.0, 2.0]
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5]
    optimizer.zero_grad()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5] and scaler.get_scale() == 2.0
