"""Values that were once read wrongly, or could have been."""

from __future__ import annotations

import abc
import collections
import ctypes
import dataclasses
import enum
import functools
import gc
import os
import time
import types
import weakref
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import keyprint as kp
import sample_types as st
from keyprint import gt4py

fp = kp.fingerprint
lenient = kp.Fingerprinter(mode="lenient")


class Pair(NamedTuple):
    a: int
    b: int = 0


class NodeList(st.Node, list):  # type: ignore[type-arg]
    pass


def test_by_fields_keeps_content_that_is_no_field() -> None:
    skip = kp.rule.by_fields(skip=("b", "location"))
    f = kp.Fingerprinter(
        overrides={Pair: skip, st.MyDict: skip, st.Node: skip, collections.deque: skip, Exception: skip}
    )
    assert f(Pair(1)) != f(Pair(2))
    assert f(Pair(1, 2)) == f(Pair(1, 3))
    assert f(st.MyDict(a=1)) != f(st.MyDict(a=2))
    assert f(collections.deque([1])) != f(collections.deque([2]))
    assert f(ValueError(1)) != f(ValueError(2))
    nodes, other = NodeList(1), NodeList(1)
    nodes.append(1)
    assert f(nodes) != f(other)


def test_proxies_and_super_objects_are_not_all_equal() -> None:
    plain, other = st.Plain(a=1), st.Plain(a=2)
    assert fp(weakref.proxy(plain)) != fp(weakref.proxy(other))
    assert fp(super(st.ChildNode, st.ChildNode(1))) != fp(super(st.ChildNode, st.ChildNode(2)))


def test_bound_methods_by_function_and_owner() -> None:
    holder = st.Plain(a=1)
    with pytest.raises(kp.FingerprintError, match="lambda"):
        fp(types.MethodType(lambda self: 1, holder))
    assert lenient(types.MethodType(lambda self: 1, holder)) != lenient(
        types.MethodType(lambda self: 2, holder)
    )
    assert fp(st.Handle("a", 1).__fingerprint__) != fp(st.Handle("b", 1).__fingerprint__)
    assert fp(st.Holder.make) == fp(st.Holder.make)


@dataclasses.dataclass
class Field:
    domain: Any
    data: Any

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__()


def test_a_dataclass_that_is_an_array_too_counts_by_fields() -> None:
    data = np.zeros(3)
    assert fp(Field((1,), data)) != fp(Field((2,), data))
    assert fp(Field((1,), data)) == fp(Field((1,), np.zeros(3)))


class Lazy:
    @functools.cached_property
    def x(self) -> int:
        return 1


class Eager(Lazy):
    x = None  # type: ignore[assignment]


def test_a_cached_property_that_a_subclass_replaced_counts() -> None:
    eager, other = Eager(), Eager()
    eager.x, other.x = 1, 2  # type: ignore[assignment]
    assert fp(eager) != fp(other)


class Meters(np.float64):
    pass


class Narrow(np.float32):
    pass


def test_subclasses_of_numpy_scalars() -> None:
    assert fp(Meters(1.0)) != fp(np.float64(1.0))
    assert fp(Meters(1.0)) != fp(Meters(2.0))
    assert fp(Narrow(1.0)) != fp(np.float32(1.0))
    meters, other = Meters(1.0), Meters(1.0)
    meters.unit = "m"  # type: ignore[attr-defined]
    assert fp(meters) != fp(other)


class DataListChild(st.DataList):
    pass


def test_extras_of_dataclasses_that_are_builtins() -> None:
    child, other = DataListChild(1), DataListChild(1)
    child.extra = 1  # type: ignore[attr-defined]
    assert fp(child) != fp(other)


def test_struct_sequences_with_all_their_fields() -> None:
    base = time.gmtime(0)
    moved = time.struct_time(tuple(base), {"tm_zone": "XYZ", "tm_gmtoff": 3600})
    assert tuple(base) == tuple(moved)
    assert fp(base) != fp(moved)
    numbers = list(range(19))
    assert fp(os.stat_result(numbers)) != fp(os.stat_result([*numbers[:18], 99]))


