"""Programs that were made to get a stale executable, or to crash; each was once a way to do so."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
import textwrap
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyprint as kp


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads modules from text, the same name again and again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def make(text: str, name: str = "corner", **others: str) -> Any:
        for each, content in {**others, name: text}.items():
            (tmp_path / f"{each}.py").write_text(textwrap.dedent(content))
            sys.modules.pop(each, None)
            names.add(each)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


def counting(function: Any, **options: Any) -> Any:
    made = []

    def compile(specialization: kp.Specialization) -> Any:
        made.append(specialization)
        number = len(made)
        return lambda *arguments, **keywords: number

    options.setdefault("on_drift", "rekey")
    return kp.jit(function, compile=compile, **options)


class Bag:
    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


# A program, and an edit that must change the key of `f`. Edits may be of the other module, `cfg`.
EDITS: dict[str, tuple[str, str, str]] = {
    "import bound twice": (
        "def f():\n    try: import nope as c\n    except ImportError: import cfg as c\n    return c.X\n",
        "X = 1",
        "X = 2",
    ),
    "import and assignment": ("def f():\n    from cfg import X\n    X = X + 1\n    return X\n", "X = 1", "X = 2"),
    "lambda in a comprehension": (
        "FS = [lambda x: x * k for k in (1, 2)]\ndef f(x): return FS[0](x)\n",
        "(1, 2)",
        "(3, 4)",
    ),
    "alias and a comprehension": (
        "import types\nCFG = types.SimpleNamespace(x=1)\ndef f(n):\n    s = CFG\n    return [s.x for CFG in n]\n",
        "x=1",
        "x=2",
    ),
    "alias and a lambda": (
        "CFG = 1\ndef f(n):\n    s = CFG\n    return (lambda CFG: s)(n)\n",
        "CFG = 1",
        "CFG = 2",
    ),
    "own class": ("class C:\n    T = 1\n    def f(self): return __class__.T\nf = C.f\n", "T = 1", "T = 2"),
    "submodule that is not loaded": ("def f():\n    import pkg.sub\n    return pkg.sub.X\n", "X = 1", "X = 2"),
    "singledispatch": (
        "import functools\n@functools.singledispatch\ndef g(x): return 1\n"
        "@g.register\ndef h(x: int): return 2\ndef f(x): return g(x)\n",
        "return 2",
        "return 3",
    ),
    "singledispatch default": (
        "import functools\n@functools.singledispatch\ndef g(x): return 1\ndef f(x): return g(x)\n",
        "return 1",
        "return 3",
    ),
    "context manager": (
        "import contextlib\n@contextlib.contextmanager\ndef g(x): yield 1\ndef f(x):\n    with g(x) as y: return y\n",
        "yield 1",
        "yield 2",
    ),
    "class made by a factory": (
        "import dataclasses\nC = dataclasses.make_dataclass('C', [('x', int, 1)])\ndef f(): return C().x\n",
        "int, 1",
        "int, 2",
    ),
    "metaclass property": (
        "class M(type):\n    @property\n    def x(cls): return 1\nclass C(metaclass=M):\n    x = 5\ndef f(): return C.x\n",
        "return 1",
        "return 2",
    ),
    "descriptor on a class": (
        "class D:\n    def __get__(self, o, owner): return owner.S\nclass C:\n    S = 1\n    d = D()\ndef f(): return C.d\n",
        "S = 1",
        "S = 2",
    ),
    "annotation class, base": (
        "class B:\n    x: int\nclass D(B):\n    y: int\ndef f(s: D): return s.x\n",
        "x: int",
        "x: float",
    ),
    "annotation class, attribute": ("class F:\n    bits = 32\ndef f(s: F): return s\n", "bits = 32", "bits = 64"),
    "generated code": ("SCOPE = {'cfg': __import__('cfg')}\nexec('def f(s): return [cfg.X for i in s]', SCOPE)\nf = SCOPE['f']\n", "X = 1", "X = 2"),
    "super on a property": (
        "class A:\n    @property\n    def v(self): return 1\nclass B(A):\n    def g(self): return super().v\n"
        "OBJ = B()\ndef f(): return OBJ.g()\n",
        "return 1",
        "return 2",
    ),
    "class body that reads what it binds": ("X = 1\ndef f():\n    class C:\n        X = X\n    return C.X\n", "X = 1\ndef", "X = 2\ndef"),
    "long chain of names": (
        "CFG = 1\ndef f(c):\n    a1 = CFG\n"
        + "".join(f"    a{at} = a{at - 1}\n" for at in range(2, 30))
        + "    b = 0\n    if c: b = a29\n    return b\n",
        "CFG = 1",
        "CFG = 2",
    ),
    "owner of a method": (
        "class C:\n    def __init__(self): self.q = 1\n    def get(self): return 0\nO = C()\ndef f(): return O.get.__self__.q\n",
        "self.q = 1",
        "self.q = 2",
    ),
    "fields with quoted annotations": (
        "from __future__ import annotations\nclass Vec:\n    x: int\nclass D:\n    v: Vec\ndef f(s: D): return s\n",
        "x: int",
        "x: float",
    ),
    "fields with generic annotations": (
        "from typing import Optional\nclass Vec:\n    x: int\nclass D:\n    v: Optional[Vec]\ndef f(s: D): return s\n",
        "x: int",
        "x: float",
    ),
    "order of a dict": ("D = {'a': 1, 'b': 2}\ndef f(): return list(D)\n", "'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    "docstring that is read": ("def h():\n    'One.'\ndef f(): return h.__doc__\n", "One.", "Two."),
    "enum with methods": (
        "import enum\nclass M(enum.IntEnum):\n    A = 0\n    def scale(self): return 2\ndef f(x): return M.A.scale()\n",
        "return 2",
        "return 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edits_that_went_unnoticed(load: Any, tmp_path: Path, name: str) -> None:
    program, before, after = EDITS[name]
    cfg = "X = 1\n"
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    keys = []
    for edit in (False, True, False):
        change = (lambda text: text.replace(before, after)) if edit else str
        (tmp_path / "pkg" / "sub.py").write_text(change(cfg))
        for loaded in ("pkg", "pkg.sub"):
            sys.modules.pop(loaded, None)
        keys.append(kp.FunctionKey(load(change(program), cfg=change(cfg)).f))
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]


REFUSED = {
    "import_module": "import importlib\ndef f(): return importlib.import_module('cfg').X\n",
    "__globals__": "def g(): pass\ndef f(): return g.__globals__['X']\n",
    "__dict__": "import cfg\ndef f(): return cfg.__dict__['X']\n",
    "getenv": "import os\ndef f(): return os.getenv('X')\n",
    "locals": "def f(sim): return locals()['sim'].x\n",
    "vars": "def f(sim): return vars()['sim'].x\n",
    "frame": "import sys\ndef f(): return sys._getframe().f_globals['X']\n",
    "lambda globals": "def f(): return (lambda: 0).__globals__['X']\n",
    "resolve_name": "import pkgutil\ndef f(): return pkgutil.resolve_name('cfg:X')\n",
    "hidden getattr with a default": "def getattr(o, n): return 1\ndef f(s): return getattr(s, 'x', 3)\n",
    "hidden builtin": "def getattr(o, n): return 1\ndef f(s): return getattr(s, 'x')\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_doors_that_are_closed(load: Any, name: str) -> None:
    with pytest.raises(kp.FunctionKeyError) as caught:
        kp.FunctionKey(load(REFUSED[name], cfg="X = 1\n").f)
    assert caught.value.code == "dynamic-names"
    assert "line" in str(caught.value)


# -- What is handed on -----------------------------------------------------------------------------

HANDED = """
def apply(fn, s): return fn(s)
def get(s): return s.x
def direct(sim): return apply(get, sim)
def through(s, fn): return fn(s.x)
def twice(s, fn): return through(s, fn)
def method(s): return s.method(s.grid)
def by_method(sim): return method(sim)
class S:
    def method(self, g): return g.dx
