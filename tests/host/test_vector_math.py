"""The vector math: accuracy against higher precision, special values, and that loops over it vectorise."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from operator_accuracy import OPERATORS
from vector_math_accuracy import (
    SIGN_OF_NEGATED,
    describe,
    double_reference,
    every_float,
    operands_of,
    operator_inputs,
    single_reference,
    stratified,
    ulps,
    worst,
)

import torch_neuronx
from torch_neuronx.compiler.host.vector_math import BINARY, SUPPORTED, definition, definitions
from torch_neuronx.compiler.host.vector_math.array_loop import ArrayLoop

MAX_ULP = {
    "acos": {"f32": 1.1, "f64": 1.3},
    "acosh": {"f32": 0.51, "f64": 2.0},
    "asin": {"f32": 1.5, "f64": 1.8},
    "asinh": {"f32": 0.51, "f64": 2.0},
    "atan": {"f32": 1.55, "f64": 1.6},
    "atan2": {"f32": 0.51, "f64": 1.8},
    "atanh": {"f32": 0.51, "f64": 2.0},
    "cbrt": {"f32": 0.51, "f64": 0.7},
    "cosh": {"f32": 1.6, "f64": 1.6},
    "cosine": {"f32": 0.51, "f64": 1.5},
    "digamma": {"f32": 1.0, "f64": 1e5},
    "erf": {"f32": 1.7, "f64": 1.2},
    "erf_inv": {"f32": 0.6, "f64": 1.3},
    "erfc": {"f32": 0.6, "f64": 1.8},
    "exponential": {"f32": 1.0, "f64": 1.0},
    "exponential_minus_one": {"f32": 1.5, "f64": 2.0},
    "lgamma": {"f32": 0.6, "f64": 1e5},
    "log": {"f32": 0.9, "f64": 0.9},
    "log_plus_one": {"f32": 1.4, "f64": 1.5},
    "logistic": {"f32": 2.0, "f64": 2.0},
    "power": {"f32": 0.51, "f64": 1.0},
    "rsqrt": {"f32": 1.5, "f64": 1.5},
    "sine": {"f32": 0.51, "f64": 1.5},
    "sinh": {"f32": 1.75, "f64": 1.75},
    "tan": {"f32": 0.75, "f64": 1.8},
    "tanh": {"f32": 1.4, "f64": 1.4},
}
ONE_HALF = 0.5
# Targets by LLVM's names. The first stands for machines with AVX2 and FMA but no AVX-512.
AVX2 = {"cpu": "haswell", "features": "", "vector_width": 256}
AVX512 = {"cpu": "skylake-avx512", "features": "", "vector_width": 512}
every_function = pytest.mark.parametrize(("name", "dtype"), sorted(SUPPORTED))
singles = pytest.mark.parametrize("name", sorted(name for name, dtype in SUPPORTED if dtype == "f32"))


def compiled(name: str, dtype: str, **target: object) -> ArrayLoop:
    return ArrayLoop(definition(name, dtype), name, dtype, arity(name), **target)


def arity(name: str) -> int:
    return 2 if name in BINARY else 1


def test_every_function_exists_in_both_formats() -> None:
    assert {(name, dtype) for name in MAX_ULP for dtype in ("f32", "f64")} == SUPPORTED


@singles
def test_float_error_over_all_binades(name: str) -> None:
    operands = operands_of(name, "f32", arity(name), per_exponent=1024)
    exact = single_reference(name, *operands)
    error, where = worst(compiled(name, "f32", **AVX2)(*operands), exact)
    assert error <= MAX_ULP[name]["f32"], f"{error:.3f} ulp at {describe(operands, where)}, exact {exact[where]}"


@pytest.mark.parametrize("name", sorted(name for name, dtype in SUPPORTED if dtype == "f64"))
def test_double_error_over_all_binades(name: str) -> None:
    operands = operands_of(name, "f64", arity(name), per_exponent=4)
    exact = double_reference(name, *operands)
    error, where = worst(compiled(name, "f64", **AVX2)(*operands), exact)
    assert error <= MAX_ULP[name]["f64"], f"{error:.3f} ulp at {describe(operands, where)}, exact {exact[where]}"


@pytest.mark.parametrize(("name", "reference"), [("sine", mpmath.sin), ("cosine", mpmath.cos), ("tan", mpmath.tan)])
def test_double_trigonometry_next_to_multiples_of_a_right_angle(name: str, reference: Callable[[mpmath.mpf], mpmath.mpf]) -> None:
    turns = np.concatenate([np.arange(1, 500), np.random.default_rng(0).integers(1, 1 << 40, 500)])
    # The double that is the nearest of all to a multiple of pi/2, by Kahan and McDonald.
    nearest = math.ldexp(6381956970095103, 797)
    operand = np.concatenate([turns * (math.pi / 2), [nearest, nearest / 2, 2 * nearest, np.finfo(np.float64).max]])
    with mpmath.workprec(1300):
        exact = [reference(mpmath.mpf(float(value))) for value in operand]
        head = np.array([float(value) for value in exact])
        tail = np.array([float(value - mpmath.mpf(float(value))) for value in exact])
    error, where = worst(compiled(name, "f64", **AVX2)(operand), head.astype(np.longdouble) + tail)
    assert error <= MAX_ULP[name]["f64"], f"{error:.3f} ulp at {describe([operand], where)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, dtype in SUPPORTED if dtype == "f32" and name not in BINARY))
def test_float_error_of_every_input(name: str) -> None:
    loop = compiled(name, "f32", **AVX2)
    assert max(worst(loop(operand), single_reference(name, operand))[0] for operand in every_float(name)) <= MAX_ULP[name]["f32"]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("name", "sign"), sorted(SIGN_OF_NEGATED.items()))
def test_even_and_odd_functions_are_so_to_the_bit(name: str, sign: int, dtype: str) -> None:
    loop, operand = compiled(name, dtype, **AVX2), stratified(dtype, 64)
    operand = operand[~np.isnan(operand)]
    expected = loop(operand) * sign
    got = loop(-operand)
    assert ((got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)).all()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "arguments", "results"),
    [
        ("exponential", [-np.inf, np.inf, np.nan, 0.0, -0.0], [0.0, np.inf, np.nan, 1.0, 1.0]),
        ("exponential_minus_one", [-np.inf, np.inf, np.nan, -0.0], [-1.0, np.inf, np.nan, -0.0]),
        ("log", [0.0, -0.0, -1.0, -np.inf, np.inf, np.nan], [-np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan]),
        ("log_plus_one", [-1.0, -2.0, np.inf, np.nan, -0.0], [-np.inf, np.nan, np.inf, np.nan, -0.0]),
        ("logistic", [-np.inf, np.inf, np.nan, 0.0], [0.0, 1.0, np.nan, 0.5]),
        ("tanh", [-np.inf, np.inf, np.nan, -0.0], [-1.0, 1.0, np.nan, -0.0]),
        ("erf", [-np.inf, np.inf, np.nan, -0.0], [-1.0, 1.0, np.nan, -0.0]),
        ("erfc", [-np.inf, np.inf, np.nan, 0.0], [2.0, 0.0, np.nan, 1.0]),
        ("erf_inv", [-1.0, 1.0, 1.5, np.nan, -0.0], [-np.inf, np.inf, np.nan, np.nan, -0.0]),
        ("sine", [np.inf, -np.inf, np.nan, -0.0], [np.nan, np.nan, np.nan, -0.0]),
        ("cosine", [np.inf, -np.inf, np.nan, -0.0], [np.nan, np.nan, np.nan, 1.0]),
        ("tan", [np.inf, -np.inf, np.nan, -0.0], [np.nan, np.nan, np.nan, -0.0]),
        ("lgamma", [0.0, -0.0, -1.0, -3e5, np.inf, -np.inf, np.nan, 1.0, 2.0], [np.inf] * 6 + [np.nan, 0.0, 0.0]),
        ("digamma", [0.0, -0.0, -1.0, np.inf, -np.inf, np.nan], [-np.inf, np.inf, np.nan, np.inf, np.nan, np.nan]),
        ("rsqrt", [0.0, -0.0, -1.0, np.inf, np.nan], [np.inf, -np.inf, np.nan, 0.0, np.nan]),
        ("cbrt", [0.0, -0.0, -8.0, np.inf, -np.inf, np.nan], [0.0, -0.0, -2.0, np.inf, -np.inf, np.nan]),
        ("acosh", [1.0, 0.5, -1.0, np.inf, np.nan], [0.0, np.nan, np.nan, np.inf, np.nan]),
        ("atanh", [1.0, -1.0, 2.0, np.nan, -0.0], [np.inf, -np.inf, np.nan, np.nan, -0.0]),
        ("asin", [2.0, -2.0, np.nan, -0.0], [np.nan, np.nan, np.nan, -0.0]),
        ("acos", [2.0, -2.0, np.nan, 1.0], [np.nan, np.nan, np.nan, 0.0]),
        ("sinh", [np.inf, -np.inf, np.nan, -0.0], [np.inf, -np.inf, np.nan, -0.0]),
        ("cosh", [np.inf, -np.inf, np.nan, 0.0], [np.inf, np.inf, np.nan, 1.0]),
        ("asinh", [np.inf, -np.inf, np.nan, -0.0], [np.inf, -np.inf, np.nan, -0.0]),
    ],
)
def test_special_values(name: str, dtype: str, arguments: list[float], results: list[float]) -> None:
    real = {"f32": np.float32, "f64": np.float64}[dtype]
    got = compiled(name, dtype, **AVX2)(np.array(arguments, real))
    assert not ulps(got, np.array(results, np.longdouble)).any(), f"{got} where {results} is exact"


@pytest.mark.parametrize(
    ("name", "dtype", "argument"), [("exponential", "f32", -100.0), ("exponential", "f64", -740.0), ("logistic", "f32", -95.0)]
)
def test_results_underflow_gradually(name: str, dtype: str, argument: float) -> None:
    loop = compiled(name, dtype, **AVX2)
    operand = np.array([argument], {"f32": np.float32, "f64": np.float64}[dtype])
    result = loop(operand)[0]
    assert 0 < result < np.finfo(operand.dtype).tiny
    assert ulps(loop(operand), double_reference(name, operand.astype(np.float64)))[0] <= ONE_HALF


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")], ids=["avx2", "avx512"])
@every_function
def test_loop_vectorises_without_calls(name: str, dtype: str, target: dict[str, object], register: str) -> None:
    assembly = compiled(name, dtype, **target).assembly
    assert "call" not in assembly
    # A float result computed in double is stored from half a register.
    half = {"ymm": "xmm", "zmm": "ymm"}[register]
    stored = set(re.findall(r"vmov(?:up[sd]|ap[sd]|dqu\d*|lpd|hpd)\s+%([xyz]mm)\d+, \S*\(%", assembly))
    assert f"%{register}" in assembly
    assert stored & {register, half}, f"the vector loop stores {stored}"


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_is_within_one_ulp_of_atens_error(name: str) -> None:
    operator, sample = OPERATORS[name], torch.from_numpy(operator_inputs(256))
    with torch_neuronx.fallback_policy("error"):
        got = operator(sample.to("neuron")).cpu().numpy()
    exact = operator(sample.double()).numpy()
    error, where = worst(got, exact)
    assert error <= worst(operator(sample).numpy(), exact)[0] + 1, f"{error:.3f} ulp at {float(sample[where]).hex()}, exact {exact[where]}"


@pytest.mark.parametrize(("operator", "base"), [(torch.log2, 2.0), (torch.log10, 10.0)])
def test_logarithms_of_powers_of_their_base_are_exact(operator: Callable[[torch.Tensor], torch.Tensor], base: float) -> None:
    exponents = torch.arange(*{2.0: (-149, 128), 10.0: (0, 11)}[base], dtype=torch.float32)
    powers = torch.pow(base, exponents.double()).float()
    assert torch.equal(operator(powers.to("neuron")).cpu(), exponents)


def test_exp2_is_exact_at_integers_and_underflows_to_zero() -> None:
    exponents = torch.arange(-160, 130, dtype=torch.float32)
    assert torch.equal(torch.exp2(exponents.to("neuron")).cpu(), torch.exp2(exponents.double()).float())
    special = torch.tensor([torch.inf, -torch.inf, torch.nan])
    torch.testing.assert_close(torch.exp2(special.to("neuron")).cpu(), torch.tensor([torch.inf, 0.0, torch.nan]), equal_nan=True)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_keeps_the_sign_of_its_tail_and_is_linear_far_right(approximate: str) -> None:
    x = torch.tensor([-30.0, -3.0, -0.0, 30.0, 1e30])
    got = torch.nn.functional.gelu(x.to("neuron"), approximate=approximate).cpu()
    assert (got[:3] <= 0).all() and got[1] < 0
    assert torch.equal(got[3:], x[3:])


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0])
def test_power_of_small_integers_is_exact(exponent: float) -> None:
    base = torch.arange(1.0, 64.0)
    expected = torch.pow(base.double(), exponent).float()
    assert torch.equal(torch.pow(base.to("neuron"), exponent).cpu(), expected)
    as_tensor = torch.full_like(base, exponent).to("neuron")
    assert torch.equal(torch.pow(base.to("neuron"), as_tensor).cpu(), expected)


def test_definitions_share_declarations_and_tables() -> None:
    text = definitions([("sine", "f64"), ("cosine", "f64"), ("sine", "f64")])
    lines = text.splitlines()
    module_level = [line for line in lines if line.startswith(("declare", "@"))]
    assert len(module_level) == len(set(module_level))
    assert len([line for line in lines if line.startswith("define")]) == 2


def test_unknown_function_names_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"vector math has no gelu for f32; it has acos f32,"):
        definition("gelu", "f32")


DOUBLE_LOGARITHMS = """
import math, mpmath, numpy, torch
mpmath.mp.prec = 120
generator = numpy.random.default_rng(0)
regular = numpy.ldexp(generator.uniform(0.5, 1, 3000), generator.integers(-1021, 1024, 3000))
near_one = 1 + generator.uniform(-0.3, 0.4, 2000) ** 3
tiny = numpy.array([5e-324, 2.2250738585072014e-308, 1e-310])
x = numpy.concatenate([regular, near_one, tiny, 10.0 ** numpy.arange(-300, 300, 7), 2.0 ** numpy.arange(-1074, 1024, 31)])
for name, base in (("log2", 2), ("log10", 10)):
    mine = getattr(torch, name)(torch.from_numpy(x).to("neuron")).cpu().numpy()
    worst = 0.0
    for value, result in zip(x, mine):
        exact = mpmath.log(mpmath.mpf(float(value)), base)
        worst = max(worst, float(abs(mpmath.mpf(float(result)) - exact)) / math.ulp(float(exact)))
    print(name, worst)
    special = getattr(torch, name)(torch.tensor([0.0, -0.0, -1.0, math.inf, math.nan], dtype=torch.float64).to("neuron")).tolist()
    assert special[:2] == [-math.inf] * 2 and math.isnan(special[2]) and special[3] == math.inf and math.isnan(special[4]), special
assert torch.log2(torch.tensor([2.0**k for k in range(-1074, 1024)], dtype=torch.float64).to("neuron")).tolist() == [*range(-1074, 1024)]
assert torch.log10(torch.tensor([10.0**k for k in range(0, 23)], dtype=torch.float64).to("neuron")).tolist() == [*range(0, 23)]
"""


def test_logarithms_of_doubles_to_the_bases_2_and_10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_FLOAT64", "exact")
    done = subprocess.run([sys.executable, "-c", DOUBLE_LOGARITHMS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors = {name: float(error) for name, error in (line.split() for line in done.stdout.splitlines())}
    assert errors["log2"] <= 1.5 and errors["log10"] <= 2.6, errors
