"""Cached steps: what makes them run again, and what does not."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from counted_steps import Translate, calls, digest, double, module_of, scaled

import keyprint as kp
from keyprint import gt4py
from keyprint.steps.code import step_fingerprint


@pytest.mark.parametrize("persistent", [False, True])
def test_runs_once_per_input(store: kp.Store, persistent: bool) -> None:
    step = kp.CachedStep(double, input_key=kp.fingerprint, store=store if persistent else None)
    assert [step(3), step(3), step(4), step(3)] == [6, 6, 8, 6]
    assert calls == [3, 4]
    again = kp.CachedStep(double, input_key=kp.fingerprint, store=store if persistent else None)
    assert again(3) == 6
    assert calls == ([3, 4] if persistent else [3, 4, 3])


def test_the_input_key_says_what_counts(store: kp.Store) -> None:
    step = kp.CachedStep(len, input_key=lambda text: text.lower(), store=store)
    assert step("abc") == step("ABC") == 3
    assert step.key("abc") == step.key("ABC") != step.key("abd")


def test_the_input_key_is_required() -> None:
    with pytest.raises(TypeError, match="input_key"):
        kp.CachedStep(double)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="`input_key` is a function"):
        kp.CachedStep(double, input_key="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a step is a callable"):
        kp.CachedStep(3, input_key=kp.fingerprint)  # type: ignore[arg-type]


def test_configurations_never_share(store: kp.Store) -> None:
    two = kp.CachedStep(Translate(2), input_key=kp.fingerprint, store=store)
    three = kp.CachedStep(Translate(3), input_key=kp.fingerprint, store=store)
    assert (two(5), three(5), two(5)) == (10, 15, 10)
    same = kp.CachedStep(Translate(2, runtime=object()), input_key=kp.fingerprint, store=store)
    assert same(5) == 10 and calls == [5, 5]
    assert three.why(6) == ["`input`: 5 -> 6"]


def test_steps_with_functions_of_one_body_differ_by_name(store: kp.Store) -> None:
    module = module_of("def one(x): return x\ndef two(x): return x")
    keys = {kp.CachedStep(step, input_key=kp.fingerprint).key(1) for step in (module.one, module.two)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def step(x): return x + 1", "def step(x): return x + 2"),
        ("def step(x): return x + y", "def step(x): return x + z"),
        ("def step(x, y=1): return x", "def step(x, y=2): return x"),
        ("def step(x, *, y=1): return x", "def step(x, *, y=2): return x"),
        ("def step(x): return (lambda y: y + 1)(x)", "def step(x): return (lambda y: y + 2)(x)"),
        (
            "def make(n):\n  def step(x): return n\n  step.__qualname__ = 'step'\n  return step\nstep = make(1)",
            "def make(n):\n  def step(x): return n\n  step.__qualname__ = 'step'\n  return step\nstep = make(2)",
        ),
        (
            "import functools\ndef f(x, y): return x\nstep = functools.partial(f, y=1)",
            "import functools\ndef f(x, y): return x\nstep = functools.partial(f, y=2)",
        ),
        (
            "import functools\ndef f(x, y): return x\nstep = functools.partial(f, y=1)",
            "import functools\ndef f(x, y): return y\nstep = functools.partial(f, y=1)",
        ),
        (
            "import functools\n@functools.lru_cache\ndef step(x): return x",
            "import functools\n@functools.lru_cache\ndef step(x): return -x",
        ),
        (
            "class step:\n  def __call__(self, x): return x",
            "class step:\n  def __call__(self, x): return -x",
        ),
        (
            "class B:\n  def f(self, x): return x\nclass step(B):\n  def __call__(self, x): return self.f(x)",
            "class B:\n  def f(self, x): return -x\nclass step(B):\n  def __call__(self, x): return self.f(x)",
        ),
        (
            "class step:\n  N = 1\n  def __call__(self, x): return self.N",
            "class step:\n  N = 2\n  def __call__(self, x): return self.N",
        ),
        (
            "class step:\n  @staticmethod\n  def f(): return 1\n  def __call__(self, x): return self.f()",
            "class step:\n  @staticmethod\n  def f(): return 2\n  def __call__(self, x): return self.f()",
        ),
        (
            "class step:\n  @property\n  def f(self): return 1\n  def __call__(self, x): return self.f",
            "class step:\n  @property\n  def f(self): return 2\n  def __call__(self, x): return self.f",
        ),
        (
            "class H:\n  def f(self): return 1\nclass step:\n  def __init__(self): self.h = H()\n  def __call__(self, x): return self.h.f()",
            "class H:\n  def f(self): return 2\nclass step:\n  def __init__(self): self.h = H()\n  def __call__(self, x): return self.h.f()",
        ),
        (
            "class H:\n  @classmethod\n  def f(cls): return 1\nclass step:\n  def __init__(self): self.h = H\n  def __call__(self, x): return self.h.f()",
            "class H:\n  @classmethod\n  def f(cls): return 2\nclass step:\n  def __init__(self): self.h = H\n  def __call__(self, x): return self.h.f()",
        ),
        (
            "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def call(x): return f(x)\n  return call\n@deco\ndef step(x): return 1",
            "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def call(x): return f(x)\n  return call\n@deco\ndef step(x): return 2",
        ),
        (
            "class H:\n  def f(self): return 1\nclass step:\n  def __call__(self, x): return H().f()\nstep = step().__call__",
            "class H:\n  def f(self): return 1\nclass step:\n  def __call__(self, x): return -H().f()\nstep = step().__call__",
        ),
    ],
)
def test_an_edit_of_what_a_step_does_counts(before: str, after: str) -> None:
    assert digest(before) != digest(after)
    assert digest(before) == digest(before), "and only that"


#: What a class or function may hold: `@` stands for what is edited.
HELD = {
    "a dict": "class step:\n  O = {'t': @}\n  def __call__(self, v): return v * self.O['t']",
    "a list": "class step:\n  O = [@]\n  def __call__(self, v): return v * self.O[0]",
    "a dataclass": "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n  x: int\nclass step:\n  O = C(@)\n  def __call__(self, v): return self.O.x",
    "an enum member": "import enum\nclass E(enum.Enum):\n  A1 = 1\n  A2 = 2\nclass step:\n  O = E.A@\n  def __call__(self, v): return self.O",
    "a method of an enum": "import enum\nclass E(enum.Enum):\n  A = 1\n  def f(self): return @\nclass step:\n  O = E.A\n  def __call__(self, v): return self.O.f()",
    "a pattern": "import re\nclass step:\n  O = re.compile('a@')\n  def __call__(self, v): return self.O",
    "a class": "class H:\n  def f(self): return @\nclass step:\n  O = H\n  def __call__(self, v): return self.O().f()",
    "another class": "class H1: pass\nclass H2: pass\nclass step:\n  O = H@\n  def __call__(self, v): return self.O()",
    "a partial": "import functools\ndef g(k): return k\nclass step:\n  O = functools.partial(g, @)\n  def __call__(self, v): return self.O()",
    "a partial method": "import functools\nclass step:\n  def g(self, k): return k\n  O = functools.partialmethod(g, @)\n  def __call__(self, v): return self.O()",
    "a static builtin": "import math\nclass step:\n  O = staticmethod([math.sin, math.cos][@ - 1])\n  def __call__(self, v): return self.O(v)",
    "a descriptor": "class P:\n  def __init__(self, k): self.k = k\n  def __get__(self, o, t): return self.k\nclass step:\n  O = P(@)\n  def __call__(self, v): return self.O",
    "a decorator object": "class J:\n  def __init__(self, f): self.f = f\n  def __get__(self, o, t): return self.f.__get__(o, t)\nclass step:\n  @J\n  def g(self): return @\n  def __call__(self, v): return self.g()",
    "dispatch": "import functools\nclass step:\n  @functools.singledispatchmethod\n  def g(self, v): return 0\n  @g.register\n  def _(self, v: int): return @\n  @g.register\n  def _(self, v: str): return 0\n  def __call__(self, v): return self.g(v)",
    "dispatch of a function": "import functools\n@functools.singledispatch\ndef step(v): return 0\n@step.register\ndef _(v: int): return @\n@step.register\ndef _(v: str): return 0",
    "an attribute of a function": "def step(v): return step.k\nstep.k = @",
    "a lambda as default": "class step:\n  def __call__(self, v, f=lambda v: v * @): return f(v)",
    "a default beside a lock": "import threading\ndef sync(f):\n  lock = threading.Lock()\n  def call(*a):\n    with lock: return f(*a)\n  return call\nclass step:\n  @sync\n  def __call__(self, v): return v * @",
    "a default behind a lock": "import functools, threading\ndef sync(f):\n  lock = threading.Lock()\n  @functools.wraps(f)\n  def call(*a):\n    with lock: return f(*a)\n  return call\nclass step:\n  @sync\n  def __call__(self, v, s=@): return v * s",
    "an outer decorator": "import functools\ndef deco(k):\n  def wrap(f):\n    @functools.wraps(f)\n    def call(*a): return f(*a) * k\n    return call\n  return wrap\nclass step:\n  @deco(1)\n  @deco(@)\n  def __call__(self, v): return v",
    "a list of lambdas": "def deco(f):\n  hooks = [lambda v: v * @]\n  def call(self, v): return hooks[0](f(self, v))\n  return call\nclass step:\n  @deco\n  def __call__(self, v): return v",
    "a property": "class step:\n  p = property(lambda self: @)\n  def __call__(self, v): return self.p",
    "a metaclass": "class M(type):\n  def f(cls): return @\nclass step(metaclass=M):\n  def __call__(self, v): return type(self).f()",
    "a method of a builtin": "step = [str.upper, str.lower][@ - 1]",
    "a method of another class": "class C:\n  def __init__(self): self.f = [int.__repr__, bool.__repr__][@ - 1]\n  def __call__(self, v): return self.f(v)\nstep = C()",
    "a slot of another class": "class A:\n  __slots__ = ('x',)\nclass B:\n  __slots__ = ('x',)\nclass step:\n  f = [A, B][@ - 1].x\n  def __call__(self, v): return v",
    "what fields compare": "import dataclasses\n@dataclasses.dataclass(order=True)\nclass I:\n  x: int = dataclasses.field(default=0, compare=@ == 1)\nclass step:\n  def __init__(self): self.i = I()\n  def __call__(self, v): return max(self.i, I(v))",
    "a default of a class": "import dataclasses\n@dataclasses.dataclass\nclass I:\n  x: int = @\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "a default factory": "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass I:\n  x: list = dataclasses.field(default_factory=lambda: [@])\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "whether a default is a factory": "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass I:\n  x: object = dataclasses.field(**{['default', 'default_factory'][@ - 1]: list})\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "a default of attrs": "import attrs\n@attrs.define\nclass I:\n  x: int = @\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "a factory of attrs": "import attrs\n@attrs.define\nclass I:\n  x: list = attrs.field(factory=lambda: [@])\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "a default of pydantic": "import pydantic\nclass I(pydantic.BaseModel):\n  x: int = @\nclass step:\n  c = I\n  def __call__(self, v): return self.c().x",
    "a type of pydantic": "import pydantic\nclass I(pydantic.BaseModel):\n  x: [int, float][@ - 1]\nclass step:\n  c = I\n  def __call__(self, v): return self.c(x=v).x",
    "a wrapper of what is generated": "import dataclasses, functools\ndef deco(cls):\n  f = cls.__eq__\n  @functools.wraps(f)\n  def eq(self, other): return f(self, other) == (@ == 1)\n  cls.__eq__ = eq\n  return cls\n@deco\n@dataclasses.dataclass\nclass step:\n  x: int = 1\n  def __call__(self, v): return self == v",
    "an annotation": "def step(v: [int, float][@ - 1]): return v",
    "an annotation of a class": "class step:\n  a: [int, float][@ - 1]\n  def __call__(self, v): return self.__annotations__['a'](v)",
    "the argument of a base": "import typing\nT = typing.TypeVar('T')\nclass B(typing.Generic[T]):\n  pass\nclass step(B[[int, float][@ - 1]]):\n  def __call__(self, v): return self.__orig_bases__",
    "the state of a property": "class scaled(property):\n  def __init__(self, k):\n    super().__init__(len)\n    self.k = k\nclass step:\n  p = scaled(@)\n  def __call__(self, v): return v",
    "the state of a local": "import threading\nclass L(threading.local):\n  def __init__(self, k): self.k = k\nclass step:\n  p = L(@)\n  def __call__(self, v): return self.p.k",
    "what is referred to weakly": "import weakref\nclass C:\n  def __init__(self, k): self.k = k\nc = C(@)\nclass step:\n  p = weakref.ref(c)\n  def __call__(self, v): return self.p().k",
    "another member of an enum": "import enum\nclass E(enum.Enum):\n  A = 1\n  B = @ + 1\nclass step:\n  def __init__(self): self.m = E.A\n  def __call__(self, v): return list(type(self.m))",
    "a partial method of an enum": "import enum, functools\nclass E(enum.Enum):\n  A = 1\n  def g(self, k): return k\n  h = functools.partialmethod(g, @)\nclass step:\n  def __init__(self): self.m = E.A\n  def __call__(self, v): return self.m.h()",
    "a name that others use too": "class step:\n  __fields__ = ('a', 'b')[::3 - 2 * @]\n  def __call__(self, v): return self.__fields__",
    "the order of slots": "class step:\n  __slots__ = ('a', 'b')[::3 - 2 * @]\n  def __call__(self, v): return self.__slots__",
    "a function that refers to itself": "def make():\n  def f(n): return @ if n == 0 else f(n - 1)\n  f.__qualname__ = 'step'\n  return f\nstep = make()",
}


def _edited(source: str, edit: int) -> str:
    # An `@` before a name is a decorator.
    return re.sub(r"@(?![a-zA-Z])", str(edit), source)


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("held", HELD)
def test_whatever_a_step_holds_counts(held: str, mode: Any) -> None:
    def of(edit: int) -> kp.Fingerprint:
        step = module_of(_edited(HELD[held], edit)).step
        return step_fingerprint(step() if isinstance(step, type) else step, mode=mode)

    assert of(1) != of(2)
    assert of(1) == of(1)


def test_a_module_in_a_step_counts_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for edit in (1, 2, 1):
        (tmp_path / "my_operators.py").write_text(f"def f(): return {edit}")
        sys.modules.pop("my_operators", None)
        importlib.invalidate_caches()
        step = functools.partial(double, importlib.import_module("my_operators"), os)
        digests.append(step_fingerprint(step, mode="strict"))
    assert digests[0] == digests[2] != digests[1]
    # One that was never in a file counts by what is in it.
    in_memory = [
        step_fingerprint(functools.partial(double, module_of(f"def f(): return {edit}")), mode="strict")
        for edit in (1, 2, 1)
    ]
    assert in_memory[0] == in_memory[2] != in_memory[1]


def test_dispatch_does_not_depend_on_what_else_was_registered() -> None:
    source = """
    import collections.abc, functools
    @functools.singledispatch
    def step(v): return 0
    @step.register
    def _(v: collections.abc.Mapping): return 1
    """
    before = digest(source)

    class Unrelated:
        pass

    Sequence.register(Unrelated)
    module_of(source).step({})
    assert digest(source) == before


def test_using_a_step_does_not_change_it() -> None:
    module = module_of(
        """
        import functools
        class step:
            @functools.cached_property
            def table(self): return [1]
            @functools.lru_cache
            def f(self, v): return v
            def __call__(self, v): return self.f(v) + self.table[0]
        """
    )
    step = module.step()
    before = step_fingerprint(step, mode="strict")
    assert step(1) == 2
    assert step_fingerprint(step, mode="strict") == before


def test_packages_are_told_by_their_whole_name() -> None:
    """A module of the program whose name begins like that of a package is not the package's."""

    def of(edit: int) -> kp.Fingerprint:
        config = module_of("class Config:\n  def __init__(self, k): self.k = k", "attributes").Config(edit)
        module = types.ModuleType("edited_module")
        sys.modules["edited_module"] = module
        module.config = config  # type: ignore[attr-defined]
        source = "import attrs\n@attrs.define\nclass I:\n  x: object = config\nclass step:\n  c = I\n  def __call__(self, v): return v"
        exec(source, module.__dict__)
        return step_fingerprint(module.step(), mode="strict")

    assert of(1) != of(2)


