"""The store from Python: what goes in comes out, whatever happens around it."""

from __future__ import annotations

import enum
import gc
import json
import multiprocessing
import os
import pickle
import pty
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import keyprint as kp
from keyprint.errors import STORE_CODES


class Label(enum.IntEnum):
    FIRST = 1
    SECOND = 2


def never() -> bytes:
    raise AssertionError("built again")


@pytest.fixture
def store(tmp_path: Path) -> kp.Store:
    return kp.Store(tmp_path / "store")


def key(value: object = 1, name: str = "kernel") -> kp.Key:
    return kp.Key(name, {"value": value})


def entry_file(store: kp.Store, key: kp.Key) -> Path:
    assert store.path is not None
    return store.path / "v1" / "entries" / key.hex()[:2] / f"{key.hex()[2:]}.kpe"


def reopened(store: kp.Store, **options: Any) -> kp.Store:
    return kp.Store(store.path, **options)


def test_build_once_then_hit(store: kp.Store) -> None:
    built = store.get_or_build(key(), lambda: b"artifact")
    assert (built.data, built.how, built.key, built.name) == (b"artifact", "built", key().hex(), "kernel")
    assert store.get_or_build(key(), never).how == "memory"
    again = reopened(store)
    entry = again.get_or_build(key(), never)
    assert (entry.data, entry.how) == (b"artifact", "disk")
    assert entry.build_seconds == built.build_seconds > 0


@pytest.mark.parametrize(
    ("built", "parts", "metadata"),
    [
        (b"", {"data": b""}, None),
        (bytearray(b"xy"), {"data": b"xy"}, None),
        (memoryview(b"xyz")[1:], {"data": b"yz"}, None),
        ({}, {}, None),
        ({"a.so": b"1", "lib/b": b""}, {"a.so": b"1", "lib/b": b""}, None),
        ((b"x", {"levels": [], "label": Label.FIRST}), {"data": b"x"}, {"levels": [], "label": Label.FIRST}),
        (({"a": b"x"}, []), {"a": b"x"}, []),
        ((b"x", None), {"data": b"x"}, None),
    ],
)
def test_what_a_build_may_return(store: kp.Store, built: Any, parts: Any, metadata: Any) -> None:
    for entry in (store.get_or_build(key(), lambda: built), reopened(store).get(key())):
        assert entry is not None
        assert (entry.parts, entry.metadata) == (parts, metadata)
        assert type(entry.metadata) is type(metadata)


def test_metadata_comes_back_as_enum_members(store: kp.Store) -> None:
    store.put(key(), b"x", {"labels": [Label.FIRST, Label.SECOND], "empty": [], 1: (Label.SECOND,)})
    entry = reopened(store).get(key())
    assert entry is not None
    assert all(label is Label(label) for label in entry.metadata["labels"])
    assert entry.metadata["empty"] == [] and entry.metadata[1][0] is Label.SECOND


@pytest.mark.parametrize("built", [None, 3, "text", (b"x",), (b"x", 1, 2), {"a": "text"}, {1: b""}, [b"x"]])
def test_what_a_build_may_not_return(store: kp.Store, built: Any) -> None:
    with pytest.raises(TypeError):
        store.get_or_build(key(), lambda: built)
    assert store.get_or_build(key(), lambda: b"right").how == "built"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../b", "c:\\x", "nul\0", "a//b"])
def test_names_of_parts_cannot_lead_elsewhere(store: kp.Store, name: str) -> None:
    with pytest.raises(kp.StoreError) as caught:
        store.get_or_build(key(), lambda: {name: b""})
    assert caught.value.code == "part-name"


def test_metadata_that_would_change_is_refused(store: kp.Store) -> None:
    with pytest.raises(kp.StoreError, match="not plain data") as caught:
        store.get_or_build(key(), lambda: (b"x", {"path": Path("x")}))
    assert caught.value.code == "not-plain"
    assert "hint:" in str(caught.value)


def test_the_failure_of_a_build_is_the_callers_and_is_not_kept(store: kp.Store) -> None:
    class Broken(Exception):
        pass

    def fail() -> bytes:
        raise Broken("no compiler")

    for _ in range(2):
        with pytest.raises(Broken, match="no compiler"):
            store.get_or_build(key(), fail)
    assert key() not in store
    assert store.get_or_build(key(), lambda: b"x").how == "built"


