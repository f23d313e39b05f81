"""Idioms of programs: definitions, an expression that makes something of them, and ways to read and change it.

``N`` in a name is replaced by a number, so that idioms can be combined. Edits change whatever they find.
"""

from __future__ import annotations

#: Definitions, expression, reads, changes in place.
IDIOMS: list[tuple[str, str, list[str], list[str]]] = [
    (
        "class MetaN(type):\n    tag = 3\n    def __call__(cls, *a):\n        made = super().__call__(*a)\n        made.extra = cls.tag\n        return made\n"
        "class KN(metaclass=MetaN):\n    def __init__(self, x=1):\n        self.x = x\n",
        "KN",
        ["{v}(2).extra", "{v}.tag", "{v}(5).x", "type({v}).__name__"],
        ["type({v}).tag = 9"],
    ),
    (
        "class DescN:\n    def __init__(self, k):\n        self.k = k\n    def __get__(self, obj, owner=None):\n        return (self.k, 4)\n"
        "class HN:\n    d = DescN(7)\n",
        "HN()",
        ["{v}.d", "type({v}).d", "getattr({v}, 'd')"],
        ["vars(type({v}))['d'].k = 8"],
    ),
    (
        "class BaseN:\n    found = []\n    def __init_subclass__(cls, tag=2, **k):\n        super().__init_subclass__(**k)\n        cls.tag = tag\n        BaseN.found.append(cls.__name__)\n"
        "class SubN(BaseN, tag=5):\n    pass\n",
        "SubN",
        ["{v}.tag", "BaseN.found", "len(BaseN.found)", "{v}.__mro__[1].__name__"],
        ["BaseN.found.append('late')", "{v}.tag = 11"],
    ),
    (
        "import abc\nclass AN(abc.ABC):\n    @abc.abstractmethod\n    def go(self):\n        return 1\n    def twice(self):\n        return self.go() * 2\n"
        "class BN(AN):\n    def go(self):\n        return super().go() + 3\nclass ON:\n    pass\nAN.register(ON)\n",
        "BN()",
        ["{v}.twice()", "isinstance({v}, AN)", "isinstance(ON(), AN)", "issubclass(ON, AN)", "{v}.go()"],
        ["AN.twice = lambda self: 'patched'", "AN.register(int)"],
    ),
    (
        "@typing.runtime_checkable\nclass PN(typing.Protocol):\n    def size(self): ...\nclass QN:\n    def size(self):\n        return 3\n",
        "QN()",
        ["isinstance({v}, PN)", "{v}.size()", "isinstance(3, PN)"],
        ["del QN.size"],
    ),
    (
        "@functools.total_ordering\nclass ON:\n    def __init__(self, k):\n        self.k = k\n    def __lt__(self, other):\n        return self.k < other.k\n    def __eq__(self, other):\n        return self.k == other.k\n    def __hash__(self):\n        return hash(self.k)\n",
        "[ON(3), ON(1), ON(2)]",
        ["[x.k for x in sorted({v})]", "max({v}).k", "{v}[0] >= {v}[1]", "len({*{v}})", "{v}.index(ON(2))"],
        ["{v}[0].k = 0", "ON.__lt__ = lambda self, other: self.k > other.k"],
    ),
    (
        "import contextlib\nLIMN = 3\n@contextlib.contextmanager\ndef cmN(k):\n    yield k + LIMN\n",
        "cmN",
        ["[y for y in [0] for z in [{v}(1)] if z is not None]", "entered({v}(2))"],
        ["globals()['LIMN'] = 10"],
    ),
    (
        "def outerN(k):\n    count = k\n    def step(d=2):\n        nonlocal count\n        count += d\n        return count\n    return step\n",
        "outerN",
        ["{v}(1)()", "[g() for g in [{v}(2)] for _ in range(2)]"],
        ["{v}.__defaults__ = (5,)"],
    ),
    (
        "class NodeN:\n    def __init__(self, v, kids=()):\n        self.v = v\n        self.kids = list(kids)\n    def __iter__(self):\n        yield self.v\n        for kid in self.kids:\n            yield from kid\n",
        "NodeN(1, [NodeN(2), NodeN(3, [NodeN(4)])])",
        ["list({v})", "sum({v})", "{v}.kids[1].kids[0].v", "len({v}.kids)"],
        ["{v}.kids.pop()", "{v}.kids[0].v = 9", "NodeN.__iter__ = lambda self: iter([0])"],
    ),
    (
        "def matchN(x):\n    match x:\n        case {'k': int(n)}:\n            return ('int', n)\n        case [1, *rest]:\n            return rest\n        case str() as s:\n            return s * 2\n        case _:\n            return 'other'\n",
        "matchN",
        ["{v}({'k': 3})", "{v}([1, 2])", "{v}('ab')", "{v}(None)"],
        [],
    ),
    (
        "class ErrN(ValueError):\n    code = 4\n    def __str__(self):\n        return f'err {self.code}'\ndef riskyN(x):\n    try:\n        if x > 1:\n            raise ErrN('bad')\n        return x\n    except ValueError as error:\n        return str(error)\n    finally:\n        x += 1\n",
        "riskyN",
        ["{v}(1)", "{v}(5)", "[{v}(k) for k in (0, 3)]"],
        ["ErrN.code = 7"],
    ),
    (
        "class VecN:\n    def __init__(self, *c):\n        self.c = c\n    def __add__(self, other):\n        return VecN(*(a + b for a, b in zip(self.c, other.c)))\n    def __radd__(self, other):\n        return self if other == 0 else NotImplemented\n    def __mul__(self, k):\n        return VecN(*(a * k for a in self.c))\n    __rmul__ = __mul__\n    def __repr__(self):\n        return f'V{self.c}'\n    def __abs__(self):\n        return sum(map(abs, self.c))\n    def __matmul__(self, o):\n        return sum(a * b for a, b in zip(self.c, o.c))\n",
        "VecN(1, 2)",
        ["repr({v} + {v})", "repr(3 * {v})", "abs({v})", "{v} @ {v}", "repr(sum([{v}, {v}]))", "f'{{v}!r}'"],
        ["{v}.c = (5, 6)", "VecN.__mul__ = lambda self, k: 0"],
    ),
    (
        "REGN = {}\ndef registerN(name):\n    def deco(fn):\n        REGN[name] = fn\n        return fn\n    return deco\n@registerN('a')\ndef aN(x):\n    return x + 1\n@registerN('b')\ndef bN(x):\n    return x * 2\n",
        "REGN",
        ["{v}['a'](3)", "[name for name in {v}]", "{n: g(2) for n, g in {v}.items()}", "sorted({v})"],
        ["{v}['a'] = {v}['b']", "{v}.pop('b')", "{v}.update(c=len)"],
    ),
    (
        "class LazyN:\n    def __init__(self):\n        self._cache = {}\n        self.base = 3\n    def __getattribute__(self, name):\n        if name == 'magic':\n            return 42\n        return object.__getattribute__(self, name)\n    def __missing__(self, k):\n        return k\n",
        "LazyN()",
        ["{v}.magic", "{v}.base", "sorted(vars({v}))"],
        ["{v}.base = 4"],
    ),
    (
        "class DefN(dict):\n    fill = 5\n    def __missing__(self, key):\n        return (key, self.fill)\n",
        "DefN(a=1)",
        ["{v}['zz']", "{v}['a']", "{v}.get('q')", "dict({v})", "len({v})"],
        ["{v}['a'] = 2", "DefN.fill = 6", "{v}.fill = 7"],
    ),
    (
        "def pipeN(*steps):\n    def run(x):\n        for step in steps:\n            x = step(x)\n        return x\n    return run\ndef incN(x):\n    return x + 1\nPN_ = pipeN(incN, lambda x: x * 3, str)\n",
        "PN_",
        ["{v}(1)", "[{v}(k) for k in range(2)]"],
        ["globals()['incN'] = lambda x: 0"],
    ),
    (
        "class PropN:\n    def __init__(self):\n        self._x = 2\n    @property\n    def x(self):\n        return self._x + 1\n    @x.setter\n    def x(self, v):\n        self._x = v * 2\n    @functools.cached_property\n    def lazy(self):\n        return [self._x, 5]\n",
        "PropN()",
        ["{v}.x", "{v}.lazy", "{v}._x", "type({v}).x.fget is not None"],
        ["{v}.x = 6", "{v}._x = 1"],
    ),
    (
        "@dataclasses.dataclass(order=True)\nclass RowN:\n    a: int\n    b: list = dataclasses.field(default_factory=lambda: [1], compare=False)\n    c: int = dataclasses.field(init=False, default=4)\n    def __post_init__(self):\n        self.d = self.a * 2\n@dataclasses.dataclass\nclass SubRowN(RowN):\n    e: str = 'e'\n",
        "SubRowN(3)",
        [
            "{v}.d",
            "repr({v})",
            "{v} < SubRowN(4)",
            "dataclasses.asdict({v})",
            "dataclasses.replace({v}, a=9).d",
            "[f.name for f in dataclasses.fields({v})]",
        ],
        ["{v}.d = 0", "{v}.b.append(2)", "SubRowN.__post_init__ = lambda self: None"],
    ),
    (
        "class ColorN(enum.Enum):\n    RED = 1\n    BLUE = 2\n    @property\n    def next(self):\n        return ColorN(self.value % 2 + 1)\n    @classmethod\n    def default(cls):\n        return cls.BLUE\n    def __format__(self, spec):\n        return f'<{self.name}>'\nclass FlagN(enum.Flag):\n    A = 1\n    B = 2\n    AB = A | B\n",
        "ColorN.RED",
        [
            "{v}.next.name",
            "ColorN.default().value",
            "f'{{v}}'",
            "[c.name for c in ColorN]",
            "(FlagN.A | FlagN.B) is FlagN.AB",
            "FlagN.AB.value",
            "ColorN['BLUE'] is ColorN.BLUE",
        ],
        ["{v}.extra = 1"],
    ),
    (
        "class StackN(collections.UserList):\n    top = 1\n    def push(self, x):\n        self.append(x)\n        return self\nclass NameN(str):\n    def shout(self):\n        return self.upper() + '!'\nclass NumN(int):\n    unit = 'm'\n",
        "(StackN([1, 2]), NameN('ab'), NumN(3))",
        ["len({v}[0])", "{v}[1].shout()", "{v}[2].unit", "{v}[2] + 1", "list({v}[0])", "{v}[0].top"],
        ["{v}[0].append(5)", "{v}[2].unit = 'k'", "NameN.shout = lambda self: ''"],
    ),
    (
        "def genN(n, step=2):\n    total = yield n\n    while total is not None and total < 9:\n        total = yield total + step\n",
        "genN",
        ["next({v}(3))", "[(next(g), g.send(4)) for g in [{v}(1)]]"],
        ["{v}.__defaults__ = (3,)"],
    ),
    (
        "class IterN:\n    def __init__(self, n):\n        self.n = n\n    def __iter__(self):\n        self.at = 0\n        return self\n    def __next__(self):\n        if self.at >= self.n:\n            raise StopIteration\n        self.at += 1\n        return self.at * 2\n    def __reversed__(self):\n        return [7]\n    def __contains__(self, x):\n        return x == 4\n",
        "IterN(3)",
        ["[x for x in IterN(2)]", "4 in {v}", "{v}.n", "reversed({v})"],
        ["{v}.n = 1"],
    ),
    (
        "class PlugN:\n    handlers = {}\n    def on(self, name):\n        return self.handlers.get(name, self.default)\n    def default(self, x):\n        return ('d', x)\nPlugN.handlers['go'] = lambda x: ('go', x)\n",
        "PlugN()",
        ["{v}.on('go')(1)", "{v}.on('no')(2)", "sorted({v}.handlers)"],
        ["PlugN.handlers['no'] = len", "{v}.default = str", "PlugN.handlers.clear()"],
    ),
    (
        "def memoN(fn):\n    cache = {}\n    @functools.wraps(fn)\n    def inner(x):\n        if x not in cache:\n            cache[x] = fn(x)\n        return cache[x]\n    inner.cache = cache\n    return inner\n@memoN\ndef slowN(x):\n    '''Slow.'''\n    return x * 7\n",
        "slowN",
        ["{v}.__wrapped__(2)", "{v}.__name__", "{v}.__doc__", "callable({v}.cache.get)"],
        ["{v}.__doc__ = 'Other.'"],
    ),
    (
        "import threading\nLOCKN = threading.Lock()\nSTATEN = threading.local()\nSTATEN.depth = 2\ndef lockedN(x):\n    with LOCKN:\n        return x + getattr(STATEN, 'depth', 0)\n",
        "lockedN",
        ["{v}(1)"],
        ["STATEN.depth = 5"],
    ),
    (
        "class OuterN:\n    class Inner:\n        k = 3\n        @staticmethod\n        def of(x):\n            return x + OuterN.Inner.k\n    make = Inner\n    table = {k: k * 2 for k in range(3)}\n",
        "OuterN",
        ["{v}.Inner.of(1)", "{v}.make.k", "{v}.table[2]", "{v}.Inner.__qualname__"],
        ["{v}.Inner.k = 5", "{v}.table[2] = 0"],
    ),
    (
        "LOGN = []\nCOUNTN = [0]\ndef tracedN(x):\n    LOGN.append(x)\n    COUNTN[0] += 1\n    return x - 1\n",
        "tracedN",
        ["{v}(3)"],
        ["LOGN.append('more')"],
    ),
    (
        "def applyN(fn, *a, key=None, **k):\n    return (fn(*a, **k), key)\ndef addN(a, b=2, *, c=3):\n    return a + b * c\n",
        "applyN",
        ["{v}(addN, 1)", "{v}(addN, 1, b=4, key='z')", "{v}(addN, *[1, 2], **{'c': 5})"],
        ["addN.__kwdefaults__ = {'c': 9}", "addN.__defaults__ = (7,)"],
    ),
    (
        "class SlotBaseN:\n    __slots__ = ('a',)\n    def __init__(self):\n        self.a = 1\nclass SlotSubN(SlotBaseN):\n    __slots__ = ('b', '__dict__')\n    def __init__(self):\n        super().__init__()\n        self.b = [2]\n        self.c = 3\n",
        "SlotSubN()",
        ["{v}.a", "{v}.b", "{v}.c", "vars({v})", "hasattr({v}, 'd')"],
        ["{v}.a = 5", "{v}.b.append(3)", "{v}.d = 1", "del {v}.c"],
    ),
    (
        "from operator import attrgetter, itemgetter\nclass PtN:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def norm(self):\n        return self.x + self.y\nPTSN = [PtN(3, 1), PtN(1, 5)]\n",
        "PTSN",
        [
            "[p.y for p in sorted({v}, key=attrgetter('x'))]",
            "list(map(PtN.norm, {v}))",
            "max({v}, key=lambda p: p.norm()).x",
            "list(map(operator.methodcaller('norm'), {v}))",
            "sum(p.x for p in {v} if p.y > 1)",
        ],
        ["{v}[0].x = 0", "{v}.reverse()", "PtN.norm = lambda self: 0"],
    ),
    (
        "TN = typing.TypeVar('TN')\nclass BoxN(typing.Generic[TN]):\n    def __init__(self, it: TN):\n        self.it = it\n    def __class_getitem__(cls, k):\n        return (cls.__name__, k)\n    def map(self, fn):\n        return BoxN(fn(self.it))\n",
        "BoxN(4)",
        ["{v}.map(str).it", "BoxN[3]", "{v}.it"],
        ["{v}.it = 9"],
    ),
    (
        "CONFIGN = types.SimpleNamespace(sizes=[1, 2], deep=types.SimpleNamespace(k={'z': 3}))\ndef usesN():\n    c = CONFIGN.deep\n    k = c.k\n    return k['z'] + CONFIGN.sizes[0]\n",
        "usesN",
        ["{v}()"],
        [
            "CONFIGN.deep.k['z'] = 8",
            "CONFIGN.sizes[0] = 9",
            "CONFIGN.deep = types.SimpleNamespace(k={'z': 0})",
            "CONFIGN.other = 1",
        ],
    ),
    (
        "def chainN(x):\n    a = b = x\n    (c, *d), e = [a, 2, 3], b\n    if (w := c) and d[0] < 3 <= d[1]:\n        return [w, d, e, *range(2)]\n    return {**{'a': a}, 'e': e}\n",
        "chainN",
        ["{v}(1)", "{v}(0)"],
        [],
    ),
]
