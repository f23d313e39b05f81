"""Plain data comes back as exactly what it was."""

from __future__ import annotations

import enum
import json
import math
import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyprint as kp
from keyprint.store import plain


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Odd(enum.Enum):
    NAN = math.nan


class Outer:
    class Inner(enum.IntEnum):
        ONE = 1


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**3000), max_value=2**3000)
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.just("\ud800 alone")
    | st.binary()
    | st.sampled_from([*Color, *Level, Mode.READ | Mode.WRITE, Mode(0), Outer.Inner.ONE])
)
# Deferred, because Hypothesis writes strategies out in full otherwise.
hashables: Any = st.deferred(
    lambda: st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.sets(hashables, max_size=3)
        | st.frozensets(hashables, max_size=3)
    ),
)


@given(values)
def test_round_trip(value: Any) -> None:
    back = plain.loads(plain.dumps(value))
    # Fingerprints tell types, signs of zero and order apart; NaNs are one value.
    assert kp.fingerprint(back) == kp.fingerprint(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$tuple": [1]},
        {"$": 1},
        {"$enum": ["a", "b", "c", 1]},
        {"a": 1, "$b": 2},
        [-0.0, 0.0, math.inf, -math.inf],
        {1: "a", "1": "b", None: "c"},
        [10**10000],
        ["\ud83d\ude00", "\ud800", "😀"],
        {"\ud83d\ude00": 1, "\U0001f600": 2},
        [],
        {},
        (),
        {"empty": []},
    ],
)
def test_corner_cases(value: Any) -> None:
    back = plain.loads(plain.dumps(value))
    assert kp.fingerprint(back) == kp.fingerprint(value) and list(back) == list(value)


def test_order_of_dicts_is_kept() -> None:
    assert list(plain.loads(plain.dumps({"b": 1, "a": 2}))) == ["b", "a"]


class Sub(int):
    pass


@pytest.mark.parametrize("value", [object(), Sub(3), {"a": {1, Sub(2)}}, range(3), bytearray(b"x"), len])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(kp.StoreError, match="is not plain data") as caught:
        plain.dumps(value)
    assert caught.value.code == "not-plain"


def test_endless_data_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(kp.StoreError, match="contains itself"):
        plain.dumps(endless)


def test_enum_members_are_the_very_members() -> None:
    for member in (Color.RED, Level.HIGH, Outer.Inner.ONE, Odd.NAN):
        assert plain.loads(plain.dumps(member)) is member
    assert plain.loads(plain.dumps(Mode.READ | Mode.WRITE)) == Mode.READ | Mode.WRITE


def written(module: str, qualname: str, name: str | None, value: Any) -> bytes:
    return json.dumps({"plain": 1, "value": {"$enum": [module, qualname, name, value]}}).encode()


@pytest.mark.parametrize(
    ("module", "qualname", "name", "value"),
    [
        ("not.loaded", "Level", "LOW", 1),
        (__name__, "Gone", "LOW", 1),
        (__name__, "Level", "GONE", 1),
        (__name__, "Level", "LOW", 7),
        (__name__, "Level", None, 1),
        (__name__, "Color", "RED", "green"),
        (__name__, "test_round_trip", "LOW", 1),
        (__name__, "Level.LOW", "LOW", 1),
        (__name__, "Mode", None, 64),
        (__name__, "Level", "LOW", True),
    ],
)
def test_members_that_are_gone_come_back_as_values(module: str, qualname: str, name: Any, value: Any) -> None:
    data = written(module, qualname, name, value)
    back = plain.loads(data)
    assert back == value and type(back) is type(value)
    with pytest.raises(kp.StoreError):
        plain.loads(data, strict=True)


def test_nothing_is_imported_because_data_says_so() -> None:
    assert "antigravity" not in sys.modules
    assert plain.loads(written("antigravity", "fly", "x", 1)) == 1
    assert "antigravity" not in sys.modules


def test_modules_are_not_asked_for_what_they_do_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    module = types.ModuleType("lazy")
    module.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy", module)
    assert plain.loads(written("lazy", "Level", "LOW", 1)) == 1
    assert asked == []


def test_a_class_that_moved_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("came_later")
    module.Level = Level  # type: ignore[attr-defined]
    data = written("came_later", "Level", "HIGH", 2)
    assert type(plain.loads(data)) is int
    monkeypatch.setitem(sys.modules, "came_later", module)
    assert plain.loads(data) is Level.HIGH


def test_other_versions_are_refused() -> None:
    for data in (b'{"plain": 2, "value": 1}', b"[]", b'{"value": 1}'):
        with pytest.raises(kp.StoreError, match="another version"):
            plain.loads(data)
