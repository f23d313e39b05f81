"""Signatures: for each thing that counts of an argument one change that is seen, and one that does not matter."""

from __future__ import annotations

import dataclasses
import enum
import gc
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
from recorder import Recorder

import keyprint as kp


class Mode(enum.Enum):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: Any
    y: Any


class Bag:
    """An object with whatever members."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


class Slots:
    __slots__ = ("unread", "x")

    def __init__(self, x: Any, unread: Any = None) -> None:
        self.x, self.unread = x, unread


@dataclasses.dataclass
class Inner:
    a: Any = 1
    b: Any = 2


@dataclasses.dataclass
class Outer:
    inner: Inner = dataclasses.field(default_factory=Inner)
    x: Any = 1
    unread: Any = None


@dataclasses.dataclass(frozen=True)
class FrozenOuter:
    inner: Any


def takes(x: Any) -> Any:
    return x


def reads(s: Any) -> Any:
    return s.x


def reads_deep(s: Any) -> Any:
    return s.inner.a + helper(s)


def helper(t: Any) -> Any:
    return other(t.inner)


def other(u: Any) -> Any:
    return u.b


def two(x: Any, y: Any = 1, *, z: Any = 2) -> Any:
    return x


def double(x: Any) -> Any:
    return 2 * x


def triple(x: Any) -> Any:
    return 3 * x


DIFFERENT: list[tuple[Any, ...]] = [
    (1, 1.0, True, 1j, "1", b"1", None, Mode.A, Level.LOW, (1,), ...),
    ("a", "b"),
    (Mode.A, Mode.B),
    (np.dtype("f4"), np.dtype("f8")),
    (np.float32(1), np.float64(1), np.int64(1), 1.0),
    (
        np.zeros(3),
        np.zeros(3, "f4"),
        np.zeros(3, "i8"),
        np.zeros(3, "c16"),
        np.zeros(3, "?"),
        np.zeros(3, ">f8"),
    ),
    (np.zeros(3), np.zeros((3, 1)), np.zeros(())),
    (np.zeros((3, 4)), np.zeros((3, 4), order="F"), np.zeros((6, 8))[::2, ::2]),
    (np.zeros(3, "M8[s]"), np.zeros(3, "M8[ms]"), np.zeros(3, "U3"), np.zeros(3, "U4"), np.zeros(3, "i4,f4")),
    ((1, 2), (1, 2.0), (1, 2, 3), (1, (2,)), ()),
    ((np.zeros(1),), (np.zeros(1, "f4"),)),
    (double, triple, len, int, float),
    (range(3), range(4), slice(3), frozenset({1}), frozenset({2})),
    (Point(1, 2.0), Point(1.0, 2.0), (1, 2.0)),
]

SAME: list[tuple[Any, ...]] = [
    (1, 2, -(1 << 70)),
    (1.0, float("nan")),
    (True, False),
    (np.float32(1), np.float32(2)),
    ("ab", "".join(["a", "b"])),
    (np.zeros(3), np.ones(4), np.zeros(6)[1:4]),
    (np.zeros((3, 4)), np.zeros((5, 6))),
    (np.zeros((3, 4), order="F"), np.zeros((5, 6), order="F")),
    (np.zeros(3, "i4,f4"), np.zeros(4, "i4,f4")),
    ((1, 2.0), (3, 4.0)),
    (np.dtype("f4"), np.dtype("float32")),
    (range(3), range(3)),
    (Point(1, 2.0), Point(3, 4.0)),
]


@pytest.mark.parametrize("values", DIFFERENT, ids=lambda values: type(values[0]).__name__)
def test_what_counts(values: tuple[Any, ...]) -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    assert [kernel(value) for value in values] == list(range(1, len(values) + 1))
    assert [kernel(value) for value in values] == list(range(1, len(values) + 1))
    assert len({spec.key for spec in compile.made}) == len(values)


@pytest.mark.parametrize("values", SAME, ids=lambda values: type(values[0]).__name__)
def test_what_does_not_count(values: tuple[Any, ...]) -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    assert [kernel(value) for value in values] == [1] * len(values)


def test_read_only_arrays_are_another_specialization() -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    array = np.zeros(3)
    assert kernel(array) == 1
    array.flags.writeable = False
    assert kernel(array) == 2
    array.flags.writeable = True
    assert kernel(array) == 1


def test_arrays_that_change_in_place() -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    array = np.zeros(4)
    assert kernel(array) == 1
    array.shape = (2, 2)
    assert kernel(array) == 2
    array.shape = (4,)
    array.dtype = np.dtype("i8")
    assert kernel(array) == 3
    array.dtype = np.dtype("f8")
    array[:] = 7
    assert kernel(array) == 1


def test_compile_time_parameters() -> None:
    compile = Recorder()
    kernel = kp.jit(two, compile=compile, static=["y"])
    assert [
        kernel(1, y)
        for y in (1, 2, True, 1.0, "a", None, (1, 2), (1, 3), Mode.A, double, np.float32(1), np.float32(2))
    ] == list(range(1, 13))
    assert [
        kernel(5, y)
        for y in (1, 2, True, 1.0, "a", None, (1, 2), (1, 3), Mode.A, double, np.float32(1), np.float32(2))
    ] == list(range(1, 13))
    assert compile.made[1].arguments["y"].value == 2
    assert kernel(1, 0.0) != kernel(1, -0.0)


def test_alignment_and_divisibility() -> None:
    compile = Recorder()
    kernel = kp.jit(two, compile=compile, align={"x": 64}, divisible={"y": 16})
    memory = np.zeros(64, "f8")
    start = (-memory.ctypes.data % 64) // 8
    aligned, unaligned = memory[start : start + 8], memory[start + 1 : start + 8]
    assert kernel(aligned, 16) == 1
    assert kernel(aligned, 32) == 1
    assert kernel(aligned, 1) == 2
    assert kernel(aligned, 17) == 3
    assert kernel(unaligned, 16) == 4
    assert kernel(aligned, 0) == 1
    assert kernel(aligned, -16) == 1
    assert compile.made[0].arguments["x"].aligned
    with pytest.raises(kp.SignatureError, match="does not fit into 64 bits"):
        kernel(aligned, 1 << 64)


# -- Objects -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Bag, Slots, Outer])
def test_members_that_are_read(make: Any) -> None:
    compile = Recorder()
    kernel = kp.jit(reads, compile=compile)
    instance = make(x=np.zeros(3), unread=object())
    assert kernel(instance) == 1
    instance.unread = [object()]
    assert kernel(instance) == 1
    assert kernel(make(x=np.ones(5), unread=lambda: 1)) == 1
    instance.x = np.zeros(3, "f4")
    assert kernel(instance) == 2
    instance.x = np.zeros((3, 3))
    assert kernel(instance) == 3
    instance.x = np.zeros(7)
    assert kernel(instance) == 1
    instance.x = 5
    assert kernel(instance) == 4
    instance.x = 6
    assert kernel(instance) == 5
    del instance.x
    if make is Outer:
        assert kernel(instance) == 6, "the default of the class"
        return
    with pytest.raises(kp.SignatureError) as caught:
        kernel(instance)
    assert caught.value.code == "missing-member"
    assert "has no member `s.x`" in str(caught.value)
    assert "test_arguments.py" in str(caught.value)
    instance.x = np.zeros(1)
    assert kernel(instance) == 1


def test_members_through_helpers() -> None:
    compile = Recorder()
    kernel = kp.jit(reads_deep, compile=compile)
    assert kernel.function_key.parameters == {"s": ["inner.a", "inner.b"]}
    outer = Outer(Inner(1, 2), x=object())
    assert kernel(outer) == 1
    outer.x = object
    assert kernel(outer) == 1
    outer.inner.b = 3
    assert kernel(outer) == 2
    outer.inner = Inner(1, 2)
    assert kernel(outer) == 1
    outer.inner.c = 7  # type: ignore[attr-defined]
    assert kernel(outer) == 1
    assert kernel(FrozenOuter(Inner(1, 2))) == 3, "another class"


def test_rebinding_through_a_frozen_object() -> None:
    compile = Recorder()
    kernel = kp.jit(reads_deep, compile=compile)
    frozen = FrozenOuter(Inner(np.zeros(1), 2))
    assert kernel(frozen) == 1
    frozen.inner.a = np.zeros(1, "i4")
    assert kernel(frozen) == 2
    object.__setattr__(frozen, "inner", Inner(np.zeros(1), 2))
    assert kernel(frozen) == 1


@pytest.mark.parametrize("count", [3, 29, 31, 60])
def test_objects_with_many_members(count: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"reading_{count}"
    body = " + ".join(f"s.inner.a{at} + s.b{at}" for at in range(count))
    (tmp_path / f"{name}.py").write_text(f"def f(s):\n    return {body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    compile = Recorder()
    kernel = kp.jit(__import__(name).f, compile=compile)

    def make() -> Bag:
        inner = Bag(**{f"a{at}": np.zeros(1) for at in range(count)})
        return Bag(inner=inner, **{f"b{at}": np.zeros(1) for at in range(count)})

    first, second = make(), make()
    assert [kernel(first), kernel(second), kernel(first), kernel(first)] == [1, 1, 1, 1]
    for at in range(count):
        for owner, member in ((first, f"b{at}"), (first.inner, f"a{at}")):
            before = getattr(owner, member)
            setattr(owner, member, np.zeros(1, "f4"))
            number = kernel(first)
            assert number > 1
            assert kernel(second) == 1
            assert kernel(first) == number
            setattr(owner, member, before)
            assert kernel(first) == 1
    first.inner = second.inner
    assert kernel(first) == 1


def test_numbers_in_objects_by_type() -> None:
    compile = Recorder()
    kernel = kp.jit(reads, compile=compile, members="type")
    assert kernel(Bag(x=1)) == kernel(Bag(x=2)) == 1
    assert kernel(Bag(x=1.0)) == 2


def test_what_a_class_has() -> None:
    class Local:
        x = 1

    compile = Recorder()
    kernel = kp.jit(reads, compile=compile)
    instance = Local()
    assert kernel(instance) == 1
    Local.x = 2
    assert kernel(instance) == 2
    instance.x = 2
    assert kernel(instance) == 3
    del instance.x
    assert kernel(instance) == 2
    Local.x = [1]  # type: ignore[assignment]
    assert kernel(instance) == 4
    assert kernel(instance) == 4
    Local.x.append(2)  # type: ignore[attr-defined]
    assert kernel(instance) == 5


def test_properties_are_refused() -> None:
    class Local:
        @property
        def x(self) -> int:
            return 1

    with pytest.raises(kp.SignatureError, match=r"computes `s\.x` in a property \(read in"):
        kp.jit(reads, compile=Recorder())(Local())


class Shape:
    scale = 2

    def __init__(self, n: Any) -> None:
        self.n = n
        self.unread = object()

    def size(self) -> Any:
        return self.n * self.scale * self.more()

    def more(self) -> Any:
        return 1

    @staticmethod
    def static(x: Any) -> Any:
        return x.n

    def uses(self, what: Any) -> Any:
        return what.n


class Wide(Shape):
    def more(self) -> Any:
        return self.m

    m = 5


def measures(s: Any, t: Any) -> Any:
    return s.size() + s.uses(t)


def test_methods_of_arguments() -> None:
    compile = Recorder()
    kernel = kp.jit(measures, compile=compile)
    first, other = Shape(1), Bag(n=1, unread=object())
    assert kernel(first, other) == 1
    assert f"method s.size ({__name__}.Shape.size)" in compile.made[0].key.components
    first.unread = 2
    assert kernel(first, other) == 1
    first.n = 2
    assert kernel(first, other) == 2
    other.unread = 3
    assert kernel(first, other) == 2
    other.n = 2
    assert kernel(first, other) == 3
    assert kernel(Wide(2), other) == 4
    wide = Wide(2)
    wide.m = 6
    assert kernel(wide, other) == 5


def test_two_instances_share_what_is_compiled() -> None:
    compile = Recorder()
    kernel = kp.jit(reads, compile=compile)
    bags = [Bag(x=np.zeros(at)) for at in range(50)]
    assert [kernel(bag) for bag in bags] == [1] * 50


def test_nothing_is_kept_alive() -> None:
    kernel = kp.jit(two, compile=Recorder())
    inside = kp.jit(reads, compile=Recorder())
    array, bag = np.zeros(3), Bag(x=np.zeros(3))
    arrays = [weakref.ref(array), weakref.ref(bag.x), weakref.ref(bag)]
    kernel(array)
    kernel((array, array))
    inside(bag)
    inside(bag)
    del array, bag
    gc.collect()
    assert [ref() for ref in arrays] == [None, None, None]


def test_whole_dataclasses_count_by_their_fields() -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    assert kernel(Inner(1, 2)) == 1
    assert kernel(Inner(1, 2)) == 1
    assert kernel(Inner(1, 3)) == 2
    assert kernel(Outer(Inner(1, 2))) == 3
    assert kernel(Outer(Inner(1, 4))) == 4


# -- What says itself what counts ----------------------------------------------------------------


class Signed:
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __cache_signature__(self) -> Any:
        return self.kind


class Registered:
    def __init__(self, kind: Any) -> None:
        self.kind = kind


class Derived(Registered):
    pass


kp.register_argument(Registered, lambda value: value.kind)


@pytest.mark.parametrize("make", [Signed, Registered, Derived])
def test_signatures_decide(make: Any) -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    assert [kernel(make(kind)) for kind in (1, 1, 2, True, (1,), 1)] == [1, 1, 2, 3, 4, 1]
    with pytest.raises(kp.SignatureError, match="signature of the argument `x` cannot be identified"):
        kernel(make(object.__new__))
        kernel(make(lambda: 1))


def test_signatures_that_raise() -> None:
    class Bad:
        def __cache_signature__(self) -> Any:
            raise ValueError("no")

    kernel = kp.jit(takes, compile=Recorder())
    with pytest.raises(ValueError, match="no"):
        kernel(Bad())

    class Worse:
        fine = True

        def __cache_signature__(self) -> Any:
            if not self.fine:
                raise ValueError("not any more")
            return 1

    worse = Worse()
    kernel(worse)
    worse.fine = False
    with pytest.raises(ValueError, match="not any more"):
        kernel(worse)


BUILT: list[int] = []


class Stream:
    def __init__(self, handle: int) -> None:
        BUILT.append(handle)
        self.handle = handle

    def __cache_signature__(self) -> Any:
        return "stream"


class Cheap(Stream):
    @classmethod
    def __cache_signature_of__(cls, raw: Any) -> Any:
        return "stream", type(raw).__name__


def on_stream(x: Any, stream: Stream) -> Any:
    return x


def on_cheap(x: Any, stream: Cheap) -> Any:
    return x


def test_annotations_build_arguments() -> None:
    compile = Recorder()
    kernel = kp.jit(on_stream, compile=compile)
    assert [kernel(1, 3), kernel(1, 4), kernel(1, Stream(5))] == [1, 1, 1]
    cheap = kp.jit(on_cheap, compile=Recorder())
    cheap(1, 3)
    before = list(BUILT)
    assert [cheap(1, 4), cheap(1, 5)] == [1, 1]
    assert [*before, 4, 5] == BUILT, "built once, for whoever is called: keys need none"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (iter([]), "keyprint.register_argument"),
        (memoryview(b""), "`builtins.memoryview`"),
        (
            (1, iter([])),
            "the argument `x`, at `x[1]`, is a `builtins.list_iterator`, which has no cache signature",
        ),
        ([iter([])], "at `x[0]`, is a `builtins.list_iterator`"),
        (Inner(a=iter([])), "at `x.a`, is a `builtins.list_iterator`"),
        (types.SimpleNamespace(x=iter([])), "at `x.x`, is a `builtins.list_iterator`"),
        (Bag(b=iter([])), "at `x.b`, is a `builtins.list_iterator`"),
    ],
)
def test_unknown_types_are_refused(value: Any, words: str) -> None:
    with pytest.raises(kp.SignatureError) as caught:
        kp.jit(takes, compile=Recorder())(value)
    assert words in str(caught.value)
    assert caught.value.code == "argument-type"


def test_callables_count_by_what_they_do() -> None:
    scope: dict[str, Any] = {"N": 1, "__name__": "made"}
    exec("def g(x): return x + N", scope)
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile, on_drift="rekey")
    assert kernel(scope["g"]) == 1
    scope["N"] = 2
    assert kernel(scope["g"]) == 2
    scope["N"] = 1
    assert kernel(scope["g"]) == 1
    strict = kp.jit(takes, compile=compile)
    strict(scope["g"])
    scope["N"] = 2
    with pytest.raises(kp.DriftError, match=r"global `made\.N`: 1 -> 2"):
        strict(scope["g"])


def test_deep_nesting_is_refused() -> None:
    value: Any = ()
    for _ in range(100):
        value = (value,)
    with pytest.raises(kp.SignatureError, match="nested more than 64 levels"):
        kp.jit(takes, compile=Recorder())(value)


def test_the_registry_takes_classes_and_functions() -> None:
    with pytest.raises(TypeError, match="expected a class"):
        kp.register_argument(1, lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`signature` is a function"):
        kp.register_argument(int, 1)  # type: ignore[arg-type]
