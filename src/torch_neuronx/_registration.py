"""Makes ``neuron`` a device of the running PyTorch: what importing the package does to torch, in one place."""

from __future__ import annotations

import atexit

import torch

from torch_neuronx._versions import built_for, check_versions

DEVICE = "neuron"


def register() -> None:
    """Loads the extension and gives PyTorch's PrivateUse1 device its name, module and methods. Once per process.

    Starts no core and imports neither the compiler nor LLVM. Raises ImportError for a torch that does not fit, and RuntimeError if
    another package has already taken the PrivateUse1 device.
    """
    check_versions(torch.__version__, built_for())
    from torch_neuronx import _C

    torch.utils.rename_privateuse1_backend(DEVICE)
    from torch_neuronx import neuron
    from torch_neuronx._autocast_default import use_bfloat16_by_default

    torch._register_device_module(DEVICE, neuron)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    use_bfloat16_by_default()
    # What is queued still runs before the interpreter goes; the executor threads must not outlive it.
    atexit.register(_C._shutdown)
