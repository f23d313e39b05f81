"""Random values: how a program makes them, reads them, and changes them in place.

A :class:`Value` is a text that makes a value, the definitions it needs, and templates that read it
(``{v}`` stands for the value) or change it. Templates of what is inside are made of those of the parts, so
that any value can be read through any other.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable

from .idioms import IDIOMS

#: Deeper values are plain ones.
_DEEPEST = 3


@dataclasses.dataclass
class Value:
    """A value in a program that is generated."""

    expr: str
    #: Definitions that it needs, before it, in the same module.
    needs: list[str] = dataclasses.field(default_factory=list)
    #: Ways to read it.
    reads: list[str] = dataclasses.field(default_factory=lambda: ["{v}"])
    #: Statements that change it in place.
    changes: list[str] = dataclasses.field(default_factory=list)


def inside(template: str, part: str) -> str:
    """Return a template that reads a part of a value by a template for that part."""
    return template.replace("{v}", part)


class Values:
    """Makes random values."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._number = 0

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def any(self, depth: int = 0) -> Value:
        kinds = PLAIN if depth >= _DEEPEST else PLAIN + COMPOSED + COMPOSED
        return self.rng.choice(kinds)(self, depth)

    def plain(self) -> Value:
        return self.rng.choice(PLAIN)(self, _DEEPEST)

    def some(self, depth: int, most: int = 3) -> list[Value]:
        return [self.any(depth + 1) for _ in range(self.rng.randint(1, most))]

    def read(self, value: Value) -> str:
        return self.rng.choice(value.reads)


def _needs(values: list[Value]) -> list[str]:
    return [line for value in values for line in value.needs]


# -- Plain values ------------------------------------------------------------------------------------


def number(make: Values, depth: int) -> Value:
    text = make.rng.choice(
        ["0", "1", "2", "3", "7", "64", "300", "-1", "2.5", "0.0", "-0.0", "True", "1e300"]
    )
    return Value(
        text, reads=["{v}", "{v} + 1", "str({v})", "isinstance({v}, float)", "-{v}", "type({v}).__name__"]
    )


def text(make: Values, depth: int) -> Value:
    word = make.rng.choice(["", "a", "ab", "Abc", "x y", "é"])
    return Value(repr(word), reads=["{v}", "len({v})", "{v}.upper()", "{v} + 'z'", "{v}.find('b')", "[*{v}]"])


def other_plain(make: Values, depth: int) -> Value:
    return Value(
        make.rng.choice(["None", "b'xy'", "(1, 2)", "range(3)", "1j", "...", "frozenset([1, 2])"]),
        reads=["{v}", "repr({v})", "bool({v})"],
    )


PLAIN: list[Callable[[Values, int], Value]] = [number, number, text, other_plain]


# -- Containers ---------------------------------------------------------------------------------------


def sequence(make: Values, depth: int) -> Value:
    items = make.some(depth)
    opening, closing = make.rng.choice(["[]", "[]", "()"])
    if opening == "(":
        closing = ",)"
    at = make.rng.randrange(len(items))
    reads = [
        "len({v})",
        "{v}[-1] is {v}[0]",
        "[repr(x) for x in {v}]",
        "[type(x).__name__ for x in {v}]",
        *(inside(read, f"{{v}}[{at}]") for read in items[at].reads),
    ]
    changes = [inside(change, f"{{v}}[{at}]") for change in items[at].changes]
    if opening == "[":
        changes += ["{v}.append(5)", "{v}[0] = 'new'", "{v}.reverse()"]
    return Value(opening + ", ".join(item.expr for item in items) + closing, _needs(items), reads, changes)


