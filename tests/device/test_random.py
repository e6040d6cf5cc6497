"""The device's random generators: their state, seeding, sharing and claims."""

import threading

import pytest
import torch

from torch_neuronx import _C

neuron = torch.neuron
DEFAULT_SEED = 67280421310721  # c10::default_rng_seed_val


def words(state):
    return state.view(torch.int64).tolist()


def test_state_is_seed_and_offset():
    generator = torch.Generator("neuron")
    assert generator.device == torch.device("neuron:0") and generator.initial_seed() == DEFAULT_SEED
    generator.manual_seed(5)
    assert generator.get_state().device.type == "cpu" and words(generator.get_state()) == [5, 0]
    assert _C._reserve(generator, 3) == (5, 0)
    assert _C._reserve(generator, 2) == (5, 3)
    assert words(generator.get_state()) == [5, 5] and generator.get_offset() == 5
    generator.set_offset(40)
    assert _C._reserve(generator, 1) == (5, 40)


def test_state_can_be_saved_and_restored():
    generator = torch.Generator("neuron:1").manual_seed(9)
    _C._reserve(generator, 4)
    state = generator.get_state()
    _C._reserve(generator, 4)
    generator.set_state(state)
    assert _C._reserve(generator, 1) == (9, 4)


@pytest.mark.parametrize("state", [torch.zeros(8, dtype=torch.uint8), torch.zeros(17, dtype=torch.uint8)])
def test_state_of_another_size_is_an_error(state):
    with pytest.raises(RuntimeError, match=f"16 bytes.*{state.numel()}"):
        torch.Generator("neuron").set_state(state)


def test_state_of_another_dtype_is_an_error():
    with pytest.raises(TypeError, match="ByteTensor"):
        torch.Generator("neuron").set_state(torch.zeros(16))


def test_clone_is_independent_and_graphsafe_state_is_shared():
    generator = torch.Generator("neuron").manual_seed(1)
    clone, shared = generator.clone_state(), generator.graphsafe_get_state()
    _C._reserve(generator, 7)
    assert words(clone.get_state()) == [1, 0] and words(shared.get_state()) == [1, 7]
    other = torch.Generator("neuron").manual_seed(2)
    other.graphsafe_set_state(shared)
    _C._reserve(other, 1)
    assert words(generator.get_state()) == [1, 8]


def test_torch_manual_seed_seeds_all_devices():
    torch.manual_seed(11)
    assert [words(state) for state in neuron.get_rng_state_all()] == [[11, 0]] * 4
    assert neuron.initial_seed() == 11


def test_each_device_has_its_own_generator():
    neuron.manual_seed_all(3)
    with neuron.device(2):
        neuron.manual_seed(4)
    assert [words(neuron.get_rng_state(index))[0] for index in range(4)] == [3, 3, 4, 3]
    assert neuron._get_generator(torch.device("neuron:2")).initial_seed() == 4
    assert [generator.device.index for generator in neuron.default_generators] == [0, 1, 2, 3]


def test_states_of_all_devices_can_be_restored():
    states = neuron.get_rng_state_all()
    neuron.manual_seed_all(77)
    neuron.set_rng_state_all(states)
    assert all(torch.equal(a, b) for a, b in zip(states, neuron.get_rng_state_all()))


def test_seed_takes_new_entropy():
    assert neuron.seed() != neuron.seed()
    value = neuron.seed_all()
    assert [generator.initial_seed() for generator in neuron.default_generators] == [value] * 4


def test_fork_rng_restores_the_device_generators():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0, 1], device_type="neuron"):
        neuron.manual_seed_all(5)
    assert words(neuron.get_rng_state(1)) == [1, 0]


def test_claims_of_several_threads_do_not_overlap():
    generator = torch.Generator("neuron").manual_seed(0)
    firsts = []
    threads = [threading.Thread(target=lambda: firsts.extend(_C._reserve(generator, 3)[1] for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(firsts) == list(range(0, 6000, 3))


def test_device_generators_are_apart_from_the_cpus():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    neuron.manual_seed(3)
    _C._reserve(neuron.default_generators[0], 10)
    assert torch.equal(torch.get_rng_state(), before)


def test_generator_of_another_device_cannot_be_claimed_from():
    with pytest.raises(RuntimeError, match="cpu"):
        _C._reserve(torch.Generator(), 1)
