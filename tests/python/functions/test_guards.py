"""Guards: every form of change is seen, on every interpreter; nothing is kept alive."""

from __future__ import annotations

import dataclasses
import enum
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyprint._native import Guards


class Plain:
    tag = "class"

    def __init__(self) -> None:
        self.x: Any = [1]
        self.y: Any = [2]


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x: Any = [1]
        self.y: Any = [2]


class Both(Plain):
    __slots__ = ("z",)


@dataclasses.dataclass
class Data:
    x: Any = dataclasses.field(default_factory=lambda: [1])
    y: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any = dataclasses.field(default_factory=lambda: [1])


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    x: int = 1


class Mode(enum.Enum):
    A = 1


class Other:
    pass


def _many() -> Plain:
    # Too many attributes to be kept inline.
    plain = Plain()
    for at in range(40):
        setattr(plain, f"a{at}", at)
    return plain


def _touched() -> Plain:
    plain = Plain()
    assert plain.__dict__
    return plain


OBJECTS: dict[str, Callable[[], Any]] = {
    "plain": Plain,
    "with a dict": _touched,
    "many attributes": _many,
    "slots": Slotted,
    "slots and a dict": Both,
    "dataclass": Data,
}


def _delete(o: Any) -> None:
    del o.x


CHANGES: dict[str, Callable[[Any], object]] = {
    "assign": lambda o: setattr(o, "x", [1]),
    "object.__setattr__": lambda o: object.__setattr__(o, "x", [1]),
    "delete": _delete,
    "in place": lambda o: o.x.append(3),
}

DICT_CHANGES: dict[str, Callable[[Any], object]] = {
    "new attribute": lambda o: setattr(o, "new", 1),
    "item": lambda o: o.__dict__.__setitem__("x", [1]),
    "update": lambda o: o.__dict__.update(x=[1]),
    "pop": lambda o: o.__dict__.pop("x"),
    "clear": lambda o: o.__dict__.clear(),
    "another dict": lambda o: setattr(o, "__dict__", {"x": [1], "y": [2]}),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("change", [*CHANGES, *DICT_CHANGES])
@pytest.mark.parametrize("repeat", [1, 3])
def test_changes_of_instances_are_seen(kind: str, change: str, repeat: int) -> None:
    instance = OBJECTS[kind]()
    if change in DICT_CHANGES and not hasattr(instance, "__dict__"):
        pytest.skip("there is no dict")
    guards = Guards()
    assert guards.value(instance)
    for _ in range(repeat):
        assert guards.check()
    {**CHANGES, **DICT_CHANGES}[change](instance)
    assert not guards.check()


def test_specialised_byte_code_is_seen() -> None:
    def store(o: Any, value: Any) -> None:
        o.x = value

    warm = Plain()
    for _ in range(100):
        store(warm, [1])
    plain = Plain()
    guards = Guards()
    assert guards.value(plain)
    assert guards.check()
    store(plain, [1])
    assert not guards.check()


@pytest.mark.parametrize("kind", ["plain", "with a dict", "many attributes", "slots", "dataclass"])
def test_changes_of_one_member_are_seen(kind: str) -> None:
    instance = OBJECTS[kind]()
    guards = Guards()
    member = guards.member(instance, "x")
    assert member == ([1],)
    instance.y = 5
    assert guards.check(), "another member"
    instance.x = [1]
    assert not guards.check()


def test_another_class_is_seen() -> None:
    plain = Plain()
    guards = Guards()
    assert guards.member(plain, "x")
    plain.__class__ = Other
    assert not guards.check()


def test_going_back_holds_again() -> None:
    plain = Plain()
    guards = Guards()
    before = plain.x
    assert guards.value(plain)
    plain.x = [7]
    assert not guards.check()
    plain.x = before
    assert guards.check()


def test_changes_of_classes_are_seen() -> None:
    class Base:
        pass

    class Local(Base):
        n = 1

    for change in (
        lambda: setattr(Local, "n", 2),
        lambda: setattr(Local, "m", 2),
        lambda: delattr(Local, "m"),
        lambda: setattr(Base, "k", 2),
        lambda: setattr(Local, "__bases__", (Plain,)),
    ):
        guards = Guards()
        assert guards.type(Local)
        assert guards.check()
        change()
        assert not guards.check()


def test_changes_of_dicts_are_seen() -> None:
    names: dict[str, Any] = {"a": [1], "b": 2}
    guards = Guards()
    assert guards.name(names, "a") == ([1],)
    assert guards.name(names, "c") == ()
    for value in range(5):
        names["b"] = value
        assert guards.check(), "other names do not matter"
    names["c"] = 1
    assert not guards.check()
    del names["c"]
    assert guards.check()
    kept = names["a"]
    names["a"] = [1]
    assert not guards.check()
    names["a"] = kept
    assert guards.check()
    names.clear()
    assert not guards.check()


def test_module_names_in_every_way() -> None:
    module = types.ModuleType("made")
    module.__dict__["n"] = before = [1]
    ways: list[Callable[[], object]] = [
        lambda: setattr(module, "n", [1]),
        lambda: module.__dict__.update(n=[1]),
        lambda: exec("n = [1]", module.__dict__),
        lambda: exec("global n\nn = [1]", module.__dict__),
        lambda: module.__dict__.pop("n"),
        lambda: delattr(module, "n"),
    ]
    for change in ways:
        module.n = before
        guards = Guards()
        assert guards.name(vars(module), "n") == ([1],)
        assert guards.check()
        change()
        assert not guards.check()


VALUES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "list append": (lambda: [1, 2], lambda v: v.append(3)),
    "list item": (lambda: [1, [2]], lambda v: v.__setitem__(0, [1])),
    "list swap": (lambda: [[1], [2]], lambda v: v.reverse()),
    "list pop": (lambda: [1, 2], lambda v: v.pop()),
    "list in a list": (lambda: [[[1]]], lambda v: v[0][0].append(1)),
    "list in a tuple": (lambda: ([1],), lambda v: v[0].append(1)),
    "dict item": (lambda: {"a": 1}, lambda v: v.update(a=2)),
    "dict new": (lambda: {"a": 1}, lambda v: v.update(b=2)),
    "dict order": (lambda: {"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a"))),
    "dict in a dict": (lambda: {"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
    "set add": (lambda: {1, 2}, lambda v: v.add(3)),
    "set discard": (lambda: {1, 2}, lambda v: v.discard(1)),
    "set exchange": (lambda: {1, 2}, lambda v: (v.discard(1), v.add(1000))),
    "member": (lambda: [Plain()], lambda v: setattr(v[0], "x", 2)),
    "frozen dataclass": (Frozen, lambda v: v.x.append(2)),
    "frozen slots": (FrozenSlots, lambda v: object.__setattr__(v, "x", 2)),
    "namespace class": (lambda: Plain(), lambda v: v.x.clear()),
}


@pytest.mark.parametrize("name", VALUES)
def test_changes_inside_values_are_seen(name: str) -> None:
    make, change = VALUES[name]
    value = make()
    guards = Guards()
    assert guards.value(value)
    assert guards.check()
    assert guards.check()
    change(value)
    assert not guards.check()


@pytest.mark.parametrize(
    "value",
    [1, 1.5, "a", b"b", None, (1, (2,)), frozenset({1}), np.dtype("f4"), np.float32(1), Mode.A, len, Plain],
)
def test_constants_hold(value: Any) -> None:
    guards = Guards()
    assert guards.value(value)
    assert guards.check()


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"a"),
        types.SimpleNamespace(x=1),
        np.zeros(2, "i4,f4")[0],
        iter([1]),
        types.MappingProxyType({}),
    ],
)
def test_what_cannot_be_watched_is_said(value: Any) -> None:
    assert not Guards().value(value)