def mapping(make: Values, depth: int) -> Value:
    items = make.some(depth)
    keys = make.rng.sample(["'k'", "'tile'", "1", "'x'", "(2, 3)"], len(items))
    at = make.rng.randrange(len(items))
    body = "{" + ", ".join(f"{key}: {item.expr}" for key, item in zip(keys, items, strict=True)) + "}"
    wrap = make.rng.choice(
        [
            *["{}"] * 4,
            "collections.OrderedDict({})",
            "collections.UserDict({})",
            "collections.defaultdict(list, {})",
            "collections.ChainMap({}, {{'z': 1}})",
            "types.MappingProxyType({})",
            "Table({})",
        ]
    )
    needs = _needs(items)
    if wrap.startswith("Table"):
        needs = [TABLE, *needs]
    reads = [
        "len({v})",
        "list({v})",
        "[*{v}.items()]",
        "sorted(map(str, {v}))",
        f"{keys[at]} in {{v}}",
        f"{{v}}.get({keys[at]}) is None",
        "[repr(x) for x in {v}.values()]",
        "next(iter({v}))",
        *(inside(read, f"{{v}}[{keys[at]}]") for read in items[at].reads),
        *(inside(read, f"{{v}}.get({keys[at]})") for read in items[at].reads),
    ]
    changes = (
        []
        if "Proxy" in wrap or wrap.startswith("Table")
        else ["{v}['new'] = 1", f"{{v}}.pop({keys[at]})", f"{{v}}[{keys[at]}] = 'other'"]
    )
    return Value(wrap.format(body), needs, reads, changes)


TABLE = """
class Table(collections.abc.Mapping):
    scale = 2
    def __init__(self, data):
        self.data = data
    def __getitem__(self, key):
        return self.data[key]
    def __iter__(self):
        return iter(self.data)
    def __len__(self):
        return len(self.data)
"""


def unordered(make: Values, depth: int) -> Value:
    items = make.rng.sample(["1", "2", "'a'", "'b'", "(1, 2)", "None"], make.rng.randint(1, 3))
    kind = make.rng.choice(["set", "frozenset", "collections.Counter", "collections.deque"])
    reads = ["len({v})", "sorted(map(str, {v}))", "'a' in {v}", "2 in {v}"]
    changes = []
    if kind == "collections.deque":
        reads += ["list({v})", "{v}.maxlen"]
        changes = ["{v}.append(9)", "{v}.rotate(1)"]
    if kind == "collections.Counter":
        reads += ["{v}.most_common()", "{v}[1]", "list({v})"]
        changes = ["{v}.update([1])"]
    if kind == "set":
        changes = ["{v}.add('new')"]
    return Value(f"{kind}([{', '.join(items)}])", [], reads, changes)


def library_object(make: Values, depth: int) -> Value:
    expr, reads, changes = make.rng.choice(LIBRARY)
    return Value(expr, [], list(reads), list(changes))


