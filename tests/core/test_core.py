"""The runtime's C++ tests, each in a process of its own: plain, under AddressSanitizer with UBSan, and under ThreadSanitizer."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "core-tests"
VARIANTS = ("plain", "address", "thread")
TESTS = sorted(name for path in HERE.glob("test_*.cpp") for name in re.findall(r"^TEST\((\w+)\)", path.read_text(), re.MULTILINE))

# How many random programs a test tries; 100 where nothing is said. The sanitizers cost a factor of 10 to 20.
PROGRAMS = {
    ("plain", "allocator_random_programs_agree_with_the_model"): 10_000,
    ("address", "allocator_random_programs_agree_with_the_model"): 1_000,
    ("thread", "allocator_random_programs_agree_with_the_model"): 200,
    ("thread", "executable_loads_or_refuses_random_damage"): 10,
    ("thread", "event_random_programs_of_several_threads_keep_every_order"): 40,
}
# Tests that a sanitizer's own machinery breaks, with the reason.
PLAIN_ONLY = {
    "memory_protected_is_readable_inside_commands_only": "the sanitizers handle SIGSEGV themselves",
    "process_forks_while_several_threads_use_the_device": "a sanitizer's locks, held by another thread at the fork, stay held in the child",
}
# The sanitizer waits a second at exit for late reports unless told otherwise.
ENVIRONMENT = {"TSAN_OPTIONS": "atexit_sleep_ms=0", "ASAN_OPTIONS": "detect_leaks=1"}
RUNTIME_VARIABLES = re.compile(r"NEURON_|TORCH_NEURONX_")


@pytest.fixture(scope="session", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    """The name of a variant that is built and up to date."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(["make", "-s", "-j2", "-C", str(HERE), f"VARIANT={request.param}"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return request.param


def run(variant: str, name: str, programs: int) -> None:
    environment = {key: value for key, value in os.environ.items() if not RUNTIME_VARIABLES.match(key)} | ENVIRONMENT
    command = [str(BUILD / variant / "core_tests"), name, str(programs)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", TESTS)
def test_runtime(variant: str, name: str) -> None:
    if variant != "plain" and name in PLAIN_ONLY:
        pytest.skip(PLAIN_ONLY[name])
    run(variant, name, PROGRAMS.get((variant, name), 100))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TESTS if "random" in name or "several_threads" in name])
def test_runtime_with_many_programs(variant: str, name: str) -> None:
    run(variant, name, 10 * PROGRAMS.get((variant, name), 100))
