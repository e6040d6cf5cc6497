"""Runs printed modules on XLA's CPU compiler, through jax where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from torch_neuronx.compiler.hlo.ir import Module
from torch_neuronx.compiler.hlo.numerics import Array, from_storage, to_storage
from torch_neuronx.compiler.hlo.printer import print_stablehlo
from torch_neuronx.compiler.hlo.types import DType


def run_on_xla(module: Module, inputs: Sequence[Array]) -> list[Array]:
    """The results of ``module`` as XLA computes them, in held form. Skips the test if jax is not installed."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    from jax.extend.backend import get_backend
    from jaxlib import xla_client

    backend = get_backend("cpu")
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    executable = backend.compile_and_load(print_stablehlo(module), devices, xla_client.CompileOptions())
    buffers = [
        jax.device_put(_xla_array(np.asarray(value), parameter.dtype)) for value, parameter in zip(inputs, module.parameters, strict=True)
    ]
    outputs = executable.execute(buffers)
    return [_held_array(np.asarray(output), result.dtype) for output, result in zip(outputs, module.results, strict=True)]


def _xla_array(value: Array, dtype: DType) -> Any:
    narrow = _narrow_types().get(dtype)
    return to_storage(value, dtype).view(narrow) if narrow is not None else value


def _held_array(value: Array, dtype: DType) -> Array:
    if dtype in _narrow_types():
        return from_storage(value.view(to_storage(np.zeros(()), dtype).dtype), dtype)
    return value


def _narrow_types() -> dict[DType, Any]:
    import ml_dtypes

    return {DType.BF16: ml_dtypes.bfloat16, DType.F8E4M3FN: ml_dtypes.float8_e4m3fn, DType.F8E5M2: ml_dtypes.float8_e5m2}