#: Objects of the standard library: how they are made, read, and changed.
LIBRARY: list[tuple[str, list[str], list[str]]] = [
    ("fractions.Fraction(3, 4)", ["{v}.limit_denominator(3)", "{v} + 1", "{v}.numerator", "float({v})"], []),
    ("decimal.Decimal('1.50')", ["{v} + 1", "{v}.quantize(decimal.Decimal('1'))", "str({v})"], []),
    ("pathlib.PurePosixPath('a/b.txt')", ["{v}.name", "{v} / 'c'", "{v}.with_suffix('.x')", "str({v})"], []),
    (
        "string.Template('a $x')",
        ["{v}.substitute(x=1)", "{v}.template", "{v}.safe_substitute()"],
        ["{v}.template = 'b $x'"],
    ),
    ("datetime.date(2020, 1, 2)", ["{v}.year", "{v}.isoformat()", "{v} + datetime.timedelta(1)"], []),
    ("datetime.timedelta(hours=3)", ["{v}.total_seconds()", "{v} * 2"], []),
    ("re.compile('a+')", ["{v}.sub('b', 'caat')", "{v}.pattern", "bool({v}.match('b'))"], []),
    (
        "array.array('l', [1, 2])",
        ["{v}.typecode", "{v}.tolist()", "{v}[0]", "len({v})"],
        ["{v}.append(3)", "{v}[0] = 9"],
    ),
    ("array.array('d', [1, 2])", ["{v}.typecode", "{v}.tolist()", "{v}[0]", "{v}.itemsize"], ["{v}[0] = 9"]),
    (
        "types.SimpleNamespace(a=1, b=2)",
        ["{v}.a", "repr({v})", "vars({v})", "[*vars({v})]", "{v}.b", "hasattr({v}, 'c')"],
        ["{v}.a = 5", "{v}.c = 1", "del {v}.b"],
    ),
    ("slice(1, 5, 2)", ["{v}.step", "list(range(9))[{v}]"], []),
    ("functools.partial(max, 3)", ["{v}(2)", "{v}(9)", "{v}.args"], []),
    ("operator.itemgetter(1)", ["{v}('abc')", "repr({v})"], []),
    ("operator.attrgetter('real')", ["{v}(3)"], []),
    ("operator.methodcaller('upper')", ["{v}('abc')"], []),
    (
        "ValueError('bad', 3)",
        ["{v}.args", "str({v})", "{v}.__cause__", "type({v}).__name__"],
        ["{v}.args = (1,)", "{v}.__cause__ = KeyError(1)"],
    ),
    ("struct.Struct('<i')", ["{v}.pack(1)", "{v}.size", "{v}.format"], []),
    (
        "configparser.ConfigParser({'a': '1'})",
        ["{v}.defaults()['a']", "{v}.get('DEFAULT', 'a')"],
        ["{v}['DEFAULT']['a'] = '9'"],
    ),
    ("contextvars.ContextVar('cv', default=3)", ["{v}.get()", "{v}.name"], ["{v}.set(4)"]),
    ("uuid.UUID(int=5)", ["{v}.hex", "str({v})"], []),
    ("{'a': 1, 'b': 2}.items()", ["list({v})", "len({v})"], []),
    ("bytearray(b'ab')", ["{v}[0]", "bytes({v})", "{v}.hex()"], ["{v}.append(1)"]),
    (
        "json.JSONEncoder(sort_keys=True)",
        ["{v}.encode({'b': 1, 'a': 2})", "{v}.sort_keys"],
        ["{v}.sort_keys = False"],
    ),
    ("statistics.NormalDist(1.0, 2.0)", ["{v}.mean", "{v}.cdf(1.5)", "{v}.variance"], []),
    ("textwrap.TextWrapper(width=10)", ["{v}.fill('aaa bbb ccc ddd')", "{v}.width"], ["{v}.width = 4"]),
    ("(lambda x: x + 1)", ["{v}(1)"], []),
    (
        "[lambda x: x + 1, lambda x: x * 2]",
        ["{v}[0](1)", "[g(2) for g in {v}]", "len({v})"],
        ["{v}.reverse()"],
    ),
    ("{'e': (lambda x: x - 1)}", ["{v}['e'](1)", "[g(3) for g in {v}.values()]"], ["{v}.clear()"]),
    ("functools.lru_cache(lambda x: x + 2)", ["{v}(1)"], []),
    ("functools.partial(lambda x, y: x - y, y=1)", ["{v}(1)", "{v}.keywords"], []),
    ("weakref.WeakKeyDictionary()", ["len({v})", "list({v})"], []),
    ("frozenset([len, max])", ["len({v})", "len in {v}"], []),
    ("calendar.TextCalendar(6)", ["{v}.firstweekday", "{v}.formatweekheader(2)"], ["{v}.firstweekday = 0"]),
    ("itertools.count", ["next({v}(3))"], []),
    ("types.MappingProxyType({'a': [1]})", ["{v}['a']", "dict({v})", "{v}.get('a')"], ["{v}['a'].append(2)"]),
    ("collections.deque([1, 2], maxlen=3)", ["{v}.maxlen", "list({v})", "{v}[0]"], ["{v}.append(7)"]),
    ("collections.namedtuple('P', 'x y')(1, 2)", ["{v}.x", "{v}._asdict()", "{v}[1]"], []),
    ("enum.Enum('Q', 'A B')", ["[m.name for m in {v}]", "{v}.A.value", "len({v})"], []),
    ("memoryview(b'abc')", ["{v}[0]", "bytes({v})", "{v}.format"], []),
    ("complex(1, -0.0)", ["{v}.imag", "str({v})"], []),
    ("functools.cmp_to_key(lambda a, b: a - b)", ["sorted([3, 1], key={v})"], []),
    ("functools.reduce", ["{v}(max, [1, 5])"], []),
    ("property(lambda self: 3)", ["{v}.fget(1)"], []),
    ("staticmethod(lambda: 4)", ["{v}()"], []),
    ("decimal.Context(prec=3)", ["{v}.create_decimal('1.23456')", "{v}.prec"], ["{v}.prec = 2"]),
    ("string.Formatter()", ["{v}.format('{}-{}', 1, 2)"], []),
    ("pathlib.PurePosixPath", ["str({v}('a') / 'b')"], []),
    ("datetime.timezone(datetime.timedelta(hours=2))", ["str({v})", "{v}.utcoffset(None)"], []),
    ("re.compile('a|b', re.I)", ["{v}.flags", "{v}.findall('AbC')"], []),
    ("iter([1, 2])", ["{v} is None"], []),
    ("int.__add__", ["{v}(1, 2)"], []),
    ("'{}!'.format", ["{v}(3)"], []),
    ("[3, 1, 2].index", ["{v}(1)"], []),
    ("{'a': 4}.get", ["{v}('a')"], []),
    ("object.__new__(type('Q', (), {'z': 3}))", ["{v}.z"], []),
    ("logging.getLogger('quiet')", ["{v}.info('x')", "{v}.debug('%s', 1)"], []),
]


