"""Modules as text: StableHLO for other compilers, and a compact form for people and tests."""

from .compact import print_module
from .stablehlo import print_stablehlo

__all__ = ["print_module", "print_stablehlo"]