def test_string_and_object_arrays_differ() -> None:
    if hasattr(np.dtypes, "StringDType"):
        texts, objects = np.array(["a"], dtype=np.dtypes.StringDType()), np.array(["a"], dtype=object)
        assert fp(texts) != fp(objects)
        spec = kp.Fingerprinter(arrays="spec")
        assert spec(texts) != spec(objects)


@attrs.define(slots=False)
class AttrsBase:
    a: int


@dataclasses.dataclass
class OnAttrs(AttrsBase):
    b: int = 0

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b


def test_one_library_on_top_of_another() -> None:
    assert fp(OnAttrs(1, 2)) != fp(OnAttrs(2, 2))
    assert fp(OnAttrs(1, 2)) != fp(OnAttrs(1, 3))


def test_named_tuples_of_the_wrong_length() -> None:
    with pytest.raises(kp.FingerprintError, match="has 3 items"):
        fp(tuple.__new__(Pair, (1, 2, 3)))


def test_kinds_of_local_enums_differ() -> None:
    def make(base: type) -> Any:
        return base("Local", {"A": 1}).A  # type: ignore[call-arg,misc]

    assert fp(make(enum.Enum)) != fp(make(enum.IntEnum))
    assert fp(make(enum.Enum)) == fp(make(enum.Enum))
    assert fp(type(make(enum.Enum))) != fp(type(make(enum.IntEnum)))


def test_paths_name_the_fields_of_local_classes() -> None:
    import threading

    @dataclasses.dataclass
    class Local:
        x: Any
        y: Any

    with pytest.raises(kp.FingerprintError) as caught:
        lenient([Local(1, {"k": threading.Lock()})])
    assert caught.value.path == "$[0].y['k']"
    (difference,) = lenient.diff(Local(1, 2), Local(1, 3))
    assert str(difference) == "$.y: 2 != 3"


class Triple(ctypes.c_int * 3):  # type: ignore[misc]
    pass


def test_subclasses_of_ctypes_arrays() -> None:
    assert fp(Triple(1, 2, 3)) != fp((ctypes.c_int * 3)(1, 2, 3))


def test_a_finalizer_that_fingerprints_does_not_deadlock() -> None:
    f = kp.Fingerprinter()

    class Rule:
        def __call__(self, obj: Any) -> Any:
            return kp.rule.leaf(1)

        def __del__(self) -> None:
            f(st.Plain())

    try:
        st.Holder.Inner.__fingerprint__ = Rule()  # type: ignore[attr-defined]
        f(st.Holder.Inner())
        st.Holder.Inner.__fingerprint__ = lambda obj: kp.rule.leaf(2)  # type: ignore[attr-defined]
        assert f(st.Holder.Inner())
    finally:
        del st.Holder.Inner.__fingerprint__  # type: ignore[attr-defined]


def test_collections_while_large_integers_are_written() -> None:
    class Clears:
        def __init__(self, target: Any) -> None:
            self.target, self.me = target, self

        def __del__(self) -> None:
            self.target.clear()

    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for make in (
            lambda: [-(2**70) - i for i in range(200)],
            lambda: {i: -(2**70) - i for i in range(200)},
        ):
            value: Any = make()
            Clears(value)
            try:
                fp(value)
            except kp.FingerprintError as error:
                assert error.code == "changed"
    finally:
        gc.set_threshold(*threshold)


class Again:
    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return Endless() if obj is not None else 0

    def __set__(self, obj: Any, value: Any) -> None:
        pass


@dataclasses.dataclass
class Endless:
    x: Any = Again()


def test_computed_fields_without_end() -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp(Endless())
    assert caught.value.code == "endless-reduction"


def test_element_types_of_any_size() -> None:
    assert fp(np.empty(0, np.dtype([("a", "i1", (2**30,))])))
    assert fp(np.empty(10**15, dtype=np.dtype([]))) != fp(np.empty(10, dtype=np.dtype([])))
    with pytest.raises(kp.FingerprintError, match="too many parts"):
        fp(np.empty(0, np.dtype([("a", [("b", "i1"), ("c", "i2")], (2**20,))])))


class Linked:
    pass


