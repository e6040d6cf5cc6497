"""Pinned host memory: the blocks that asynchronous copies use."""

import torch

neuron = torch.neuron
LONG = 50_000_000


def test_pinned_tensors_and_views_of_them_know_it():
    pinned = torch.arange(10.0).pin_memory()
    assert pinned.is_pinned() and pinned[3:].is_pinned() and pinned.device.type == "cpu"
    assert torch.empty(4, pin_memory=True).is_pinned()
    assert not torch.arange(10.0).is_pinned()
    assert pinned.tolist() == list(range(10))


def test_pinned_block_is_reused_only_after_the_copy_that_reads_it():
    pinned = torch.full((1000,), 3.0).pin_memory()
    address = pinned.data_ptr()
    neuron._sleep(LONG)
    there = pinned[500:].to("neuron", non_blocking=True)
    del pinned
    other = torch.empty(1000, pin_memory=True).zero_()
    assert other.data_ptr() != address
    assert there.cpu().tolist() == [3.0] * 500
    assert torch.empty(1000, pin_memory=True).data_ptr() == address


def test_free_block_is_reused():
    address = torch.empty(3000, pin_memory=True).data_ptr()
    assert torch.empty(3000, pin_memory=True).data_ptr() == address


def test_empty_host_cache_keeps_what_is_in_use():
    pinned = torch.arange(5000.0).pin_memory()
    del_later = torch.empty(5000, pin_memory=True)
    del del_later
    torch.accelerator.empty_host_cache()
    assert pinned.is_pinned() and pinned[-1] == 4999.0


def test_data_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    batches = [batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat(batches).tolist() == list(range(10))
