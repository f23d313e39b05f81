"""Random programs: modules of definitions, and a function ``f`` that reads some of them in random ways."""

from __future__ import annotations

import ast
import random

from .values import Value, Values, inside

#: What every module of a program begins with.
HEAD = (
    "import array, calendar, collections, collections.abc, configparser, contextvars, dataclasses, datetime, decimal, enum\n"
    "import fractions, functools, itertools, json, logging, operator, pathlib, re, statistics, string, struct\n"
    "import textwrap, types, typing, uuid, weakref\n"
    "def entered(thing):\n    with thing as inner:\n        return inner\n"
)


class Program:
    """Files by name of module, and ways to change what they define."""

    def __init__(self, files: dict[str, str], changes: list[str]) -> None:
        self.files = files
        #: Statements that change something in place, in the module ``program``.
        self.changes = changes


def generate(rng: random.Random) -> Program:
    """Return a random program."""
    make = Values(rng)
    lines: dict[str, list[str]] = {"lib": [], "program": []}
    results: list[str] = []
    changes: list[str] = []
    for _ in range(rng.randint(1, 3)):
        value = make.any()
        feature(make, rng, value, lines, results, changes)
    body = f"def f():\n    return ({', '.join(results)},)\n"
    program = [HEAD, "import lib", "from lib import *", *lines["program"], body]
    files = {"lib": "\n".join([HEAD, *lines["lib"]]) + "\n", "program": "\n".join(program)}
    # As Python writes it: edits change the tree, and nothing else differs.
    return Program({name: ast.unparse(ast.parse(text)) + "\n" for name, text in files.items()}, changes)


def feature(
    make: Values,
    rng: random.Random,
    value: Value,
    lines: dict[str, list[str]],
    results: list[str],
    changes: list[str],
) -> None:
    """Add a value to a program, and an expression that reads it to what ``f`` returns."""
    module = rng.choice(["lib", "program"])
    name = make.name("V")
    if module == "lib":
        lines["lib"] += [*value.needs, f"{name} = {value.expr}"]
        owner = rng.choice([f"lib.{name}", name])
    else:
        lines["program"] += [*value.needs, f"{name} = {value.expr}"]
        owner = name
    read = make.read(value)
    how = rng.choice(WAYS)
    where = lines["program"]
    helper = make.name("h")
    if how == "direct":
        results.append(inside(read, owner))
    elif how == "helper":
        where.append(f"def {helper}(x):\n    return {inside(read, 'x')}")
        results.append(f"{helper}({owner})")
    elif how == "alias":
        where.append(f"def {helper}():\n    a = {owner}\n    b = a\n    return {inside(read, 'b')}")
        results.append(f"{helper}()")
    elif how == "branch":
        where.append(
            f"def {helper}():\n    if {owner} is not None:\n        return {inside(read, owner)}\n    return None"
        )
        results.append(f"{helper}()")
    elif how == "loop":
        results.append(f"[{inside(read, 'y')} for y in [{owner}]]")
    elif how == "container":
        where.append(f"{name}_in = {rng.choice(['[{}]', '({},)', '[[{}]]']).format(owner)}")
        part = f"{name}_in[0][0]" if where[-1].endswith("]]") else f"{name}_in[0]"
        results.append(inside(read, part))
    elif how == "dict":
        where.append(f"{name}_in = {{'it': {owner}}}")
        results.append(inside(read, f"{name}_in{rng.choice(['[%r]', '.get(%r)']) % 'it'}"))
    elif how == "closure":
        where.append(
            f"def {helper}(x):\n    def inner():\n        return {inside(read, 'x')}\n    return inner"
        )
        where.append(f"{helper}_made = {helper}({owner})")
        results.append(f"{helper}_made()")
    elif how == "default":
        where.append(f"def {helper}(x={owner}):\n    return {inside(read, 'x')}")
        results.append(f"{helper}()")
    elif how == "member":
        where.append(
            f"class {helper}K:\n    held = {owner}\n    def __init__(self):\n        self.own = {owner}\n    def go(self):\n        return {inside(read, rng.choice(['self.own', 'self.held']))}"
        )
        where.append(f"{helper}_o = {helper}K()")
        results.append(
            rng.choice(
                [
                    f"{helper}_o.go()",
                    f"{helper}K().go()",
                    inside(read, f"{helper}_o.own"),
                    inside(read, f"{helper}K.held"),
                ]
            )
        )
    elif how == "namespace":
        where.append(f"{name}_ns = types.SimpleNamespace(it={owner})")
        results.append(inside(read, f"{name}_ns.it"))
    elif how == "partial":
        where.append(f"def {helper}(x):\n    return {inside(read, 'x')}")
        where.append(f"{helper}_p = functools.partial({helper}, {owner})")
        results.append(f"{helper}_p()")
    elif how == "map":
        where.append(f"def {helper}(x):\n    return {inside(read, 'x')}")
        results.append(f"list(map({helper}, [{owner}]))")
    elif how == "lambda":
        results.append(f"(lambda x: {inside(read, 'x')})({owner})")
    elif how == "try":
        where.append(
            f"def {helper}():\n    try:\n        return {inside(read, owner)}\n    except Exception as error:\n        return type(error).__name__"
        )
        results.append(f"{helper}()")
    elif how == "import":
        origin = f"lib.{name}" if module == "lib" else name
        inner = (
            f"    import lib as other\n    return {inside(read, f'other.{name}')}"
            if module == "lib"
            else f"    return {inside(read, origin)}"
        )
        where.append(f"def {helper}():\n{inner}")
        results.append(f"{helper}()")
    elif how == "same":
        other = make.name("V")
        where.append(f"{other} = {owner}")
        results.append(f"({owner} is {other}, {inside(read, other)})")
    elif how == "annotation":
        where.append(f"def {helper}(x: {owner!r} = 1) -> 'int':\n    y: int = 3\n    return x")
        results.append(f"{helper}({inside(read, owner)})")
    else:
        where.append(
            f"def {helper}(*args, **named):\n    return [{inside(read, 'y')} for y in args] + [{inside(read, 'z')} for z in named.values()]"
        )
        results.append(f"{helper}({owner}, k={owner})")
    changes += [inside(change, owner) for change in value.changes]
    changes.append(f"{owner} = 'rebound'" if "." in owner else f"globals()[{owner!r}] = 'rebound'")


WAYS = [
    *["direct", "direct", "helper", "alias", "branch", "loop", "container", "dict", "closure", "default"],
    *["member", "namespace", "partial", "map", "lambda", "try", "import", "same", "annotation", "variadic"],
]
