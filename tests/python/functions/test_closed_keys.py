"""Every use of a name or member is followed, counted or refused: programs that found a way past that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from key_cases import Case, check, keys_of, write

# What each program reads in a roundabout way must count; what stands beside it must not.
CASES: dict[str, Case] = {
    "classes that cannot be hashed": Case(
        "class M(type):\n    def __eq__(self, other):\n        return True\nclass K(metaclass=M):\n"
        "    def read(self):\n        return 1\nX = K()\ndef f():\n    return K().read(), X.read(), K\n",
        other=[("return 1", "return 2"), ("return True", "return False")],
        same=[("X = K()", "X = K()\nY = K()")],
    ),
    # -- Methods that are not followed, on objects that are captured
    "UserDict": Case(
        "import collections\nCFG = collections.UserDict(tile=1)\ndef f():\n    return CFG.get('tile')\n",
        other=[("tile=1", "tile=2"), ("UserDict(tile=1)", "UserDict(tile=1, more=2)")],
        same=[("CFG =", "OTHER = 3\nCFG =")],
    ),
    "Fraction": Case(
        "from fractions import Fraction\nX = Fraction(7, 8)\ndef f():\n    return X.limit_denominator(3)\n",
        other=[("7, 8", "1, 8")],
    ),
    "Path": Case(
        "import pathlib\nX = pathlib.PurePath('a/b')\ndef f():\n    return X.with_suffix('.c')\n",
        other=[("a/b", "a/d")],
    ),
    "Template": Case(
        "import string\nX = string.Template('$a')\ndef f():\n    return X.substitute(a=1)\n",
        other=[("'$a'", "'$a!'")],
    ),
    "ConfigParser": Case(
        "import configparser\nX = configparser.ConfigParser()\nX['s'] = {'a': '1'}\n"
        "def f():\n    return X.get('s', 'a')\n",
        other=[("'1'", "'2'")],
    ),
    "inherited method of a Mapping": Case(
        "import collections.abc\nclass T(collections.abc.Mapping):\n    def __init__(self, d):\n        self.d = d\n"
        "    def __getitem__(self, k):\n        return self.d[k]\n    def __iter__(self):\n        return iter(self.d)\n"
        "    def __len__(self):\n        return 1\nX = T({'a': 1})\ndef f():\n    return X.get('a')\n",
        other=[("'a': 1", "'a': 2"), ("self.d[k]", "self.d[k] + 1")],
    ),
    "override of an encoder": Case(
        "import json\nclass E(json.JSONEncoder):\n    def default(self, o):\n        return 1\n"
        "X = E()\ndef f():\n    return X.encode({1j})\n",
        other=[("return 1", "return 2")],
    ),
    "override of a visitor": Case(
        "import ast\nclass V(ast.NodeVisitor):\n    def visit_Name(self, node):\n        return 1\n"
        "X = V()\ndef f():\n    return X.visit(ast.parse('a', mode='eval').body)\n",
        other=[("return 1", "return 2")],
    ),
    "inherited class method": Case(
        "import datetime\nclass D(datetime.date):\n    K = 1\n    def __new__(cls, *a):\n"
        "        return super().__new__(cls, *a)\ndef f():\n    return D.fromisoformat('2020-01-02')\n",
        other=[("K = 1", "K = 2"), ("(cls, *a):\n", "(cls, *a, b=1):\n")],
    ),
    "a logger": Case(
        "import logging\nLOG = logging.getLogger('x')\ndef f():\n    LOG.info('a')\n    return 1\n",
        same=[("LOG =", "logging.getLogger('x').setLevel(10)\nLOG =")],
        other=[("return 1", "return 2")],
    ),
    "the level of a logger": Case(
        "import logging\nLOG = logging.getLogger('x')\ndef f():\n    return LOG.isEnabledFor(20)\n",
        other=[("def f", "LOG.setLevel(10)\ndef f")],
    ),
    # -- Order, and what is inside of containers
    "order of a defaultdict": Case(
        "import collections\nX = collections.defaultdict(int, a=1, b=2)\ndef f():\n    return list(X)\n",
        other=[("a=1, b=2", "b=2, a=1")],
    ),
    "order of a Counter": Case(
        "import collections\nX = collections.Counter({'a': 1, 'b': 1})\ndef f():\n    return X.most_common()\n",
        other=[("{'a': 1, 'b': 1}", "{'b': 1, 'a': 1}")],
    ),
    "order of a dict subclass": Case(
        "class D(dict):\n    pass\nX = D(a=1, b=2)\ndef f():\n    return list(X)\n",
        other=[("a=1, b=2", "b=2, a=1")],
    ),
    "order of attributes": Case(
        "import types\nX = types.SimpleNamespace(a=1, b=2)\ndef f():\n    return repr(X)\n",
        other=[("a=1, b=2", "b=2, a=1")],
    ),
    "order in __dict__": Case(
        "class C:\n    def __init__(self):\n        self.a = 1\n        self.b = 2\nX = C()\ndef f():\n    return list(X.__dict__)\n",
        other=[("self.a = 1\n        self.b = 2", "self.b = 2\n        self.a = 1")],
    ),
    "order of a class": Case(
        "class C:\n    a = 1\n    b = 2\ndef f():\n    return [n for n in vars(C) if n in 'ab']\n",
        other=[("    a = 1\n    b = 2\n", "    b = 2\n    a = 1\n")],
    ),
    "order of a class that nobody asks for": Case(
        "class C:\n    a = 1\n    b = 2\ndef f():\n    return C.a + C.b\n",
        same=[("    a = 1\n    b = 2\n", "    b = 2\n    a = 1\n")],
        other=[("a = 1", "a = 3")],
    ),
    "attributes of a dataclass that are no fields": Case(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\nX = C()\nX.extra = 2\nL = [X]\n"
        "def f():\n    return L[0].extra\n",
        other=[("extra = 2", "extra = 3")],
    ),
    "a method shadowed on an instance": Case(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\n    def m(self):\n        return 1\n"
        "X = C()\nL = [X]\ndef f():\n    return L[0].m()\n",
        other=[("L = [X]", "X.m = lambda: 2\nL = [X]")],
    ),
    "functions in a frozenset": Case(
        "def g():\n    return 1\nS = frozenset([g])\ndef f():\n    return [h() for h in S]\n",
        other=[("return 1", "return 2")],
    ),
    "typecode": Case(
        "import array\nX = array.array('l', [1])\ndef f():\n    return X.typecode\n",
        other=[("'l'", "'q'")],
    ),
    "cause of an exception": Case(
        "X = ValueError('a')\nX.__cause__ = KeyError(1)\ndef f():\n    return repr(X.__cause__)\n",
        other=[("KeyError(1)", "KeyError(2)")],
    ),
    # -- Which objects are the same
    "is": Case(
        "A = [1]\nB = A\ndef f():\n    return A is B\n",
        other=[("B = A", "B = [1]")],
    ),
    "is, inside of containers": Case(
        "A = [1]\nB = {'k': A}\ndef f():\n    return any(v is A for v in B.values())\n",
        other=[("'k': A", "'k': [1]")],
    ),
    "== of objects that compare by identity": Case(
        "class C:\n    pass\nA = C()\nB = [A]\ndef f():\n    return A in B\n",
        other=[("B = [A]", "B = [C()]")],
    ),
    "is not asked": Case(
        "A = [1]\nB = A\ndef f():\n    return A + B\n",
        same=[("B = A", "B = [1]")],
        other=[("A = [1]", "A = [2]")],
    ),
    # -- What classes know
    "metadata of fields": Case(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = dataclasses.field(default=1, metadata={'u': 1})\n"
        "def f():\n    return dataclasses.fields(C)[0].metadata['u']\n",
        other=[("'u': 1", "'u': 2")],
    ),
    "registered classes": Case(
        "import abc\nclass A(abc.ABC):\n    pass\nclass B:\n    pass\nA.register(B)\nX = B()\n"
        "def f():\n    return isinstance(X, A)\n",
        other=[("A.register(B)\n", "")],
    ),
    "registered with the library": Case(
        "import collections.abc\nclass B:\n    pass\ncollections.abc.Sized.register(B)\nX = B()\n"
        "def f():\n    return isinstance(X, collections.abc.Sized)\n",
        other=[("collections.abc.Sized.register(B)\n", "")],
    ),
    "attributes of enum members": Case(
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.note = 1\ndef f():\n    return [m.note for m in E]\n",
        other=[("note = 1", "note = 2")],
    ),
    "a context variable in a class": Case(
        "import contextvars\nclass C:\n    V = contextvars.ContextVar('v', default=1)\ndef f():\n    return C.V.get()\n",
        other=[("default=1", "default=2"), ("def f", "C.V.set(5)\ndef f")],
    ),
    "a weak dictionary in a class": Case(
        "import weakref\nclass K:\n    pass\nKEY = K()\nclass C:\n    W = weakref.WeakKeyDictionary()\nC.W[KEY] = 1\n"
        "def f():\n    return list(C.W.values())\n",
        other=[("C.W[KEY] = 1", "C.W[KEY] = 2")],
    ),
    # -- Text and place
    "documentation of helpers": Case(
        "def g():\n    'One.'\n    return 1\nL = [g]\ndef f():\n    return [h.__doc__ for h in L]\n",
        other=[("One.", "Two.")],
    ),
    "documentation of a method": Case(
        "class O:\n    def m(self):\n        'One.'\ndef f():\n    return O.m.__doc__\n",
        other=[("One.", "Two.")],
    ),
    "inspect.getdoc": Case(
        "import inspect\ndef g():\n    'One.'\n    return 1\ndef f():\n    return inspect.getdoc(g)\n",
        other=[("One.", "Two.")],
    ),
    # -- What was refused without need
    "vars of an object": Case(
        "import types\nX = types.SimpleNamespace(a=1)\ndef f():\n    return vars(X)\n",
        other=[("a=1", "a=2")],
    ),
    "views": Case(
        "X = {'a': 1}.items()\ndef f():\n    return list(X)\n",
        other=[("'a': 1", "'a': 2")],
    ),
    "Struct": Case(
        "import struct\nX = struct.Struct('<i')\ndef f():\n    return X.size\n",
        other=[("'<i'", "'<q'")],
    ),
    "frompyfunc": Case(
        "import numpy as np\ndef g(x):\n    return x + 1\nX = np.frompyfunc(g, 1, 1)\ndef f():\n    return X(3)\n",
        other=[("x + 1", "x + 2")],
    ),
    "isinstance of a member": Case(
        "class C:\n    def __init__(self, n):\n        self.n = n\nX = C(1)\ndef f():\n    return isinstance(X.n, float)\n",
        other=[("C(1)", "C(1.0)")],
        same=[("C(1)", "C(2)")],
    ),
    "a name that is never used": Case(
        "N = 1\ndef f():\n    unused = N\n    return 2\n",
        same=[("N = 1", "N = 3")],
        other=[("return 2", "return 3")],
    ),
    "singledispatch": Case(
        "import functools\n@functools.singledispatch\ndef g(x):\n    return 1\n@g.register(int)\ndef _(x):\n    return 2\n"
        "def f():\n    return g(3)\n",
        other=[("return 2", "return 4"), ("register(int)", "register(str)")],
    ),
}

# Programs that have no key: what they do, and the code of the error.
REFUSED: dict[str, tuple[str, str]] = {
    "environ.get": ("import os\ndef f():\n    return os.environ.get('X')\n", "dynamic-names"),
    "environ[...]": ("import os\ndef f():\n    return os.environ['X']\n", "dynamic-names"),
    "environ in a list": ("import os\nL = [os.environ]\ndef f():\n    return L[0]['X']\n", "dynamic-names"),
    "sys.modules": ("import sys\ndef f():\n    return sys.modules['cfg'].T\n", "dynamic-names"),
    "sys.modules, renamed": (
        "from sys import modules as m\ndef f():\n    return m['cfg'].T\n",
        "dynamic-names",
    ),
    "__globals__.get": ("def h():\n    pass\ndef f():\n    return h.__globals__.get('T')\n", "dynamic-names"),
    "getattr of __globals__": (
        "def h():\n    pass\ndef f():\n    return getattr(h, '__globals__')\n",
        "dynamic-names",
    ),
    "attrgetter of __globals__": (
        "import operator\ndef h():\n    pass\ndef f():\n    return operator.attrgetter('__globals__')(h)\n",
        "dynamic-names",
    ),
    "f_globals": ("import sys\ndef f(frame):\n    return getattr(frame, 'f_globals')\n", "dynamic-names"),
    "eval in a dict": ("D = {'e': eval}\ndef f():\n    return D['e']('T')\n", "dynamic-names"),
    "globals in a tuple": ("D = (globals,)\ndef f():\n    return D[0]()\n", "dynamic-names"),
    "eval as a default": ("def f(e=eval):\n    return e('T')\n", "dynamic-names"),
    "vars without arguments": ("def f():\n    return vars()\n", "dynamic-names"),
    "__subclasses__": ("class C:\n    pass\ndef f():\n    return C.__subclasses__()\n", "dynamic-names"),
    "get_type_hints": (
        "import typing\nclass C:\n    a: 'N'\nN = int\ndef f():\n    return typing.get_type_hints(C)\n",
        "dynamic-names",
    ),
    "getsource": (
        "import inspect\ndef g():\n    pass\ndef f():\n    return inspect.getsource(g)\n",
        "dynamic-names",
    ),
    "co_firstlineno": (
        "def g():\n    pass\ndef f():\n    return g.__code__.co_firstlineno\n",
        "dynamic-names",
    ),
    "tb_lineno": (
        "def f():\n    try:\n        1 / 0\n    except Exception as e:\n        return e.__traceback__.tb_lineno\n",
        "dynamic-names",
    ),
    "a module in a list": (
        "import program\nL = [program]\nT = 1\ndef f():\n    return L[0].T\n",
        "module-value",
    ),
    "a module in a dict": (
        "import program\nL = {'m': program}\nT = 1\ndef f():\n    return L['m'].T\n",
        "module-value",
    ),
    "a module as a default": ("import program\nT = 1\ndef f(m=program):\n    return m.T\n", "module-value"),
    "a module in a partial": (
        "import functools, program\nT = 1\nP = functools.partial(getattr, program)\ndef f():\n    return P('T')\n",
        "module-value",
    ),
    "a module in a closure": (
        "import program\nT = 1\ndef make(m):\n    def f():\n        return [m][0].T\n    return f\nf = make(program)\n",
        "module-value",
    ),
    "an exception that was raised": (
        "try:\n    1 / 0\nexcept Exception as e:\n    X = e\ndef f():\n    return repr(X)\n",
        "unidentified",
    ),
    "a masked array": (
        "import numpy as np\nX = np.ma.masked_equal([1, 2], 2)\ndef f():\n    return X.count()\n",
        "writable-array",
    ),
    "a polynomial": (
        "import numpy as np\nX = np.polynomial.Polynomial([1, 2])\ndef f():\n    return X.degree()\n",
        "writable-array",
    ),
    "a sentinel": ("X = object()\ndef f(a):\n    return a is X\n", "unidentified"),
}


CASES |= {
    # -- What a review found
    "a property that is asked for its type": Case(
        "class C:\n    def __init__(self, v):\n        self._v = v\n    @property\n    def p(self):\n        return self._v\n"
        "X = C(None)\ndef f():\n    return X.p is None\n",
        other=[("C(None)", "C(1)")],
    ),
    "a log under another name": Case(
        "LOG = []\nOTHER = LOG\ndef f():\n    LOG.append(1)\n    return len(OTHER)\n",
        other=[("OTHER = LOG", "OTHER = list(LOG)")],
    ),
    "an object that is written under another name": Case(
        "class C:\n    n = 1\nA = C()\nB = A\ndef f():\n    A.n = 5\n    return B.n\n",
        other=[("B = A", "B = C()")],
    ),
    "a counter that overflows": Case(
        "X = 10.0\ndef f():\n    global X\n    try:\n        X **= 400\n    except OverflowError:\n        return 1\n    return 2\n",
        other=[("10.0", "1.0")],
    ),
    "what is added to an item": Case(
        "class A:\n    def __init__(self, s):\n        self.s = s\n    def __iadd__(self, o):\n        raise ValueError(self.s)\n"
        "D = {'k': A(1)}\ndef f():\n    D['k'] += 1\n",
        other=[("A(1)", "A(2)")],
    ),
    "an import that may fail": Case(
        "def f():\n    try:\n        import fast\n    except ImportError:\n        return 1\n    return 2\n",
        modules={"other": ""},
        other=[{"fast": "X = 1\n"}],
        same=[{"other": "Y = 2\n"}],
    ),
    "annotations that are used": Case(
        "import dataclasses\nclass T:\n    def m(self):\n        return 1\n@dataclasses.dataclass\nclass C:\n    x: T\n"
        "def f():\n    return [q.type().m() for q in dataclasses.fields(C)]\n",
        other=[("return 1", "return 2")],
    ),
    "what enums are mixed with": Case(
        "import enum\nclass E(int, enum.Enum):\n    def __new__(cls, x):\n        o = int.__new__(cls, x * 10)\n        o._value_ = x\n"
        "        return o\n    A = 1\ndef f():\n    return E.A + 0\n",
        other=[("x * 10", "x * 20")],
    ),
    "registered with what derives from it": Case(
        "import abc\nclass A(abc.ABC):\n    pass\nclass S(A):\n    pass\nclass B:\n    pass\nS.register(B)\n"
        "def f():\n    return isinstance(B(), A)\n",
        other=[("S.register(B)\n", "")],
    ),
    "a method that is bound": Case(
        "class C:\n    def __init__(self, n):\n        self.n = n\n    def m(self):\n        return self.n\nf = C(1).m\n",
        other=[("C(1)", "C(2)"), ("return self.n", "return -self.n")],
    ),
    "methods that dataclasses write": Case(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\ndef f():\n    return C() == C()\n",
        other=[("def f", "del C.__eq__\ndef f")],
    ),
    "slots under other names": Case(
        "class C:\n    __slots__ = ('x', 'y')\n    def __init__(self):\n        self.x, self.y = 1, 2\nC.first = C.x\n"
        "def f():\n    return C().first\n",
        other=[("C.first = C.x", "C.first = C.y")],
    ),
    "protocols that are checked": Case(
        "import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n    def m(self): ...\ndef f():\n    return isinstance(3, P)\n",
        other=[("@typing.runtime_checkable\n", "")],
    ),
    "names that are read": Case(
        "def g():\n    pass\ng.__name__ = 'a'\nH = [g]\ndef f():\n    return [h.__name__ for h in H]\n",
        other=[("'a'", "'b'")],
    ),
    "classes that no module has": Case(
        "ns = {}\nexec('class C:\\n def m(self): return 1', ns)\nC = ns['C']\ndef f():\n    return C().m()\n",
        other=[("return 1", "return 2")],
    ),
    "a proxy": Case(
        "class P:\n    def __init__(self, t):\n        self.t = t\n    __class__ = property(lambda self: self.t.__class__)\n"
        "X = P(1)\ndef f():\n    return isinstance(X, int)\n",
        other=[("P(1)", "P('a')")],
    ),
    "documentation of what is nested": Case(
        "def f():\n    def g():\n        'One.'\n    return g.__doc__\n",
        other=[("One.", "Two.")],
    ),
    "operator.is_": Case(
        "import operator\nA = [1]\nB = A\ndef f():\n    return operator.is_(A, B)\n",
        other=[("B = A", "B = [1]")],
    ),
    "a name that is deleted": Case(
        "X = 1\ndef f():\n    global X\n    try:\n        del X\n    except NameError:\n        return 1\n    return 2\n",
        other=[("X = 1\n", "")],
    ),
    "postponed annotations": Case(
        "def f():\n    def g(x: int): pass\n    return g.__annotations__\n",
        other=[("def f", "from __future__ import annotations\ndef f")],
    ),
    "validators of pydantic": Case(
        "import pydantic\nclass I(pydantic.BaseModel):\n    n: int = 1\nclass C(pydantic.BaseModel):\n    i: I\n    _p: int = pydantic.PrivateAttr(1)\n"
        "def f():\n    return C(i={})\n",
        other=[("n: int = 1", "n: int = 2"), ("PrivateAttr(1)", "PrivateAttr(2)")],
    ),
    "state of a thread": Case(
        "import threading\nL = threading.local()\nL.x = 1\ndef f():\n    return L.x\n",
        other=[("L.x = 1", "L.x = 2")],
    ),
    "members of native classes": Case(
        "import re\nX = re.compile('a')\ndef f():\n    return X.pattern\n",
        other=[("'a'", "'b'")],
    ),
    "members of a partial": Case(
        "import functools\nX = functools.partial(max, 1)\ndef f():\n    return X.args\n",
        other=[("max, 1", "max, 2")],
    ),
    "slots that are not set": Case(
        "class C:\n    __slots__ = ('a', 'b')\nX = C()\nX.a = 1\ndef f():\n    return getattr(X, 'b', 0)\n",
        other=[("X.a = 1", "X.b = 1")],
        same=[("X.a = 1", "X.a = 2")],
    ),
    "a module that is written to": Case(
        "import program\nN = 1\nM = 2\ndef f():\n    program.N = 5\n    return M\n",
        other=[("M = 2", "M = 3")],
        same=[("N = 1", "N = 4")],
    ),
}

REFUSED |= {
    "byte code that reads anything": (
        "ns = {}\nexec('def h(): pass\\ndef g(): return h.__globals__[\"K\"]\\nK = 1', ns)\ng = ns['g']\ndef f():\n    return g()\n",
        "dynamic-names",
    ),
    "a getter of the names of a function": (
        "import operator\nG = operator.attrgetter('__globals__')\ndef g():\n    pass\ndef f():\n    return G(g)['K']\n",
        "dynamic-names",
    ),
    "a text that names them": (
        "N = '__globals__'\ndef g():\n    pass\ndef f():\n    return getattr(g, N)\n",
        "dynamic-names",
    ),
    "the way a module reads": (
        "import program\nX = 1\ndef f():\n    return program.__getattribute__('X')\n",
        "dynamic-names",
    ),
    "a class without end": (
        "C = type('C', (), {})\nfor _ in range(1500):\n    C = type('C', (C,), {'m': C})\ndef f():\n    return C()\n",
        "unidentified",
    ),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    here = tmp_path_factory.mktemp("here") / "checkout"
    there = tmp_path_factory.mktemp("there") / "another" / "checkout"
    for name, (program, _) in REFUSED.items():
        write(here / f"refused {name}", {"program": program})
    return keys_of(CASES, here, there)


@pytest.mark.parametrize("name", CASES)
def test_key(keys: dict[str, str], name: str) -> None:
    check(name, CASES[name], keys)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(keys: dict[str, str], name: str) -> None:
    assert keys[f"refused {name}"] == f"error {REFUSED[name][1]}"


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "program": "class C:\n    def read(self):\n        return getattr(self, '__annotations__', 0)\n"
            "def f():\n    return sorted(vars(C)), C().read()\n"
        },
    )
    code = (
        "import program, keyprint as kp\nbefore = sorted(vars(program.C))\nkp.FunctionKey(program.f)\n"
        "assert sorted(vars(program.C)) == before\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
