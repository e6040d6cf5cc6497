"""Every lowering that PyTorch's own operator samples reach, forward and backward, against CPU float64, through the interpreter."""

from __future__ import annotations

import itertools

import pytest
import torch
from checked_ops import CheckLowerings
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

SAMPLES = 3
MAX_ELEMENTS = 1000
# Sparse tensors have no strides, and jiterator runs on CUDA only.
LEFT_OUT = ("sparse.", "jiterator_", "to_sparse")
# Ops whose CPU results differ from what PyTorch's meta function and other devices give, with the reason.
KNOWN = {
    "aten::native_batch_norm": "CPU returns empty statistics in evaluation",
    "aten::_native_batch_norm_legit": "CPU returns empty statistics in evaluation",
    "aten::native_dropout_backward": "no program calls it with a bool gradient",
    "aten::avg_pool": "integers are not averaged on the device",
    **dict.fromkeys(
        ("aten::_linalg_svd", "aten::_linalg_eigh", "aten::linalg_eig", "aten::linalg_qr", "aten::geqrf"),
        "signs and phases of the vectors are free",
    ),
    "aten::convolution": "integers are not convolved transposed on the device",
}
# Sums of very large float64 numbers are formed in float32.
TOLERANCES = {"float_power": 1e-4}


def name_of(info: OpInfo) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def cases(dtype: torch.dtype) -> list[object]:
    infos = [info for info in op_db if dtype in info.supported_dtypes("cpu") and not info.name.startswith(LEFT_OUT)]
    return [pytest.param(info, id=name_of(info)) for info in infos]


def check(info: OpInfo, dtype: torch.dtype) -> None:
    backward = info.supports_autograd and dtype.is_floating_point
    mode = CheckLowerings(rtol=TOLERANCES.get(info.name, 1e-5))
    samples = info.sample_inputs("cpu", dtype, requires_grad=backward)
    small = (sample for sample in samples if not isinstance(sample.input, torch.Tensor) or sample.input.numel() <= MAX_ELEMENTS)
    for sample in itertools.islice(small, SAMPLES):
        with mode:
            result = info(sample.input, *sample.args, **sample.kwargs)
            flat = result if isinstance(result, tuple | list) else [result]
            outputs = [x for x in flat if isinstance(x, torch.Tensor) and x.requires_grad and x.numel()]
            if backward and outputs:
                torch.autograd.backward(outputs, [torch.randn_like(output) for output in outputs])
    unexpected = [failure for failure in mode.failures if not failure.startswith(tuple(KNOWN))]
    assert not unexpected, "\n".join(unexpected[:3])


@pytest.mark.parametrize("info", cases(torch.float32))
def test_float32(info: OpInfo) -> None:
    check(info, torch.float32)


@pytest.mark.parametrize("info", cases(torch.int64))
def test_int64(info: OpInfo) -> None:
    check(info, torch.int64)


@pytest.mark.parametrize("info", cases(torch.bool))
def test_bool(info: OpInfo) -> None:
    check(info, torch.bool)


@pytest.mark.parametrize("info", cases(torch.complex64))
def test_complex64(info: OpInfo) -> None:
    check(info, torch.complex64)


# Computed in float32 and rounded once, as PyTorch does for these.
BFLOAT16 = [
    *("add", "sub", "mul", "div.no_rounding_mode", "exp", "log", "sqrt", "tanh", "sigmoid", "erf", "abs", "maximum", "where", "lerp"),
    *("sum", "mean", "amax", "var", "cumsum", "cat", "index_select", "gather", "clamp", "addcmul", "logsumexp"),
    *("nn.functional.gelu", "nn.functional.silu", "nn.functional.relu", "nn.functional.softplus"),
]


@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16(name: str) -> None:
    (info,) = [info for info in op_db if name_of(info) == name]
    mode = CheckLowerings(rtol=0.016, atol=0.016)
    for sample in itertools.islice(info.sample_inputs("cpu", torch.bfloat16), SAMPLES):
        with mode:
            info(sample.input, *sample.args, **sample.kwargs)
    assert not mode.failures, "\n".join(mode.failures[:3])
    assert mode.checked