def test_a_module_with_a_name_of_the_standard_library_is_not_it() -> None:
    def of(edit: int) -> kp.Fingerprint:
        source = f"class step:\n  def __call__(self, v): return {edit}"
        saved = sys.modules.get("statistics")
        try:
            return step_fingerprint(module_of(source, "statistics").step(), mode="strict")
        finally:
            sys.modules.pop("statistics")
            if saved is not None:
                sys.modules["statistics"] = saved

    assert of(1) != of(2)


def test_what_has_no_identity_in_a_class_is_refused_with_the_class() -> None:
    module = module_of(
        "import sys\nclass step:\n  out = iter([])\n  gen = (x for x in ())\n  def __call__(self, v): return v"
    )
    with pytest.raises(kp.FingerprintError, match=r"belongs to the class `edited_module\.step`"):
        step_fingerprint(module.step(), mode="strict")
    step_fingerprint(module.step(), mode="lenient")


def test_classes_of_every_kind_can_be_steps(store: kp.Store) -> None:
    import attrs
    import pydantic

    module = module_of(
        """
        import abc, dataclasses, enum, typing, threading
        import attrs, pydantic
        T = typing.TypeVar("T")
        class Base(abc.ABC):
            lock = threading.RLock()
            @abc.abstractmethod
            def __call__(self, v): ...
        @dataclasses.dataclass(frozen=True, slots=True, order=True)
        class Slotted(Base, typing.Generic[T]):
            k: int = 2
            items: list = dataclasses.field(default_factory=list)
            def __call__(self, v): return v * self.k
        @dataclasses.dataclass
        class Plain(Base):
            k: int = 2
            other: typing.Optional[Base] = None
            def __call__(self, v): return v * self.k
        @attrs.define
        class Attrs:
            k: int = 2
            def __call__(self, v): return v * self.k
        class Model(pydantic.BaseModel):
            k: int = 2
            def __call__(self, v): return v * self.k
        class Named(typing.NamedTuple):
            k: int = 2
            def __call__(self, v): return v * self.k
        class Proto(typing.Protocol):
            def __call__(self, v): ...
        class Follows(Proto):
            def __call__(self, v): return v * 2
        class Level(enum.IntEnum):
            TWO = 2
            def __call__(self, v): return v * int(self)
        """
    )
    steps = [module.Slotted(), module.Plain(other=module.Slotted()), module.Attrs(), module.Model()]
    steps += [module.Named(), module.Follows(), module.Level.TWO]
    digests = set()
    for step in steps:
        cached = kp.CachedStep(step, input_key=kp.fingerprint, store=store)
        assert cached(4) == cached(4) == 8, step
        digests.add(cached.step_fingerprint)
        again = kp.CachedStep(step, input_key=kp.fingerprint, store=store)
        assert cached.step_fingerprint == again.step_fingerprint
    assert len(digests) == len(steps) and attrs and pydantic