def test_get_put_remove_contains_iterate(store: kp.Store) -> None:
    assert store.get(key()) is None and key() not in store and len(store) == 0
    store.put(key(), b"one")
    store.put(key(2, "other"), {"a": b"two"})
    assert key() in store and key().hex() in store
    assert {entry["name"]: entry["key"] for entry in store} == {
        "kernel": key().hex(),
        "other": key(2, "other").hex(),
    }
    entry = store.get(key().hex())
    assert entry is not None and entry.data == b"one"
    with pytest.raises(KeyError, match="the parts are `data`"):
        entry["other"]
    assert store.remove(key()) and not store.remove(key())
    assert key() not in store and len(store) == 1
    assert store.clear() == 1 and len(store) == 0 and bool(store)


def test_entries_are_not_changed_through_what_they_hand_out(store: kp.Store) -> None:
    entry = store.put(key(), {"a": b"x"}, [1])
    entry.parts["a"] = b"changed"
    entry.metadata.append(2)
    assert (entry.parts, entry.metadata) == ({"a": b"x"}, [1])


def test_a_fingerprint_is_a_key(store: kp.Store) -> None:
    fingerprint = kp.fingerprint([1, 2])
    assert store.get_or_build(fingerprint, lambda: b"x").how == "built"
    assert reopened(store).get_or_build(fingerprint, never).data == b"x"
    assert fingerprint.hex() not in store, "a key is never a fingerprint"


def test_what_is_no_key(store: kp.Store) -> None:
    with pytest.raises(kp.StoreError, match="only means something in its own process") as caught:
        store.get_or_build(kp.fingerprint(lambda: 1, mode="lenient"), lambda: b"x")
    assert caught.value.code == "not-durable"
    for wrong in ("name", 3, None, b"x"):
        with pytest.raises(TypeError, match="found `"):
            store.get_or_build(wrong, lambda: b"x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 hexadecimal digits, found `abc`"):
        store.get("abc")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": "ten"}, "`size` is `ten`, which is not a size"),
        ({"size": -1}, "`size` is a number of bytes"),
        ({"memory": []}, "`memory` is a number of bytes"),
        ({"wait": -1.0}, "`wait` is a number of seconds"),
        ({"wait": float("nan")}, "`wait` is a number of seconds"),
        ({"path": ""}, "`path` is the directory"),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        kp.Store(**options)


