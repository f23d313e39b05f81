"""What changes the key of a function, and what does not: in fresh processes, from different directories."""

from __future__ import annotations

import pytest

from key_cases import Case, check, keys_of, write

CASES: dict[str, Case] = {
    "body": Case(
        "def f(x):\n    return x + 1\n",
        same=[
            ("return x + 1", "return (x\n        + 1)  # comment"),
            ("def f", "# a comment\n\n\nY = 2\ndef f"),
            ("    return", "    'A docstring.'\n\n    return"),
            ("def f", "def g(): pass\n\n\ndef f"),
            ("\n", "\r\n"),
        ],
        other=[("x + 1", "x + 2"), ("x + 1", "x - 1"), ("x + 1", "1 + x"), ("(x)", "(x, y=1)")],
    ),
    "signature": Case(
        "def f(a, b=1, *, c: int = 2) -> float:\n    d: int = a\n    return d\n",
        same=[("a, b=1", "a,b = 1")],
        other=[
            ("b=1", "b=3"),
            ("= 2", "= 3"),
            ("c: int", "c: float"),
            ("-> float", "-> int"),
            ("d: int", "d: float"),
            ("*, ", ""),
        ],
    ),
    "default values": Case(
        "N = [1]\ndef f(a=N, b=lambda x: x + 1):\n    return a\n",
        same=[("N = [1]", "N = [1]  # that"), ("x: x + 1", "x: (x + 1)")],
        other=[("N = [1]", "N = [2]"), ("x + 1", "x + 2")],
    ),
    "decorators": Case(
        "def noted(tag):\n    return lambda f: f\n\n@noted(1)\ndef f(x):\n    return x\n",
        same=[("@noted(1)", "@noted( 1 )  # so"), ("lambda f: f", "lambda g: g")],
        other=[("@noted(1)", "@noted(2)"), ("@noted(1)\n", ""), ("@noted(1)\n", "@noted(1)\n@noted(1)\n")],
    ),
    "compiling decorator": Case(
        "def compiled(fast=False):\n    return lambda f: f\n\nOPTIONS = {'compiled_by': [compiled]}\n"
        "@compiled(fast=True)\ndef f(x):\n    return x\n",
        same=[("fast=True", "fast=False"), ("@compiled(fast=True)\n", "")],
        other=[("@compiled", "@staticmethod\n@compiled"), ("return x", "return -x")],
    ),
    "attributes that decorators leave": Case(
        "def tiled(n):\n    def set(f):\n        f.tile = SIZE\n        return f\n    return set\n\nSIZE = 4\n"
        "@tiled(1)\ndef f(x):\n    return x\n",
        same=[("SIZE = 4", "SIZE = 2 + 2")],
        other=[("SIZE = 4", "SIZE = 5")],
    ),
    "wrapping decorator": Case(
        "import functools\ndef wrapping(g):\n    @functools.wraps(g)\n    def wrapper(*a):\n        return g(*a) + 1\n"
        "    return wrapper\n\n@wrapping\ndef f(x):\n    return x\n",
        same=[("g(*a) + 1", "(g(*a) + 1)")],
        other=[("g(*a) + 1", "g(*a) + 2"), ("return x", "return -x")],
    ),
    "helper by global name": Case(
        "def g(x):\n    return h(x)\n\ndef h(x):\n    return x\n\ndef f(x):\n    return g(x)\n",
        same=[("def h", "\n\n# moved\ndef h"), ("def f", "def unused(x):\n    return 1\n\ndef f")],
        other=[("return x\n", "return -x\n"), ("return h(x)", "return h(-x)")],
    ),
    "helper in a module": Case(
        "import tools\ndef f(x):\n    return tools.g(x)\n",
        modules={"tools": "def g(x):\n    return x\n\ndef unused(x):\n    return x\n"},
        same=[("unused(x):\n    return x", "unused(x):\n    return 1"), ("def g", "# here\ndef g")],
        other=[("def g(x):\n    return x", "def g(x):\n    return 2 * x")],
    ),
    "helper in a package": Case(
        "import pkg.deep.tools\ndef f(x):\n    return pkg.deep.tools.g(x)\n",
        modules={"pkg/__init__": "", "pkg/deep/__init__": "", "pkg/deep/tools": "def g(x):\n    return x\n"},
        same=[{"pkg/__init__": "Y = 1\n"}],
        other=[{"pkg/deep/tools": "def g(x):\n    return 2 * x\n"}],
    ),
    "imported under another name": Case(
        "from tools import g as tool\ndef f(x):\n    return tool(x)\n",
        modules={"tools": "def g(x):\n    return x\n"},
        other=[{"tools": "def g(x):\n    return 2 * x\n"}],
        same=[{"tools": "def g(x):\n    # that\n    return x\n"}],
    ),
    "star import": Case(
        "from tools import *\ndef f(x):\n    return g(x) + N\n",
        modules={"tools": "N = 1\nM = 2\ndef g(x):\n    return x\n"},
        same=[("M = 2", "M = 3")],
        other=[("N = 1", "N = 3"), ("return x\n", "return -x\n")],
    ),
    "import inside": Case(
        "def f(x):\n    import tools\n    from tools import M as m\n    return tools.N + m\n",
        modules={"tools": "N = 1\nM = 2\nK = 3\n"},
        same=[("K = 3", "K = 4")],
        other=[("N = 1", "N = 5"), ("M = 2", "M = 5")],
    ),
    "conditional import": Case(
        "try:\n    import no_such_module as tools\nexcept ImportError:\n    import tools\n"
        "def f(x):\n    return tools.N\n",
        modules={"tools": "N = 1\n"},
        other=[{"tools": "N = 2\n"}, {"no_such_module": "N = 1\n"}],
        same=[{"tools": "N = 1\nM = 1\n"}],
    ),
    "global": Case(
        "TILE = 64\nOTHER = 1\ndef f(x):\n    return x * TILE\n",
        same=[("TILE = 64", "TILE = 32 * 2"), ("OTHER = 1", "OTHER = 2")],
        other=[("TILE = 64", "TILE = 128"), ("TILE = 64", "TILE = 64.0"), ("TILE = 64", "TILE = True")],
    ),
    "global of a helper": Case(
        "TILE = 64\ndef g(x):\n    return x * TILE\ndef f(x):\n    return g(x)\n",
        other=[("TILE = 64", "TILE = 128")],
        same=[("TILE = 64", "TILE = 0x40")],
    ),
    "same name in two modules": Case(
        "import tools\nN = 1\ndef f(x):\n    return N + tools.g(x)\n",
        modules={"tools": "N = 2\ndef g(x):\n    return N\n"},
        other=[{"tools": "N = 1\ndef g(x):\n    return N\n"}, ("N = 1", "N = 2")],
        same=[{"tools": "N = 1 + 1\ndef g(x):\n    return N\n"}],
    ),
    "module attribute": Case(
        "import config\ndef f(x):\n    return x * config.TILE\n",
        modules={"config": "TILE = 64\nOTHER = object()\n"},
        same=[("OTHER = object()", "OTHER = open"), ("TILE = 64", "TILE = 32 + 32")],
        other=[("TILE = 64", "TILE = 65")],
    ),
    "nested attribute": Case(
        "import config\ndef f(x):\n    return x * config.sizes.inner.TILE\n",
        modules={
            "config": "import types\nsizes = types.SimpleNamespace(inner=types.SimpleNamespace(TILE=64), b=2)\n"
        },
        other=[("TILE=64", "TILE=65")],
        same=[("import types", "import types  # that")],
    ),
    "instance member": Case(
        "class Config:\n    def __init__(self):\n        self.tile = 64\n        self.junk = object()\n"
        "CFG = Config()\ndef f(x):\n    return x * CFG.tile\n",
        same=[("object()", "open"), ("self.junk = object()", "self.junk = lambda: 1")],
        other=[("tile = 64", "tile = 65")],
    ),
    "method of an instance": Case(
        "class Config:\n    scale = 2\n    def __init__(self):\n        self.tile = 64\n        self.junk = object()\n"
        "    def size(self):\n        return self.tile * self.scale\n    def other(self):\n        return 1\n"
        "CFG = Config()\ndef f(x):\n    return x * CFG.size()\n",
        same=[("return 1", "return 2")],
        other=[("tile = 64", "tile = 65"), ("scale = 2", "scale = 3"), ("tile * self", "tile + self")],
    ),
    "class attribute": Case(
        "class Base:\n    TILE = 64\nclass Config(Base):\n    OTHER = 1\ndef f(x):\n    return x * Config.TILE\n",
        same=[("OTHER = 1", "OTHER = 2")],
        other=[("TILE = 64", "TILE = 65"), ("OTHER = 1", "TILE = 66")],
    ),
    "static and class methods": Case(
        "class T:\n    N = 1\n    @staticmethod\n    def s(x):\n        return x\n"
        "    @classmethod\n    def c(cls, x):\n        return cls.N\n    def unused(self):\n        return 1\n"
        "def f(x):\n    return T.s(x) + T.c(x)\n",
        same=[("return 1", "return 2")],
        other=[("return x", "return -x"), ("return cls.N", "return -cls.N"), ("N = 1", "N = 2")],
    ),
    "class that is called": Case(
        "class P:\n    W = 1\n    def __init__(self, x):\n        self.x = x\n    def area(self):\n        return self.x\n"
        "def f(x):\n    return P(x).area()\n",
        same=[("class P:", "class P:\n    'Doc.'\n")],
        other=[("return self.x", "return -self.x"), ("self.x = x", "self.x = -x"), ("W = 1", "W = 2")],
    ),
    "dataclass that is called": Case(
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: int = 0\ndef f(x):\n    return P(x).y\n",
        same=[("class P:", "class P:\n    'Doc.'\n")],
        other=[("y: int = 0", "y: int = 1"), ("y: int", "y: float")],
    ),
    "property of an instance": Case(
        "class C:\n    def __init__(self):\n        self.n = 1\n    @property\n    def size(self):\n        return self.n\n"
        "CFG = C()\ndef f(x):\n    return CFG.size\n",
        other=[("return self.n", "return self.n + 1"), ("self.n = 1", "self.n = 2")],
        same=[("class C:", "class C:\n    'Doc.'\n")],
    ),
    "containers": Case(
        "CFG = {'a': [1, 2], 'b': {3}}\ndef f(x):\n    return CFG['a'][0]\n",
        same=[("{'a': [1, 2], 'b': {3}}", "dict(a=[1, 2], b={3})")],
        other=[
            ("{'a': [1, 2], 'b': {3}}", "{'b': {3}, 'a': [1, 2]}"),
            ("[1, 2]", "[2, 1]"),
            ("{3}", "{4}"),
            ("'b'", "'c'"),
        ],
    ),
    "functions in containers": Case(
        "def g(x):\n    return x\ndef h(x):\n    return -x\nOPS = {'a': g, 'b': h}\ndef f(x):\n    return OPS['a'](x)\n",
        other=[("return x\n", "return 2 * x\n"), ("'a': g, 'b': h", "'a': h, 'b': g")],
        same=[("return x\n", "return x  # it\n")],
    ),
    "which function a name means": Case(
        "def g(x):\n    return x\ndef h(x):\n    return -x\na, b = g, h\ndef f(x):\n    return a(x) - b(x)\n",
        other=[("a, b = g, h", "a, b = h, g")],
        same=[("a, b = g, h", "(a, b) = (g, h)")],
    ),
    "closure": Case(
        "def make(n, m):\n    def f(x):\n        return x + n\n    return f\nf = make(1, 2)\n",
        same=[("make(1, 2)", "make(1, 3)"), ("make(n, m)", "make(n, other)")],
        other=[("make(1, 2)", "make(2, 2)")],
    ),
    "closure function": Case(
        "def make(g):\n    def f(x):\n        return g(x)\n    return f\nf = make(lambda x: x + 1)\n",
        other=[("x + 1", "x + 2")],
        same=[("lambda x: x + 1", "lambda x: (x + 1)")],
    ),
    "partial": Case(
        "import functools\ndef g(a, x):\n    return a + x\nh = functools.partial(g, 1)\ndef f(x):\n    return h(x)\n",
        other=[("g, 1", "g, 2"), ("return a + x", "return a - x")],
        same=[("return a + x", "return (a + x)")],
    ),
    "cached helper": Case(
        "import functools\n@functools.lru_cache\ndef g(x):\n    return x\ndef f(x):\n    return g(x)\n",
        other=[("return x\n", "return -x\n")],
        same=[("def g", "# that\ndef g")],
    ),
    "bound method as a value": Case(
        "class C:\n    def __init__(self, n):\n        self.n = n\n    def g(self, x):\n        return x + self.n\n"
        "h = C(1).g\ndef f(x):\n    return h(x)\n",
        other=[("C(1)", "C(2)"), ("x + self.n", "x - self.n")],
        same=[("class C:", "class C:\n    'Doc.'")],
    ),
    "recursion": Case(
        "def f(x):\n    return x if x < 1 else g(x - 1)\ndef g(x):\n    return f(x) + 1\n",
        other=[("f(x) + 1", "f(x) + 2")],
        same=[("f(x) + 1", "(f(x) + 1)")],
    ),
    "nested function": Case(
        "N = 1\ndef f(x):\n    def g(y):\n        return y + x + N\n    return g(x)\n",
        other=[("N = 1", "N = 2"), ("y + x", "y - x")],
        same=[("def g(y)", "def g( y )")],
    ),
    "comprehension, walrus, match": Case(
        "N, M, K = 1, 2, 3\ndef f(x):\n    y = [(z := i + N) for i in x if i > M]\n    match x:\n"
        "        case [a] if a > K: return a\n    return y\n",
        other=[("N, M, K = 1, 2, 3", "N, M, K = 1, 2, 4"), ("1, 2, 3", "1, 3, 3"), ("1, 2, 3", "0, 2, 3")],
        same=[("N, M, K = 1, 2, 3", "i, z, a = 7, 8, 9\nN, M, K = 1, 2, 3")],
    ),
    "shadowed global": Case(
        "N = 1\ndef f(N):\n    return N\n",
        same=[("N = 1", "N = 2")],
        other=[("def f(N)", "def f(M)")],
    ),
    "global statement": Case(
        "N = 1\ndef f(x):\n    global N\n    return N\n",
        other=[("N = 1", "N = 2")],
        same=[("N = 1", "N = 2 - 1")],
    ),
    "builtins that are hidden": Case(
        "def f(x):\n    return len(x)\n",
        other=[("def f", "def len(x):\n    return 1\ndef f")],
        same=[("def f", "def max(x):\n    return 1\ndef f")],
    ),
    "a name that is missing": Case(
        "def f(x):\n    return NOWHERE\n",
        other=[("def f", "NOWHERE = 1\ndef f")],
        same=[("def f", "OTHER = 1\ndef f")],
    ),
    "module that makes names up": Case(
        "import config\ndef f(x):\n    return config.TILE\n",
        modules={"config": "N = 1\ndef __getattr__(name):\n    return 64\n"},
        other=[("return 64", "return 65")],
        same=[("N = 1", "N = 2")],
    ),
    "annotation by alias": Case(
        "real = float\ndef f(x: real) -> 'real':\n    return x\n",
        other=[("real = float", "real = int")],
        same=[("real = float", "real = (float)")],
    ),
    "postponed annotation": Case(
        "from __future__ import annotations\nreal = float\ndef f(x: real):\n    return x\n",
        other=[("real = float", "real = int")],
        same=[("real = float", "real = (float)")],
    ),
    "annotation class": Case(
        "class State:\n    x: int\n    def m(self):\n        return 1\ndef f(s: State):\n    return s.x\n",
        other=[("x: int", "x: float")],
        same=[("return 1", "return 2")],
    ),
    "read-only array": Case(
        "import numpy as np\nA = np.arange(3)\nA.flags.writeable = False\ndef f(x):\n    return A\n",
        other=[("arange(3)", "arange(4)")],
        same=[("arange(3)", "array([0, 1, 2])")],
    ),
    "enum": Case(
        "import enum\nclass Mode(enum.Enum):\n    A = 1\n    B = 2\nMODE = Mode.A\ndef f(x):\n    return MODE is Mode.A\n",
        other=[("MODE = Mode.A", "MODE = Mode.B"), ("A = 1", "A = 3")],
        same=[("class Mode(enum.Enum):", "class Mode(enum.Enum):\n    'Doc.'")],
    ),
    "super": Case(
        "class A:\n    def g(self):\n        return 1\nclass B(A):\n    def g(self):\n        return super().g() + 1\n"
        "OBJ = B()\ndef f(x):\n    return OBJ.g()\n",
        other=[("return 1\n", "return 2\n"), ("g() + 1", "g() + 2")],
        same=[("class A:", "class A:\n    'Doc.'")],
    ),
    "code without source": Case(
        "N = 1\nscope = {'N': N, '__name__': 'made'}\nexec('def f(x):\\n    return x + N + len(x)', scope)\nf = scope['f']\n",
        other=[("N = 1", "N = 2"), ("x + N", "x - N")],
        same=[("N = 1", "N = 2 - 1"), ("    return", "     return")],
    ),
    "lambdas in one line": Case(
        "f, g = (lambda x: x + 1), (lambda x: x + 2)\n",
        other=[("x + 1", "x + 3")],
        same=[("x + 2", "x + 4")],
    ),
    "what is ignored": Case(
        "import threading\nLOCK = threading.Lock()\nN = 1\nOPTIONS = {'ignore': ['program.LOCK', 'program.N']}\n"
        "def f(x):\n    with LOCK:\n        return N\n",
        same=[("N = 1", "N = 2"), ("threading.Lock()", "threading.RLock()")],
        other=[("return N", "return -N")],
    ),
    "location": Case(
        "OPTIONS = {'locations': True}\ndef f(x):\n    return x\n",
        other=[("def f", "\ndef f"), ("return x", "return  x")],
    ),
    "policy": Case(
        "import keyprint as kp, tools\nOPTIONS = {'packages': kp.Packages(outside={'tools': '1.0'})}\n"
        "def f(x):\n    return tools.g(x)\n",
        modules={"tools": "def g(x):\n    return x\n"},
        same=[("return x\n", "return -x\n")],
        other=[("'1.0'", "'1.1'")],
    ),
    "private members": Case(
        "class C:\n    def __init__(self):\n        self.__n = 1\n    def g(self):\n        return self.__n\n"
        "OBJ = C()\ndef f(x):\n    return OBJ.g()\n",
        other=[("__n = 1", "__n = 2")],
        same=[("class C:", "class C:\n    'Doc.'")],
    ),
    "slots": Case(
        "class C:\n    __slots__ = ('n', 'm')\n    def __init__(self):\n        self.n, self.m = 1, object()\n"
        "OBJ = C()\ndef f(x):\n    return OBJ.n\n",
        other=[("self.m = 1,", "self.m = 2,")],
        same=[("object()", "open")],
    ),
    "value handed to a helper": Case(
        "class C: pass\nOBJ = C()\nOBJ.n, OBJ.m = 1, object()\ndef g(c):\n    return c.n\ndef f(x):\n    return g(OBJ)\n",
        other=[("OBJ.m = 1,", "OBJ.m = 2,"), ("return c.n", "return -c.n")],
        same=[("object()", "open")],
    ),
    "another kernel": Case(
        "import keyprint as kp\nN = 1\ndef compile(spec):\n    return lambda x: x\n"
        "@kp.jit(compile=compile)\ndef g(x):\n    return x + N\n"
        "@kp.jit(compile=compile)\ndef f(x):\n    return g(x)\n",
        other=[("x + N", "x - N"), ("N = 1", "N = 2")],
        same=[("lambda x: x", "(lambda x: x)")],
    ),
    "kernels that call each other": Case(
        "import keyprint as kp\ndef compile(spec):\n    return lambda x: x\n"
        "@kp.jit(compile=compile)\ndef g(x):\n    return f(x) + 1\n"
        "@kp.jit(compile=compile)\ndef f(x):\n    return g(x)\n",
        other=[("f(x) + 1", "f(x) + 2")],
        same=[("f(x) + 1", "(f(x) + 1)")],
    ),
    "options of another kernel": Case(
        "import keyprint as kp\ndef compile(spec):\n    return lambda x: x\n"
        "def g(x):\n    return x\ng = kp.jit(g, compile=compile, static=['x'])\ndef f(x):\n    return g(x)\n",
        other=[(", static=['x']", "")],
        same=[("static=['x']", "static=('x',)")],
    ),
    "monkey patch": Case(
        "import tools\ndef mine(x):\n    return 3\ndef f(x):\n    return tools.g(x)\n",
        modules={"tools": "def g(x):\n    return x\n"},
        other=[("def f", "tools.g = mine\ndef f")],
        same=[("return 3", "return 4")],
    ),
}