# -- Objects of the program ---------------------------------------------------------------------------


def instance(make: Values, depth: int) -> Value:
    name = make.name("C")
    items = make.some(depth)
    fields = [f"m{at}" for at in range(len(items))]
    style = make.rng.choice(["plain", "plain", "slots", "dataclass", "frozen", "namedtuple", "derived"])
    at = make.rng.randrange(len(items))
    own = make.read(items[at])
    method = f"    def read(self):\n        return {inside(own, f'self.{fields[at]}')}\n"
    extra = make.rng.choice(METHODS).replace("FIELD", fields[at])
    attribute = f"    K = {make.plain().expr}\n"
    parameters = ", ".join(fields)
    init = f"    def __init__(self, {parameters}):\n" + "".join(
        f"        self.{field} = {field}\n" for field in fields
    )
    if style == "plain":
        text = f"class {name}:\n{attribute}{init}{method}{extra}"
    elif style == "slots":
        text = f"class {name}:\n    __slots__ = {tuple(fields)!r}\n{attribute}{init}{method}{extra}"
    elif style in ("dataclass", "frozen"):
        frozen = "frozen=True" if style == "frozen" else ""
        body = "".join(f"    {field}: object\n" for field in fields)
        noted = "    noted: int = dataclasses.field(default=1, metadata={'unit': 'm'})\n"
        text = f"@dataclasses.dataclass({frozen})\nclass {name}:\n{body}{noted}    K: typing.ClassVar = 3\n{method}{extra}"
    elif style == "namedtuple":
        body = "".join(f"    {field}: object\n" for field in fields)
        text = f"class {name}(typing.NamedTuple):\n{body}{method}"
    else:
        base = make.name("B")
        text = f"class {base}:\n{attribute}{init}{method}\nclass {name}({base}):\n    def more(self):\n        return super().read()\n{extra}"
    reads = [
        f"{{v}}.{fields[at]} is None",
        "{v}.read()",
        "type({v}).__name__",
        f"hasattr({{v}}, {fields[0]!r})",
        f"isinstance({{v}}.{fields[at]}, (int, str))",
        *(inside(read, f"{{v}}.{fields[at]}") for read in items[at].reads),
        *(inside(read, f"getattr({{v}}, {fields[at]!r})") for read in items[at].reads),
    ]
    if style != "namedtuple":
        reads += ["{v}.K"] + [read for key, read in READS.items() if key in extra]
    if style in ("plain", "derived"):
        reads += [
            "list(vars({v}))",
            "sorted({v}.__dict__)",
            "{v}.__dict__.get('extra')",
            "getattr({v}, 'extra', 0)",
        ]
    if style == "derived":
        reads += ["{v}.more()"]
    if style == "dataclass":
        reads += [
            "repr({v})",
            "dataclasses.astuple({v})[-1]",
            "{v} == {v}",
            "getattr({v}, 'extra', 0)",
            "dataclasses.fields({v})[-1].metadata.get('unit')",
        ]
    changes = []
    if style not in ("frozen", "namedtuple"):
        changes = [
            f"{{v}}.{fields[at]} = 'changed'",
            "type({v}).K = 'k'",
            "type({v}).read = lambda self: 'patched'",
        ]
        if style in ("plain", "dataclass", "derived"):
            changes += ["{v}.extra = 1", "{v}.read = lambda: 'mine'"]
    changes += [inside(change, f"{{v}}.{fields[at]}") for change in items[at].changes]
    return Value(f"{name}({', '.join(item.expr for item in items)})", [*_needs(items), text], reads, changes)


