"""The store at its edges: views, switches, listing, and reasons that are found out when somebody asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import keyprint as kp

PROGRAM = """
import keyprint as kp
store = kp.Store(sync=False)
print(store.get_or_build(kp.Key("step", {"a": 1}), lambda: b"built").how)
"""


def how(environment: dict[str, str], path: Path) -> tuple[str, str]:
    """Run a program that asks for one thing; return where it got that from, and what was said."""
    env = {**os.environ, "KEYPRINT_CACHE_DIR": str(path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


def _kernel(n: int) -> int:
    return n


def key(number: int, name: str = "step") -> kp.Key:
    return kp.Key(name, {"number": number})


def test_views_are_not_copies(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, memory=0)
    store.put(key(1), {"code": b"0123456789" * 1000, "empty": b""})
    entry = store.get(key(1))
    view = entry.view("code")
    assert view.readonly and view.nbytes == 10_000 and bytes(view[:10]) == b"0123456789"
    with pytest.raises(TypeError):
        view[0] = 1
    assert entry.view("empty").nbytes == 0
    with pytest.raises(KeyError, match="no part `kernel`; the parts are `code`, `empty`"):
        entry.view("kernel")
    # It outlives what it came from.
    del entry, store
    assert bytes(view[-10:]) == b"0123456789"


def test_results_of_steps_come_back_through_views(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, memory=0)
    seen: list[type] = []
    mine = kp.Serializer("mine-1", lambda value: value, lambda data: seen.append(type(data)) or data)
    for serializer, value in (
        ("plain", b"bytes"),
        ("plain", {"a": (1, 2)}),
        ("pickle", {1, 2}),
        (mine, b"x"),
    ):
        step = kp.CachedStep(
            lambda number, value=value: value,
            input_key=kp.fingerprint,
            store=store,
            serializer=serializer,
            step_key=lambda step: "constant",
            name=repr(value),
        )
        assert [step(1), step(1)] == [value, value]
    assert seen == [bytes], "serializers of others get bytes"


def test_listing_and_counting(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, sync=False)
    assert len(store) == 0 and store.entries() == []
    for number in range(5):
        store.put(key(number, f"name {number}"), b"x")
    assert len(store) == 5 and len(store.entries(2)) == 2 and len(list(store)) == 5
    assert {entry["name"] for entry in store} == {f"name {number}" for number in range(5)}
    (tmp_path / "v1" / "ledger").unlink()
    assert store.stats()["entries"] == 5, "what is there is counted, whatever was noted"


def test_switches(tmp_path: Path) -> None:
    path = tmp_path / "store"
    assert how({"KEYPRINT_DISABLE": "1"}, path) == ("built", "") and not path.exists()
    assert how({"KEYPRINT_READONLY": "1"}, path) == ("built", "") and not path.exists()
    assert how({"KEYPRINT_DISABLE": "0"}, path)[0] == "built"
    assert how({}, path) == ("disk", "")
    assert how({"KEYPRINT_READONLY": "1"}, path) == ("disk", "")
    assert how({"KEYPRINT_RECACHE": "1"}, path) == ("built", "")
    assert how({"KEYPRINT_DISABLE": "yes"}, path) == ("built", "")


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kp.Store("~/cache").path == tmp_path / "cache"
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", "~/other")
    assert kp.Store().path == tmp_path / "other"
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", "~nobody/other")
    assert kp.Store().path == Path.cwd() / "~nobody" / "other"


def test_reasons_are_found_out_when_somebody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[kp.Key] = []

    class Store(kp.Store):
        def why(self, key: Any, /, before: Any = None) -> list[str]:
            asked.append(key)
            return super().why(key, before=before)

    kernel = kp.jit(
        _kernel,
        compile=lambda _: b"code",
        load=lambda _: lambda *_: None,
        store=Store(tmp_path),
        static=["n"],
    )
    kernel(1)
    kernel(2)
    assert asked == []
    assert kernel.why() == kernel.why() == "miss: `argument n`: 1 -> 2"
    assert len(asked) == 1, "it is remembered"
    kernel(3)
    assert len(asked) == 1
    assert kernel.why().endswith("-> 3") and len(asked) == 2
    monkeypatch.setenv("KEYPRINT_EXPLAIN", "1")
    kernel(4)
    assert "-> 4" in capfd.readouterr().err


def test_what_came_later_is_no_reason(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, sync=False)
    store.put(kp.Key("step", {"a": 1, "b": 1}), b"x")
    time.sleep(0.01)
    before = time.time()
    time.sleep(0.01)
    store.put(kp.Key("step", {"a": 2, "b": 1}), b"x")
    missed = kp.Key("step", {"a": 2, "b": 2})
    assert store.why(missed) == ["`b`: 1 -> 2"]
    assert store.why(missed, before=before) == ["`a`: 1 -> 2", "`b`: 1 -> 2"]


def test_an_old_store_without_an_index(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, sync=False)
    for number in range(3):
        store.put(key(number), b"x")
    for file in (tmp_path / "v1" / "index").iterdir():
        file.unlink()
    (tmp_path / "v1" / "index").rmdir()
    again = kp.Store(tmp_path, sync=False)
    assert len(again.entries()) == 3
    (reason,) = again.why(key(4))
    assert reason.endswith(" -> 4")


def test_a_child_that_is_forked_inside_of_a_build_says_nothing_for_its_parent(tmp_path: Path) -> None:
    store = kp.Store(tmp_path, sync=False)
    lock = tmp_path / "v1" / "locks" / f"{key(1).hex()}.lock"
    said: list[str] = []

    def build() -> bytes:
        child = os.fork()
        if not child:
            raise SystemExit
        os.waitpid(child, 0)
        said.append(lock.read_text())
        return b"built"

    try:
        entry = store.get_or_build(key(1), build)
    except SystemExit:
        # The child's build failed; its parent's did not.
        os._exit(0)
    assert entry.data == b"built" and not lock.exists()
    assert said[0].startswith(f"{os.getpid()} "), said
