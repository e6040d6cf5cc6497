"""Writes native_operators.txt: the operators whose samples run on the device without a fallback and agree with the CPU.

    python tests/opinfo/generate_native_operators.py

Names that were in the file and no longer pass are printed; the exit status is 1 then, and they stay in the file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from device_check import check_operator, operators

FILE = Path(__file__).with_name("native_operators.txt")


def main() -> int:
    warnings.simplefilter("ignore")
    known = set(FILE.read_text().split()) if FILE.exists() else set()
    passing, lost = set(), set()
    for name, info in operators().items():
        try:
            check_operator(info)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if name in known:
                lost.add(name)
                print(f"lost {name}: {reason[:300]}", flush=True)
            elif "--verbose" in sys.argv:
                print(f"not native: {name}: {reason[:300]}", flush=True)
        else:
            passing.add(name)
    FILE.write_text("\n".join(sorted(passing | lost)) + "\n")
    print(f"{len(passing)} native operators, {len(passing - known)} new, {len(lost)} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
