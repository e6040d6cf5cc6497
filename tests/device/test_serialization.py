"""Saving, loading, copying and pickling of tensors on the device."""

import copy
import io
import pickle

import pytest
import torch


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_loading_restores_device_and_sharing():
    tensor = torch.arange(12.0).reshape(3, 4).to("neuron:1")
    loaded = torch.load(saved({"whole": tensor, "part": tensor[1:, ::2]}))
    assert loaded["whole"].device == torch.device("neuron:1")
    assert loaded["part"].untyped_storage().data_ptr() == loaded["whole"].data_ptr()
    assert loaded["part"].cpu().tolist() == [[4.0, 6.0], [8.0, 10.0]]


@pytest.mark.parametrize(("origin", "place"), [("neuron", "cpu"), ("cpu", "neuron"), ("neuron:1", "neuron:2")])
def test_map_location(origin, place):
    loaded = torch.load(saved(torch.arange(3.0).to(origin)), map_location=place)
    assert loaded.device == torch.empty(0, device=place).device and loaded.tolist() == [0.0, 1.0, 2.0]


def test_map_location_by_function_and_table():
    file = saved(torch.arange(3.0).to("neuron:1"))
    assert torch.load(file, map_location={"neuron:1": "neuron:3"}).device == torch.device("neuron:3")
    file.seek(0)
    assert torch.load(file, map_location=lambda storage, place: storage).device.type == "cpu"


def test_loading_to_a_device_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match=r"0 to 3"):
        torch.load(saved(torch.ones(1)), map_location="neuron:7")


def test_state_dict_of_a_module():
    module = torch.nn.Linear(2, 3)
    there = copy.deepcopy(module).to("neuron")
    back = torch.load(saved(there.state_dict()), map_location="cpu")
    assert all(torch.equal(back[name], value) for name, value in module.state_dict().items())
    module.load_state_dict(torch.load(saved(there.state_dict())))


def test_deepcopy_and_pickle_keep_the_device():
    tensor = torch.arange(3.0).to("neuron:2")
    for other in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert other.device == torch.device("neuron:2") and other.data_ptr() != tensor.data_ptr()
        assert other.cpu().tolist() == [0.0, 1.0, 2.0]


def test_deepcopy_of_a_module_keeps_devices_and_parameters():
    module = torch.nn.Linear(2, 2).to("neuron:1")
    other = copy.deepcopy(module)
    assert isinstance(other.weight, torch.nn.Parameter) and other.weight.device == torch.device("neuron:1")
    assert torch.equal(other.weight.detach().cpu(), module.weight.detach().cpu())


def test_storages_move_between_devices():
    storage = torch.arange(3, dtype=torch.uint8).to("neuron").untyped_storage()
    assert storage.cpu().tolist() == [0, 1, 2] and storage.device.type == "neuron"
    assert storage.neuron(1).device == torch.device("neuron:1")
    assert torch.arange(3, dtype=torch.uint8).untyped_storage().neuron().cpu().tolist() == [0, 1, 2]
