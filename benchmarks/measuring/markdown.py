"""Generated sections of hand-written pages, between the lines ``<!-- name -->`` and ``<!-- /name -->``."""

from __future__ import annotations

import os
import re
from pathlib import Path


def replace_section(page: Path, name: str, text: str) -> None:
    """Replaces the section of ``page``; the page is never half written. ValueError if it has no such section."""
    old = page.read_text()
    new, count = re.subn(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", lambda found: found[1] + text + found[2], old, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} has {count} sections <!-- {name} --> … <!-- /{name} -->, exactly one is needed")
    temporary = page.with_suffix(".tmp")
    temporary.write_text(new)
    os.replace(temporary, page)
