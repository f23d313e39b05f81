"""Programs that were made to get a stale executable, or to crash; each was once a way to do so."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_kernels import Bag, counting, reads_config

import keyprint as kp

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
    instance = m.S()
    instance.grid = Bag(dx=1, unread=object())
    assert kernel(instance) == 1
    instance.grid = Bag(dx=2)
    assert kernel(instance) == 2


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
            numbers = [kernel(Bag(x=1)), kernel(Bag(x=2))]
        except kp.SignatureError as error:
            # Where nothing tells which members are read, all of them are.
            assert "has no cache signature" in str(error)
        else:
            assert numbers == [1, 2]


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
    instance = m.S()
    instance.inner, instance.grid = Bag(a=1, b=2, c=3, d=object()), Bag(dx=1, unread=object())
    kernel = counting(m.f)
    assert kernel(instance) == 1
    for at, member in enumerate("abc"):
        before = getattr(instance.inner, member)
        setattr(instance.inner, member, 10)
        assert kernel(instance) == at + 2
        setattr(instance.inner, member, before)
        assert kernel(instance) == 1
    kernel = counting(m.g)
    assert kernel(instance) == 1
    instance.grid.dx = 2
    assert kernel(instance) == 2
    instance.grid.unread = 1
    assert kernel(instance) == 2


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
    instance = m.S()
    for at in range(1, 1300):
        m.S.K = at
        instance.m()
    for function, argument in ((m.f, instance), (m.g, 1)):
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
        kernel = counting(reads_config)
        owner = Owner()
        assert kernel(owner) == 1
        Owner.cfg = Config(2)
        assert kernel(owner) == 2
    finally:
        del globals()["Config"]


def test_slots_beside_a_dict(load: Any) -> None:
    m = load(
        "class B:\n    __slots__ = ('a',)\nclass S(B): pass\ndef f(s): return s.a\ndef g(s): return (s.a, s.x1)\n"
    )
    for function in (m.f, m.g):
        kernel = counting(function)
        instance = m.S()
        instance.a = 1
        for at in range(40):
            setattr(instance, f"x{at}", at)
        assert [kernel(instance), kernel(instance)] == [1, 1]
        instance.a = 2
        assert kernel(instance) == 2
        instance.a = 1
        assert kernel(instance) == 1
        instance.a = np.zeros(2)
        assert kernel(instance) == 3
        instance.a = np.zeros(2, "f4")
        assert kernel(instance) == 4


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
