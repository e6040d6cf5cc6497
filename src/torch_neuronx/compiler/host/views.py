"""Values that are strided views of other values in memory, so that an operation outside of loop nests can read them in place."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..hlo.ir import Value
from .affine import Affine, NotAffineError, SplitRequest, linear_form, split_loops
from .expressions import Load
from .nests import StridesOf
from .trace import MustRealise, NotFusible, Tracer


@dataclass(frozen=True, slots=True)
class View:
    """``sizes`` and ``strides`` (elements, never negative) of a view that starts ``offset`` elements into ``base``."""

    base: Value
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def view_of(value: Value, strides_of: StridesOf) -> View | None:
    """The view that ``value`` is, or None if its elements have to be computed or lie in no regular order."""
    if value.type.size == 0 or value.is_scalar:
        return None
    # Loop k runs through dimension dims[k]; a reshape between may split it into several.
    extents, dims = value.shape, tuple(range(value.type.rank))
    while True:
        index = tuple(linear_form(extents, tuple(of == dim for of in dims)) for dim in range(value.type.rank))
        try:
            element = Tracer(extents, strides_of, {}).trace(value, index)
        except SplitRequest as split:
            dims = split_loops(dims, split.loop, dims[split.loop], dims[split.loop])
            extents = split_loops(extents, split.loop, extents[split.loop] // split.inner, split.inner)
            continue
        except (MustRealise, NotFusible, NotAffineError):
            return None
        break
    if not isinstance(element, Load) or element.guard is not None or element.address.terms:
        return None
    strides = tuple(
        _stride([loop for loop, of in enumerate(dims) if of == dim], element.address, extents) for dim in range(value.type.rank)
    )
    if any(stride is None or stride < 0 for stride in strides):
        return None
    return View(element.value, element.address.offset, value.shape, tuple(stride or 0 for stride in strides))


def _stride(loops: list[int], address: Affine, extents: tuple[int, ...]) -> int | None:
    """The one step with which consecutive loops walk, or None if they jump."""
    loops = [loop for loop in loops if extents[loop] > 1]
    if not loops:
        return 0
    for outer, inner in pairwise(loops):
        if address.coefficients[outer] != address.coefficients[inner] * extents[inner]:
            return None
    return address.coefficients[loops[-1]]