def test_subclasses_of_cached_steps_count_by_what_they_do() -> None:
    def of(body: str) -> kp.Fingerprint:
        module = module_of(f"import keyprint as kp\n{body}")
        return kp.CachedStep(module.step, input_key=kp.fingerprint).step_fingerprint

    for body in (
        "class Post(kp.CachedStep):\n  def __call__(self, v): return super().__call__(v) + @\nstep = Post(len, input_key=kp.fingerprint)",
        "class Post(kp.CachedStep):\n  def _call_stored(self, *a): return @\nstep = Post(len, input_key=kp.fingerprint)",
        "class Post(kp.CachedStep):\n  def __init__(self, *a, **k):\n    super().__init__(*a, **k)\n    self.k = @\n"
        "  def __call__(self, v): return self.k\nstep = Post(len, input_key=kp.fingerprint)",
        "class Post(kp.Chain):\n  def __init__(self, *a):\n    super().__init__(*a)\n    self.k = @\n"
        "  def __call__(self, v): return self.k\nstep = Post(len)",
    ):
        assert of(_edited(body, 1)) != of(_edited(body, 2)), body
        assert of(_edited(body, 1)) == of(_edited(body, 1)), body


def test_callables_of_every_kind_have_a_name(store: kp.Store) -> None:
    assert kp.CachedStep(str.upper, input_key=kp.fingerprint, store=store)("a") == "A"
    assert kp.cached(str.upper)("a") == "A"
    assert kp.cached(store=store)(functools.partial(scaled, factor=3))(2) == 6
    assert kp.cached(store=store)(Translate(3))(2) == 6
    assert kp.cached(store=store)(Translate(4))(2) == 8
    assert kp.CachedStep(kp.Chain(str.upper, len), input_key=kp.fingerprint, store=store)("abc") == 3


