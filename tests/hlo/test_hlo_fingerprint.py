"""The fingerprint is equal for equal modules and differs with anything that the compiled result depends on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.fingerprint import attributes_key, module_fingerprint
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature
from torch_neuronx.compiler.hlo.types import DType, TensorType

LAYOUT = Layout((3, 1))
BASE_SIGNATURE = Signature((LAYOUT, None), (LAYOUT,), {}, "op(f32[2,3])")


def module(
    name: str = "m", value: float = 0.0, dtype: DType = DType.F32, scalar: bool = True, swap: bool = False, array: Any = (1, 2, 3)
) -> Module:
    b = Builder(name)
    x = b.parameter(TensorType((2, 3), dtype))
    b.parameter(TensorType((), DType.F64), is_scalar=scalar)
    row = b.broadcast(b.constant(np.array(array), dtype), (2, 3))
    filled = b.constant(value, dtype, (2, 3))
    total = b.add(x, row)
    return b.build([b.subtract(filled, total) if swap else b.subtract(total, filled)])


BASE = module_fingerprint(module(), BASE_SIGNATURE)


def test_equal_modules_have_equal_fingerprints() -> None:
    assert module_fingerprint(module(), Signature((Layout((3, 1)), None), (Layout((3, 1)),), {}, "op(f32[2,3])")) == BASE
    assert len(BASE) == 64


@pytest.mark.parametrize(
    "change",
    [
        lambda: module("n"),
        lambda: module(value=-0.0),
        lambda: module(value=1.0),
        lambda: module(dtype=DType.BF16),
        lambda: module(scalar=False),
        lambda: module(swap=True),
        lambda: module(array=(1, 2, 4)),
    ],
)
def test_every_part_of_the_module_counts(change: Callable[[], Module]) -> None:
    assert module_fingerprint(change(), BASE_SIGNATURE) != BASE


@pytest.mark.parametrize(
    "signature",
    [
        Signature((Layout((1, 2)), None), (LAYOUT,), {}, "op(f32[2,3])"),
        Signature((LAYOUT, None), (Layout((1, 2)),), {}, "op(f32[2,3])"),
        Signature((LAYOUT, None), (LAYOUT,), {0: 0}, "op(f32[2,3])"),
        Signature((LAYOUT, None), (LAYOUT,), {}, "op"),
    ],
)
def test_every_part_of_the_signature_counts(signature: Signature) -> None:
    assert module_fingerprint(module(), signature) != BASE


def test_other_processes_agree() -> None:
    program = f"import sys; sys.path[:0] = {sys.path!r}; import test_hlo_fingerprint as t; print(t.BASE)"
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )
        assert result.stdout.strip() == BASE


def test_attribute_keys_tell_types_and_signs_apart() -> None:
    values = [0, 0.0, -0.0, False, None, "0", (0,), (0, 0), np.zeros((), np.float32), np.zeros(1, np.float32), DType.F32, float("nan")]
    assert len({attributes_key({"a": value}) for value in values}) == len(values)
    with pytest.raises(TypeError, match="list is not a type of attributes"):
        attributes_key({"a": []})