#: Methods that operators and builtins call, and the reads that call them.
METHODS = [
    "",
    "",
    "    def __add__(self, other):\n        return (repr(self.FIELD), other, 1)\n",
    "    def __len__(self):\n        return 3\n",
    "    def __iter__(self):\n        yield repr(self.FIELD)\n        yield 2\n",
    "    def __getitem__(self, at):\n        return (at, 4)\n",
    "    def __call__(self, x):\n        return (x, 5)\n",
    "    def __contains__(self, x):\n        return x == 6\n",
    "    def __eq__(self, other):\n        return other == 7\n    __hash__ = None\n",
    "    def __bool__(self):\n        return 8 > 3\n",
    "    @property\n    def prop(self):\n        return (repr(self.FIELD), 9)\n",
    "    @staticmethod\n    def stat(x):\n        return x + 10\n",
    "    @classmethod\n    def clas(cls):\n        return (cls.__name__, 11)\n",
    "    def __enter__(self):\n        return 12\n    def __exit__(self, *error):\n        return False\n",
    "    def __getattr__(self, name):\n        if name.startswith('__'):\n            raise AttributeError(name)\n        return (name, 13)\n",
    "    def __str__(self):\n        return 'text 14'\n",
    "    def __format__(self, spec):\n        return f'{spec} 15'\n",
    "    def __neg__(self):\n        return 16\n",
    "    def __index__(self):\n        return 2\n",
    "    @functools.cached_property\n    def lazy(self):\n        return (repr(self.FIELD), 17)\n",
    "    @functools.singledispatchmethod\n    def disp(self, x):\n        return 18\n    @disp.register\n    def _(self, x: int):\n        return 19\n",
]

READS = {
    "__add__": "{v} + 1",
    "__len__": "len({v})",
    "__iter__": "[*{v}]",
    "__getitem__": "{v}[3]",
    "__call__": "{v}(4)",
    "__contains__": "6 in {v}",
    "__eq__": "{v} == 7",
    "__bool__": "1 if {v} else 2",
    "prop": "{v}.prop",
    "stat": "{v}.stat(1)",
    "clas": "{v}.clas()",
    "__enter__": "entered({v})",
    "__getattr__": "{v}.made_up",
    "__str__": "str({v})",
    "__format__": "f'{{v}:q}'",
    "__neg__": "-{v}",
    "__index__": "[1, 2, 3][{v}]",
    "lazy": "{v}.lazy",
    "disp": "{v}.disp(1)",
}


def enumeration(make: Values, depth: int) -> Value:
    name = make.name("E")
    base = make.rng.choice(["enum.Enum", "enum.IntEnum", "enum.Flag"])
    text = f"class {name}({base}):\n    A = 1\n    B = 2\n    def show(self):\n        return (self.name, self.value, 20)\n"
    changes = [f"{name}.A.note = 'n'"] if base == "enum.Enum" else []
    reads = [
        "{v}.value",
        "{v}.name",
        "{v}.show()",
        f"list({name})",
        f"{name}(2)",
        "getattr({v}, 'note', 0)",
        f"{name}['B'].value",
        f"len({name})",
    ]
    return Value(f"{name}.{make.rng.choice('AB')}", [text], reads, changes)


