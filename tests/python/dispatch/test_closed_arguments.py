"""What counts of arguments, where a way past the key was found."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import gc
import importlib
import sys
import types
import weakref
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import pytest

import keyprint as kp


class Counting:
    """A kernel that returns how many times it was compiled."""

    def __init__(self, function: Any, **options: Any) -> None:
        self.compiled: list[kp.Specialization] = []
        self.kernel = kp.jit(function, compile=self._compile, **options)

    def _compile(self, specialization: kp.Specialization) -> Any:
        self.compiled.append(specialization)
        number = len(self.compiled)
        return lambda *_: number

    def __call__(self, *arguments: Any) -> Any:
        return self.kernel(*arguments)


class Store:
    def __init__(self, n: Any, **more: Any) -> None:
        self.n = n
        self.__dict__.update(more)

    def is_float(self) -> bool:
        return isinstance(self.n, float)

    def __add__(self, other: Any) -> Any:
        return self.n + other

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter([self.n])

    def __getitem__(self, at: int) -> Any:
        return (self.n, at)


# -- isinstance -----------------------------------------------------------------------------------


def by_member(s: Any) -> bool:
    return isinstance(s.n, float)


def by_alias(s: Any) -> bool:
    n = s.n
    return isinstance(n, float)


def _helper(n: Any) -> bool:
    return isinstance(n, float)


def by_helper(s: Any) -> bool:
    return _helper(s.n)


def by_method(s: Any) -> bool:
    return s.is_float()


@pytest.mark.parametrize("function", [by_member, by_alias, by_helper, by_method])
def test_the_type_of_a_member_counts(function: Any) -> None:
    kernel = Counting(function)
    assert [kernel(Store(1)), kernel(Store(1.0)), kernel(Store(2)), kernel(Store(2.5))] == [1, 2, 1, 2]


def by_kind(x: Any) -> bool:
    return isinstance(x, float)


def test_the_type_of_a_parameter_counts_in_any_case() -> None:
    kernel = Counting(by_kind)
    assert [kernel(1), kernel(1.0), kernel(2)] == [1, 2, 1]


# -- Arrays of other libraries ----------------------------------------------------------------------


def takes(x: Any) -> Any:
    return x


class Strided:
    """An array that has strides in elements, as torch does, and does not hand its memory out."""

    def __init__(self, strides: tuple[int, ...]) -> None:
        self.shape, self.dtype, self._strides = (2, 3), "float32", strides

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_strides_in_elements_count() -> None:
    kernel = Counting(takes)
    assert [kernel(Strided((3, 1))), kernel(Strided((1, 2))), kernel(Strided((6, 2)))] == [1, 2, 3]
    assert [spec.arguments["x"].layout for spec in kernel.compiled] == ["C", "F", "S"]


class Interface:
    """An array that has nothing but NumPy's array interface."""

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> Any:
        return self._array.__array_interface__


