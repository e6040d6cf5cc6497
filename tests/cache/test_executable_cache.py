"""The disk cache: what is stored comes back, what is damaged or foreign does not, and no trouble with the directory is fatal."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from torch_neuronx.compiler import cache as cache_module
from torch_neuronx.compiler.cache import ExecutableCache, compiler_fingerprint, process_cache

PACKAGE = Path(cache_module.__file__).resolve().parents[1]
PAYLOAD = bytes(range(256)) * 3

# Loads the cache alone in another process, without the package's own start-up.
CHILD_PRELUDE = f"""
import sys, types
for name, path in (("torch_neuronx", {str(PACKAGE)!r}), ("torch_neuronx.compiler", {str(PACKAGE / "compiler")!r})):
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
from pathlib import Path
from torch_neuronx.compiler.cache import ExecutableCache
"""


@pytest.fixture
def cache(tmp_path: Path) -> ExecutableCache:
    return ExecutableCache(tmp_path / "cache", 1 << 20)


def files(cache: ExecutableCache) -> list[Path]:
    return sorted(path for path in cache.directory.rglob("*") if path.is_file())


def only_file(cache: ExecutableCache) -> Path:
    (path,) = files(cache)
    return path


def start_child(body: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD_PRELUDE + body, str(directory)], stdout=subprocess.PIPE, text=True)


def test_what_was_put_is_got_by_another_object(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    assert ExecutableCache(cache.directory, 1 << 20).get("key") == PAYLOAD
    assert cache.get("other key") is None


def test_put_replaces(cache: ExecutableCache) -> None:
    cache.put("key", b"old")
    cache.put("key", b"new")
    assert cache.get("key") == b"new"
    assert len(files(cache)) == 1


def test_empty_payload_and_any_text_as_key(cache: ExecutableCache) -> None:
    key = "../../aten::add.Tensor(f32[4])\0ä" * 50
    cache.put(key, b"")
    assert cache.get(key) == b""
    assert only_file(cache).is_relative_to(cache.directory)


def test_new_directories_and_files_are_private(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    assert only_file(cache).stat().st_mode & 0o077 == 0
    assert only_file(cache).parent.stat().st_mode & 0o077 == 0


@pytest.mark.filterwarnings("ignore:torchneuron's disk cache")
def test_truncation_at_every_length_is_a_miss(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    content = only_file(cache).read_bytes()
    for length in range(len(content)):
        only_file(cache).write_bytes(content[:length])
        assert cache.get("key") is None, f"truncated to {length} of {len(content)} bytes"
    only_file(cache).write_bytes(content)
    assert cache.get("key") == PAYLOAD


@pytest.mark.filterwarnings("ignore:torchneuron's disk cache")
def test_every_flipped_bit_is_a_miss(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD[:64])
    content = bytearray(only_file(cache).read_bytes())
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        only_file(cache).write_bytes(content)
        assert cache.get("key") is None, f"bit {bit} flipped"
        content[bit // 8] ^= 1 << bit % 8


def test_an_entry_under_another_keys_name_is_a_miss(cache: ExecutableCache) -> None:
    cache.put("one", PAYLOAD)
    one = only_file(cache)
    cache.put("two", b"x")
    (two,) = [path for path in files(cache) if path != one]
    two.write_bytes(one.read_bytes())
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert cache.get("two") is None


def test_damage_warns_once_and_storing_again_heals(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    only_file(cache).write_bytes(b"NEFFCACH")
    with pytest.warns(RuntimeWarning, match="is damaged; the program is compiled again") as caught:
        assert cache.get("key") is None
        assert cache.get("key") is None
    assert len(caught) == 1
    cache.put("key", PAYLOAD)
    assert cache.get("key") == PAYLOAD


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_not_loaded(cache: ExecutableCache, mode: int) -> None:
    cache.put("key", PAYLOAD)
    only_file(cache).chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write it"):
        assert cache.get("key") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_loaded(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    os.chown(only_file(cache), 12345, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache.get("key") is None


def test_a_symbolic_link_is_not_followed(cache: ExecutableCache, tmp_path: Path) -> None:
    cache.put("key", PAYLOAD)
    entry = only_file(cache)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="cannot read"):
        assert cache.get("key") is None


def test_a_directory_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ExecutableCache(tmp_path / "file" / "cache", 1 << 20)
    with pytest.warns(RuntimeWarning, match="cannot store compiled programs in .*Not a directory") as caught:
        cache.put("one", PAYLOAD)
        cache.put("two", PAYLOAD)
    assert len(caught) == 1


def test_a_read_only_directory_serves_what_it_has(cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("key", PAYLOAD)

    # Permissions do not stop root, so the refusals of a read-only file system are simulated.
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(cache_module.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(cache_module.os, "utime", refuse)
    with pytest.warns(RuntimeWarning, match="Read-only file system") as caught:
        cache.put("one", PAYLOAD)
        cache.put("two", PAYLOAD)
        assert cache.get("key") == PAYLOAD
    assert len(caught) == 1


def test_a_full_disk_is_one_warning_and_leaves_no_partial_file(cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace_on_full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_module.os, "replace", replace_on_full_disk)
    with pytest.warns(RuntimeWarning, match="No space left on device") as caught:
        cache.put("one", PAYLOAD)
        cache.put("two", PAYLOAD)
    assert len(caught) == 1
    assert files(cache) == []
    monkeypatch.undo()
    cache.put("one", PAYLOAD)
    assert cache.get("one") == PAYLOAD


def entry_bytes(payload: bytes) -> int:
    return len(cache_module.MAGIC) + 32 + len(payload)


def test_the_least_recently_used_are_evicted(tmp_path: Path) -> None:
    payload = bytes(1000)
    cache = ExecutableCache(tmp_path, 10 * entry_bytes(payload))
    for number in range(10):
        cache.put(str(number), payload)
        os.utime(max(files(cache), key=lambda path: path.stat().st_ctime_ns), (number, number))
    assert len(files(cache)) == 10
    assert cache.get("0") == payload  # used now, so no longer the oldest
    for number in range(10, 13):
        cache.put(str(number), payload)
    assert sum(path.stat().st_size for path in files(cache)) <= cache.capacity_bytes * 1.125
    assert cache.get("0") == payload
    assert cache.get("1") is None
    assert cache.get("12") == payload


def test_a_long_run_of_writes_stays_near_the_bound(tmp_path: Path) -> None:
    payload = bytes(500)
    cache = ExecutableCache(tmp_path, 20 * entry_bytes(payload))
    for number in range(200):
        cache.put(str(number), payload)
        assert sum(path.stat().st_size for path in files(cache)) <= cache.capacity_bytes * 1.125
    assert cache.get("199") == payload


def test_a_payload_larger_than_the_cache_is_not_stored(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path, 100)
    cache.put("key", bytes(101))
    assert cache.get("key") is None


def test_abandoned_temporary_files_are_removed_and_fresh_ones_left(cache: ExecutableCache) -> None:
    cache.put("key", PAYLOAD)
    old, fresh = only_file(cache).parent / "writing-old", only_file(cache).parent / "writing-fresh"
    for path in (old, fresh):
        path.write_bytes(b"half")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    ExecutableCache(cache.directory, 1 << 20).put("other", PAYLOAD)
    assert not old.exists()
    assert fresh.exists()


def test_kill_while_writing_never_leaves_a_wrong_entry(cache: ExecutableCache) -> None:
    body = """
