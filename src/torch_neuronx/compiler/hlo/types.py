"""Element types and tensor types of the IR. Names are StableHLO's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod


class DType(Enum):
    """An element type: StableHLO name, size in bytes, kind, and the code used in executable images.

    ``kind``: ``b`` boolean, ``i`` signed, ``u`` unsigned, ``f`` floating, ``c`` complex.
    """

    I1 = ("i1", 1, "b", 0)
    I8 = ("i8", 1, "i", 1)
    I16 = ("i16", 2, "i", 2)
    I32 = ("i32", 4, "i", 3)
    I64 = ("i64", 8, "i", 4)
    UI8 = ("ui8", 1, "u", 5)
    UI16 = ("ui16", 2, "u", 6)
    UI32 = ("ui32", 4, "u", 7)
    UI64 = ("ui64", 8, "u", 8)
    F16 = ("f16", 2, "f", 9)
    BF16 = ("bf16", 2, "f", 10)
    F32 = ("f32", 4, "f", 11)
    F64 = ("f64", 8, "f", 12)
    C64 = ("complex<f32>", 8, "c", 13)
    C128 = ("complex<f64>", 16, "c", 14)
    F8E4M3FN = ("f8E4M3FN", 1, "f", 15)
    F8E5M2 = ("f8E5M2", 1, "f", 16)

    def __init__(self, label: str, itemsize: int, kind: str, code: int) -> None:
        self.label = label
        self.itemsize = itemsize
        self.kind = kind
        self.code = code

    def __str__(self) -> str:
        return self.label

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned; booleans are not integers."""
        return self.kind in "iu"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor's shape and element type. ``shape == ()`` is a 0-d tensor."""

    shape: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"TensorType: extents must be ≥ 0, got shape {self.shape}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype.label])}>"


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements. An extent of 0 counts as 1, as in PyTorch."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
