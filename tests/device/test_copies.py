"""copy_ and to(): every direction, dtype, layout and conjugate or negative bit, blocking or not. The CPU's own copy is the reference."""

import itertools

import pytest
import torch
from device_process import output_of

neuron = torch.neuron
LONG = 50_000_000

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
]
LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "strided": lambda t: t[:, 1:, ::2],
    "expanded": lambda t: t[:, :1].expand(t.shape),
    "channels_last": lambda t: t[None].to(memory_format=torch.channels_last),
    "empty": lambda t: t[:0],
}
DEVICES = ("cpu", "neuron:0", "neuron:1")


def values(dtype):
    base = torch.arange(2 * 4 * 6).reshape(2, 4, 6) % 7
    return (base > 3) if dtype == torch.bool else base.to(dtype)


def same(a, b):
    """Equal dtype and bits; NaN-free inputs."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and (a.numel() == 0 or torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)))
    )


def on(device, tensor, layout):
    """The tensor's values on a device in a layout, made from a plain copy of the memory below it."""
    return LAYOUTS[layout](tensor.to(device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_keeps_every_dtype(dtype):
    tensor = values(dtype)
    there = tensor.to("neuron")
    assert there.dtype == dtype and there.device.type == "neuron"
    assert same(there.cpu(), tensor)


@pytest.mark.parametrize(("source", "target"), [pair for pair in itertools.product(DEVICES, DEVICES) if pair != ("cpu", "cpu")])
@pytest.mark.parametrize(
    ("from_layout", "to_layout"), [(a, b) for a in LAYOUTS for b in ("contiguous", "transposed", "strided", "channels_last")]
)
def test_copies_between_all_devices_and_layouts(source, target, from_layout, to_layout):
    expected_source = LAYOUTS[from_layout](values(torch.float32))
    shape = expected_source.shape
    memory = torch.zeros(*(2 * size + 2 for size in shape))
    place = {
        "contiguous": lambda t: t.flatten()[: expected_source.numel()].view(shape),
        "transposed": lambda t: t.flatten()[: expected_source.numel()].view(shape[::-1]).permute(*reversed(range(len(shape)))),
        "strided": lambda t: t[tuple(slice(1, 1 + 2 * size, 2) for size in shape)],
        "channels_last": lambda t: t.flatten()[: expected_source.numel()].view(shape[0], *shape[2:], shape[1]).movedim(-1, 1),
    }[to_layout]
    expected = memory.clone()
    place(expected).copy_(expected_source)

    got = memory.to(target)
    place(got).copy_(on(source, values(torch.float32), from_layout))
    assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize(
    ("source", "target"), [("cpu", "neuron:0"), ("neuron:0", "cpu"), ("neuron:0", "neuron:0"), ("neuron:0", "neuron:1")]
)
@pytest.mark.parametrize("to_dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64, torch.uint8], ids=str)
@pytest.mark.parametrize("from_dtype", [torch.float32, torch.int32, torch.float16, torch.bool], ids=str)
def test_converting_copies_agree_with_the_cpu(source, target, from_dtype, to_dtype):
    tensor = values(from_dtype)
    expected = torch.zeros(tensor.shape, dtype=to_dtype).copy_(tensor)
    got = torch.empty(tensor.shape, dtype=to_dtype).to(target).copy_(tensor.to(source))
    assert same(got.cpu(), expected)


BITS = {
    "plain": lambda t: t,
    "conj": lambda t: t.conj(),
    "neg": lambda t: t._neg_view(),
    "conj neg": lambda t: t.conj()._neg_view(),
}


@pytest.mark.parametrize(("source", "target"), [pair for pair in itertools.product(DEVICES, DEVICES) if pair != ("cpu", "cpu")])
@pytest.mark.parametrize(("from_bits", "to_bits"), list(itertools.product(BITS, BITS)))
def test_conjugate_and_negative_bits_of_both_sides(source, target, from_bits, to_bits):
    tensor = torch.tensor([1 + 2j, -3 + 0.5j, 4 - 1j])
    expected = torch.zeros(3, dtype=torch.complex64)
    BITS[to_bits](expected).copy_(BITS[from_bits](tensor))
    got = torch.zeros(3, dtype=torch.complex64).to(target)
    BITS[to_bits](got).copy_(BITS[from_bits](tensor.to(source)))
    assert torch.equal(got.cpu(), expected)


def test_imaginary_part_of_a_conjugate_is_a_negative_view():
    there = torch.tensor([1 + 2j, 3 - 4j]).to("neuron")
    assert there.conj().imag.is_neg()
    assert there.conj().imag.cpu().tolist() == [-2.0, 4.0]
    assert there.conj().cpu().tolist() == [1 - 2j, 3 + 4j]


def test_source_is_broadcast():
    there = torch.empty(3, 4, device="neuron")
    assert there.copy_(torch.arange(4.0)).cpu().tolist() == [[0.0, 1.0, 2.0, 3.0]] * 3
    assert torch.zeros(2, 3).copy_(torch.ones(1).to("neuron")).tolist() == [[1.0] * 3] * 2


def test_sizes_that_do_not_broadcast_are_an_error():
    with pytest.raises(RuntimeError, match=r"size.*\(4\).*\(5\)|5.*4"):
        torch.empty(4, device="neuron").copy_(torch.arange(5.0))


def test_partial_overlap_is_refused_as_on_the_cpu():
    memory = torch.arange(8.0).to("neuron")
    with pytest.raises(RuntimeError, match="single memory location"):
        memory[1:].copy_(memory[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        memory[:1].expand(4).copy_(memory[4:])
    assert memory.copy_(memory).cpu().tolist() == list(range(8))


def test_blocking_copy_from_pageable_memory_lets_the_source_change():
    neuron._sleep(LONG)
    source = torch.arange(1000.0)
    there = source.to("neuron")
    assert not neuron.current_stream().query()  # set aside, not waited for
    source.zero_()
    assert torch.equal(there.cpu(), torch.arange(1000.0))


def test_large_copy_from_pageable_memory_lets_the_source_change():
    neuron._sleep(LONG)
    source = torch.arange(1 << 20, dtype=torch.float32)
    there = source.to("neuron", non_blocking=True)
    source.zero_()
    assert torch.equal(there.cpu(), torch.arange(1 << 20, dtype=torch.float32))


def test_non_blocking_copies_of_pinned_memory_return_at_once():
    source, target = torch.arange(1000.0).pin_memory(), torch.zeros(1000).pin_memory()
    neuron._sleep(LONG)
    target.copy_(source.to("neuron", non_blocking=True), non_blocking=True)
    assert not neuron.current_stream().query()
    neuron.synchronize()
    assert torch.equal(target, source)


def test_copy_to_pageable_memory_waits_even_when_non_blocking():
    there = torch.arange(4.0).to("neuron")
    neuron._sleep(LONG)
    assert torch.empty(4).copy_(there, non_blocking=True).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_copy_between_devices_is_ordered_with_both_streams():
    source = torch.arange(1000.0).pin_memory()
    with neuron.device(1):
        target = torch.zeros(1000, device="neuron:1")
        neuron._sleep(LONG)
    neuron._sleep(LONG)
    target.copy_(source.to("neuron:0", non_blocking=True))
    assert not neuron.current_stream(0).query()
    assert torch.equal(target.cpu(), source)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item_reads_every_dtype(dtype):
    expected = torch.ones(1, dtype=torch.bool if dtype == torch.bool else torch.int32).to(dtype)
    assert expected.to("neuron").item() == expected.item()


def test_item_waits_for_the_stream():
    neuron._sleep(LONG)
    assert torch.tensor([7]).pin_memory().to("neuron", non_blocking=True).item() == 7


def test_copying_from_a_meta_tensor_is_an_error():
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        torch.empty(2, device="neuron").copy_(torch.empty(2, device="meta"))


def test_everything_works_with_device_memory_unreadable_for_the_host():
    code = """
        import torch
        x = torch.arange(12.0).reshape(3, 4)
        d = x.to("neuron")
        assert torch.equal(d.t().cpu(), x.t()) and d[2, 3].item() == 11.0
        assert torch.equal(d.to("neuron:1")[:, ::2].cpu(), x[:, ::2])
        d.untyped_storage().resize_(4096)
        assert torch.equal(d.cpu(), x)
        assert d.resize_(1000)[:12].cpu().tolist() == x.flatten().tolist()
        print("ok")
    """
    assert output_of(code, {"TORCH_NEURONX_PROTECT_MEMORY": "1"}) == "ok\n"
