"""F6: names, and what stands in where there is none."""

from __future__ import annotations

import functools
import math
import operator
import os
import types
import typing
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint
lenient = kp.Fingerprinter(mode="lenient")

IMPORTABLE: list[Any] = [
    int,
    st.Point,
    st.Holder.Inner,
    st.function,
    st.other_function,
    st.Holder.static,
    st.Holder.method,
    st.Holder.make,
    len,
    math.sin,
    os,
    os.path,
    str.upper,
    [].append,
    operator.itemgetter(1),
    functools.partial(st.function, 1),
    functools.partial(st.function, 2),
    list[int],
    typing.Optional[int],  # noqa: UP045
    int | str,
    typing.Any,
    TypeError,
]


def test_importable_things_differ_and_strict_equals_lenient() -> None:
    digests = [fp(thing) for thing in IMPORTABLE]
    assert len(set(digests)) == len(IMPORTABLE)
    for thing, digest in zip(IMPORTABLE, digests, strict=True):
        assert lenient(thing) == digest
        assert lenient(thing).durable


def make_local() -> tuple[Any, Any]:
    class Local:
        pass

    def local() -> None:
        pass

    return Local, local


@pytest.mark.parametrize(
    "thing", [lambda: 1, *make_local(), make_local()[0]()], ids=["lambda", "class", "function", "instance"]
)
def test_strict_refuses_what_has_no_name(thing: Any) -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp({"steps": [0, thing]})
    error = caught.value
    assert error.code == "not-importable"
    assert error.path.startswith("$['steps'][1]")
    assert "hint:" in str(error)
    assert isinstance(error, TypeError)


def test_shadowed_and_deleted_names_are_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = st.Point(1, 2)
    before = fp(instance)
    with monkeypatch.context() as patch:
        patch.setattr(st, "Point", st.OtherPoint)
        for value in (instance, type(instance)):
            with pytest.raises(kp.FingerprintError, match="deleted, shadowed"):
                fp(value)
    with monkeypatch.context() as patch:
        patch.delattr(st, "function")
        with pytest.raises(kp.FingerprintError, match="cannot be named"):
            fp(make_local.__globals__["IMPORTABLE"][3])
    assert fp(instance) == before


def test_modules_that_are_not_loaded_under_their_name() -> None:
    with pytest.raises(kp.FingerprintError, match="module `ghost`"):
        fp(types.ModuleType("ghost"))
    assert not lenient(types.ModuleType("ghost")).durable
    assert lenient(types.ModuleType("ghost")) != lenient(types.ModuleType("ghost"))


def closure(captured: Any, default: Any = 0, *, keyword: Any = 0, constant: int = 1) -> Any:
    if constant == 1:

        def inner(x: Any = default, *, k: Any = keyword) -> Any:
            return captured + x + 1
    else:

        def inner(x: Any = default, *, k: Any = keyword) -> Any:
            return captured + x + 2

    return inner


def test_lenient_functions_by_what_they_do() -> None:
    base = lenient(closure(1))
    assert base == lenient(closure(1))
    assert not base.durable
    for other in (
        closure(2),
        closure(1, 5),
        closure(1, keyword=5),
        closure(1, constant=2),
    ):
        assert lenient(other) != base
    tagged = closure(1)
    tagged.tile = 3
    assert lenient(tagged) != base


def test_lenient_code_by_nested_constants_not_by_position() -> None:
    def make(text: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(text, "<file>", "exec"), scope)
        return scope["f"]

    original = make("def f():\n    return [lambda y: y + 1 for _ in ()]")
    moved = make("\n\n\n# a comment\ndef f():\n    return [lambda y: y + 1 for _ in ()]")
    changed = make("def f():\n    return [lambda y: y + 2 for _ in ()]")
    assert lenient(original) == lenient(moved)
    assert lenient(original) != lenient(changed)


def test_lenient_functions_by_the_module_of_their_globals() -> None:
    def make(module: str) -> Any:
        scope: dict[str, Any] = {"__name__": module}
        exec("def f():\n    return g()", scope)
        return scope["f"]

    assert lenient(make("a")) == lenient(make("a"))
    assert lenient(make("a")) != lenient(make("b"))


def test_lenient_types_by_name_bases_and_attributes() -> None:
    def make(name: str = "C", bases: tuple[type, ...] = (), **attributes: Any) -> type:
        return type(name, bases, {"__module__": "nowhere", **attributes})

    base = lenient(make(tile=1))
    assert base == lenient(make(tile=1))
    for other in (make("D", tile=1), make("C", (dict,), tile=1), make(tile=2), make(tile=1, more=0)):
        assert lenient(other) != base
    assert lenient(make(f=lambda self: 1)()) != lenient(make(f=lambda self: 2)())


def test_lenient_classes_of_every_kind() -> None:
    import dataclasses
    import enum

    def make(default: int) -> list[Any]:
        @dataclasses.dataclass
        class Data:
            x: int = default

        class Slots:
            __slots__ = ("a",)

            @property
            def p(self) -> int:
                return default

            @staticmethod
            def s() -> int:
                return default

            @classmethod
            def c(cls) -> int:
                return default

        class Recursive:
            def again(self) -> Any:
                return __class__, super().__repr__()  # type: ignore[name-defined]

        class E(enum.Enum):
            A = default

        instance = Slots()
        instance.a = default  # type: ignore[attr-defined]
        return [Data(), Data, instance, Slots, Recursive(), E.A]

    data, data_class, slots, slots_class, recursive, member = range(6)
    ones, sames, others = make(1), make(1), make(2)
    for which in (data, data_class, slots, slots_class, recursive, member):
        assert lenient(ones[which]) == lenient(sames[which])
    for which in (data, data_class, slots, slots_class, member):
        assert lenient(ones[which]) != lenient(others[which])


def test_durability_spreads() -> None:
    process_local = lenient(lambda: 1)
    with pytest.raises(kp.FingerprintError, match="not durable"):
        fp([process_local])
    assert not lenient([process_local]).durable
    assert lenient([fp(1)]).durable


def test_a_changed_qualname_is_seen() -> None:
    class Renamed:
        pass

    module = types.ModuleType("renaming")
    import sys

    sys.modules["renaming"] = module
    try:
        Renamed.__module__ = "renaming"
        Renamed.__qualname__ = "Renamed"
        module.Renamed = module.Other = Renamed  # type: ignore[attr-defined]
        before = fp(Renamed())
        Renamed.__qualname__ = "Other"
        assert fp(Renamed()) != before
    finally:
        del sys.modules["renaming"]
