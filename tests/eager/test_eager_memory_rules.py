"""What a call may be given: tensors of one device, and written memory that no other argument shares in part."""

from __future__ import annotations

import pytest
import torch
from handmade_programs import Compiler

import torch_neuronx

MIX = r"Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


def test_a_cpu_tensor_among_device_tensors_is_an_error(compiler: Compiler) -> None:
    x = torch.randn(4)
    with pytest.raises(RuntimeError, match=MIX.format("neuron:0", "cpu")):
        x.to("neuron") + x
    with pytest.raises(RuntimeError, match=MIX.format("neuron:0", "cpu")):
        x + x.to("neuron")
    with pytest.raises(RuntimeError, match=MIX.format("neuron:0", "cpu")):
        torch.cat([x.to("neuron"), x])


def test_tensors_of_two_devices_are_an_error(compiler: Compiler) -> None:
    x = torch.randn(4)
    with pytest.raises(RuntimeError, match=MIX.format("neuron:0", "neuron:1")):
        x.to("neuron:0") + x.to("neuron:1")


def test_a_zero_dimensional_cpu_tensor_is_a_number_unless_it_is_written(compiler: Compiler) -> None:
    x, number = torch.randn(4).to("neuron"), torch.tensor(2.0)
    torch.testing.assert_close((x * number).cpu(), x.cpu() * 2)
    with pytest.raises(RuntimeError, match=MIX.format("neuron:0", "cpu")):
        torch.sum(x, 0, out=number)


def test_writing_to_memory_that_overlaps_itself_is_an_error(compiler: Compiler) -> None:
    x = torch.randn(4, 1).to("neuron").expand(4, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        x.add_(1)


def test_writing_to_memory_that_an_argument_shares_in_part_is_an_error(compiler: Compiler) -> None:
    x = torch.randn(8).to("neuron")
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        torch.mul(x[:4], x[:4], out=x[2:6])


def test_disjoint_parts_of_one_storage_may_be_read_and_written(compiler: Compiler) -> None:
    x = torch.randn(8)
    on_device = x.to("neuron")
    on_device[4:].add_(on_device[:4])
    x[4:].add_(x[:4])
    torch.testing.assert_close(on_device.cpu(), x)
    columns = torch.randn(4, 2).to("neuron")
    columns[:, 0].add_(columns[:, 1])


def test_an_argument_may_be_written_whole(compiler: Compiler) -> None:
    x = torch.randn(8)
    on_device = x.to("neuron")
    on_device.add_(on_device)
    torch.testing.assert_close(on_device.cpu(), x * 2)


def test_long_lists_are_checked_for_shared_memory(compiler: Compiler) -> None:
    flat = torch.zeros(300).to("neuron")
    parts = list(flat.split(3))
    torch._foreach_add_(parts, 1.0)
    assert flat.sum().item() == 300
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch._foreach_add_([*parts, flat[1:3]], 1.0)


def test_a_device_index_out_of_range_names_the_valid_range() -> None:
    count = torch.neuron.device_count()
    with pytest.raises(RuntimeError, match=rf"\b0\b.*\b{count - 1}\b"):
        torch.empty(2, device=f"neuron:{count}")


def test_an_op_on_another_device_leaves_the_current_one(compiler: Compiler) -> None:
    with torch_neuronx.fallback_policy("silent"):
        x = torch.ones(3, device="neuron:1") * 2
    assert x.device == torch.device("neuron:1")
    assert torch.neuron.current_device() == 0
