"""Hostile and unlucky values: a clean result or a clean TypeError, never a crash or a hang."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint


class Mutating:
    """Changes its container when it is reduced."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __reduce__(self) -> Any:
        self.change()
        return Mutating, (None,)


def test_containers_that_change_while_they_are_read() -> None:
    growing: list[Any] = [0, 0, 0]
    growing[1] = Mutating(lambda: growing.append(1))
    shrinking: list[Any] = [0, 0, 0]
    shrinking[1] = Mutating(lambda: shrinking.clear())
    table: dict[Any, Any] = {i: i for i in range(10)}
    table[3] = Mutating(lambda: table.update({f"new{len(table)}": 1}))
    emptied: dict[Any, Any] = {i: [i] for i in range(10)}
    emptied[3] = Mutating(lambda: emptied.clear())
    keyed: dict[Any, Any] = {}
    keyed[(Mutating(lambda: keyed.clear()),)] = [1]
    for value in (growing, shrinking, table, emptied, keyed):
        with pytest.raises(kp.FingerprintError) as caught:
            fp([value])
        assert caught.value.code == "changed"


def test_attributes_that_change_while_they_are_read() -> None:
    value = st.Point(1, 2)
    value.x = Mutating(lambda: value.__dict__.clear())
    plain = st.Plain(a=1)
    plain.b = Mutating(lambda: plain.__dict__.clear())
    swapped = st.Point(1, [2])
    swapped.x = Mutating(lambda: setattr(swapped, "__class__", st.OtherPoint))
    elements: set[Any] = set()
    elements.add(Mutating(lambda: elements.clear()))
    for thing in (value, plain, swapped, elements):
        assert isinstance(fp(thing), kp.Fingerprint)
        gc.collect()


class Endless:
    def __reduce__(self) -> Any:
        return Endless, (), {"next": Endless()}


class EndlessItems:
    def __reduce__(self) -> Any:
        return EndlessItems, (), None, itertools.repeat(0)


def test_reductions_without_end() -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp(Endless())
    assert caught.value.code == "endless-reduction"
    with pytest.raises(kp.FingerprintError, match="do not end"):
        fp(EndlessItems())


def test_rules_without_end() -> None:
    endless = kp.Fingerprinter(overrides={st.Node: lambda node: kp.rule.ordered(st.Node(1))})
    with pytest.raises(kp.FingerprintError) as caught:
        endless(st.Node(1))
    assert caught.value.code == "endless-reduction"
    itself = kp.Fingerprinter(overrides={st.Node: lambda node: kp.rule.ordered(node, 1)})
    assert itself(st.Node(1)) == itself(st.Node(2))


class RaisingGetattr:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class RaisingGetattribute:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class RaisingHash:
    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class LyingMeta(type):
    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return 0

    def __instancecheck__(cls, instance: Any) -> bool:
        return True

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return True


class Lying(metaclass=LyingMeta):
    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def __class__(self) -> Any:
        return int


def test_classes_that_lie_or_raise() -> None:
    assert fp(RaisingGetattr()) == fp(RaisingGetattr())
    assert fp(RaisingGetattribute()) == fp(RaisingGetattribute())
    assert fp(RaisingHash()) == fp(RaisingHash())
    assert kp.Fingerprinter().explain([RaisingHash()]).text == "<list of 1>"
    assert fp(Lying(1)) != fp(Lying(2))


class FakeFields:
    __dataclass_fields__ = 3


class FakeAttrs:
    __attrs_attrs__ = (1, 2)


class FakeNamed(tuple):  # type: ignore[type-arg]
    _fields = ("a", "b", "c")
    _make = None


class FakeRule:
    __fingerprint__ = 17


class FakeModule:
    __module__ = 3
    __qualname__ = "x"


def test_protocols_that_are_not_what_they_seem() -> None:
    for value in (FakeFields(), FakeAttrs(), FakeRule(), FakeModule()):
        with pytest.raises(TypeError):
            fp([value])
    assert fp(FakeNamed((1,))) != fp(FakeNamed((2,)))


class Interrupted:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


class Exits:
    def __reduce__(self) -> Any:
        raise SystemExit(3)


def test_interrupts_pass_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        fp([Interrupted()])
    with pytest.raises(SystemExit):
        fp([Exits()])


def test_control_c_stops_a_long_walk() -> None:
    """A walk that would never end is stopped by a signal in the middle."""
    # In a process of its own: an interrupt that comes late would hit the test runner.
    program = """
import signal, threading, time
import keyprint as kp

class Node:
    pass

slow = kp.Fingerprinter(overrides={Node: lambda node: kp.rule.ordered([Node() for _ in range(1000)])})

def interrupt():
    time.sleep(0.1)
    signal.raise_signal(signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    slow([Node()])
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "stopped\n", done.stderr


def test_memory_does_not_grow() -> None:
    tracing = __import__("tracemalloc")
    value = {"a": [st.Point(1, [2]), st.Reduced({"x"}), lambda: 1], "b": st.Plain(c={1: 2})}
    lenient = kp.Fingerprinter(mode="lenient")
    refused = kp.Fingerprinter()

    def work() -> None:
        for _ in range(100):
            lenient(value)
            lenient.explain(value)
            with pytest.raises(TypeError):
                refused(value)

    # The first rounds replace objects that were made before tracing began.
    tracing.start()
    sizes = []
    for _ in range(8):
        work()
        gc.collect()
        sizes.append(tracing.get_traced_memory()[0])
    tracing.stop()
    assert sizes[-1] - sizes[-3] < 20_000, sizes


def test_a_failure_half_way_releases_everything() -> None:
    shared = [1]
    value = [shared, {"k": (shared, threading.Lock())}]
    before = sys.getrefcount(shared)
    for _ in range(20):
        with pytest.raises(TypeError):
            fp(value)
    gc.collect()
    assert sys.getrefcount(shared) == before


def test_the_path_of_a_deep_failure_is_short() -> None:
    value: Any = threading.Lock()
    for _ in range(100_000):
        value = [value]
    with pytest.raises(kp.FingerprintError) as caught:
        fp(value)
    assert len(caught.value.path) < 300
    assert "levels" in caught.value.path
