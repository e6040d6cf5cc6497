"""When a result may be written into the buffer of a parameter that the same region reads: every old element is read where and when it is
overwritten, or before, and nowhere else."""

from __future__ import annotations

from ..hlo.ir import Value
from .kernel import Nest
from .regions import Region
from .stages import stages_of


def overwrites_safely(region: Region, old: Value, new: Value) -> bool:
    """Whether ``region`` may write ``new`` over ``old``, in any order of its iterations."""
    if not region.nests:
        return False
    if region.scatter is not None:
        # Its first nest copies the operand; the updates come when all of that is overwritten.
        return all(load.value is not old for load in region.scatter.loads()) and _nest_overwrites_safely(region.nests[0], old, new)
    if len(region.nests) > 1:
        return old not in region.loads()
    return _nest_overwrites_safely(region.nests[0], old, new)


def _nest_overwrites_safely(nest: Nest, old: Value, new: Value) -> bool:
    addresses = {store.address for store in nest.stores if store.value is new}
    loads = [load for load in nest.loads() if load.value is old]
    if any(load.address not in addresses for load in loads):
        return False
    if not loads or not nest.reductions:
        return True
    stages = stages_of(nest)
    written = next((number for number, stage in enumerate(stages) if any(store.value is new for store in stage.stores)), len(stages))
    return all(old not in stage.loaded() for stage in stages[written + 1 :])