class Exported:
    """An array that has nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Named(np.ndarray):
    scale = 1

    def twice(self) -> Any:
        return 2


def _view(array: Any) -> Any:
    return array.view(Named)


@pytest.mark.parametrize("wrap", [Interface, Exported, _view])
def test_writability_and_alignment_count(wrap: Any) -> None:
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 16
    aligned = memory[start : start + 16].view(np.float32)
    shifted = memory[start + 4 : start + 20].view(np.float32)
    locked = aligned.view()
    locked.flags.writeable = False
    kernel = Counting(takes, align={"x": 16})
    numbers = [kernel(wrap(array)) for array in (aligned, shifted, locked, aligned)]
    assert numbers == [1, 2, 3, 1]
    described = [spec.arguments["x"] for spec in kernel.compiled]
    assert [(arg.aligned, arg.writable) for arg in described] == [(True, True), (False, True), (True, False)]


@pytest.mark.parametrize("wrap", [lambda array: array, Interface, _view])
def test_byte_order_and_padding_count(wrap: Any) -> None:
    kernel = Counting(takes)
    packed, padded = (np.dtype([("a", "i1"), ("b", "i4")], align=align) for align in (False, True))
    arrays = [np.zeros(2, "<i4"), np.zeros(2, ">i4"), np.zeros(2, packed), np.zeros(2, padded)]
    assert [kernel(wrap(array)) for array in arrays] == [1, 2, 3, 4]


def reads_scale(x: Any) -> Any:
    return x.scale


def calls_twice(x: Any) -> Any:
    return x.twice()


def test_what_an_array_carries_besides_its_elements() -> None:
    kernel = Counting(reads_scale, on_drift="rekey")
    array, other = _view(np.zeros(3)), _view(np.zeros(3))
    assert kernel(array) == 1
    other.scale = 2
    assert [kernel(other), kernel(array)] == [2, 1]
    calling = Counting(calls_twice, on_drift="rekey")
    assert calling(array) == 1
    before = Named.twice
    try:
        Named.twice = lambda self: 3  # type: ignore[method-assign]
        assert calling(array) == 2
    finally:
        Named.twice = before  # type: ignore[method-assign]


# -- Compile-time parameters ---------------------------------------------------------------------------


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(text: str, name: str) -> Any:
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return make


@pytest.mark.parametrize("wrap", ["[{}]", "{{'k': {}}}", "frozenset([{}])", "({},)", "[[{}]]"])
def test_functions_in_static_containers_count_by_what_they_do(load: Any, wrap: str) -> None:
    text = "def g(x):\n    return x + {}\nX = " + wrap.replace("{}", "g").replace("{{", "{").replace(
        "}}", "}"
    )
    module, other, again = (load(text.replace("{}", number), "functions") for number in ("1", "2", "1"))
    kernel = Counting(takes, static=["x"], on_drift="rekey")
    assert [kernel(module.X), kernel(other.X), kernel(again.X)] == [1, 2, 1]


def test_the_order_of_static_dicts_counts() -> None:
    kernel = Counting(takes, static=["x"])
    assert [kernel({"a": 1, "b": 2}), kernel({"b": 2, "a": 1}), kernel({"a": 1, "b": 2})] == [1, 2, 1]
    ordered = Counting(takes, static=["x"])
    counters = [collections.Counter(a=1, b=1), collections.Counter(b=1, a=1)]
    assert [ordered(counter) for counter in counters] == [1, 2]


# -- Objects that are used whole -------------------------------------------------------------------------


def adds(s: Any) -> Any:
    return s + 1


def measures(s: Any) -> Any:
    return len(s)


def goes_through(s: Any) -> Any:
    return [x for x in s if x]


def looks_up(s: Any) -> Any:
    return s[0]


@pytest.mark.parametrize("function", [adds, measures, goes_through, looks_up])
def test_operators_of_objects_count_the_object(function: Any) -> None:
    kernel = Counting(function, on_drift="rekey")
    assert [kernel(Store(1)), kernel(Store(2)), kernel(Store(1)), kernel(Store(1, more=3))] == [1, 2, 1, 3]
    before = Store.__add__
    try:
        Store.__add__ = lambda self, other: 4  # type: ignore[method-assign]
        assert kernel(Store(1)) == 4
    finally:
        Store.__add__ = before  # type: ignore[method-assign]
    assert kernel(Store(1)) == 1


@dataclasses.dataclass
class Part:
    n: int


def sums(parts: Any) -> Any:
    return sum(part.n for part in parts)


def test_lists_and_dicts_of_objects() -> None:
    kernel = Counting(sums)
    assert [kernel([Part(1), Part(2)]), kernel([Part(1), Part(3)]), kernel([Part(1), Part(2)])] == [1, 2, 1]
    shared = [Part(1), Part(2)]
    assert kernel(shared) == 1
    shared[1].n = 3
    assert kernel(shared) == 2
    shared.append(Part(0))
    assert kernel(shared) == 3
    named = Counting(takes)
    assert [named({"a": Part(1)}), named({"a": Part(2)}), named({"b": Part(1)}), named({"a": Part(1)})] == [
        1,
        2,
        3,
        1,
    ]


def test_arrays_in_lists_count_by_specification() -> None:
    kernel = Counting(takes)
    assert [kernel([np.zeros(3)]), kernel([np.ones(4)]), kernel([np.zeros(3, "f4")])] == [1, 1, 2]


def test_namespaces() -> None:
    kernel = Counting(takes)
    namespaces = [types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), types.SimpleNamespace(a=1)]
    assert [kernel(namespace) for namespace in namespaces] == [1, 2, 1]
    namespaces[0].b = 3
    assert kernel(namespaces[0]) == 3


class Table(dict):
    def total(self) -> Any:
        return sum(self.values())


def test_containers_of_the_program() -> None:
    kernel = Counting(takes)
    assert [kernel(Table(a=1)), kernel(Table(a=2)), kernel({"a": 1}), kernel(Table(a=1))] == [1, 2, 3, 1]


# -- Arguments that say what counts ----------------------------------------------------------------------


class Stream:
    __cache_slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle + 100

    def __cache_signature__(self) -> Any:
        return "stream"


def plain(stream: Stream) -> Any:
    return stream


def optional(stream: Optional[Stream]) -> Any:  # noqa: UP045
    return stream


def union(stream: Stream | None = None) -> Any:
    return stream


def annotated(stream: Annotated[Stream, "the first"]) -> Any:
    return stream


@pytest.mark.parametrize("function", [plain, optional, union, annotated])
def test_what_an_annotation_builds_is_handed_on(function: Any) -> None:
    got: list[Any] = []
    kernel = kp.jit(function, compile=lambda spec: lambda stream: got.append(stream))
    kernel(1)
    kernel(2)
    kernel(Stream(3))
    assert [type(stream) for stream in got] == [Stream] * 3
    assert [stream.handle for stream in got] == [101, 102, 103]
    assert kernel.observations.compiled == 1
    if function in (optional, union):
        kernel(None)
        assert got[-1] is None
        assert kernel.observations.compiled == 2


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))
def handle_of(slots: Any) -> int:
    slots[1] = slots[0] * 2
    return 0


ADDRESS = ctypes.cast(handle_of, ctypes.c_void_p).value


def test_slots_of_signed_arguments_reach_native_code() -> None:
    code = kp.NativeCode(ADDRESS, ["stream.handle"], result="i64", keep=handle_of)
    kernel = kp.jit(plain, compile=lambda spec: b"", load=lambda artifact: code)
    assert [kernel(Stream(1)), kernel(Stream(2)), kernel(5)] == [202, 204, 210]
    assert kernel.observations.compiled == 1


def test_slots_that_are_not_there() -> None:
    class Empty:
        __cache_slots__ = ("handle",)

        def __cache_signature__(self) -> Any:
            return 1

    with pytest.raises(kp.SignatureError, match="names `handle`") as caught:
        Counting(takes)(Empty())
    assert caught.value.code == "missing-member"


# -- Drift, and what is kept -------------------------------------------------------------------------------


def test_a_method_that_is_replaced_is_drift() -> None:
    class Shape:
        def __init__(self) -> None:
            self.n = 1

        def area(self) -> int:
            return self.n

    def area(shape: Any) -> Any:
        return shape.area()

    kernel = Counting(area)
    assert kernel(Shape()) == 1
    Shape.area = lambda self: 2  # type: ignore[method-assign]
    with pytest.raises(kp.DriftError, match=r"Shape\.area"):
        kernel(Shape())
    following = Counting(area, on_drift="rekey")
    assert following(Shape()) == 1
    Shape.area = lambda self: 3  # type: ignore[method-assign]
    assert following(Shape()) == 2


def test_a_function_that_changes_what_it_reads_is_told_so(load: Any) -> None:
    module = load(
        "import collections\nD = collections.defaultdict(int)\ndef f(x):\n    return D[x]\n", "changing"
    )
    kernel = kp.jit(module.f, compile=lambda spec: spec.function("k") or (lambda x: 1))
    with pytest.raises(kp.DriftError, match="changed while it was compiled") as caught:
        kernel("k")
    assert "defaultdict" in str(caught.value)


def test_what_was_captured_before_is_not_kept(load: Any) -> None:
    module = load("X = None\ndef f():\n    return X\n", "captures")
    module.X = frozenset([1])
    kernel = Counting(module.f, on_drift="rekey")
    assert kernel() == 1

    class Item:
        pass

    item = Item()
    gone = weakref.ref(item)
    module.X = [1]
    assert kernel() == 2
    module.X.append(2)
    old = module.X
    assert kernel() == 3
    module.X = 7
    assert kernel() == 4
    del item
    kernel.compiled[:] = [None] * 4  # type: ignore[list-item]
    gc.collect()
    assert gone() is None
    # This frame, and nobody else.
    assert sys.getrefcount(old) == 2, gc.get_referrers(old)
    module.X = [1]
    assert kernel() == 2, "going back finds what was there"


def test_patterns_in_env_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`env` names `FLY_\*`"):
        kp.jit(takes, compile=lambda spec: takes, env=["FLY_*"])


class Owner:
    def method(self, x: Any) -> Any:
        if x:
            return 1
        return 2


def test_the_source_of_an_indented_function_is_python() -> None:
    import ast

    kernel = Counting(Owner.method)
    kernel(Store(1), 1)
    source = kernel.compiled[0].source
    assert source is not None
    assert isinstance(ast.parse(source).body[0], ast.FunctionDef)
    assert source.startswith("def method")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            "import functools\n@functools.singledispatch\ndef g(x):\n    return 1\ndef f():\n    return g(2)\n",
            "g.register(int, lambda x: 3)",
        ),
        (
            "import functools\nclass C:\n    @functools.singledispatchmethod\n    def g(self, x):\n        return 1\nX = C()\n"
            "def f():\n    return X.g(2)\n",
            "C.g.register(int, lambda self, x: 3)",
        ),
        (
            "import contextvars\nV = contextvars.ContextVar('v', default=1)\ndef f():\n    return V.get()\n",
            "V.set(2)",
        ),
        (
            "import enum\nclass E(enum.Enum):\n    A = 1\ndef f():\n    return [vars(e) for e in E]\n",
            "E.A.note = 1",
        ),
        (
            "import abc\nclass A(abc.ABC):\n    pass\ndef f():\n    return isinstance(3, A)\n",
            "A.register(int)",
        ),
        ("class C:\n    pass\ndef f():\n    return C.__name__\n", "C.__name__ = 'D'"),
        (
            "def g():\n    'One.'\nL = [g]\ndef f():\n    return [h.__doc__ for h in L]\n",
            "g.__doc__ = 'Two.'",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\ndef f():\n    return dataclasses.fields(C)[0].default\n",
            "C.__dataclass_fields__['x'].default = 5",
        ),
        (
            "class C:\n    def __call__(self):\n        return self.n\nX = C()\nX.n = 1\nclass D:\n    run = staticmethod(X)\n"
            "def f():\n    return D().run()\n",
            "X.n = 2",
        ),
    ],
)
def test_changes_after_the_first_look_are_seen(load: Any, text: str, change: str) -> None:
    module = load(text, "watched")
    key = kp.FunctionKey(module.f)
    assert key.is_current()
    before = repr(module.f())
    exec(change, vars(module))
    assert repr(module.f()) != before
    assert not key.is_current()


def test_a_class_without_a_module(load: Any) -> None:
    module = load("class C:\n    pass\ndef f():\n    return C()\n", "moduleless")
    kernel = Counting(module.f)
    assert kernel() == 1
    scope: dict[str, Any] = {}
    exec("D = type('D', (), {})", {"__builtins__": __builtins__}, scope)
    module.C = scope["D"]
    with pytest.raises(kp.DriftError, match=r"global `moduleless\.C`: class moduleless\.C -> class \?\.D"):
        kernel()


def test_bound_methods() -> None:
    store, other = Store(1), Store(2)
    assert kp.FunctionKey(store.is_float) != kp.FunctionKey(Store(1.0).is_float)
    assert kp.FunctionKey(store.is_float) == kp.FunctionKey(other.is_float), (
        "the type of the member is read, and no more"
    )
    with pytest.raises(kp.FunctionKeyError, match="bound to an object"):
        kp.jit(store.is_float, compile=lambda spec: None)