# Programs that have no key, and why.
REFUSED: dict[str, tuple[str, str]] = {
    "generator": ("MADE = (i for i in [])\ndef f(x):\n    return list(MADE)\n", "unidentified"),
    "array": ("import numpy as np\nA = np.zeros(3)\ndef f(x):\n    return A\n", "writable-array"),
    "array in a list": ("import numpy as np\nA = [np.zeros(3)]\ndef f(x):\n    return A\n", "writable-array"),
    "view": (
        "import numpy as np\nB = np.zeros(3)\nA = B[:]\nA.flags.writeable = False\ndef f(x):\n    return A\n",
        "writable-array",
    ),
    "array in a class": (
        "import numpy as np\nclass C:\n    A = np.zeros(3)\ndef f(x):\n    return C(x)\n",
        "writable-array",
    ),
    "globals": ("def f(x):\n    return globals()['N']\n", "dynamic-names"),
    "eval": ("def f(x):\n    return eval('N')\n", "dynamic-names"),
    "exec": ("def g(x):\n    exec('N')\ndef f(x):\n    return g(x)\n", "dynamic-names"),
    "module as a value": ("import program\ndef f(x):\n    return getattr(program, x)\n", "module-value"),
    "local class": (
        "def make():\n    class C: pass\n    return C()\nOBJ = make()\ndef f(x):\n    return OBJ == x\n",
        "unidentified",
    ),
    "no function": ("f = 3\n", "no-function"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The keys of all programs."""
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


def test_every_case_has_edits() -> None:
    for name, case in CASES.items():
        assert case.other, name
        assert case.same or name == "location", name
