"""The disk cache of compiled programs: bytes by key, shared by processes, bounded, never trusted blindly.

One entry is one file, ``<first two digits>/<digest of the key>.neff``: magic, SHA-256 over key and payload, payload. An entry is written
under a temporary name and renamed into place, so readers see all of it or nothing. It is loaded only if it is a regular file that belongs
to this user and that nobody else can write, and if the digest agrees; anything else is as if it were not there. Trouble with the directory
never fails a program: it costs a recompilation and one warning for loading and one for storing.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import stat
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import envvars

MAGIC = b"NEFFCACH"
_DIGEST_BYTES = hashlib.sha256().digest_size
_SUFFIX = ".neff"
_TEMPORARY_PREFIX = "writing-"
# A writer that was killed leaves its temporary file; none takes this long to write one.
_ABANDONED_SECONDS = 3600.0
# An eviction frees down to this part of the capacity, and other processes' writes are noticed at least this often.
_EVICTION_TARGET = 0.75
_RESCAN_PART = 0.125


class ExecutableCache:
    """A bounded directory of payloads. Safe to use from several threads and processes at once.

    ``capacity_bytes`` bounds the sum of all entries' file sizes; the least recently used go first. It is checked now and then, not at every
    write, so that the directory may exceed it by an eighth per process for a while.
    """

    def __init__(self, directory: Path, capacity_bytes: int) -> None:
        if capacity_bytes <= 0:
            raise ValueError(f"ExecutableCache: capacity_bytes must be positive, got {capacity_bytes}")
        self.directory = directory
        self.capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        # Bytes that may be written before the directory is looked over again; negative before the first look.
        self._headroom = -1
        self._warned: set[str] = set()

    def get(self, key: str) -> bytes | None:
        """The payload stored under ``key``, or None. A hit counts as a use."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("load", f"cannot read {path} ({error.strerror}); the program is compiled again")
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self._warn("load", f"ignored {path}: it belongs to another user or others may write it; the program is compiled again")
                return None
            content = file.read()
            payload = content[len(MAGIC) + _DIGEST_BYTES :]
            if content[: len(MAGIC) + _DIGEST_BYTES] != _header(key, payload):
                self._warn("load", f"{path} is damaged; the program is compiled again")
                return None
            # A read-only file system keeps no record of use, and needs none: nothing is evicted there.
            with suppress(OSError):
                os.utime(descriptor)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Stores ``payload`` under ``key``, replacing what was there. A payload larger than the whole cache is not stored."""
        content = _header(key, payload) + payload
        if len(content) > self.capacity_bytes:
            return
        path = self._path(key)
        try:
            _write_atomically(path, content)
        except OSError as error:
            self._warn("store", f"cannot store compiled programs in {self.directory} ({error.strerror}); they are compiled again next time")
            return
        with self._lock:
            self._headroom -= len(content)
            if self._headroom < 0:
                total = _evict(self.directory, self.capacity_bytes)
                self._headroom = min(self.capacity_bytes - total, int(self.capacity_bytes * _RESCAN_PART))

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.directory / name[:2] / (name + _SUFFIX)

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"torchneuron's disk cache: {message}", RuntimeWarning, stacklevel=3)


@functools.cache
def process_cache() -> ExecutableCache | None:
    """The cache that the environment asks for, None if it is turned off. Read once per process."""
    if envvars.DISABLE_NEFF_CACHE.get():
        return None
    return ExecutableCache(envvars.NEFF_CACHE_DIR.get() or envvars.default_cache_directory(), envvars.NEFF_CACHE_SIZE.get())


@functools.cache
def compiler_fingerprint() -> str:
    """What a compiled program depends on besides its key, as a hex digest: the package's sources and extension, torch, the CPU.

    Source files count by content, so that an edited lowering never serves a stale program. The extension counts by size and modification
    time, as it is large and only its library kernels' interface matters.
    """
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    for path in sorted(package.glob("_C*.so")):
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    digest.update(f"{importlib.metadata.version('torch')}\0{_cpu_key()}".encode())
    return digest.hexdigest()


def _cpu_key() -> str:
    """Vendor, model and features of the first processor: what decides which machine code runs here and which is chosen."""
    wanted = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
    lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    return "\n".join(line for line in lines if line.split("\t")[0].split(":")[0].strip() in wanted)


def _header(key: str, payload: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(b"\0")
    digest.update(payload)
    return MAGIC + digest.digest()


def _write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    used: float
    size: int
    path: str


def _evict(directory: Path, capacity: int) -> int:
    """Removes abandoned temporary files and, if the rest exceeds ``capacity``, the least recently used entries. Returns the bytes left."""
    entries = sorted(_entries(directory))
    total = sum(entry.size for entry in entries)
    if total <= capacity:
        return total
    for entry in entries:
        if total <= capacity * _EVICTION_TARGET:
            break
        # Another process may have removed it first; either way it is gone.
        with suppress(OSError):
            os.unlink(entry.path)
        total -= entry.size
    return total


def _entries(directory: Path) -> list[_Entry]:
    """All entries. What other processes remove meanwhile is left out."""
    abandoned_before = time.time() - _ABANDONED_SECONDS
    entries = []
    for folder in _scan(directory):
        for file in _scan(folder):
            with suppress(OSError):
                status = file.stat()
                if file.name.endswith(_SUFFIX):
                    entries.append(_Entry(status.st_mtime, status.st_size, str(file)))
                elif file.name.startswith(_TEMPORARY_PREFIX) and status.st_mtime < abandoned_before:
                    file.unlink()
    return entries


def _scan(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