def klass(make: Values, depth: int) -> Value:
    value = instance(make, depth)
    name = value.expr.partition("(")[0]
    return Value(
        name,
        value.needs,
        [
            "{v}.__name__",
            "getattr({v}, 'K', 0)",
            "issubclass({v}, object)",
            "sorted(vars({v}))",
            f"{{v}}{value.expr[len(name) :]}.read()",
            "getattr({v}, '__annotations__', 0)",
        ],
        ["{v}.K = 'other'"],
    )


def function(make: Values, depth: int) -> Value:
    name = make.name("fn")
    inner = make.any(depth + 1)
    read = make.read(inner)
    style = make.rng.choice(
        [
            "plain",
            "default",
            "closure",
            "wrapped",
            "cached",
            "generator",
            "dispatch",
            "keyword",
            "partial",
            "recursive",
            "static",
        ]
    )
    needs = list(inner.needs)
    call = "{v}()"
    expr = name
    if style == "plain":
        hold = make.name("G")
        needs += [f"{hold} = {inner.expr}", f"def {name}():\n    return {inside(read, hold)}"]
    elif style == "default":
        needs += [f"def {name}(x={inner.expr}):\n    return {inside(read, 'x')}"]
    elif style == "keyword":
        needs += [
            f"def {name}(*, x={inner.expr}, y: int = 3):\n    '''Doc of it.'''\n    return {inside(read, 'x')}"
        ]
    elif style == "closure":
        needs += [
            f"def make_{name}(x):\n    def {name}():\n        return {inside(read, 'x')}\n    return {name}",
            f"{name} = make_{name}({inner.expr})",
        ]
    elif style == "wrapped":
        hold = make.name("G")
        needs += [
            f"def deco_{name}(g):\n    @functools.wraps(g)\n    def inner(*a):\n        return ('w', g(*a))\n    return inner",
            f"{hold} = {inner.expr}",
            f"@deco_{name}\ndef {name}():\n    return {inside(read, hold)}",
        ]
    elif style == "cached":
        hold = make.name("G")
        needs += [
            f"{hold} = {inner.expr}",
            f"@functools.lru_cache\ndef {name}():\n    return {inside(read, hold)}",
        ]
    elif style == "generator":
        needs += [f"def {name}(x={inner.expr}):\n    yield {inside(read, 'x')}\n    yield 2"]
        call = "list({v}())"
    elif style == "dispatch":
        needs += [
            f"@functools.singledispatch\ndef {name}(x):\n    return 'any'",
            f"@{name}.register(int)\ndef {name}_int(x):\n    return 'int'",
        ]
        call = "{v}(3)"
    elif style == "partial":
        needs += [
            f"def {name}_of(x):\n    return {inside(read, 'x')}",
            f"{name} = functools.partial({name}_of, {inner.expr})",
        ]
    elif style == "recursive":
        needs += [f"def {name}(n=2):\n    return n if n < 1 else ({name}(n - 1), 21)"]
    else:
        needs += [
            f"class H{name}:\n    held = {inner.expr}\n    @staticmethod\n    def go():\n        return {inside(read, f'H{name}.held')}"
        ]
        expr = f"H{name}.go"
    reads = [call] * 3 + ["callable({v})"]
    if style in ("plain", "keyword"):
        reads += ["{v}.__name__", "{v}.__doc__", "{v}.__defaults__", "{v}.__kwdefaults__"]
    changes: list[str] = []
    if style == "dispatch":
        changes = ["{v}.register(int, lambda x: 'later')"]
    if style == "keyword":
        changes = ["{v}.__kwdefaults__['x'] = 0"]
    return Value(expr, needs, reads, changes)


def idiom(make: Values, depth: int) -> Value:
    needs, expr, reads, changes = make.rng.choice(IDIOMS)
    number = make.name("")

    def numbered(text: str) -> str:
        return re.sub(r"\b([A-Za-z]+)N(_?)\b", rf"\g<1>X{number}\2", text)

    return Value(numbered(expr), [numbered(needs)], [*map(numbered, reads)], [*map(numbered, changes)])


COMPOSED: list[Callable[[Values, int], Value]] = [
    *[idiom] * 6,
    *[sequence, mapping, unordered, library_object, library_object],
    *[instance, instance, instance, enumeration, klass, function, function],
]