cache = ExecutableCache(Path(sys.argv[1]), 1 << 30)
print("ready", flush=True)
number = 0
while True:
    cache.put(str(number % 4), bytes([number % 251]) * 2_000_000)
    number += 1
"""
    found = 0
    for round_ in range(6):
        child = start_child(body, cache.directory)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 0.01 * (round_ + 1)
        while time.monotonic() < deadline:
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for key in range(4):
                payload = cache.get(str(key))
                if payload is not None:
                    found += 1
                    assert len(payload) == 2_000_000
                    assert len(set(payload)) == 1
                    assert payload[0] % 4 == key or payload[0] >= 248
    assert found > 0


def test_processes_share_the_directory_while_evicting(cache: ExecutableCache) -> None:
    body = """
cache = ExecutableCache(Path(sys.argv[1]), 40_000)
import warnings
warnings.simplefilter("error")
for number in range(300):
    key = str(number % 30)
    payload = key.encode() * 1500
    found = cache.get(key)
    assert found is None or found == payload
    cache.put(key, payload)
print("done")
"""
    children = [start_child(body, cache.directory) for _ in range(2)]
    for child in children:
        output, _ = child.communicate(timeout=60)
        assert (child.returncode, output) == (0, "done\n")


def test_the_environment_chooses_the_process_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_SIZE", "3MiB")
    chosen = process_cache.__wrapped__()
    assert chosen is not None
    assert (chosen.directory, chosen.capacity_bytes) == (tmp_path, 3 << 20)
    monkeypatch.setenv("TORCH_NEURONX_DISABLE_NEFF_CACHE", "1")
    assert process_cache.__wrapped__() is None


def test_fingerprint_is_stable_and_depends_on_sources_and_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fingerprint = compiler_fingerprint.__wrapped__
    here = fingerprint()
    assert fingerprint() == here
    monkeypatch.setattr(cache_module, "_cpu_key", lambda: "another processor")
    assert fingerprint() != here
    (tmp_path / "compiler").mkdir()
    (tmp_path / "lowering.py").write_text("one")
    monkeypatch.setattr(cache_module, "__file__", str(tmp_path / "compiler" / "cache.py"))
    before = fingerprint()
    (tmp_path / "lowering.py").write_text("two")
    assert fingerprint() != before