def test_the_environment_says_where_and_how_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", str(tmp_path / "there"))
    monkeypatch.setenv("KEYPRINT_CACHE_SIZE", "3 MiB")
    store = kp.Store()
    assert (store.path, store.size) == (tmp_path / "there", 3 << 20)
    assert kp.Store(tmp_path / "here", size=7).size == 7
    monkeypatch.setenv("KEYPRINT_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match=r"`much` is not a size \(from `KEYPRINT_CACHE_SIZE`\)"):
        kp.Store()
    monkeypatch.delenv("KEYPRINT_CACHE_SIZE")
    monkeypatch.delenv("KEYPRINT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert kp.Store().path == tmp_path / "xdg" / "keyprint"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert str(kp.Store().path).startswith(str(tmp_path / "home"))


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = kp.Store("cache")
    monkeypatch.chdir("/")
    store.put(key(), b"x")
    assert kp.Store(tmp_path / "cache").get(key()) is not None


def test_damage_is_a_miss_and_one_warning(store: kp.Store) -> None:
    store.put(key(), b"x" * 1000)
    for _ in range(3):
        damaged = bytearray(entry_file(store, key()).read_bytes())
        damaged[-1] ^= 1
        entry_file(store, key()).write_bytes(damaged)
        fresh = reopened(store)
        with pytest.warns(kp.StoreWarning, match="was damaged") as caught:
            assert fresh.get_or_build(key(), lambda: b"x" * 1000).how == "built"
        assert len(caught) == 1 and caught[0].filename == __file__
    assert store.stats()["damaged"] == 3


def test_trouble_is_said_once_and_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = kp.Store(tmp_path / "file" / "below", memory=0)
    with pytest.warns(kp.StoreWarning) as caught:
        for value in range(5):
            assert store.get_or_build(key(value), lambda value=value: bytes([value])).data == bytes([value])
    assert len(caught) == len({str(warning.message).split(":")[0] for warning in caught}) <= 3


def test_a_readonly_store_writes_nothing(store: kp.Store) -> None:
    store.put(key(), b"x")
    store.flush()
    before = sorted(path for path in store.path.rglob("*")) if store.path else []
    fixed = reopened(store, readonly=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fixed.get_or_build(key(), never).data == b"x"
        assert fixed.get_or_build(key(2), lambda: b"y").data == b"y"
    with pytest.raises(OSError):
        fixed.remove(key())
    assert store.path is not None and sorted(store.path.rglob("*")) == before


def test_shared_directories(tmp_path: Path) -> None:
    kp.Store(tmp_path / "warm").put(key(), b"warm")
    local = kp.Store(tmp_path / "local", shared=[tmp_path / "warm"])
    assert local.get_or_build(key(), never).how == "tier"
    assert kp.Store(tmp_path / "local").get_or_build(key(), never).how == "disk"
    (tmp_path / "warm").chmod(0o777)
    with pytest.warns(kp.StoreWarning, match="left out"):
        assert kp.Store(tmp_path / "a", shared=[tmp_path / "warm"]).get(key()) is None
    entry = kp.Store(tmp_path / "b", trusted=[tmp_path / "warm"]).get(key())
    assert entry is not None and entry.data == b"warm"


def test_the_limit_holds(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, size=100_000, memory=0)
    for value in range(40):
        store.put(key(value), bytes(10_000))
    assert 5 <= len(store) <= 10
    assert store.gc(size=30_000) > 0 and len(store) <= 3


def test_threads_build_once(store: kp.Store) -> None:
    built = []

    def build() -> bytes:
        built.append(1)
        time.sleep(0.1)
        return b"x"

    threads = [threading.Thread(target=lambda: store.get_or_build(key(), build)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]


def ask(path: str, log: str, value: int) -> bytes:
    def build() -> bytes:
        with open(log, "a") as file:
            file.write("built\n")
        time.sleep(0.2)
        return b"artifact"

    return kp.Store(path).get_or_build(key(value), build).data


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_build_once(store: kp.Store, tmp_path: Path, method: str) -> None:
    log = tmp_path / "log"
    with multiprocessing.get_context(method).Pool(6) as pool:
        results = pool.starmap(ask, [(str(store.path), str(log), 7)] * 6, chunksize=1)
    assert results == [b"artifact"] * 6
    assert log.read_text() == "built\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_uses_the_store_it_inherited(store: kp.Store) -> None:
    barrier = threading.Barrier(2)

    def build() -> bytes:
        barrier.wait()
        time.sleep(0.3)
        return b"slow"

    # Another thread is in the middle of a build, and holds whatever it holds, when we fork.
    thread = threading.Thread(target=lambda: store.get_or_build(key("slow"), build))
    thread.start()
    barrier.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fine = store.get_or_build(key("fast"), lambda: b"fast").data == b"fast"
            waited = store.get_or_build(key("slow"), never).data == b"slow"
            code = 0 if fine and waited else 2
        finally:
            os._exit(code)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get_or_build(key("fast"), never).data == b"fast"
    assert store.stats()["builds"] == 2


def test_a_child_that_is_forked_during_the_first_miss_of_a_thread() -> None:
    """What is imported at the first miss must not be half imported in the child."""
    program = """
import os, sys, tempfile, threading, time
import keyprint as kp

started = threading.Event()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "keyprint.fingerprints.summary" and threading.current_thread() is not threading.main_thread():
            started.set()
            time.sleep(0.3)

sys.meta_path.insert(0, Slow())
store = kp.Store(tempfile.mkdtemp())
thread = threading.Thread(target=store.get_or_build, args=(kp.Key("a", {"x": 1}), lambda: b"a"))
thread.start()
started.wait()
child = os.fork()
if child == 0:
    os._exit(0 if store.get_or_build(kp.Key("b", {"x": 1}), lambda: b"b").data == b"b" else 1)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "0\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_that_are_forked_while_others_load_can_load(store: kp.Store) -> None:
    entries = [store.put(key(value), {"a": bytes([value]) * 1000}) for value in range(40)]
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            for value in range(40):
                entry = store.get(key(value))
                assert entry is not None
                entry.load("a")

    threads = [threading.Thread(target=load, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(40):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(0 if Path(entries[turn].load("a")).read_bytes() == bytes([turn]) * 1000 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_waiting_can_be_interrupted(store: kp.Store) -> None:
    # In processes of their own: an interrupt that comes late would hit the test runner.
    program = """
import sys, time
sys.path.insert(0, sys.argv[1])
import keyprint as kp
from test_store import key
def build():
    print("building", flush=True)
    time.sleep(600)
print("asking", flush=True)
try:
    kp.Store(sys.argv[2]).get_or_build(key(), build)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(store.path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    waiter = None
    try:
        assert holder.stdout is not None
        assert [holder.stdout.readline(), holder.stdout.readline()] == ["asking\n", "building\n"]
        waiter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None and waiter.stdout.readline() == "asking\n"
        time.sleep(0.2)
        waiter.send_signal(signal.SIGINT)
        assert waiter.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        for process in (holder, waiter):
            if process is not None:
                process.kill()
                process.wait()
    # The dead holder's lock is free at once.
    assert store.get_or_build(key(), lambda: b"x").how == "built"


def test_waiting_shows_on_a_terminal(store: kp.Store, tmp_path: Path) -> None:
    program = """
import sys, time
sys.path.insert(0, sys.argv[1])
import keyprint as kp
from pathlib import Path
from test_store import key
go = Path(sys.argv[3])
def build():
    print("building", flush=True)
    while not go.exists():
        time.sleep(0.01)
    return b"x"
print(kp.Store(sys.argv[2]).get_or_build(key(), build).how, flush=True)
"""
    go = tmp_path / "go"
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(store.path), str(go)]
    builder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None and builder.stdout.readline() == "building\n"
    outer, inner = pty.openpty()
    waiter = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner, text=True)
    try:
        shown = b""
        while b"s)" not in shown:
            shown += os.read(outer, 1000)
        assert f"waiting for process {builder.pid} to build `kernel`" in shown.decode()
        go.touch()
        assert waiter.communicate()[0] == "waited\n"
        assert builder.communicate()[0] == "built\n"
        while not shown.endswith(b"\r\x1b[K"):
            shown += os.read(outer, 1000)
    finally:
        for process in (builder, waiter):
            process.kill()
            process.wait()
        os.close(inner)
        os.close(outer)


def test_interrupting_a_build_leaves_nothing_behind(store: kp.Store) -> None:
    def build() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get_or_build(key(), build)
    assert store.get_or_build(key(), lambda: b"x").how == "built"


def test_a_build_may_use_the_store(store: kp.Store) -> None:
    inner = store.get_or_build(
        key("outer"), lambda: store.get_or_build(key("inner"), lambda: b"x").data + b"y"
    )
    assert inner.data == b"xy"
    assert store.stats()["private_builds"] == 0


def test_statistics_survive_the_process(store: kp.Store) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import keyprint as kp
from test_store import key
store = kp.Store({str(store.path)!r})
for _ in range(10):
    store.get_or_build(key(), lambda: b"x")
"""
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True)
    stats = store.stats()
    assert (stats["builds"], stats["disk_hits"], stats["memory_hits"]) == (1, 2, 27)
    assert stats["entries"] == 1 and stats["limit"] == store.size


def test_a_store_is_not_pickled(store: kp.Store) -> None:
    with pytest.raises(TypeError, match="open it in each process"):
        pickle.dumps(store)


def test_manifests_are_readable(store: kp.Store) -> None:
    secret_key = kp.Key("lower", {"flags": ["-O3"]}, secrets={"token": "hunter2"}, tool=("lang", "1"))
    entry = store.get_or_build(secret_key, lambda: b"x")
    manifest = json.loads(entry.manifest())
    assert manifest == json.loads(secret_key.manifest())
    summaries = {component["name"]: component.get("summary") for component in manifest["components"]}
    assert summaries == {
        "format": "1",
        "salt": "",
        "tool": "lang 1",
        "name": "lower",
        "flags": "['-O3']",
        "token": None,
    }
    assert b"hunter2" not in entry_file(store, secret_key).read_bytes()


def test_why(store: kp.Store) -> None:
    for tile in (64, 128):
        store.get_or_build(kp.Key("lower", {"config": {"tile": tile, "order": "xy"}}), lambda: b"x")
    assert store.why_last()[0][2] == ["`config['tile']`: 64 -> 128"]
    assert store.why_last()[1][2] is None
    assert store.why(kp.Key("lower", {"config": {"tile": 128, "order": "yx"}})) == [
        "`config['order']`: 'xy' -> 'yx'"
    ]
    assert store.why(kp.Key("never seen", {})) == []


def test_no_reference_is_kept(store: kp.Store) -> None:
    class Big:
        def __fingerprint__(self) -> Any:
            return kp.rule.leaf("big")

    import weakref

    big = Big()
    alive = weakref.ref(big)
    store.get_or_build(kp.Key("k", {"big": kp.fingerprint("x")}, shown={"big": big}), lambda: b"x")
    store.get_or_build(kp.Key("k", {"big": kp.fingerprint("x")}, shown={"big": big}), never)
    del big
    gc.collect()
    assert alive() is None


def test_every_code_of_the_store_is_tested() -> None:
    here = Path(__file__).parents[1]
    tests = "".join(path.read_text() for path in here.rglob("test_*.py"))
    assert [code for code in STORE_CODES if f'"{code}"' not in tests] == []
