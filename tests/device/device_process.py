"""Runs a program in its own Python process: for what must happen before or after the device's only life in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping


def run_python(code: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The finished process, with its output as text. A process that takes a minute has hung: an error."""
    variables = {**os.environ, **(environment or {})}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=variables, capture_output=True, text=True, timeout=60)


def output_of(code: str, environment: Mapping[str, str] | None = None) -> str:
    """What the program prints; it must end without an error."""
    process = run_python(code, environment)
    assert process.returncode == 0, process.stderr
    return process.stdout