"""


def test_functions_that_are_handed_on(load: Any) -> None:
    m = load(HANDED)
    assert kp.FunctionKey(m.direct).parameters == {"sim": ["x"]}
    kernel = counting(m.direct)
    assert [kernel(Bag(x=1)), kernel(Bag(x=2.5)), kernel(Bag(x=1, y=object()))] == [1, 2, 1]
    kernel = counting(m.twice)
    assert [kernel(Bag(x=Bag(x=at)), m.get) for at in (1, 2, 1)] == [1, 2, 1]
    kernel = counting(m.by_method)
    made = m.S()
    made.grid = Bag(dx=1, unread=object())
    assert kernel(made) == 1
    made.grid = Bag(dx=2)
    assert kernel(made) == 2


def test_other_names_for_parameters(load: Any) -> None:
    m = load("def f(a, b):\n    s = a\n    def inner(a): return s.x\n    return inner(b)\n")
    kernel = counting(m.f)
    assert [kernel(Bag(x=1), 1), kernel(Bag(x=2), 1)] == [1, 2]
    m = load("def f(sim, other): return super(int, other).scale()\n")
    assert kp.FunctionKey(m.f).parameters == {"sim": [], "other": ["scale"]}


def test_generated_functions_with_captured_parameters() -> None:
    scope: dict[str, Any] = {"__name__": "made"}
    exec("def f(sim):\n return [sim.x for i in range(3)]\ndef g(sim):\n return lambda: sim.x", scope)
    for name in ("f", "g"):
        kernel = counting(scope[name])
        try:
            found = [kernel(Bag(x=1)), kernel(Bag(x=2))]
        except kp.SignatureError as error:
            # Where nothing tells which members are read, all of them are.
            assert "has no cache signature" in str(error)
        else:
            assert found == [1, 2]


# -- Arguments -------------------------------------------------------------------------------------

ARGUMENTS = """
import dataclasses, functools
class Op:
    def __init__(self, k): self.k = k
    def __call__(self, x): return self.k * x
