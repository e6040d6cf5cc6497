"""rsqrt."""

from __future__ import annotations

from .ir import Value, square_root


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), two correctly rounded operations. Error < 1 ulp. rsqrt(-0) is -infinity, as in ATen."""
    return 1.0 / square_root(x)


FORMULAS = {("rsqrt", dtype): rsqrt for dtype in ("f32", "f64")}
