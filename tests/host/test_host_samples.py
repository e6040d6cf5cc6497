"""Every operation and element type of the op table, compiled and compared with the interpreter."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hlo_samples import Sample, all_samples
from host_launch import run

from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.types import DType

# Relative (and, times the largest magnitude, absolute) error: a few units in the last place.
TOLERANCE = {DType.F64: 1e-13, DType.F32: 2e-6, DType.BF16: 2**-7, DType.F16: 2**-9, DType.C64: 2e-6, DType.C128: 1e-13}
# ATen's CPU kernels compute attention statistics of narrow types with less than f32's precision.
NARROW_ATTENTION = 2e-4
# Among equal elements the library's topk takes any.
UNORDERED = ("topk",)
WITHOUT_KERNEL = {
    ("convolution", DType.I32): "ATen has no integer convolution with dilation",
    ("convolution", DType.UI8): "ATen has no integer convolution with dilation",
    ("convolution", DType.C64): "ATen has no complex one-dimensional convolution",
}

SAMPLES = {op: list(group) for op, group in groupby(sorted(all_samples(), key=lambda s: s.op), key=lambda s: s.op)}


@pytest.mark.parametrize("op", SAMPLES)
def test_operation_agrees_with_the_interpreter(op: str) -> None:
    for sample in SAMPLES[op]:
        check(sample)


def check(sample: Sample) -> None:
    if (sample.op, sample.module.parameters[0].dtype if sample.module.parameters else None) in WITHOUT_KERNEL:
        return
    expected = interpret(sample.module, sample.inputs)
    actual = run(sample.module, sample.inputs)
    for value, result, reference in zip(sample.module.results, actual, expected):
        if sample.op in UNORDERED and value.index == 1:
            continue
        tolerance = TOLERANCE.get(value.dtype, 0)
        if "attention" in sample.label and any(p.dtype in (DType.BF16, DType.F16) for p in sample.module.parameters):
            tolerance = max(tolerance, NARROW_ATTENTION)
        finite = np.abs(reference[np.isfinite(reference)]) if tolerance else np.zeros(1)
        scale = float(finite.max()) if finite.size and "reduce" in sample.op else 1.0
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=sample.label)
