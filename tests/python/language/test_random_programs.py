"""Random expressions and programs: what is compiled against an evaluator in plain Python.

The evaluator knows the rules of the language (promotion, wrap-around, total division, shifts and casts) and
nothing of the compiler.
"""

from __future__ import annotations

import importlib.util
import math
import random

import numpy as np
import pytest

WIDTH = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
NUMPY = {"i": "int", "u": "uint", "f": "float"}
VARIABLES = {"a": "i32", "b": "i32", "c": "i64", "d": "u8", "e": "u32", "f": "f64", "g": "f64", "h": "i16"}


def wrap(kind, value):
    bits = WIDTH[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "i" and value >> (bits - 1) else value


def promote(a, b):
    if a == b:
        return "i32" if a == "bool" else a
    if "bool" in (a, b):
        return b if a == "bool" else a
    if "f64" in (a, b):
        return "f64"
    if WIDTH[a] != WIDTH[b]:
        return a if WIDTH[a] > WIDTH[b] else b
    return a if a[0] == "u" else b


def convert(kind, value, to):
    if kind == to:
        return value
    if to == "bool":
        return value != 0
    if to == "f64":
        return float(value)
    if kind == "f64":
        low, high = (
            (0, (1 << WIDTH[to]) - 1) if to[0] == "u" else (-(1 << WIDTH[to] - 1), (1 << WIDTH[to] - 1) - 1)
        )
        if value != value:
            return 0
        return low if value <= low else high if value >= high else int(value)
    return wrap(to, int(value))


def floor_divide(kind, x, y):
    if kind == "f64":
        return None
    if y == 0:
        return 0
    return wrap(kind, x // y)


class Value:
    """A value and its type; constants of Python have none until they meet something that has one."""

    def __init__(self, kind, value):
        self.kind, self.value = kind, value

    def typed(self):
        if self.kind == "int":
            return Value("i32" if -(2**31) <= self.value < 2**31 else "i64", self.value)
        return self


class Maker:
    """Makes random expressions: the text, and what they are for given variables."""

    def __init__(self, rng):
        self.rng = rng

    def expression(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.12:
            if rng.random() < 0.3:
                number = rng.choice([0, 1, 2, 3, 7, 31, 100, 255, 65536, 2**31 - 1, -1, -5])
                return (f"({number})", lambda _: Value("int", number))
            name = rng.choice(list(VARIABLES))
            return (name, lambda env: Value(VARIABLES[name], env[name]))
        kind = rng.choice(["binary"] * 6 + ["bits", "compare", "unary", "cast", "choose", "minmax", "divide"])
        return getattr(self, f"_{kind}")(depth - 1)

    def _two(self, depth):
        return self.expression(depth), self.expression(depth)

    def _apply(self, x, y, work):
        """Compute with two values: as Python does with two constants, in one type otherwise."""
        if x.kind == y.kind == "int":
            return None
        x, y = x.typed(), y.typed()
        kind = promote(x.kind, y.kind)
        return work(kind, convert(x.kind, x.value, kind), convert(y.kind, y.value, kind))

    def _binary(self, depth):
        (left, first), (right, second) = self._two(depth)
        sign = self.rng.choice(["+", "-", "*"])

        def run(env):
            x, y = first(env), second(env)
            compute = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[sign]
            if x.kind == y.kind == "int":
                return Value("int", compute(x.value, y.value))

            def work(kind, a, b):
                found = compute(a, b)
                return Value(kind, found if kind == "f64" else wrap(kind, found))

            return self._apply(x, y, work)

        return (f"({left} {sign} {right})", run)

    def _divide(self, depth):
        (left, first), (right, second) = self._two(depth)
        sign = self.rng.choice(["//", "%"])
        # Constants that divide constants are an error of their own.
        left, right = f"kp.i64({left})", f"kp.i64({right})"

        def run(env):
            x, y = (convert(v.kind, v.value, "i64") for v in (first(env).typed(), second(env).typed()))
            if y == 0:
                return Value("i64", 0)
            return Value("i64", wrap("i64", x // y if sign == "//" else x % y))

        return (f"({left} {sign} {right})", run)

    def _bits(self, depth):
        (left, first), (right, second) = self._two(depth)
        sign = self.rng.choice(["&", "|", "^", "<<", ">>"])
        left, right = f"kp.i32({left})", f"kp.i32({right})"

        def run(env):
            x, y = (convert(v.kind, v.value, "i32") for v in (first(env).typed(), second(env).typed()))
            inside = 0 <= y < 32
            found = {
                "&": x & y,
                "|": x | y,
                "^": x ^ y,
                "<<": x << y if inside else 0,
                ">>": x >> y if inside else -(x < 0),
            }[sign]
            return Value("i32", wrap("i32", found))

        return (f"({left} {sign} {right})", run)

    def _compare(self, depth):
        (left, first), (right, second) = self._two(depth)
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])

        def run(env):
            x, y = first(env), second(env)
            compute = {
                "<": lambda a, b: a < b,
                "<=": lambda a, b: a <= b,
                ">": lambda a, b: a > b,
                ">=": lambda a, b: a >= b,
                "==": lambda a, b: a == b,
                "!=": lambda a, b: a != b,
            }[sign]
            if x.kind == y.kind == "int":
                return Value("bool", compute(x.value, y.value))
            # Whole numbers are compared exactly, whatever their types are.
            if "f64" in (x.kind, y.kind):
                return Value("bool", compute(float(x.value), float(y.value)))
            return Value("bool", compute(int(x.value), int(y.value)))

        return (f"({left} {sign} {right})", run)

    def _unary(self, depth):
        text, inner = self.expression(depth)

        def run(env):
            x = inner(env)
            if x.kind == "int":
                return Value("int", -x.value)
            if x.kind == "bool":
                return Value("i32", -int(x.value))
            return Value(x.kind, -x.value if x.kind == "f64" else wrap(x.kind, -x.value))

        return (f"(-{text})", run)

    def _cast(self, depth):
        text, inner = self.expression(depth)
        to = self.rng.choice([*WIDTH, "f64", "bool"])

        def run(env):
            x = inner(env)
            if x.kind == "int":
                value = float(x.value) if to == "f64" else x.value != 0 if to == "bool" else wrap(to, x.value)
                return Value(to, value)
            return Value(to, convert(x.kind, x.value, to))

        return (f"kp.{to}({text})", run)

    def _choose(self, depth):
        condition, test = self._compare(depth)
        (left, first), (right, second) = self._two(depth)
        left, right = f"kp.f64({left})", f"kp.f64({right})"

        def run(env):
            x = (first if test(env).value else second)(env).typed()
            return Value("f64", convert(x.kind, x.value, "f64"))

        return (f"({left} if {condition} else {right})", run)

    def _minmax(self, depth):
        (left, first), (right, second) = self._two(depth)
        name = self.rng.choice(["min", "max"])

        def run(env):
            x, y = first(env), second(env)
            better = (lambda a, b: b < a) if name == "min" else (lambda a, b: b > a)
            if x.kind == y.kind == "int":
                return Value("int", y.value if better(x.value, y.value) else x.value)
            x, y = x.typed(), y.typed()
            kind = promote(x.kind, y.kind)
            if kind == "f64" or "bool" in (x.kind, y.kind):
                return self._apply(x, y, lambda kind, a, b: Value(kind, b if better(a, b) else a))
            # Whole numbers are compared exactly; the smaller of a signed and an unsigned one fits into a signed type.
            if kind[0] == "u" and x.kind[0] != y.kind[0] and name == "min":
                kind = "i" + kind[1:]
            return Value(kind, y.value if better(x.value, y.value) else x.value)

        return (f"{name}({left}, {right})", run)


def is_same(found, wanted):
    if wanted != wanted:
        return found != found
    return found == wanted or (math.isinf(wanted) and math.isinf(found) and (found > 0) == (wanted > 0))


def compiled(tmp_path, name, text):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(rng, count):
    edges = [0, 1, -1, 2, 7, -7, 127, 128, 255, 256, 65535, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63)]
    found = []
    for _ in range(count):
        row = {}
        for name, kind in VARIABLES.items():
            if kind == "f64":
                row[name] = rng.choice(
                    [0.0, -0.0, 1.5, -2.75, 1e10, -1e20, 3.0, float("inf"), rng.uniform(-1e3, 1e3)]
                )
            else:
                row[name] = wrap(kind, rng.choice([*edges, rng.getrandbits(64)]))
        found.append(row)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_expressions(tmp_path, seed):
    rng = random.Random(seed)
    maker = Maker(rng)
    expressions = []
    while len(expressions) < 60:
        text, run = maker.expression(4)
        try:
            [run(row) for row in rows(random.Random(1), 3)]
        except OverflowError:
            continue
        # What is computed of constants alone must fit, as in Python programs that mean it.
        if len(text) < 900:
            expressions.append((text, run))
    body = "".join(f"        out[i, {at}] = kp.f64({text})\n" for at, (text, _) in enumerate(expressions))
    loads = "".join(f"        {name} = all_{name}[i]\n" for name in VARIABLES)
    parameters = ", ".join(f"all_{name}: kp.types.NDArray[kp.{kind}, 1]" for name, kind in VARIABLES.items())
    text = f"import keyprint as kp\n\n\n@kp.kernel\ndef k({parameters}, out: kp.types.NDArray[kp.f64, 2]):\n    for i in range(out.shape[0]):\n{loads}{body}"
    module = compiled(tmp_path, f"expressions{seed}", text)
    given = rows(rng, 64)
    arrays = [
        np.array([row[name] for row in given], NUMPY[kind[0]] + kind[1:]) for name, kind in VARIABLES.items()
    ]
    out = np.zeros((len(given), len(expressions)))
    module.k(*arrays, out)
    for at, (text, run) in enumerate(expressions):
        for i, row in enumerate(given):
            wanted = run(row).typed()
            value = float(wanted.value)
            assert is_same(out[i, at], value), (text, row, out[i, at], wanted.kind, wanted.value)


class Program:
    """Makes random programs of assignments, branches and loops over `i32` variables, as text that is both Python
    and the kernel language: numbers stay small, so that nothing wraps."""

    def __init__(self, rng):
        self.rng = rng
        self.names = [f"v{n}" for n in range(5)]
        self.loops = 0

    def number(self):
        rng = self.rng
        if rng.random() < 0.4:
            return str(rng.randrange(-5, 6))
        name = rng.choice(self.names)
        return rng.choice([name, f"({name} % 7)", f"({name} // 3)", f"abs({name}) % 5", f"helper({name})"])

    def condition(self):
        rng = self.rng
        left, right = self.number(), self.number()
        simple = f"{left} {rng.choice(['<', '<=', '==', '!=', '>'])} {right}"
        return rng.choice(
            [
                simple,
                f"{simple} and {self.number()} > 0",
                f"not {simple}",
                f"{self.number()} < {left} <= {right}",
            ]
        )

    def block(self, depth, in_loop, indent):
        lines = []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(depth, in_loop, indent)
        return lines

    def statement(self, depth, in_loop, indent):
        rng = self.rng
        kind = rng.choice(
            ["assign"] * 4
            + ["augment"] * 2
            + (["if", "for", "while", "static"] if depth else [])
            + (["leave"] if in_loop else [])
        )
        pad = "    " * indent
        name = rng.choice(self.names)
        if kind == "assign":
            return [f"{pad}{name} = ({self.number()} * {self.number()} + {self.number()}) % 1000"]
        if kind == "augment":
            return [f"{pad}{name} {rng.choice(['+=', '-='])} {self.number()}", f"{pad}{name} %= 997"]
        if kind == "if":
            lines = [f"{pad}if {self.condition()}:", *self.block(depth - 1, in_loop, indent + 1)]
            if rng.random() < 0.6:
                lines += [f"{pad}else:", *self.block(depth - 1, in_loop, indent + 1)]
            return lines
        if kind == "leave":
            return [f"{pad}if {self.condition()}:", f"{pad}    {rng.choice(['break', 'continue'])}"]
        self.loops += 1
        counter = f"n{self.loops}"
        if kind == "for":
            step = rng.choice([1, 2, 3, -1])
            bounds = (
                f"{self.number()}, {self.number()}, {step}" if rng.random() < 0.5 else f"{self.number()} % 6"
            )
            lines = [f"{pad}for {counter} in range({bounds}):", f"{pad}    v0 = (v0 + {counter}) % 1000"]
        elif kind == "static":
            lines = [
                f"{pad}for {counter} in kp.static(range({rng.randrange(4)})):",
                f"{pad}    v1 = (v1 + {counter}) % 1000",
            ]
        else:
            lines = [
                f"{pad}{counter} = 0",
                f"{pad}while {counter} < {rng.randrange(1, 6)}:",
                f"{pad}    {counter} += 1",
            ]
        return lines + self.block(depth - 1, True, indent + 1)


@pytest.mark.parametrize("seed", range(12))
def test_programs(tmp_path, seed):
    rng = random.Random(1000 + seed)
    made = Program(rng)
    helper = "\n".join(
        [
            "def helper(x):",
            "    if x > 3:",
            "        return x - 3",
            "    for k in range(4):",
            "        if k * x > 5:",
            "            return k",
            "    return x % 3",
        ]
    )
    lines = made.block(3, False, 2)
    while len(lines) < 25:
        lines += made.block(3, False, 2)
    start = [f"        v{n} = (i * {n + 3}) % 50 - 20" for n in range(5)]
    end = [f"        out[i, {n}] = v{n}" for n in range(5)]
    body = "\n".join([*start, *lines, *end])
    text = f"import keyprint as kp\n\n\n{helper}\n\n\ndef k(out: kp.types.NDArray[kp.i32, 2]):\n    for i in range(out.shape[0]):\n{body}\n\n\ncompiled = kp.kernel(k)\n"
    module = compiled(tmp_path, f"program{seed}", text)
    found, wanted = np.zeros((40, 5), np.int32), np.zeros((40, 5), np.int32)
    module.compiled(found)
    module.k(wanted)
    assert np.array_equal(found, wanted), text
