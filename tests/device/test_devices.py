"""Devices: how many, which is current, what they are, and how they are named in errors."""

import pytest
import torch
from device_process import output_of, run_python

neuron = torch.neuron


def test_import_torch_alone_gives_four_devices_of_one_chip():
    assert output_of("import torch; print(torch.neuron.is_available(), torch.neuron.device_count())") == "True 4\n"


def test_counting_devices_and_reading_properties_starts_nothing():
    code = """
        import torch
        torch.neuron.device_count(), torch.neuron.is_available(), torch.neuron.get_device_properties(1), torch.neuron.memory_stats()
        torch.accelerator.current_accelerator(), torch.neuron.synchronize()
        print(torch.neuron.is_initialized(), torch_neuronx._C._core_started(0))
        torch.empty(1, device="neuron")
        print(torch.neuron.is_initialized(), torch_neuronx._C._core_started(0), torch_neuronx._C._core_started(1))
    """
    assert output_of("import torch_neuronx._C\n" + code.replace("\n        ", "\n")) == "False False\nTrue True False\n"


@pytest.mark.parametrize(
    ("environment", "count", "capacity", "name"),
    [
        ({"NEURON_RT_NUM_CORES": "2"}, 2, 24 << 30, "trn2"),
        ({"NEURON_RT_VISIBLE_CORES": "1,3", "NEURON_RT_NUM_CORES": "4"}, 2, 24 << 30, "trn2"),
        ({"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn3"}, 8, 12 << 30, "trn3"),
    ],
)
def test_environment_decides_what_the_devices_are(environment, count, capacity, name):
    code = "import torch; p = torch.neuron.get_device_properties(0); print(torch.neuron.device_count(), p.total_memory, p.name)"
    assert output_of(code, environment) == f"{count} {capacity} {name}\n"


def test_bad_environment_leaves_torch_usable_and_is_told_at_first_use():
    code = """
        import torch
        print(torch.ones(2).sum().item(), torch.neuron.is_available())
        torch.empty(1, device="neuron")
    """
    process = run_python(code, {"NEURON_RT_NUM_CORES": "many"})
    assert process.stdout == "2.0 False\n"
    assert "NEURON_RT_NUM_CORES" in process.stderr.splitlines()[-1] and "many" in process.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.empty(2, device="neuron:4"),
        lambda: torch.empty_strided((2,), (1,), device="neuron:4"),
        lambda: torch.ones(2).to("neuron:4"),
        lambda: neuron.set_device(4),
        lambda: neuron.device(4).__enter__(),
        lambda: neuron.get_device_properties("neuron:4"),
        lambda: neuron.Stream(4),
        lambda: neuron.current_stream(4),
        lambda: neuron.memory_allocated(4),
        lambda: neuron.get_rng_state(4),
        lambda: torch.Generator("neuron:4"),
        lambda: torch.Stream("neuron:4"),
        lambda: torch.accelerator.set_device_index(4),
    ],
)
def test_index_out_of_range_is_an_error_that_names_the_valid_range(use):
    with pytest.raises(RuntimeError, match=r"neuron device index 4 is out of range.*0 to 3"):
        use()


def test_index_that_does_not_fit_the_index_type_is_refused():
    with pytest.raises(RuntimeError, match="out of range"):
        torch.empty(2, device="neuron:200")


def test_tensors_are_made_on_the_current_device():
    with neuron.device(2):
        assert neuron.current_device() == torch.accelerator.current_device_index() == 2
        assert torch.empty(1, device="neuron").device == torch.device("neuron:2")
        with neuron.device_of(torch.empty(1, device="neuron:3")):
            assert neuron.current_device() == 3
        with neuron.device_of(torch.empty(1)), neuron.device(None):
            assert neuron.current_device() == 2
    assert neuron.current_device() == 0


def test_making_a_tensor_elsewhere_leaves_the_current_device():
    torch.empty(1, device="neuron:1")
    assert neuron.current_device() == 0


def test_exchange_device_returns_the_previous_and_ignores_minus_one():
    assert neuron.exchange_device(3) == 0
    assert neuron.maybe_exchange_device(-1) == 3
    assert neuron.exchange_device(0) == 3


def test_accelerator_names_the_device():
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 4
    with torch.accelerator.device_index(1):
        assert neuron.current_device() == 1
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64} <= set(supported)
    assert torch.qint8 not in supported


def test_properties_describe_one_logical_core():
    properties = neuron.get_device_properties("neuron:1")
    assert (properties.name, properties.platform, properties.lnc, properties.core_count) == ("trn2", "trn2", 2, 4)
    assert (properties.arch, properties.total_memory) == ("NeuronCore-v3", 24 << 30)
    assert neuron.get_device_name(1) == "trn2" and neuron.get_device_capability() == (3, 0)


def test_package_reexports_the_module():
    import torch_neuronx

    assert torch_neuronx.neuron is neuron
    assert torch_neuronx.synchronize is neuron.synchronize and torch_neuronx.Stream is neuron.Stream
    assert torch.get_device_module("neuron") is neuron


def test_generated_methods():
    tensor = torch.ones(2).neuron()
    assert tensor.is_neuron and not torch.ones(2).is_neuron
    assert tensor.neuron(1).device == torch.device("neuron:1")
    assert torch.nn.Linear(2, 2).neuron(3).weight.device == torch.device("neuron:3")
    assert tensor.untyped_storage().is_neuron
    assert tensor.type() == "torch.neuron.FloatTensor"
    assert torch.ones(2).type("torch.neuron.DoubleTensor").dtype == torch.float64


def test_default_device():
    torch.set_default_device("neuron:1")
    try:
        assert torch.empty(1).device == torch.tensor([1]).device == torch.device("neuron:1")
    finally:
        torch.set_default_device(None)
