"""Mixed precision: which dtype ops run in, the default, and the gradient scaler."""

import threading
from collections import Counter

import pytest
import torch
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Conversions(TorchDispatchMode):
    """Counts the conversions from float32 by the shape of what is converted."""

    def __init__(self):
        super().__init__()
        self.of = Counter()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        if op is torch.ops.aten._to_copy.default and args[0].dtype == torch.float32 and result.dtype != torch.float32:
            self.of[tuple(args[0].shape)] += 1
        return result


def weight_and_input():
    return torch.randn(3, 4).to("neuron").requires_grad_(), torch.randn(2, 4).to("neuron")


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


def test_a_weight_is_converted_once_in_a_region_and_again_in_the_next():
    weight, x = weight_and_input()
    with Conversions() as conversions:
        for regions in (1, 2):
            with torch.autocast("neuron"):
                linear(x, weight), linear(x, weight)
            assert conversions.of == {(3, 4): regions, (2, 4): 2 * regions}


def test_the_next_region_sees_an_updated_weight():
    weight, x = weight_and_input()
    with torch.autocast("neuron"):
        linear(x, weight)
    with torch.no_grad():
        weight.zero_()
    with torch.autocast("neuron"):
        assert not linear(x, weight).any()


def test_an_inner_region_keeps_what_the_outer_one_has_converted():
    weight, x = weight_and_input()
    with Conversions() as conversions, torch.autocast("neuron"):
        linear(x, weight)
        with torch.autocast("neuron"):
            linear(x, weight)
        linear(x, weight)
    assert conversions.of[3, 4] == 1


def test_without_the_cache_every_use_converts():
    weight, x = weight_and_input()
    with Conversions() as conversions, torch.autocast("neuron", cache_enabled=False):
        linear(x, weight), linear(x, weight)
    assert conversions.of[3, 4] == 2


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_a_weight_that_is_first_used_without_gradients_still_gets_one(device):
    weight, x = (tensor.detach().to(device) for tensor in weight_and_input())
    weight.requires_grad_()
    with torch.autocast(device, dtype=torch.bfloat16):
        with torch.no_grad():
            assert not linear(x, weight).requires_grad
        result = linear(x, weight)
    result.float().sum().backward()
    assert torch.allclose(weight.grad.cpu(), x.cpu().bfloat16().sum(0).float().expand(3, 4), atol=2e-2)


def test_regions_nest_and_what_is_disabled_runs_in_its_own_dtype():
    a = torch.ones(2, 2).to("neuron")
    seen = [torch.is_autocast_enabled("neuron")]
    with torch.autocast("neuron"):
        outer = a @ a
        with torch.autocast("neuron", dtype=torch.float16):
            inner = a @ outer
            with torch.autocast("neuron", enabled=False):
                seen.append(torch.is_autocast_enabled("neuron"))
                assert (a @ a).dtype == torch.float32 and (outer @ outer).dtype == torch.bfloat16 and inner.exp().dtype == torch.float16
            seen.append(torch.is_autocast_enabled("neuron"))
            assert (a @ a).dtype == inner.dtype == torch.float16
        assert (inner @ inner).dtype == outer.dtype == torch.bfloat16
    assert [*seen, torch.is_autocast_enabled("neuron")] == [False, False, True, False]


def test_an_exception_ends_the_region():
    with pytest.raises(ZeroDivisionError), torch.autocast("neuron", dtype=torch.float16):
        _ = 1 / 0
    assert not torch.is_autocast_enabled("neuron") and torch.get_autocast_dtype("neuron") == torch.bfloat16


def test_as_a_decorator():
    @torch.autocast("neuron", dtype=torch.float16)
    def product(a):
        return a @ a

    a = torch.ones(2, 2).to("neuron")
    assert product(a).dtype == torch.float16 and (a @ a).dtype == torch.float32


def test_other_devices_tensors_keep_their_dtype_inside():
    with torch.autocast("neuron"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_a_backward_pass_that_is_recomputed_runs_in_the_same_precision():
    weight, x = weight_and_input()
    gradients = []
    for reentrant in (None, False, True):
        weight.grad = None
        with torch.autocast("neuron"):
            layer = lambda x: linear(x, weight).exp()  # noqa: E731
            result = layer(x) if reentrant is None else checkpoint(layer, x.requires_grad_(), use_reentrant=reentrant)
        result.sum().backward()
        gradients.append(weight.grad.cpu())
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])


class Product(torch.autograd.Function):
    """Records the dtypes that its two passes see."""

    seen: list[torch.dtype] = []  # noqa: RUF012

    @staticmethod
    @torch.amp.custom_fwd(device_type="neuron")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        Product.seen.append((a @ b).dtype)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="neuron")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        Product.seen.append((a @ b).dtype)
        return grad @ b.t(), a.t() @ grad


class Float32Product(Product):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward.__wrapped__, device_type="neuron", cast_inputs=torch.float32))


@pytest.mark.parametrize(("function", "dtype"), [(Product, torch.bfloat16), (Float32Product, torch.float32)])
def test_custom_functions_run_backward_as_forward(function, dtype):
    Product.seen.clear()
    a = torch.ones(2, 2).to("neuron").requires_grad_()
    with torch.autocast("neuron"):
        result = function.apply(a, a)
    result.float().sum().backward()
    assert Product.seen == [dtype, dtype] and result.dtype == dtype and a.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


@pytest.mark.parametrize("network", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_convert_their_weights_once(network):
    layer = network(4, 3).to("neuron")
    with Conversions() as conversions, torch.autocast("neuron"):
        output, states = layer(torch.randn(5, 2, 4).to("neuron"))
    assert conversions.of[tuple(layer.weight_ih_l0.shape)] == conversions.of[tuple(layer.weight_hh_l0.shape)] == 1
    states = states if isinstance(states, tuple) else (states,)
    assert {output.dtype, *(state.dtype for state in states)} == {torch.bfloat16}


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
