"""Native code from the store: the bytes that were verified, and never those of another artifact."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import keyprint as kp

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler")


def compiled(directory: Path, answer: int) -> bytes:
    source = directory / f"answer{answer}.c"
    source.write_text(f"int answer(void) {{ return {answer}; }}")
    library = source.with_suffix(".so")
    subprocess.run([str(CC), "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library.read_bytes()


def key(value: object) -> kp.Key:
    return kp.Key("answer", {"value": value})


@needs_cc
def test_two_artifacts_loaded_one_after_the_other_never_mix(tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store", memory=0)
    for answer in (1, 2, 3):
        store.put(key(answer), {"answer.so": compiled(tmp_path, answer)})
    seen: dict[str, int] = {}
    for _ in range(3):
        for answer in (1, 2, 3):
            entry = store.get(key(answer))
            assert entry is not None
            path = entry.load("answer.so")
            assert seen.setdefault(path, answer) == answer
            assert ctypes.CDLL(path).answer() == answer
    # One path for each artifact, and the same bytes under two keys are two artifacts.
    assert sorted(seen.values()) == [1, 2, 3]
    other = store.put(key("one"), {"answer.so": compiled(tmp_path, 1)})
    assert other.load("answer.so") not in seen


def test_loading_often_costs_no_descriptors(tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store", memory=0)
    store.put(key(1), b"bytes")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        entry = store.get(key(1))
        assert entry is not None and Path(entry.load()).read_bytes() == b"bytes"
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@needs_cc
def test_artifacts_do_not_mix_after_descriptors_were_closed(tmp_path: Path) -> None:
    store_path = tmp_path / "store"
    for answer in (1, 2):
        kp.Store(store_path).put(key(answer), {"answer.so": compiled(tmp_path, answer)})
    # A daemon closes every descriptor it finds; the numbers come back.
    program = f"""
import ctypes, os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import keyprint as kp
from test_loading import key
store = kp.Store({str(store_path)!r})
first = store.get(key(1)).load("answer.so")
assert ctypes.CDLL(first).answer() == 1
os.closerange(3, 256)
second = store.get(key(2)).load("answer.so")
assert first != second
print(ctypes.CDLL(second).answer())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_what_is_loaded_cannot_be_changed(tmp_path: Path) -> None:
    entry = kp.Store(tmp_path / "store").put(key(1), b"bytes")
    path = Path(entry.load())
    assert path.read_bytes() == b"bytes"
    with pytest.raises(OSError):
        path.write_bytes(b"other")
    assert path.read_bytes() == b"bytes"


def test_what_others_can_write_is_refused_with_the_remedy(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kp.Store(root).put(key(1), b"bytes")
    for culprit in (root, root / "v1", root / "v1" / "entries"):
        before = stat.S_IMODE(culprit.stat().st_mode)
        culprit.chmod(0o775)
        entry = kp.Store(root).get(key(1))
        assert entry is not None and entry.data == b"bytes", "bytes are only bytes"
        for use in (entry.load, lambda entry=entry: entry.materialise(tmp_path / "out")):
            with pytest.raises(kp.StoreError) as caught:
                use()
            assert caught.value.code == "untrusted"
            assert f"`{culprit}` (mode 0775)" in str(caught.value)
            assert caught.value.hint == f"chmod go-w '{culprit}'"
        # The hint mends it.
        subprocess.run(caught.value.hint, shell=True, check=True)
        entry.load()
        culprit.chmod(before)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_store_of_somebody_else_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kp.Store(root).put(key(1), b"bytes")
    os.chown(root / "v1", 12345, 12345)
    entry = kp.Store(root).get(key(1))
    assert entry is not None
    with pytest.raises(kp.StoreError, match="belongs to user 12345") as caught:
        entry.load()
    assert caught.value.code == "untrusted"


def test_parts_become_private_files(tmp_path: Path) -> None:
    entry = kp.Store(tmp_path / "store").put(key(1), {"lib/a.so": b"a", "b": b""})
    paths = entry.materialise(tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in paths] == ["lib/a.so", "b"]
    assert [path.read_bytes() for path in paths] == [b"a", b""]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)


def test_files_are_not_made_where_others_can_write(tmp_path: Path) -> None:
    entry = kp.Store(tmp_path / "store").put(key(1), {"lib/a.so": b"a"})
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(kp.StoreError, match="mode 0777") as caught:
        entry.materialise(tmp_path / "open")
    assert caught.value.code == "untrusted"
    assert list((tmp_path / "open").iterdir()) == []


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    entry = kp.Store(tmp_path / "store").put(key(1), {"a.so": b"a"})
    with pytest.raises(kp.StoreError, match="no part `data`") as caught:
        entry.load()
    assert caught.value.code == "no-such-part" and caught.value.hint == "the parts are `a.so`"
