"""Writes the pages of docs/ that come from tables in the source. ``--check`` writes nothing and fails if a page is out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from torch_neuronx import envvars
from torch_neuronx.compiler.hlo import reference

DOCS = Path(__file__).resolve().parent

PAGES: dict[str, Callable[[], str]] = {
    "environment.md": envvars.markdown,
    "hlo.md": reference.markdown,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="report pages that are out of date instead of writing them")
    check = parser.parse_args().check
    stale = []
    for name, render in PAGES.items():
        page, text = DOCS / name, render()
        if page.exists() and page.read_text() == text:
            continue
        stale.append(name)
        if not check:
            page.write_text(text)
    print(f"{'out of date' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