def test_the_order_of_keywords_counts(store: kp.Store) -> None:
    names = kp.cached(store=store)(module_of("def names(**k): return list(k)").names)
    assert names(a=1, b=2) == ["a", "b"] and names(b=2, a=1) == ["b", "a"]


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_what_can_be_used_once_is_not_kept(kind: str) -> None:
    def generator(value: int) -> Any:
        yield value

    async def coroutine(value: int) -> int:
        return value

    step = kp.CachedStep({"generator": generator, "coroutine": coroutine}[kind], input_key=kp.fingerprint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(TypeError, match=f"a `{kind}` can be used once only"):
            step(1)


def test_moving_a_step_does_not_count() -> None:
    source = "def step(x):\n    return x + 1"
    assert digest(source) == digest(f"\n\n# a comment\n\n{source}  # another")


def test_functions_of_main_count_by_what_they_do(store: kp.Store, tmp_path: Path) -> None:
    def run(body: str) -> str:
        script = tmp_path / "script.py"
        script.write_text(
            f"import keyprint as kp\n"
            f"def step(x):\n    print('ran', end=' ')\n    return {body}\n"
            f"print(kp.CachedStep(step, input_key=kp.fingerprint, store=kp.Store({str(store.path)!r}))(3), end='')\n"
        )
        return subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True
        ).stdout

    assert run("x + 1") == "ran 4"
    assert run("x + 1") == "4"
    assert run("x + 2") == "ran 5"
    assert run("x + 1") == "4"


