"""Printed modules mean on XLA's CPU compiler what the interpreter says."""

from __future__ import annotations

import numpy as np
import pytest
from hlo_sample import Sample
from hlo_samples import all_samples, is_expressible
from xla_oracle import run_on_xla

from torch_neuronx.compiler.hlo.interpreter import interpret
from torch_neuronx.compiler.hlo.numerics import largest_finite
from torch_neuronx.compiler.hlo.types import DType

pytestmark = pytest.mark.slow

# A few units in the last place of each type; XLA's functions and order of summation are its own.
TOLERANCE = {DType.F64: 1e-12, DType.C128: 1e-12, DType.F32: 3e-5, DType.C64: 3e-5, DType.F16: 4e-3, DType.BF16: 3e-2}
TOLERANCE |= {DType.F8E4M3FN: 0.13, DType.F8E5M2: 0.26}


@pytest.mark.parametrize("sample", [pytest.param(each, id=each.label) for each in all_samples() if is_expressible(each)])
def test_printed_module_equals_interpreter(sample: Sample) -> None:
    expected = interpret(sample.module, sample.inputs)
    for result, ours, theirs in zip(sample.module.results, expected, run_on_xla(sample.module, sample.inputs), strict=True):
        assert theirs.shape == ours.shape and theirs.dtype == ours.dtype
        if result.dtype is DType.F8E4M3FN and sample.op != "convert":
            # XLA's arithmetic overflows to nan, ours to the largest value.
            theirs = np.where(np.abs(ours) == largest_finite(result.dtype), ours, theirs)
        tolerance = TOLERANCE.get(result.dtype, 0)
        np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=tolerance)