class HandsOut:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __reduce__(self) -> Any:
        return tuple, ((self.x.y,),)


def test_held_references_do_not_show() -> None:
    def make() -> tuple[Any, Any]:
        x, y = Linked(), Linked()
        x.y, y.x = y, x  # type: ignore[attr-defined]
        return [x, HandsOut(x)], y

    held, y = make()
    dropped, _ = make()
    del _
    assert y is not None
    assert fp(held) == fp(dropped)
    table: dict[str, Any] = {}
    table["p"] = types.MappingProxyType(table)
    alone = fp(table)
    proxy = table["p"]
    assert fp(table) == alone
    assert proxy is not None


def test_lenient_classes_do_not_change_by_being_used() -> None:
    def make() -> type:
        class Local:
            pass

        return Local

    cls = make()
    before = lenient(cls)
    lenient(cls())
    cls.__reduce_ex__(cls(), 2)
    _ = cls.__annotations__ if hasattr(cls, "__annotations__") else None
    assert lenient(cls) == before == lenient(make())
    assert lenient([cls, cls()]) == lenient([cls, cls()])


def test_plans_do_not_depend_on_the_first_instance() -> None:
    f, g = kp.Fingerprinter(), kp.Fingerprinter()
    odd = st.Plain(a=1)
    odd.__reduce_ex__ = None  # type: ignore[assignment,method-assign]
    f(odd)
    assert f(st.Plain(a=2)) == g(st.Plain(a=2))


def test_classes_registered_later() -> None:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    f = kp.Fingerprinter(overrides={Abstract: kp.rule.leaf("abstract")})
    assert f(st.Node(1)) != f(st.Node(2))
    Abstract.register(st.Node)
    assert f(st.Node(1)) == f(st.Node(2))


def test_lenient_takes_generics_and_cached_functions() -> None:
    import typing

    def make(constant: int) -> list[Any]:
        T = typing.TypeVar("T")

        class Box(typing.Generic[T]):
            @functools.lru_cache  # noqa: B019
            def get(self) -> int:
                return constant

        return [Box, Box(), functools.lru_cache(lambda x: x + constant)]

    assert [lenient(thing) for thing in make(1)] == [lenient(thing) for thing in make(1)]
    assert lenient(make(1)[2]) != lenient(make(2)[2])


def test_lenient_local_pydantic_models() -> None:
    import pydantic

    def make() -> Any:
        class Model(pydantic.BaseModel):
            x: int

        return Model(x=1)

    assert lenient(make()) == lenient(make())


class Answering(type):
    def __getattr__(cls, name: str) -> Any:
        return lambda *arguments: 3


class Answered(metaclass=Answering):
    def __init__(self, value: Any) -> None:
        self.value = value


class PropertyRule:
    @property
    def __fingerprint__(self) -> int:
        return 3


def test_metaclasses_that_answer_everything() -> None:
    assert fp(Answered(1)) != fp(Answered(2))
    with pytest.raises(kp.FingerprintError, match="neither a description nor a method") as caught:
        fp([PropertyRule()])
    assert caught.value.code == "bad-rule"
    with pytest.raises(kp.FingerprintError, match="is for mappings"):
        kp.Fingerprinter(overrides={st.Node: kp.rule.ordered_items()})(st.Node(1))


def test_the_gt4py_deconstructors_without_the_native_walk() -> None:
    digest = functools.partial(
        gt4py.catabolize,
        deconstructor=gt4py.strict_fingerprint_deconstructor,
        aggregator=gt4py.fingerprint_aggregator,
        allow_cycles=False,
    )
    numbers = st.MyList([1])
    numbers.x = 1  # type: ignore[attr-defined]
    assert digest(numbers) != digest(st.MyList([1, (b"__dict__", {"x": 1})]))
    slotted, bare = st.SlotDict({1: 2}), st.SlotDict({1: 2})
    slotted.extra = 3
    assert digest(slotted) != digest(bare)
    skipping = gt4py.skipping_fields_node_deconstructor("location")
    assert skipping(st.Node(1, "a")) == skipping(st.Node(1, "b")) != skipping(st.Node(2, "a"))
