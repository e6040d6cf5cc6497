"""Every operation and element type of the op table, compiled and compared with the interpreter."""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np
import pytest
from hlo_sample import Sample
from hlo_samples import all_samples
from host_launch import run

from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.types import DType
from torch_neuronx.compiler.host import UnsupportedError

# Relative (and, times the largest magnitude, absolute) error: a few units in the last place.
TOLERANCE = {DType.F64: 1e-13, DType.F32: 2e-6, DType.BF16: 2**-7, DType.F16: 2**-9, DType.C64: 2e-6, DType.C128: 1e-13}
# ATen's CPU kernels compute attention statistics of narrow types with less than f32's precision.
NARROW_ATTENTION = 2e-3
# ATen's special functions lose digits next to their zeros, eigenvalues depend on all elements of a matrix.
LESS_PRECISE = ("special_function", "eigh")
# Among equal elements the library's topk takes any.
UNORDERED = ("topk",)
# Beginnings of labels of samples that are not run, and why.
LEFT_OUT = {
    "convolution i32": "ATen has no integer convolution with dilation",
    "convolution ui8": "ATen has no integer convolution with dilation",
    "convolution complex": "ATen has no complex convolution with dilation",
    "convolution 1d complex": "ATen has no complex convolution of this form",
    "convolution_grads True": "ATen refuses this output padding",
}
# Products of many complex numbers are what the host target refuses.
REFUSED = re.compile(r"(reduce|reduce_window|scatter) .*multiply.* complex")

SAMPLES = {op: list(group) for op, group in groupby(sorted(all_samples(), key=lambda s: s.op), key=lambda s: s.op)}


@pytest.mark.parametrize("op", SAMPLES)
def test_operation_agrees_with_the_interpreter(op: str) -> None:
    for sample in SAMPLES[op]:
        check(sample)


def check(sample: Sample) -> None:
    if sample.label.startswith(tuple(LEFT_OUT)):
        return
    expected = interpret(sample.module, sample.inputs)
    try:
        actual = run(sample.module, sample.inputs)
    except UnsupportedError:
        assert REFUSED.match(sample.label), sample.label
        return
    for value, result, reference in zip(sample.module.results, actual, expected):
        if sample.op in UNORDERED and value.index == 1:
            continue
        tolerance = TOLERANCE.get(value.dtype, 0)
        if "attention" in sample.label and any(p.dtype in (DType.BF16, DType.F16) for p in sample.module.parameters):
            tolerance = max(tolerance, NARROW_ATTENTION)
        if sample.op in LESS_PRECISE:
            tolerance *= 20
        finite = np.abs(reference[np.isfinite(reference)]) if tolerance else np.zeros(1)
        scale = float(finite.max()) if finite.size and "reduce" in sample.op else 1.0
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=sample.label)
