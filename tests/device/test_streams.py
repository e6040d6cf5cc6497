"""Streams and events, as torch.neuron and as torch.Stream have them."""

import threading

import pytest
import torch

neuron = torch.neuron
LONG = 50_000_000  # nanoseconds that a stream is kept busy where a test must see it unfinished


def test_current_stream_is_the_default_stream_at_first():
    assert neuron.current_stream() == neuron.default_stream()
    assert neuron.current_stream(1).device == torch.device("neuron:1")


def test_stream_context_switches_stream_and_device_and_restores_them():
    stream = neuron.Stream(2)
    with neuron.stream(stream) as entered:
        assert entered is stream and neuron.current_stream() == stream and neuron.current_device() == 2
        assert torch.accelerator.current_stream() == stream
        with neuron.stream(None):
            assert neuron.current_stream() == stream
    assert neuron.current_device() == 0 and neuron.current_stream(2) == neuron.default_stream(2)


def test_stream_itself_is_a_context_manager():
    stream = neuron.Stream()
    with stream:
        assert neuron.current_stream() == stream
    assert neuron.current_stream() == neuron.default_stream()


def test_streams_are_those_of_torch():
    assert issubclass(neuron.Stream, torch.Stream) and issubclass(neuron.Event, torch.Event)
    stream = neuron.Stream(device="neuron:1", priority=-1)
    assert stream.device == torch.device("neuron:1") and stream.priority == -1 and neuron.Stream().priority == 0
    same = torch.Stream(stream_id=stream.stream_id, device_index=1, device_type=stream.device_type)
    assert same == stream and hash(same) == hash(stream)
    assert neuron.get_raw_stream(0) == neuron.current_stream().native_handle


def test_unknown_stream_is_an_error():
    with pytest.raises(RuntimeError, match="stream"):
        neuron.set_stream(torch.Stream(stream_id=123456789, device_index=0, device_type=neuron.Stream().device_type))


def test_current_stream_is_of_the_thread():
    seen = []
    with neuron.stream(neuron.Stream()):
        thread = threading.Thread(target=lambda: seen.append(neuron.current_stream()))
        thread.start()
        thread.join()
    assert seen == [neuron.default_stream()]


def test_query_and_synchronize_tell_whether_a_stream_is_done():
    stream = neuron.Stream()
    with stream:
        neuron._sleep(LONG)
    assert not stream.query()
    stream.synchronize()
    assert stream.query()


def test_device_synchronize_waits_for_all_streams():
    streams = [neuron.Stream(), neuron.Stream()]
    for stream in streams:
        with stream:
            neuron._sleep(LONG // 5)
    neuron.synchronize()
    assert all(stream.query() for stream in streams)


def test_wait_stream_orders_one_stream_after_another():
    first, second = neuron.Stream(), neuron.Stream()
    source, target = torch.arange(4.0).pin_memory(), torch.zeros(4).pin_memory()
    with first:
        neuron._sleep(LONG)
        on_device = source.to("neuron", non_blocking=True)
    second.wait_stream(first)
    with second:
        target.copy_(on_device, non_blocking=True)
    on_device.record_stream(second)
    assert not second.query()
    second.synchronize()
    assert target.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_event_is_reached_when_what_was_queued_before_it_is_done():
    event = neuron.Event()
    assert event.query()  # never recorded
    neuron._sleep(LONG)
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize("waiting", ["stream.wait_event", "event.wait"])
def test_waiting_for_an_event_orders_streams_of_different_devices(waiting):
    first, second = neuron.Stream(0), neuron.Stream(1)
    with first:
        neuron._sleep(LONG)
    event = first.record_event()
    second.wait_event(event) if waiting == "stream.wait_event" else event.wait(second)
    assert not second.query()
    second.synchronize()
    assert event.query() and first.query()


def test_elapsed_time_measures_what_ran_between():
    start, end = neuron.Event(enable_timing=True), neuron.Event(enable_timing=True)
    start.record()
    neuron._sleep(LONG)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= LONG / 1e6
    assert neuron.current_stream().record_event(start) is start


def test_elapsed_time_needs_timing_and_reached_marks():
    plain, timed = neuron.Event(), neuron.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        timed.elapsed_time(neuron.Event(enable_timing=True))
    plain.record()
    timed.record()
    neuron.synchronize()
    with pytest.raises(RuntimeError, match="without timing"):
        plain.elapsed_time(timed)


def test_event_belongs_to_the_device_it_was_first_recorded_on():
    event = neuron.Event()
    event.record(neuron.current_stream(0))
    with pytest.raises(RuntimeError, match=r"neuron:0.*neuron:1"):
        event.record(neuron.current_stream(1))


def test_events_cannot_be_shared_between_processes():
    with pytest.raises(ValueError, match="interprocess"):
        neuron.Event(interprocess=True)


def test_record_stream_keeps_memory_until_the_other_stream_is_done():
    stream = neuron.Stream()
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device="neuron")
    address = tensor.data_ptr()
    with stream:
        neuron._sleep(LONG)
    tensor.record_stream(stream)
    del tensor
    again = torch.empty(1 << 20, dtype=torch.uint8, device="neuron")
    assert again.data_ptr() != address
    stream.synchronize()


def test_record_stream_of_another_device_is_an_error():
    with pytest.raises(RuntimeError, match=r"neuron:0.*neuron:1"):
        torch.empty(1, device="neuron:0").record_stream(neuron.current_stream(1))
