"""The dispatcher with a hand-made compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from handmade_programs import Compiler

import torch_neuronx
from torch_neuronx import _C, eager


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """Stands in for the compiler of a device with an empty cache; what it declines falls back silently."""
    torch.neuron.init()
    stand_in = Compiler()
    _C._clear_eager_cache()
    monkeypatch.setattr(eager, "compile_call", stand_in)
    with torch_neuronx.fallback_policy("silent"):
        yield stand_in
    _C._clear_eager_cache()
