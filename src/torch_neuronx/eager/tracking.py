"""What happens when an op falls back to the CPU, and which ops ran where."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from torch_neuronx import _C


class fallback_policy:  # noqa: N801 - used as a function and as a context manager, as torch.set_grad_enabled is
    """Sets what an op without a native program does: ``"warn"`` once per op (the default), ``"silent"``, or ``"error"``.

    Takes effect at once, for all threads; as a context manager the former policy returns at the end. Without an argument nothing changes;
    ``.policy`` is the policy in force when the object was made. ValueError for any other name.
    """

    def __init__(self, policy: str | None = None) -> None:
        self._former = _C._get_fallback_policy()
        if policy is not None:
            _C._set_fallback_policy(policy)
        self.policy = policy or self._former

    def __enter__(self) -> fallback_policy:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        _C._set_fallback_policy(self._former)


def get_fallback_ops() -> list[str]:
    """Schema names with overload of the ops that ran on the CPU since the last clear, one entry per invocation."""
    return _expanded(_C._fallback_op_counts())


def get_executed_ops() -> list[str]:
    """Schema names with overload of the ops that ran on the device since the last clear, one entry per invocation."""
    return _expanded(_C._executed_op_counts())


def clear_op_tracking() -> None:
    """Forgets the executed and the fallen-back ops."""
    _C._clear_op_tracking()


@dataclass(frozen=True, slots=True)
class EagerStatistics:
    """Of this process so far. ``executables``: distinct programs held; ``disk_hits``: of those, read from the disk cache."""

    launches: int
    misses: int
    executables: int
    compile_seconds: float
    fallbacks: int
    disk_hits: int


_disk_hits = 0


def count_disk_hit() -> None:
    """Notes that a program came from the disk cache. Called with the GIL held."""
    global _disk_hits
    _disk_hits += 1


def statistics() -> EagerStatistics:
    """Launches, cache misses and compile time of eager execution."""
    stats = _C._eager_stats()
    return EagerStatistics(stats["native"], stats["misses"], stats["programs"], stats["compile_seconds"], stats["fallbacks"], _disk_hits)


def _expanded(counts: dict[str, int]) -> list[str]:
    return [name for name, count in counts.items() for _ in range(count)]