def test_persistent_steps_refuse_what_has_no_name(store: kp.Store) -> None:
    def local(value: int) -> int:
        return value

    for step in (lambda value: value, local, Translate(runtime=None, factor=lambda: 1)):  # type: ignore[arg-type]
        with pytest.raises(kp.FingerprintError) as caught:
            kp.CachedStep(step, input_key=kp.fingerprint, store=store)
        assert caught.value.code == "not-importable"
        assert "hint:" in str(caught.value)
        # In memory they work.
        kp.CachedStep(step, input_key=kp.fingerprint).key(1)


def test_lenient_steps_tell_lambdas_apart() -> None:
    def add(n: int) -> Callable[[int], int]:
        return lambda value: value + n

    shared: dict[str, int] = {}
    steps = [kp.CachedStep(add(n), input_key=kp.fingerprint, cache=shared) for n in (1, 2, 1)]
    assert [step(10) for step in steps] == [11, 12, 11]
    assert len(shared) == 2


def test_the_salt_and_the_tool_count(store: kp.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    step = kp.CachedStep(double, input_key=kp.fingerprint, store=store)
    step(1)
    monkeypatch.setenv("KEYPRINT_CACHE_VERSION", "next")
    step(1)
    monkeypatch.delenv("KEYPRINT_CACHE_VERSION")
    step(1)
    kp.CachedStep(double, input_key=kp.fingerprint, store=store, tool=("lang", "1"))(1)
    kp.CachedStep(double, input_key=kp.fingerprint, store=store, tool=("lang", "2"))(1)
    assert calls == [1, 1, 1, 1]
    assert store.why_last()[0][2] == ["`tool`: lang 1 -> lang 2"]


def test_the_steps_digest_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyprint.steps import identity

    computed: list[Any] = []
    original = identity.resolve

    def counting(step: Any, *arguments: Any, **named: Any) -> Any:
        computed.append(step)
        return original(step, *arguments, **named)

    monkeypatch.setattr(identity, "resolve", counting)

    def fresh(value: Any) -> Any:
        return double(value)

    first = kp.CachedStep(fresh, input_key=kp.fingerprint)
    second = kp.CachedStep(Translate(3), input_key=kp.fingerprint)
    chain = first.chain(second)
    whole = kp.CachedStep(chain, input_key=kp.fingerprint)
    longer = kp.CachedStep(chain.chain(len), input_key=kp.fingerprint)
    for value in range(5):
        assert whole(value) == value * 6
        second.key(value)
        longer.key(value)
    assert [step for step in computed if step is fresh] == [fresh]
    assert [step for step in computed if isinstance(step, Translate)] == [Translate(3)]


def test_chains(store: kp.Store) -> None:
    first = kp.CachedStep(double, input_key=kp.fingerprint, store=store)
    chain = first >> Translate(3) >> str
    assert chain(2) == "12" and chain(2) == "12"
    assert calls == [2, 4, 4], "only the first step of the chain is cached"
    whole = kp.CachedStep(chain, input_key=kp.fingerprint, store=store)
    assert whole(2) == whole(2) == "12"
    other = kp.CachedStep(first >> Translate(4) >> str, input_key=kp.fingerprint, store=store)
    assert other(2) == "16"
    assert (
        len({kp.CachedStep(c, input_key=str).key(1) for c in (kp.Chain(len, str), kp.Chain(str, len))}) == 2
    )


def test_a_chain_of_another_kind_stays_whole() -> None:
    class Reversed(kp.Chain[Any, Any]):
        def __call__(self, value: Any) -> Any:
            return super().__call__(value)[::-1]

    assert (Reversed(str.upper) >> str)("ab") == "BA"
    assert len((kp.Chain(len, str) >> len).steps) == 3


def test_a_cache_does_not_change_what_a_step_is() -> None:
    @dataclasses.dataclass
    class Workflow:
        step: Any

    cached = kp.CachedStep(double, input_key=kp.fingerprint)
    other = kp.CachedStep(double, input_key=str, cache={"x": 1})
    assert kp.fingerprint(Workflow(cached), mode="lenient") == kp.fingerprint(Workflow(other), mode="lenient")
    nested = kp.CachedStep(cached, input_key=kp.fingerprint)
    assert nested.step_fingerprint == cached.step_fingerprint


class TestGt4py:
    def test_keywords(self) -> None:
        cache: dict[str, Any] = {}
        step = gt4py.CachedStep(
            step=double,
            input_fingerprinter=gt4py.strict_fingerprinter,
            step_fingerprinter=gt4py.lenient_fingerprinter,
            cache=cache,
        )
        assert step([1]) == step([1]) == [1, 1]
        assert list(cache) == [step.cache_key([1])] and calls == [[1]]

    def test_steps_do_not_share_a_cache(self) -> None:
        cache: dict[str, Any] = {}
        steps = [
            gt4py.CachedStep(step, input_fingerprinter=gt4py.strict_fingerprinter, cache=cache)
            for step in (Translate(2), Translate(3), lambda value: value)
        ]
        assert [step(1) for step in steps] == [2, 3, 1]

    def test_persistent(self, store: kp.Store) -> None:
        def make() -> gt4py.CachedStep:
            return gt4py.CachedStep.persistent(
                Translate(2), input_fingerprinter=gt4py.strict_fingerprinter, store=store
            )

        assert make()(4) == make()(4) == 8
        assert calls == [4]
        with pytest.raises(kp.FingerprintError, match="lambda"):
            gt4py.CachedStep.persistent(lambda x: x, input_fingerprinter=str, store=store)

    @pytest.mark.parametrize("older", ["hash_function", "key_function"])
    def test_older_keywords(self, older: str) -> None:
        with pytest.warns(DeprecationWarning, match=f"`{older}` is an older name") as caught:
            step = gt4py.CachedStep(tuple, **{older: str})
        assert caught[0].filename == __file__
        assert step([1]) == (1,)
        with pytest.raises(TypeError, match="give one of them"):
            gt4py.CachedStep(tuple, str, **{older: str})

    def test_the_input_fingerprinter_is_required(self) -> None:
        with pytest.raises(TypeError, match="`input_fingerprinter` is required"):
            gt4py.CachedStep(tuple)
        with pytest.raises(TypeError, match="unexpected keyword"):
            gt4py.CachedStep(tuple, str, hash_functoin=str)


HELPED = 1


def _helper(x: int) -> int:
    return x + HELPED


def _helped_step(x: int) -> int:
    return _helper(x)


def test_steps_by_function_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> kp.CachedStep[int, int]:
        return kp.CachedStep(
            _helped_step, input_key=kp.fingerprint, step_key=kp.FunctionKey, store=kp.Store(tmp_path)
        )

    assert make()(1) == 2
    monkeypatch.setattr(sys.modules[__name__], "HELPED", 10)
    assert make()(1) == 11
    monkeypatch.setattr(sys.modules[__name__], "_helper", lambda x: -x)
    assert make()(1) == -1


def test_cached_functions_by_function_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Any:
        return kp.cached(store=kp.Store(tmp_path), step_key=kp.FunctionKey)(_helped_step)

    assert make()(1) == 2
    monkeypatch.setattr(sys.modules[__name__], "HELPED", 10)
    assert make()(1) == 11
