"""Device memory: statistics, limits, out of memory, history and snapshots, storages that grow."""

import pickle

import pytest
import torch
from device_process import output_of

neuron = torch.neuron
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _start_of_the_test_is_the_peak():
    neuron.empty_cache()
    neuron.reset_peak_memory_stats()


def test_statistics_follow_allocations():
    before = neuron.memory_allocated()
    tensor = torch.empty(4 * MIB, dtype=torch.uint8, device="neuron")
    assert neuron.memory_allocated() == before + 4 * MIB
    assert neuron.memory_reserved() >= neuron.memory_allocated()
    del tensor
    assert neuron.memory_allocated() == before and neuron.max_memory_allocated() == before + 4 * MIB
    neuron.reset_peak_memory_stats()
    assert neuron.max_memory_allocated() == before


def test_statistics_are_nested_and_flat():
    tensor = torch.empty(100, device="neuron")
    stats = neuron.memory_stats()
    assert stats["allocated_bytes"]["current"] == stats["allocated_bytes.all.current"] > 0
    assert stats["requested_bytes"]["small_pool"]["current"] == stats["requested_bytes.small_pool.current"] >= tensor.nbytes
    assert stats["num_ooms"] == neuron.memory_stats("neuron:0")["num_ooms"]


def test_accelerator_memory_functions_agree():
    tensor = torch.empty(100, device="neuron")
    assert torch.accelerator.memory_allocated() == neuron.memory_allocated() > 0
    assert torch.accelerator.memory_reserved() == neuron.memory_reserved()
    assert torch.accelerator.get_memory_info() == neuron.mem_get_info()
    assert torch.accelerator.memory_stats()["active.all.current"] == neuron.memory_stats()["active.all.current"]
    torch.accelerator.reset_accumulated_memory_stats()
    assert neuron.memory_stats()["allocated_bytes.all.allocated"] == 0
    del tensor


def test_accumulated_statistics_can_be_reset_per_device():
    torch.empty(100, device="neuron:1")
    neuron.reset_accumulated_memory_stats(1)
    assert neuron.memory_stats(1)["allocation.all.allocated"] == 0


def test_free_and_total_memory():
    free, total = neuron.mem_get_info()
    tensor = torch.empty(64 * MIB, dtype=torch.uint8, device="neuron")
    assert total == neuron.get_device_properties(0).total_memory and free - neuron.mem_get_info()[0] >= 64 * MIB
    del tensor
    neuron.empty_cache()
    assert neuron.mem_get_info()[0] == free


def test_summary_is_a_table_for_people():
    tensor = torch.empty(3 * MIB, dtype=torch.uint8, device="neuron:3")
    summary = neuron.memory_summary(3)
    assert "neuron:3" in summary and "3.0 MiB" in summary and "large pool" in summary
    assert "large pool" not in neuron.memory_summary(3, abbreviated=True)
    del tensor


def test_empty_tensor_has_a_null_pointer_on_its_device():
    tensor = torch.empty(0, 3, device="neuron:2")
    assert tensor.data_ptr() == 0 and tensor.device == tensor.untyped_storage().device == torch.device("neuron:2")


def test_out_of_memory_is_torchs_error_and_the_device_goes_on():
    code = """
        import torch
        keep = torch.full((1 << 20,), 7, dtype=torch.uint8).to("neuron")
        cached = torch.empty(40 << 20, dtype=torch.uint8, device="neuron")
        del cached
        try:
            torch.empty(65 << 20, dtype=torch.uint8, device="neuron")
        except torch.OutOfMemoryError as error:
            print("65" in str(error), "64" in str(error))
        again = torch.empty(60 << 20, dtype=torch.uint8, device="neuron")
        print(again.shape[0] >> 20, keep[5].item())
        print(torch.neuron.memory_stats()["num_ooms"], torch.neuron.memory_stats()["num_alloc_retries"] > 0)
    """
    assert output_of(code, {"TORCH_NEURONX_DEVICE_MEMORY": "64MiB"}) == "True True\n60 7\n1 True\n"


def test_memory_fraction_limits_the_process():
    neuron.set_per_process_memory_fraction(0.001, 3)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(64 * MIB, dtype=torch.uint8, device="neuron:3")
    finally:
        neuron.set_per_process_memory_fraction(1.0, 3)
    torch.empty(64 * MIB, dtype=torch.uint8, device="neuron:3")


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5])
def test_memory_fraction_out_of_range_is_an_error(fraction):
    with pytest.raises(RuntimeError, match="fraction"):
        neuron.set_per_process_memory_fraction(fraction)


def test_snapshot_accounts_for_every_segment():
    tensor = torch.empty(3 * MIB, dtype=torch.uint8, device="neuron:1")
    segments = [segment for segment in neuron.memory._snapshot()["segments"] if segment["device"] == 1]
    assert sum(segment["total_size"] for segment in segments) == neuron.memory_reserved(1)
    assert sum(segment["allocated_size"] for segment in segments) == neuron.memory_allocated(1)
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    (block,) = [block for segment in segments for block in segment["blocks"] if block["address"] == tensor.data_ptr()]
    assert block["state"] == "active_allocated" and block["requested_size"] == 3 * MIB


