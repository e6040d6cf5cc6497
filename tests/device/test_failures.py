"""Commands that fail on the device: when the error surfaces, what it says, and that nothing else is harmed."""

import pytest
import torch
from device_process import output_of, run_python

neuron = torch.neuron
TABLE_SIZE = 4
OUT_OF_RANGE = 9


def failing_lookup():
    """Queues a lookup that fails when it runs. Returns its useless result."""
    table, index = torch.arange(float(TABLE_SIZE)).to("neuron"), torch.tensor([OUT_OF_RANGE]).to("neuron")
    return torch.index_select(table, 0, index)


def test_failure_surfaces_at_the_next_synchronisation_once():
    failing_lookup()
    with pytest.raises(torch.AcceleratorError, match=r"aten::index_select failed: index out of range(.|\n)*f32\[4\], i64\[1\]"):
        neuron.synchronize()
    neuron.synchronize()


@pytest.mark.parametrize(
    "read", [lambda t: t.cpu(), lambda t: t.item(), lambda t: neuron.current_stream().synchronize()], ids=["cpu", "item", "stream"]
)
def test_reading_values_raises_what_failed(read):
    result = failing_lookup()
    with pytest.raises(torch.AcceleratorError, match="index_select"):
        read(result)
    assert torch.ones(2).to("neuron").cpu().tolist() == [1.0, 1.0]


def test_failure_stays_with_its_stream():
    stream = neuron.Stream()
    with stream:
        failing_lookup()
    assert torch.ones(1).to("neuron").item() == 1.0
    with pytest.raises(torch.AcceleratorError, match="index_select"):
        stream.synchronize()


def test_failure_is_a_runtime_error_with_a_code():
    failing_lookup()
    with pytest.raises(RuntimeError) as caught:
        neuron.synchronize()
    assert caught.value.error_code == 1


def test_blocking_launches_raise_at_the_op_with_its_python_line():
    code = """
        import torch
        table, index = torch.arange(4.0).to("neuron"), torch.tensor([9]).to("neuron")
        def lookup():
            return torch.index_select(table, 0, index)
        try:
            lookup()
        except torch.AcceleratorError as error:
            print("index_select" in str(error), "in lookup" in str(error))
    """
    environment = {"NEURON_LAUNCH_BLOCKING": "1", "TORCH_NEURONX_ENABLE_STACK_TRACE": "1"}
    assert output_of(code, environment) == "True True\n"


def test_exit_with_a_failure_that_nobody_looked_at():
    process = run_python(
        "import torch\nx = torch.index_select(torch.ones(2).to('neuron'), 0, torch.tensor([9]).to('neuron'))\nprint('end')"
    )
    assert process.returncode == 0 and process.stdout == "end\n"


def test_exception_in_the_middle_of_a_backward_leaves_the_device_usable():
    class Raising(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no gradient today")

    weight = torch.ones(3).to("neuron").requires_grad_()
    with pytest.raises(ValueError, match="no gradient today"):
        (Raising.apply(weight * 2) * 3).sum().backward()
    assert weight.grad is None
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


def test_mixing_devices_is_an_error_that_names_both():
    here, there = torch.ones(2), torch.ones(2).to("neuron")
    with pytest.raises(RuntimeError, match=r"same device(.|\n)*neuron:0(.|\n)*cpu|same device(.|\n)*cpu(.|\n)*neuron:0"):
        here + there
    with pytest.raises(RuntimeError, match=r"neuron:0(.|\n)*neuron:1|neuron:1(.|\n)*neuron:0"):
        there + there.to("neuron:1")