def calls(op, x): return op(x)
def calls_member(s, x): return s.op(x)
@dataclasses.dataclass
class V:
    x: int = 1
    K = 1
    def __mul__(self, other): return self.x
def multiplies(v): return v * v
def by_type(v): return type(v).K
def static(x): return x
def reads(s): return s.t
class Base:
    T = 1
    @classmethod
    def t(cls): return cls.T
class Sub(Base):
    def constant(self): return super().T
    def method(self): return super().t()
def constant(s): return s.constant()
def classmethod_(s): return s.method()
def on_class(s): return s.t()
class Cached:
    pass
@functools.lru_cache
def cached(x): return x + N
N = 1
"""


def test_callable_objects_count_by_what_they_do(load: Any) -> None:
    m = load(ARGUMENTS)
    kernel = counting(m.calls)
    assert [kernel(m.Op(1), 3), kernel(m.Op(2), 3), kernel(m.Op(1), 3)] == [1, 2, 1]
    m.Op.__call__ = lambda self, x: self.k - x
    assert kernel(m.Op(1), 3) == 3
    kernel = counting(m.calls_member)
    assert [kernel(Bag(op=m.Op(at)), 3) for at in (1, 2, 1)] == [1, 2, 1]
    kernel = counting(m.calls)
    assert kernel(m.cached, 1) == 1
    m.N = 2
    assert kernel(m.cached, 1) == 2
    assert [kernel(functools.partial(m.cached, at), 1) for at in (1, 2)] == [3, 4]


def test_whole_objects_count_with_their_class(load: Any) -> None:
    m = load(ARGUMENTS)
    for function in (m.multiplies, m.by_type):
        kernel = counting(function)
        v = m.V()
        assert kernel(v) == 1
        assert kernel(v) == 1
        m.V.__mul__ = lambda self, other: -self.x
        assert kernel(v) == 2
        m.V.K = 2
        assert kernel(v) == 3
        v.extra = 1
        assert kernel(v) == 4
        v.extra = 2
        assert kernel(v) == 5
        del v.extra
        assert kernel(v) == 3
        m = load(ARGUMENTS)


def test_numpy_scalars_where_values_count(load: Any) -> None:
    m = load(ARGUMENTS)
    kernel = counting(m.static, static=["x"])
    assert [kernel(np.int64(at)) for at in (3, 4, 3)] == [1, 2, 1]
    with pytest.raises(kp.SignatureError, match="is an array, and `static` parameters count by value"):
        kernel(np.zeros(3))
    kernel = counting(m.reads)
    assert [kernel(Bag(t=np.int64(at))) for at in (3, 4, 3)] == [1, 2, 1]
    assert [counting(m.static, static=["x"])(complex(1, at)) for at in (1, 2)] == [1, 1]


def test_what_is_behind_a_class(load: Any) -> None:
    m = load(ARGUMENTS)
    for function in (m.constant, m.classmethod_, m.on_class):
        kernel = counting(function)
        sub = m.Sub()
        assert kernel(sub) == 1
        m.Base.T = 2
        assert kernel(sub) == 2
        m.Base.T = 1
        assert kernel(sub) == 1


def test_methods_that_read_more_of_a_member_than_the_kernel(load: Any) -> None:
    m = load(
        """
        class S:
            def m(self): return self.inner.b + self.n()
            def n(self): return self.inner.c if self.grid is not None else 0
            def late(self): return self.grid.dx
        def f(s): return s.inner.a + s.m()
        def g(s): return 0 if s.grid is None else s.late()
        """
    )
    made = m.S()
    made.inner, made.grid = Bag(a=1, b=2, c=3, d=object()), Bag(dx=1, unread=object())
    kernel = counting(m.f)
    assert kernel(made) == 1
    for at, member in enumerate("abc"):
        before = getattr(made.inner, member)
        setattr(made.inner, member, 10)
        assert kernel(made) == at + 2
        setattr(made.inner, member, before)
        assert kernel(made) == 1
    kernel = counting(m.g)
    assert kernel(made) == 1
    made.grid.dx = 2
    assert kernel(made) == 2
    made.grid.unread = 1
    assert kernel(made) == 2


def test_classes_that_have_run_out_of_versions(load: Any) -> None:
    """From 3.12 on a class that was changed often enough has none any more."""
    m = load(
        """
        class S:
            K = 0
            def __init__(self): self.n = 1
            def m(self): return self.n + self.K
        OBJ = S()
        def f(s): return s.m()
        def g(x): return OBJ.m()
        """
    )
    made = m.S()
    for at in range(1, 1300):
        m.S.K = at
        made.m()
    for function, argument in ((m.f, made), (m.g, 1)):
        kernel = counting(function)
        m.S.K = 5
        assert [kernel(argument), kernel(argument)] == [1, 1]
        m.S.K = 6
        assert [kernel(argument), kernel(argument)] == [2, 2]
        m.S.m = lambda self: 7
        assert kernel(argument) == 3
        del m.S.m
        m.S.m = m.S.__dict__.get("m", lambda self: self.n + self.K)
        m.S.K = 5
        kernel(argument)


def test_bases_of_the_same_name(load: Any) -> None:
    text = "import cfg\nclass S(cfg.S):\n    def h(self): return super().h() + 1\ndef f(s): return s.h()\n"
    keys = []
    for value in (1, 2):
        m = load(text, cfg=f"class S:\n    def h(self): return {value}\n")
        kernel = counting(m.f)
        kernel(m.S())
        keys.append(kernel.function_key.fingerprint)
        seen: list[kp.Specialization] = []
        kp.jit(m.f, compile=lambda s, seen=seen: seen.append(s) or (lambda s: 1))(m.S())
        keys.append(seen[0].key.hex())
    assert keys[1] != keys[3]


def test_equal_objects_are_not_the_same() -> None:
    class Config:
        def __init__(self, n: int) -> None:
            self.n = n

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    class Owner:
        cfg = Config(1)

    globals().update(Config=Config)
    Config.__qualname__ = "Config"
    try:
        kernel = counting(_reads_config)
        owner = Owner()
        assert kernel(owner) == 1
        Owner.cfg = Config(2)
        assert kernel(owner) == 2
    finally:
        del globals()["Config"]


def _reads_config(s: Any) -> Any:
    return s.cfg


def test_slots_beside_a_dict(load: Any) -> None:
    m = load(
        "class B:\n    __slots__ = ('a',)\nclass S(B): pass\ndef f(s): return s.a\ndef g(s): return (s.a, s.x1)\n"
    )
    for function in (m.f, m.g):
        kernel = counting(function)
        made = m.S()
        made.a = 1
        for at in range(40):
            setattr(made, f"x{at}", at)
        assert [kernel(made), kernel(made)] == [1, 1]
        made.a = 2
        assert kernel(made) == 2
        made.a = 1
        assert kernel(made) == 1
        made.a = np.zeros(2)
        assert kernel(made) == 3
        made.a = np.zeros(2, "f4")
        assert kernel(made) == 4


def test_arrays_whose_types_change_in_place() -> None:
    kernel = counting(lambda x: x)
    array = np.zeros(2, [("x", "f4"), ("y", "f4")])
    assert kernel(array) == 1
    array.dtype.names = ("y", "x")
    assert kernel(array) == 2
    plain, noted = np.dtype("f8"), np.dtype("f8", metadata={"unit": "m"})
    assert kernel(np.zeros(2, plain)) == 3
    assert kernel(np.zeros(2, noted)) == 4
    assert kernel(np.zeros(2, plain)) == 3


def test_bases_of_read_only_arrays_are_watched(load: Any) -> None:
    m = load(
        "import numpy as np\nBASE = np.arange(3)\nBASE.flags.writeable = False\nVIEW = BASE[:2]\ndef f(x): return VIEW\n"
    )
    kernel = kp.jit(m.f, compile=lambda s: lambda x: 1)
    assert kernel(1) == 1
    m.BASE.flags.writeable = True
    with pytest.raises(kp.FunctionKeyError, match="can change without notice"):
        kernel(1)


def test_shared_members_do_not_explode() -> None:
    value: Any = Pair(1, 2)
    for _ in range(30):
        value = Pair(value, value)
    with pytest.raises(kp.SignatureError, match="more than 4096 members"):
        counting(lambda x: x)(value)


class Pair(tuple[Any, Any]):
    """Not a tuple to the eye of a dispatcher."""

    def __new__(cls, left: Any, right: Any) -> Any:
        return (left, right)


def test_bound_methods_of_builtins(load: Any) -> None:
    m = load(
        "D = {1: 10}\nGET = D.get\nOPS = {'g': D.get}\ndef f(x): return GET(x)\ndef g(x): return OPS['g'](x)\n"
    )
    for function in (m.f, m.g):
        kernel = counting(function)
        assert kernel(1) == 1
        m.D[1] = 20
        assert kernel(1) == 2
        m.D[1] = 10
        assert kernel(1) == 1
    kernel = counting(lambda fn: fn)
    assert kernel(m.D.get) == 1
    m.D[1] = 30
    assert kernel(m.D.get) == 2


def test_enums_with_methods(load: Any) -> None:
    m = load(
        "import enum\nclass M(enum.Enum):\n    A = 1\n    def scale(self): return 2\ndef f(m): return m.scale()\n"
    )
    kernel = counting(m.f)
    assert kernel(m.M.A) == 1
    m.M.scale = lambda self: 7
    assert kernel(m.M.A) == 2


def test_signatures_do_not_speak_for_methods(load: Any) -> None:
    m = load(
        "class S:\n    def __cache_signature__(self): return 1\n    def scale(self): return 2\ndef f(m): return m.scale()\n"
    )
    kernel = counting(m.f)
    assert kernel(m.S()) == 1
    m.S.scale = lambda self: 7
    assert kernel(m.S()) == 2
    m = load(
        "class S:\n    def __cache_signature__(self): return 1\n    def __call__(self): return 2\ndef f(m): return m()\n"
    )
    kernel = counting(m.f)
    assert kernel(m.S()) == 1
    m.S.__call__ = lambda self: 7
    assert kernel(m.S()) == 2


def test_the_first_attribute_of_a_function(load: Any) -> None:
    m = load("def h(x): return x\ndef f(x): return h(x)\n")
    kernel = counting(m.f)
    assert kernel(1) == 1
    m.h.scale = 2
    assert kernel(1) == 2
    m.f.fastmath = True
    assert kernel(1) == 3
    m.f.__annotations__["x"] = float
    assert kernel(1) == 4


def test_object_arrays_are_refused(load: Any) -> None:
    m = load(
        "import numpy as np\nA = np.array([[1], [2, 3]], dtype=object)\nA.flags.writeable = False\ndef f(x): return A\n"
    )
    with pytest.raises(kp.FunctionKeyError) as caught:
        kp.FunctionKey(m.f)
    assert caught.value.code == "writable-array"


def test_what_changes_while_it_is_compiled_is_not_kept(load: Any, tmp_path: Path) -> None:
    m = load("X = 1\ndef f(a): return X\n")
    once = [1]

    def compile(specialization: kp.Specialization) -> bytes:
        if once:
            # Stands for another thread.
            m.X = once.pop() + 1
        return repr(m.f(0)).encode()

    options: dict[str, Any] = {"compile": compile, "load": lambda a: lambda x: a.data, "on_drift": "rekey"}
    kernel = kp.jit(m.f, store=kp.Store(tmp_path / "store"), **options)
    assert kernel(1) == b"2"
    m.X = 1
    assert kernel(1) == b"1"
    assert kp.jit(m.f, store=kp.Store(tmp_path / "store"), **options)(1) == b"1"
    once.append(5)
    strict = kp.jit(m.f, **{**options, "on_drift": "raise"})
    with pytest.raises(kp.DriftError):
        strict(1)

    def restless(specialization: kp.Specialization) -> bytes:
        m.X += 1
        return b""

    with pytest.raises(RuntimeError, match="changes whenever it is compiled"):
        kp.jit(m.f, **{**options, "compile": restless})(1)


# -- Ordinary programs -----------------------------------------------------------------------------

ORDINARY = {
    "numpy functions": "import numpy as np\ndef f(x): return np.sum(x) + np.clip(x, 0, 1) + np.linalg.norm(x) + np.sin(x)\n",
    "numpy constants": "import numpy as np\nDT = np.dtype('f4')\nclass C:\n    dt = DT\ndef f(x): return x.astype(DT), C.dt, np.float32, np.pi\n",
    "array annotations": "import numpy as np\nimport numpy.typing as npt\ndef f(x: npt.NDArray[np.float32], y: 'npt.ArrayLike') -> npt.NDArray[np.float32]: return x\n",
    "int enums": "import enum\nclass M(enum.IntEnum):\n    A = 0\nclass F(enum.IntFlag):\n    B = 1\ndef f(x, m=M.A): return M.A + M(0) + M['A'] + F.B\n",
    "attribute dicts": "class A(dict):\n    __getattr__ = dict.__getitem__\n    __hash__ = object.__hash__\nCFG = A(n=1)\ndef f(x): return CFG.n\n",
    "forward references": "from typing import Optional, Tuple, Union\nclass A: pass\ndef f(x: Optional['A'], y: Tuple[int, 'A'], z: Union[int, 'A']): return x\n",
    "literals": "from typing import Literal\nimport cfg\ndef f(x: Literal['cfg', 'b']): return x\n",
    "optional modules": "try: import cfg\nexcept ImportError: cfg = None\ndef f(x):\n    if cfg is not None: return cfg.X\n",
    "locks": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK: return x\n",
    "the interpreter": "import sys\ndef f(x):\n    print(x, file=sys.stderr)\n    return sys.version_info, sys.float_info.eps\n",
    "loggers": "import logging\nlog = logging.getLogger(__name__)\ndef f(x):\n    log.debug('x')\n    return x\n",
    "random numbers": "import numpy as np\ndef f(x): return np.random.rand(3)\n",
    "context variables and type variables": "import typing\nT = typing.TypeVar('T')\nclass C(typing.Generic[T]):\n    def g(self, x: T) -> T: return x\ndef f(x: T) -> T: return C().g(x)\n",
    "protocols": "from typing import Protocol, NamedTuple\nclass P(Protocol):\n    def g(self) -> int: ...\nclass N(NamedTuple):\n    a: int = 1\ndef f(x: P, n: N = N()): return N(2)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_programs_have_keys(load: Any, name: str) -> None:
    m = load(ORDINARY[name], cfg="X = 1\n")
    assert kp.FunctionKey(m.f) == kp.FunctionKey(m.f)


def test_questions_about_members(load: Any) -> None:
    m = load(
        """
        def f(s):
            if s.grid is None: return 0
            s.out = 3
            return hasattr(s, 'zz'), getattr(s, 'ww', 3), s.n
        """
    )
    kernel = counting(m.f)
    assert kernel(Bag(grid=Bag(), n=1)) == 1
    assert kernel(Bag(grid=Bag(x=object()), n=1)) == 1
    assert kernel(Bag(grid=None, n=1)) == 2
    assert kernel(Bag(grid=Bag(), n=1, zz=2)) == 3
    assert kernel(Bag(grid=Bag(), n=1, ww=2)) == 4
    assert kernel(Bag(grid=Bag(), n=1, ww=4)) == 5
    assert kernel(Bag(grid=Bag(), n=1, zz=7)) == 3, "only whether it is there is asked"
    made = Bag(grid=Bag(), n=1)
    assert kernel(made) == 1
    made.out = 3
    assert kernel(made) == 6
    del made.out
    assert kernel(made) == 1


def test_members_behind_a_default(load: Any) -> None:
    m = load("def f(s):\n    c = getattr(s, 'cfg', None)\n    return c.n\n")
    kernel = counting(m.f)
    assert kernel(Bag()) == 1
    # Nothing tells what is read of it: all of it counts.
    assert kernel(Bag(cfg=Bag(n=1))) == 2
    assert kernel(Bag(cfg=Bag(n=1))) == 2
    assert kernel(Bag(cfg=Bag(n=2))) == 3
    assert kernel(Bag(cfg=1)) == 4
    assert kernel(Bag(cfg=2)) == 5


def test_memoised_properties_of_a_config(load: Any) -> None:
    m = load(
        """
        import functools
        class C:
            def __init__(self): self.n = 3
            @functools.cached_property
            def area(self): return self.n ** 2
        CFG = C()
        def f(x): return CFG.area
        """
    )
    kernel = kp.jit(m.f, compile=lambda s: lambda x: 1)
    kernel(1)
    assert m.CFG.area == 9
    assert kernel(1) == 1
    m.CFG.n = 4
    with pytest.raises(kp.DriftError):
        kernel(1)


def test_executables_are_not_kept_for_ever(load: Any) -> None:
    m = load("def f(s): return s.n\n")
    kernel = counting(m.f)
    for at in range(1100):
        kernel(Bag(n=at))
    assert len(kernel._dispatcher.compilation) == 1024


def test_compilers_that_launch_each_other() -> None:
    barrier = threading.Barrier(2)

    def compile(specialization: kp.Specialization) -> Any:
        if not getattr(local, "inside", False):
            local.inside = True
            barrier.wait(10)
            other = second if specialization.target == "first" else first
            assert other(1) == 1
        return lambda x: x

    local = threading.local()
    first = kp.jit(_reads_config_of, compile=compile, target="first")
    second = kp.jit(_reads_config_of, compile=compile, target="second")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda k=k: found.append(k(1)), daemon=True) for k in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [1, 1]


def _reads_config_of(x: Any) -> Any:
    return x


# -- Targets ---------------------------------------------------------------------------------------


def test_targets_of_all_kinds() -> None:
    for make in (
        lambda: kp.Target("a", device=0),
        lambda: {"arch": "a"},
        lambda: ["a"],
        lambda: ("a", frozenset(["avx"])),
        lambda: None,
        lambda: kp.Target({"arch": ["a"]}),
    ):
        kernel = counting(lambda x: x, target=make)
        assert [kernel(1), kernel(1)] == [1, 1]


def test_targets_that_change_in_place() -> None:
    target = {"arch": "a"}
    inside = ["a"]
    for given in (target, lambda: target):
        kernel = counting(lambda x: x, target=given)
        assert kernel(1) == 1
        target["arch"] = "b"
        assert kernel(1) == 2
        target["arch"] = "a"
        assert kernel(1) == 1
    for given in (kp.Target(inside), lambda: kp.Target(inside)):
        kernel = counting(lambda x: x, target=given)
        assert kernel(1) == 1
        inside.append("b")
        assert kernel(1) == 2
        inside.pop()
        assert kernel(1) == 1


def test_worlds_that_are_forgotten_while_something_is_compiled() -> None:
    target = [0]

    def compile(specialization: kp.Specialization) -> Any:
        if specialization.target == 0:
            for other in range(1, 30):
                target[0] = other
                kernel(1)
            target[0] = 0
            kernel.forget()
        return lambda x, own=specialization.target: own

    kernel = kp.jit(lambda x: x, compile=compile, target=lambda: target[0])
    assert kernel(1) == 0


# -- Lifetimes and threads -------------------------------------------------------------------------


def test_functions_that_come_as_arguments_are_not_kept() -> None:
    def make(at: int) -> Any:
        held = Bag(at=at)

        def g(x: Any) -> Any:
            return held

        return g, weakref.ref(held)

    kernel = counting(lambda fn: fn)
    dead = []
    for at in range(20):
        function, reference = make(at)
        assert kernel(function) == at + 1
        dead += [weakref.ref(function), reference]
    del function
    gc.collect()
    assert [one() for one in dead].count(None) == len(dead)


def test_bound_methods_that_come_as_arguments_are_not_kept() -> None:
    kernel = counting(lambda fn: fn)
    dead = []
    for _ in range(20):
        owner = Owner()
        kernel(owner.method)
        dead.append(weakref.ref(owner))
    del owner
    gc.collect()
    assert [one() for one in dead].count(None) == len(dead)


class Owner:
    def method(self) -> int:
        return 1


def test_imports_inside_functions_do_not_deadlock(load: Any, tmp_path: Path) -> None:
    (tmp_path / "lazily.py").write_text("import time, corner\ntime.sleep(0.2)\nN = 1\ncorner.KERNEL(1)\n")
    m = load("def f(x):\n    import lazily\n    return lazily.N\n")
    m.KERNEL = counting(m.f)
    threads = [
        threading.Thread(target=lambda: m.KERNEL(1), daemon=True),
        threading.Thread(target=lambda: importlib.import_module("lazily"), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    sys.modules.pop("lazily", None)


def test_kernels_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError, match="cannot create"):
        kp.Kernel()


def test_signatures_that_pull_the_rug(load: Any) -> None:
    """A signature replaces what other steps have looked at: nothing of it is used any more."""
    m = load("def f(s): return (s.grid.a, s.grid.x)\n")

    class Meddler:
        def __cache_signature__(self) -> Any:
            state.grid = Bag(a=self, x=np.zeros(3))
            return 1

    state = Bag(grid=None)
    state.grid = Bag(a=Meddler(), x=np.zeros(3))
    kernel = counting(m.f)
    assert [kernel(state) for _ in range(10)] == [1] * 10


def test_annotations_of_files_that_were_edited(load: Any, tmp_path: Path) -> None:
    m = load("def f(x: int):\n    y: int = x\n    return y\n")
    first = kp.FunctionKey(m.f)
    (tmp_path / "corner.py").write_text("def f(x: float):\n    y: int = x\n    return y\n")
    edited = kp.FunctionKey(m.f)
    reloaded = kp.FunctionKey(importlib.reload(m).f)
    assert len({first, edited, reloaded}) == 3
    kernel = counting(m.f)
    assert kernel(1) == 1
    m.f.__annotations__["x"] = complex
    assert kernel(1) == 2
    m.f.__annotations__ = {"x": float}
    assert kernel(1) == 1
    (tmp_path / "corner.py").write_text("def f(x: float):\n    y: complex = x\n    return y\n")
    assert kp.FunctionKey(importlib.reload(m).f) != reloaded


def test_annotations_of_locals_in_a_reloaded_module(load: Any, tmp_path: Path) -> None:
    """Byte code does not tell them apart, nor does a table that was read before."""
    m = load("import cfg\ndef f(x): return cfg.g(x)\n", cfg="def g(x):\n    y: int = x\n    return y\n")
    kernel = counting(m.f)
    assert kernel(1) == 1
    (tmp_path / "cfg.py").write_text("def g(x):\n    y: float = x\n    return y\n")
    importlib.reload(sys.modules["cfg"])
    assert kernel(1) == 2


def test_modules_imported_inside_are_watched(load: Any) -> None:
    m = load("def f(s):\n    import cfg\n    return cfg.X\n", cfg="X = 1\n")
    kernel = counting(m.f)
    assert kernel(1) == 1
    other = types.ModuleType("cfg")
    other.X = 2  # type: ignore[attr-defined]
    sys.modules["cfg"] = other
    assert kernel(1) == 2


def test_two_compilers_do_not_share(tmp_path: Path) -> None:
    store = kp.Store(tmp_path)
    found = []
    for compile in (lambda s: b"one", lambda s: b"two"):
        found.append(
            kp.jit(_reads_config, compile=compile, load=lambda a: lambda s: a.data, store=store)(Bag(cfg=1))
        )
    assert found == [b"one", b"two"]


def test_the_order_of_hashes_does_not_show(load: Any, tmp_path: Path) -> None:
    import os
    import subprocess

    script = tmp_path / "ordered.py"
    script.write_text(
        textwrap.dedent(
            """
            import keyprint as kp
            class A:
                def aa(self): return self.p
                def bb(self): return self.q
            class B(A):
                def go(self):
                    s = super()
                    return s.aa() + s.bb()
            def f(s): return s.go()
            made = B()
            made.p, made.q = 1, 2
            kp.jit(f, compile=lambda s: print(s.key.hex()) or (lambda s: 1))(made)
            """
        )
    )
    keys = {
        subprocess.run(
            [sys.executable, str(script)], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "1234"
    }  # fmt: skip
    assert len(keys) == 1
