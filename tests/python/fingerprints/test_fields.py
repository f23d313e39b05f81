"""F7: classes with declared fields."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint

CLASSES = [st.Point, st.FrozenPoint, st.SlotPoint, st.AttrsPoint, st.AttrsDictPoint, st.Named]


@pytest.mark.parametrize("cls", CLASSES)
def test_fields_count(cls: Any) -> None:
    assert fp(cls(1, 2)) == fp(cls(1, 2))
    assert fp(cls(1, 2)) != fp(cls(2, 1))
    assert fp(cls(1)) == fp(cls(1, 0))
    assert fp(cls([1])) != fp(cls([2]))
    assert fp(copy.deepcopy(cls([1], {2}))) == fp(cls([1], {2}))


def test_classes_count() -> None:
    values = [
        *(cls(1, 2) for cls in CLASSES),
        st.OtherPoint(1, 2),
        st.Model(x=1, y=2),
        (1, 2),
        {"x": 1, "y": 2},
    ]
    assert len({fp(value) for value in values}) == len(values)


@pytest.mark.parametrize(
    "make", [lambda **k: st.Cached(1, **k), lambda **k: st.AttrsPoint(1, **k), lambda **k: st.Model(x=1, **k)]
)
def test_a_field_opts_out_and_nothing_else_changes(make: Any) -> None:
    instance, other = make(runtime="a"), make(runtime="b")
    assert fp(instance) == fp(other)
    assert fp(make(runtime=open)) == fp(instance)
    assert instance != other
    assert repr(instance) != repr(other)
    assert pickle.loads(pickle.dumps(instance)).runtime == "a"


def test_opting_out_can_be_merged_with_other_metadata() -> None:
    field = dataclasses.field(default=0, metadata={**kp.no_fingerprint(), "unit": "m"})
    assert field.metadata["unit"] == "m"


def test_pydantic_extras_and_private_attributes_count() -> None:
    assert fp(st.Model(x=1, more=1)) != fp(st.Model(x=1, more=2))
    assert fp(st.Model(x=1, more=1)) != fp(st.Model(x=1))
    model = st.Model(x=1)
    model._private = 3
    assert fp(model) != fp(st.Model(x=1))
    assert fp(st.Model(x=1, y=0)) == fp(st.Model(x=1))


def test_state_beyond_the_fields_counts_where_the_class_is_not_decorated_itself() -> None:
    assert fp(st.Undecorated(1, "a")) != fp(st.Undecorated(1, "b"))
    assert fp(st.Undecorated(1, "a")) == fp(st.Undecorated(1, "a"))
    assert fp(st.WithInitVar(2, 3)) != fp(st.WithInitVar(2, 4))
    named, other = st.NamedWithState(1, 2), st.NamedWithState(1, 2)
    named.extra = 1  # type: ignore[attr-defined]
    assert fp(named) != fp(other)


def test_attributes_that_are_no_fields_do_not_count_on_a_decorated_class() -> None:
    value = st.Point(1, 2)
    before = fp(value)
    value.scratch = open  # type: ignore[attr-defined]
    assert fp(value) == before


def test_unset_fields_are_absent_not_an_error() -> None:
    value = st.SlotPoint(1, 2)
    del value.y
    assert fp(value) != fp(st.SlotPoint(1, None))
    bare = st.Point.__new__(st.Point)
    assert fp(bare) != fp(st.Point(None, 0))


def test_however_the_attributes_are_kept() -> None:
    fresh = st.Point(1, [2])
    touched = st.Point(1, [2])
    assert touched.__dict__ is not None
    replaced = st.Point(0, 0)
    replaced.__dict__ = {"y": [2], "x": 1}
    crowded = st.Point(1, [2])
    for i in range(100):
        setattr(crowded, f"a{i}", i)
    emptied = st.Point(5, 5)
    del emptied.x, emptied.y
    emptied.y, emptied.x = [2], 1
    assert len({fp(value) for value in (fresh, touched, replaced, crowded, emptied)}) == 1


def test_a_class_default_is_the_value() -> None:
    value = st.Point(1, 0)
    del value.y
    assert value.y == 0
    assert fp(value) == fp(st.Point(1, 0))


def test_properties_and_descriptors_as_fields() -> None:
    calls = []

    class Doubled:
        def __set_name__(self, owner: type, name: str) -> None:
            self.name = "_" + name

        def __get__(self, obj: Any, owner: Any = None) -> Any:
            if obj is None:
                return 7
            calls.append(1)
            return getattr(obj, self.name) * 2

        def __set__(self, obj: Any, value: Any) -> None:
            setattr(obj, self.name, value)

    @dataclasses.dataclass
    class Described:
        x: int = Doubled()  # type: ignore[assignment]

    lenient = kp.Fingerprinter(mode="lenient", overrides={Described: kp.rule.as_namespace()})
    assert lenient(Described(1)) == lenient(Described(1))
    structural = kp.Fingerprinter(mode="lenient")
    assert structural(Described(1)) != structural(Described(2))
    assert calls


def test_plans_follow_changes_of_the_class() -> None:
    value = st.Plain(a=1)
    before = fp(value)
    try:
        st.Plain.__fingerprint__ = kp.rule.leaf(3)  # type: ignore[attr-defined]
        assert fp(value) != before
        st.Plain.__fingerprint__ = kp.rule.leaf(4)  # type: ignore[attr-defined]
        assert fp(value) == fp(st.Plain(a=2))
    finally:
        del st.Plain.__fingerprint__  # type: ignore[attr-defined]
    assert fp(value) == before


def test_classes_are_not_kept_alive() -> None:
    import gc
    import weakref

    def make() -> weakref.ref[type]:
        @dataclasses.dataclass
        class Local:
            x: int

        kp.fingerprint(Local(1), mode="lenient")
        return weakref.ref(Local)

    reference = make()
    gc.collect()
    assert reference() is None