def test_objects_that_speak_for_themselves_are_not_watched() -> None:
    class Speaks:
        def __reduce__(self) -> Any:
            return list, ()

    class Makes:
        def __getattr__(self, name: str) -> Any:
            return 1

    assert not Guards().value(Speaks())
    assert not Guards().value(Makes())


def test_read_only_arrays() -> None:
    array = np.arange(4)
    array.flags.writeable = False
    guards = Guards()
    assert guards.value(array)
    assert guards.check()
    array.flags.writeable = True
    assert not guards.check()
    array.flags.writeable = False
    assert guards.check()
    array.shape = (2, 2)
    assert not guards.check()


def test_functions() -> None:
    def f(a: int = 1, *, b: int = 2) -> int:
        return a + b

    def g(a: int = 1, *, b: int = 2) -> int:
        return a - b

    for change in (
        lambda: setattr(f, "__code__", g.__code__),
        lambda: setattr(f, "__defaults__", (3,)),
        lambda: setattr(f, "__kwdefaults__", {"b": 3}),
        lambda: setattr(f, "note", 3),
    ):
        guards = Guards()
        guards.function(f)
        assert guards.check()
        change()
        assert not guards.check()


def test_cells() -> None:
    def make() -> tuple[Any, Any]:
        n = [1]

        def f() -> Any:
            return n

        def put(value: Any) -> None:
            nonlocal n
            n = value

        return f, put

    f, put = make()
    guards = Guards()
    assert guards.cell(f, 0) == ([1],)
    assert guards.check()
    put([1])
    assert not guards.check()
    assert guards.cell(f, 1) == ()


def test_instances_and_arrays_are_not_kept_alive() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    plain = Plain()
    names = {"plain": plain, "array": array}
    guards = Guards()
    guards.name(names, "plain")
    guards.name(names, "array")
    guards.member(plain, "x")
    guards.value(plain)
    guards.value(array)
    dead = [weakref.ref(plain), weakref.ref(array)]
    names.clear()
    del plain, array
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    assert not guards.check()


def test_an_address_that_is_used_again_is_no_match() -> None:
    names: dict[str, Any] = {"plain": Plain()}
    guards = Guards()
    guards.name(names, "plain")
    for _ in range(100):
        # The new instance is likely to be where the old one was.
        del names["plain"]
        names["plain"] = Plain()
        assert not guards.check()


def test_guards_can_be_collected() -> None:
    class Local:
        pass

    instance = Local()
    guards = Guards()
    guards.type(Local)
    guards.set_recheck(lambda instance=instance: instance is None)
    instance.guards = guards  # type: ignore[attr-defined]
    Local.made = instance  # type: ignore[attr-defined]
    dead = weakref.ref(Local)
    del Local, instance, guards
    gc.collect()
    assert dead() is None


def test_recheck_decides() -> None:
    guards = Guards()
    answers = [True, False]
    guards.set_recheck(lambda: answers.pop(0))
    assert guards.check()
    assert not guards.check()
    guards.set_recheck(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        guards.check()


def test_wrong_types_are_refused() -> None:
    guards = Guards()
    with pytest.raises(TypeError):
        guards.cell(1, 0)
    with pytest.raises(TypeError):
        guards.function(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        guards.name([], "a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        guards.name({}, [])  # type: ignore[arg-type]
