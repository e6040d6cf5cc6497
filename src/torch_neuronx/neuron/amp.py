"""Mixed precision on the device: which dtypes ``torch.autocast("neuron")`` may use, and which it uses by default."""

from __future__ import annotations

import torch

DEFAULT_DTYPE = torch.bfloat16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may compute in."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every operator takes bfloat16."""
    return True