def test_history_records_allocations_and_frees_with_their_python_lines(tmp_path):
    neuron.memory._record_memory_history()
    try:
        kept = torch.empty(2 * MIB, dtype=torch.uint8, device="neuron")
        dropped = torch.empty(5 * MIB + 3, dtype=torch.uint8, device="neuron")
        address = dropped.data_ptr()
        del dropped
        neuron.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    finally:
        neuron.memory._record_memory_history(None)
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    trace = snapshot["device_traces"][0]
    assert [(event["action"], event["addr"]) for event in trace] == [
        ("alloc", kept.data_ptr()),
        ("alloc", address),
        ("free_requested", address),
        ("free_completed", address),
    ]
    assert [event["size"] for event in trace] == [2 * MIB, 5 * MIB + 3, 5 * MIB + 3, 5 * MIB + 3]
    assert trace[0]["time_us"] <= trace[1]["time_us"]
    here = "test_history_records_allocations_and_frees_with_their_python_lines"
    assert here in [frame["name"] for frame in trace[0]["frames"]]
    (block,) = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == kept.data_ptr()]
    assert here in [frame["name"] for frame in block["frames"]]


def test_snapshot_opens_in_the_visualizer_of_torch():
    from torch.cuda import _memory_viz

    neuron.memory._record_memory_history()
    try:
        tensor = torch.empty(2 * MIB, dtype=torch.uint8, device="neuron")
        snapshot = neuron.memory._snapshot()
    finally:
        neuron.memory._record_memory_history(None)
    assert "html" in _memory_viz.trace_plot(snapshot) and "2.0MiB" in _memory_viz.segsum(snapshot)
    del tensor


def test_history_keeps_the_newest_events():
    neuron.memory._record_memory_history(max_entries=2, context=None)
    try:
        tensors = [torch.empty(n, device="neuron") for n in (1, 2, 3)]
        trace = neuron.memory._snapshot()["device_traces"][0]
    finally:
        neuron.memory._record_memory_history(None)
    assert [event["addr"] for event in trace] == [tensors[1].data_ptr(), tensors[2].data_ptr()]
    assert trace[0]["frames"] == []


def test_history_arguments_are_checked():
    with pytest.raises(ValueError, match="'state', 'all'"):
        neuron.memory._record_memory_history("some")


def test_storage_grows_and_shrinks_with_its_contents():
    tensor = torch.arange(4.0).to("neuron")
    tensor.untyped_storage().resize_(1000)
    assert tensor.untyped_storage().nbytes() == 1000 and tensor.cpu().tolist() == [0.0, 1.0, 2.0, 3.0]
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().nbytes() == 0
    tensor.resize_(100)
    assert tensor.untyped_storage().nbytes() == 400


def test_resize_keeps_the_first_elements():
    tensor = torch.arange(6.0).to("neuron").resize_(2, 5)
    assert tensor.shape == (2, 5) and tensor.flatten()[:6].cpu().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert tensor.resize_(3).cpu().tolist() == [0.0, 1.0, 2.0]


def test_resize_is_ordered_with_what_is_queued():
    source = torch.arange(4.0).pin_memory()
    tensor = torch.zeros(4, device="neuron")
    neuron._sleep(50_000_000)
    tensor.copy_(source, non_blocking=True)
    tensor.resize_(1000)
    assert not neuron.current_stream().query()
    assert tensor[:4].cpu().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_resize_takes_a_memory_format():
    tensor = torch.empty(0, device="neuron").resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_set_grows_the_storage():
    storage = torch.arange(4, dtype=torch.uint8).to("neuron").untyped_storage()
    tensor = torch.empty(0, dtype=torch.uint8, device="neuron").set_(storage, 2, (6,))
    assert storage.nbytes() == 8 and tensor[:2].cpu().tolist() == [2, 3]


def test_set_shares_a_storage():
    source, target = torch.arange(6.0).to("neuron"), torch.empty(0, device="neuron")
    assert target.set_(source).is_set_to(source)
    target.set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    assert target.cpu().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert target.set_(source.untyped_storage()).shape == (6,)
    assert target.set_().numel() == 0
    with pytest.raises(RuntimeError, match="different device"):
        target.set_(torch.empty(1, device="neuron:1").untyped_storage())


def test_views_share_memory():
    tensor = torch.arange(12.0).reshape(3, 4).to("neuron")
    for view in (tensor.t(), tensor[1:], tensor.view(12), tensor.unfold(1, 2, 1), tensor.as_strided((2,), (5,)), tensor.diagonal()):
        assert view.untyped_storage().data_ptr() == tensor.data_ptr()
    assert tensor.unfold(1, 2, 2).cpu().tolist() == torch.arange(12.0).reshape(3, 4).unfold(1, 2, 2).tolist()
    pairs = torch.arange(4.0).view(2, 2).to("neuron")
    assert torch.view_as_complex(pairs).cpu().tolist() == [1j, 2 + 3j]
    assert torch.view_as_real(torch.view_as_complex(pairs)).cpu().tolist() == pairs.cpu().tolist()


def test_unsupported_creation_is_an_error():
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, device="neuron", pin_memory=True)


def test_deterministic_mode_gives_new_memory_known_contents():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device="neuron").isnan().all().item()
        assert torch.empty_strided((2,), (1,), dtype=torch.int32, device="neuron").tolist() == [2**31 - 1] * 2
    finally:
        torch.use_deterministic_algorithms(False)


def test_storages_are_made_on_the_device():
    storage = torch.UntypedStorage(10, device="neuron:1")
    assert storage.device == torch.device("neuron:1") and storage.nbytes() == 10
    tensor = torch.arange(3.0).to("neuron")
    assert tensor.share_memory_() is tensor


def test_profiler_is_told_of_memory():
    with torch.profiler.profile(profile_memory=True) as profile:
        tensor = torch.empty(MIB, dtype=torch.uint8, device="neuron")
        del tensor
    sizes = [event.device_memory_usage for event in profile.events() if event.name == "aten::empty"]
    assert MIB in sizes
