"""Environment variables: defaults, parsing, errors that say what is allowed, warnings that name the nearest name."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from torch_neuronx import envvars


def test_unset_and_empty_are_the_default() -> None:
    assert envvars.NEFF_CACHE_SIZE.get({}) == 2 << 30
    assert envvars.NEFF_CACHE_SIZE.get({"TORCH_NEURONX_NEFF_CACHE_SIZE": " "}) == 2 << 30
    assert envvars.FLOAT64.get({}) == "float32"


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        (envvars.DISABLE_NEFF_CACHE, "1", True),
        (envvars.DISABLE_NEFF_CACHE, "0", False),
        (envvars.DEVICE_MEMORY, "4096", 4096),
        (envvars.DEVICE_MEMORY, "512MiB", 512 << 20),
        (envvars.DEVICE_MEMORY, "2GiB", 2 << 30),
        (envvars.VISIBLE_CORES, "0-2,5", (0, 1, 2, 5)),
        (envvars.NUM_CORES, "8", 8),
        (envvars.NEFF_CACHE_DIR, "/somewhere", Path("/somewhere")),
        (envvars.FLOAT64, "exact", "exact"),
    ],
)
def test_values_are_parsed(variable: envvars.Variable[object], text: str, value: object) -> None:
    assert variable.get({variable.name: text}) == value


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        (envvars.DISABLE_NEFF_CACHE, "yes", "0 or 1"),
        (envvars.DEVICE_MEMORY, "-3", "a positive number of bytes"),
        (envvars.DEVICE_MEMORY, "2G", "a positive number of bytes"),
        (envvars.DEVICE_MEMORY, "0", "a positive number of bytes"),
        (envvars.DEVICE_MEMORY, "1.5GiB", "a positive number of bytes"),
        (envvars.VISIBLE_CORES, "1,1", "distinct core numbers"),
        (envvars.VISIBLE_CORES, "3-1", "distinct core numbers"),
        (envvars.LOG_LEVEL, "4", "a whole number from 0 to 3"),
        (envvars.FLOAT64, "double", "float32 or exact"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_is_allowed(variable: envvars.Variable[object], text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"{variable.name}: got '{text}', allowed is {allowed}"):
        variable.get({variable.name: text})


def test_an_unknown_name_warns_with_the_nearest() -> None:
    with pytest.warns(UserWarning, match="TORCH_NEURONX_NEF_CACHE_DIR is not a variable.*nearest is TORCH_NEURONX_NEFF_CACHE_DIR"):
        envvars.check_environment({"TORCH_NEURONX_NEF_CACHE_DIR": "x"})


def test_a_name_without_effect_says_so() -> None:
    with pytest.warns(UserWarning, match="TORCH_NEURONX_COMPILE_ONLY is set but has no effect"):
        envvars.check_environment({"TORCH_NEURONX_COMPILE_ONLY": "1"})


def test_a_clean_environment_is_silent_and_a_bad_value_is_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envvars.check_environment({"HOME": "/", "TORCH_NEURONX_FLOAT64": "exact", "NEURON_SOMETHING_ELSE": "1"})
    with pytest.raises(ValueError, match="TORCH_NEURONX_FLOAT64"):
        envvars.check_environment({"TORCH_NEURONX_FLOAT64": "half"})


def test_names_are_unique_and_every_one_is_documented() -> None:
    names = [variable.name for variable in envvars.TABLE]
    assert len(set(names)) == len(names)
    page = envvars.markdown()
    assert all(f"`{name}`" in page for name in names)


def test_the_cache_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert envvars.default_cache_directory() == Path("/caches/torchneuron")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert envvars.default_cache_directory() == Path.home() / ".cache" / "torchneuron"
