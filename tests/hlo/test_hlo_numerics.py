"""Rounding and bit patterns of the types that NumPy lacks, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torch_neuronx.compiler.hlo.numerics import from_storage, highest, identity_element, largest_finite, lowest, round_to, to_storage
from torch_neuronx.compiler.hlo.types import DType

TORCH = {DType.BF16: torch.bfloat16, DType.F8E4M3FN: torch.float8_e4m3fn, DType.F8E5M2: torch.float8_e5m2}
narrow = pytest.mark.parametrize("dtype", TORCH, ids=str)


def all_bits(dtype: DType) -> np.ndarray:
    return np.arange(1 << (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")


@narrow
def test_every_bit_pattern_has_the_value_of_pytorch(dtype: DType) -> None:
    expected = torch.from_numpy(all_bits(dtype)).view(TORCH[dtype]).float().numpy()
    np.testing.assert_array_equal(from_storage(all_bits(dtype), dtype), expected)


@narrow
def test_storage_round_trips(dtype: DType) -> None:
    values = from_storage(all_bits(dtype), dtype)
    again = to_storage(values, dtype)
    same = (again == all_bits(dtype)) | np.isnan(values)
    assert same.all()
    assert np.isnan(from_storage(again, dtype)[np.isnan(values)]).all()


@narrow
def test_f32_rounds_as_in_pytorch(dtype: DType) -> None:
    # Every value of the type, its neighbours half a step away, and a little to both sides of them.
    values = from_storage(all_bits(dtype), dtype)
    finite = np.sort(values[np.isfinite(values)]).astype(np.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    edge = largest_finite(dtype) * np.array([1.01, 1.03, 1.07, 1.1, 2.0])
    probes = np.concatenate([finite, middles, middles * (1 + 1e-6), middles * (1 - 1e-6), edge, -edge, [np.inf, -np.inf, np.nan]])
    with np.errstate(over="ignore"):
        probes = probes.astype(np.float32)
    expected = torch.from_numpy(probes).to(TORCH[dtype]).float().numpy()
    rounded = round_to(probes, dtype)
    np.testing.assert_array_equal(rounded, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(rounded)[number], np.signbit(expected)[number])


def test_f64_rounds_once() -> None:
    # Half a bf16 step and a bit that float32 cannot hold: through float32 it would round to even, downwards.
    assert round_to(np.array(1 + 2**-8 + 2**-40), DType.BF16) == 1 + 2**-7


def test_extremes() -> None:
    assert largest_finite(DType.F32) == np.finfo(np.float32).max
    assert (lowest(DType.F32), highest(DType.F8E5M2)) == (-np.inf, np.inf)
    assert (lowest(DType.F8E4M3FN), highest(DType.F8E4M3FN)) == (-448, 448)
    assert (lowest(DType.I8), highest(DType.UI64)) == (-128, 2**64 - 1)
    assert (lowest(DType.I1), highest(DType.I1)) == (False, True)


def test_identity_elements_leave_values_unchanged() -> None:
    combine = {
        "add": np.add,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    for dtype, values in ((DType.UI8, np.arange(256, dtype=np.uint8)), (DType.I8, np.arange(-128, 128, dtype=np.int8))):
        for kind, function in combine.items():
            neutral = np.array(identity_element(kind, dtype), values.dtype)
            np.testing.assert_array_equal(function(values, neutral), values)
    with pytest.raises(ValueError, match="kind is 'mean'; it must be one of add"):
        identity_element("mean", DType.F32)
