"""What the documentation says is what the source says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_neuronx import envvars

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the operator table is that of torch 2.13")
def test_generated_pages_are_up_to_date() -> None:
    check = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True)
    assert check.returncode == 0, f"run make docs: {check.stdout}{check.stderr}"


def test_only_one_module_reads_the_environment_in_python() -> None:
    package = ROOT / "src" / "torch_neuronx"
    readers = [path.name for path in package.rglob("*.py") if re.search(r"\bos\.(environ|getenv)\b", path.read_text())]
    assert readers == ["envvars.py"]


def test_every_variable_that_the_extension_reads_is_declared() -> None:
    names = {
        name for path in (ROOT / "csrc").rglob("*.cpp") for name in re.findall(r'"((?:TORCH_NEURONX|NEURON)_[A-Z0-9_]+)"', path.read_text())
    }
    declared = {variable.name for variable in envvars.TABLE if variable.reader != "none"}
    assert names - declared - {"NEURON_TORCH_VERSION"} == set()


def test_links_in_the_readme_and_docs_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"
