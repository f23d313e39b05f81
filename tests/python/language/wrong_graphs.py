"""Graphs that are wrong: code, part of the message, part of the hint, and the piece that the caret is under."""

from __future__ import annotations

import textwrap

import numpy as np

X = np.zeros(4, np.int32)
C = np.zeros((), np.int32)

#: What all programs begin with; `BOX` stands for an instance.
BEFORE = """
import dataclasses
import enum

V = kp.types.NDArray[kp.i32, 1]
I = kp.types.NDArray[kp.i32, 0]


class Stage(enum.IntEnum):
    ONE = 1
    TWO = 2


@kp.data_oriented
class Box:
    def __init__(self):
        self.x, self.n, self.nothing = kp.ndarray(kp.i32, 4), 3, None
        self.field = kp.field(kp.i32, shape=())
        self.c = kp.ndarray(kp.i32, ())


@dataclasses.dataclass
class Params:
    x: V
    c: I


BOX = Box()
PARAMS = Params(kp.ndarray(kp.i32, 4), kp.ndarray(kp.i32, ()))
"""

UNRESOLVED = "does not resolve to an ndarray kernel parameter"


def loop(argument, *, kind="graph=True", parameters="x: V, c: I", x="x"):
    """Return a program with a loop that depends on something."""
    return f"""
@kp.kernel({kind})
def k({parameters}):
    while kp.graph.do_while({argument}):
        for i in range(4):
            {x}[i] += 1
"""


def gate(argument, *, kind="graph=True, checkpoints=True", parameters="x: V, c: I", x="x", inside=None):
    """Return a program with a checkpoint."""
    inside = inside or f"for i in range(4):\n    {x}[i] += 1"
    return f"""
@kp.kernel({kind})
def k({parameters}):
    with kp.checkpoint({argument}):
{textwrap.indent(inside, "        ")}
"""


def graph(body, kind="graph=True, checkpoints=True"):
    """Return a program with a body."""
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"\n@kp.kernel({kind})\ndef k(x: V, c: I):\n{body}\n"


BOXED, TYPED = ("BOX",), ("PARAMS",)

_CASES = {
    # What loops depend on.
    "a member that is not there": (
        *("graph", UNRESOLVED, "0-d `i32` ndarray", "s.nope"),
        loop("s.nope", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "a member of a dataclass that is not there": (
        *("graph", UNRESOLVED, "0-d `i32` ndarray", "p.nope"),
        loop("p.nope", parameters="p: Params", x="p.x"),
        TYPED,
    ),
    "a member that is a number": (
        *("graph", UNRESOLVED, None, "s.n"),
        loop("s.n", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "a member that is nothing": (
        *("graph", UNRESOLVED, None, "s.nothing"),
        loop("s.nothing", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "a member that is a field": (
        *("graph", f"{UNRESOLVED}: it is a field", None, "s.field"),
        loop("s.field", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "an expression": ("graph", UNRESOLVED, None, "c[()] > 0", loop("c[()] > 0")),
    "an element": ("graph", UNRESOLVED, None, "c[()]", loop("c[()]")),
    "a call": ("graph", UNRESOLVED, None, "abs(c)", loop("abs(c)")),
    "a name that means nothing": ("graph", UNRESOLVED, None, "nope", loop("nope")),
    "an array with a dimension": (
        "graph",
        "is not a 0-d `i32` ndarray",
        "kp.ndarray(kp.i32, ())",
        "x",
        loop("x"),
    ),
    "an array of floats": (
        *("graph", "is not a 0-d `i32` ndarray", None, "c"),
        loop("c", parameters="x: V, c: kp.types.NDArray[kp.f32, 0]"),
        (X, np.zeros((), np.float32)),
    ),
    "an array of longs": (
        *("graph", "is not a 0-d `i32` ndarray", None, "c"),
        loop("c", parameters="x: V, c: kp.types.NDArray[kp.i64, 0]"),
        (X, np.zeros((), np.int64)),
    ),
    "no array at all": (
        "graph",
        "`graph.do_while` takes one array",
        "graph.do_while(counter)",
        "kp.graph",
        loop(""),
    ),
    # Where loops can be.
    "a loop in no graph": (
        "graph",
        "needs a kernel that is a graph",
        "graph=True",
        "kp.graph",
        loop("c", kind=""),
    ),
    "a loop in a branch": (
        *("graph", "only possible at the top level", None, "kp.graph.do_while(c)"),
        graph(
            "if x[0] > 0:\n    while kp.graph.do_while(c):\n        for i in range(4):\n            x[i] += 1"
        ),
    ),
    "a loop in a loop": (
        *("graph", "only possible at the top level", None, "kp.graph.do_while(c)"),
        graph("for i in range(4):\n    while kp.graph.do_while(c):\n        x[i] += 1"),
    ),
    "a part of a condition": (
        *("graph", "the whole condition of a `while`", None, "kp.graph.do_while(c)"),
        graph("while kp.graph.do_while(c) and x[0] > 0:\n    for i in range(4):\n        x[i] += 1"),
    ),
    "a value": (
        "graph",
        "the whole condition of a `while`",
        None,
        "kp.graph.do_while(c)",
        graph("x[0] = kp.graph.do_while(c)"),
    ),
    "an else": (
        *("syntax", "`else` of a loop", None, None),
        graph("while kp.graph.do_while(c):\n    for i in range(4):\n        x[i] += 1\nelse:\n    x[0] = 1"),
    ),
    "leaving a loop": (
        *("loop-control", "cannot leave a piece of a graph", None, "break"),
        graph("while kp.graph.do_while(c):\n    if x[0] > 0:\n        break"),
    ),
    "going on with a loop": (
        *("loop-control", "cannot leave a piece of a graph", None, "continue"),
        graph("while kp.graph.do_while(c):\n    continue"),
    ),
    "returning from a loop": (
        *("graph", "a piece of a graph cannot return", None, "return"),
        graph("while kp.graph.do_while(c):\n    return"),
    ),
    # What graphs return.
    "a result": (
        "graph",
        "a graph cannot return a value",
        "graph=True",
        "return x[0]",
        graph("x[0] = 1\nreturn x[0]", "graph=True"),
    ),
    "an early end": (
        "graph",
        "it cannot return from a branch",
        None,
        "return",
        graph("if x[0] > 0:\n    return\nx[0] = 1"),
    ),
    "a function with an early end": (
        *("graph", "`f` holds pieces of a graph, and returns early", None, None),
        """
@kp.func
def f(x: kp.template(), c: kp.template()):
    if x[0] > 0:
        return
    while kp.graph.do_while(c):
        for i in range(4):
            x[i] += 1

@kp.kernel(graph=True)
def k(x: V, c: I):
    f(x, c)
""",
    ),
    # Checkpoints.
    "a flag that is not there": (
        *("graph", UNRESOLVED, None, "s.nope"),
        gate("1, yield_on=s.nope", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "a flag of a dataclass that is not there": (
        *("graph", UNRESOLVED, None, "p.nope"),
        gate("1, yield_on=p.nope", parameters="p: Params", x="p.x"),
        TYPED,
    ),
    "a flag that is a number": (
        *("graph", UNRESOLVED, None, "s.n"),
        gate("1, yield_on=s.n", parameters="s: kp.template()", x="s.x"),
        BOXED,
    ),
    "a flag that is an expression": ("graph", UNRESOLVED, None, "x[0]", gate("1, yield_on=x[0]")),
    "a flag with a dimension": ("graph", "is not a 0-d `i32` ndarray", None, "x", gate("1, yield_on=x")),
    "a checkpoint in no graph": (
        *("graph", "`checkpoint` needs a kernel that is a graph", "graph=True", "kp.checkpoint"),
        gate("1", kind=""),
    ),
    "a checkpoint in a graph without": (
        *("checkpoint", "needs a kernel that has checkpoints", "checkpoints=True", "kp.checkpoint"),
        gate("1", kind="graph=True"),
    ),
    "a checkpoint in a branch": (
        *("graph", "only possible at the top level", None, "kp.checkpoint(1)"),
        graph("if x[0] > 0:\n    with kp.checkpoint(1):\n        for i in range(4):\n            x[i] += 1"),
    ),
    "a checkpoint in a checkpoint": (
        *("checkpoint", "cannot be inside another", None, "kp.checkpoint(2)"),
        gate("1", inside="with kp.checkpoint(2):\n    for i in range(4):\n        x[i] += 1"),
    ),
    "a checkpoint in a loop in a checkpoint": (
        *("checkpoint", "cannot be inside another", None, "kp.checkpoint(2)"),
        gate(
            "1",
            inside="while kp.graph.do_while(c):\n    with kp.checkpoint(2):\n        for i in range(4):\n            x[i] += 1",
        ),
    ),
    "an assignment in a checkpoint": (
        *("checkpoint", "a bare statement in a checkpoint", "for _ in range(1):", "x[0] = 1"),
        gate("1", inside="x[0] = 1"),
    ),
    "a change in a checkpoint": (
        *("checkpoint", "a bare statement in a checkpoint", "for _ in range(1):", "x[0] += 1"),
        gate("1", inside="for i in range(4):\n    x[i] = 1\nx[0] += 1"),
    ),
    "a call in a checkpoint": (
        *("checkpoint", "a bare statement in a checkpoint", "for _ in range(1):", "print(1)"),
        gate("1", inside="print(1)"),
    ),
    "a checkpoint without a label": (
        "checkpoint",
        "a checkpoint has a label",
        "IntEnum",
        "kp.checkpoint()",
        gate(""),
    ),
    "a label that is no int": ("checkpoint", "is no int that is known", "IntEnum", "1.5", gate("1.5")),
    "a label that is a text": ("checkpoint", "is no int that is known", "IntEnum", "'a'", gate("'a'")),
    "a label that is a condition": ("checkpoint", "is no int that is known", "IntEnum", "True", gate("True")),
    "a label that is only known later": (
        "checkpoint",
        "is no int that is known",
        None,
        "c[()]",
        gate("c[()]"),
    ),
    "a label that is too long": ("checkpoint", "is no int that is known", None, "1 << 70", gate("1 << 70")),
    "the same label twice": (
        *("checkpoint", "two checkpoints have the label `1`", "a label of its own", "1"),
        graph(
            "for j in kp.static(range(2)):\n    with kp.checkpoint(1):\n        for i in range(4):\n            x[i] += 1"
        ),
    ),
    "a member and its number": (
        *("checkpoint", "two checkpoints have the label `Stage.ONE` (`1`): both are 1", None, "Stage.ONE"),
        graph("with kp.checkpoint(1):\n    pass\nwith kp.checkpoint(Stage.ONE):\n    pass"),
    ),
    "something else than a label and a flag": (
        *("checkpoint", "`checkpoint` takes a label and `yield_on`", None, "when=c"),
        gate("1, when=c"),
    ),
    "too many arguments of a checkpoint": (
        "checkpoint",
        "`checkpoint` takes a label and `yield_on`",
        None,
        "3",
        gate("1, c, 3"),
    ),
    "two labels": ("checkpoint", "the same thing twice", None, "label=2", gate("1, label=2")),
    "a name for a checkpoint": (
        *("graph", "`checkpoint` gives nothing", "take `as` away", "status"),
        graph("with kp.checkpoint(1) as status:\n    pass"),
    ),
    "a checkpoint that is a value": (
        "graph",
        "`checkpoint` is a `with`, and nothing else",
        None,
        "kp.checkpoint(1)",
        graph("kp.checkpoint(1)"),
    ),
    "something else to hold open": (
        "syntax",
        "`with`",
        "hold nothing open",
        "with",
        graph("with open('x'):\n    x[0] = 1"),
    ),
    "two things at once": (
        "syntax",
        "`with`",
        None,
        "with",
        graph("with kp.checkpoint(1), kp.checkpoint(2):\n    pass"),
    ),
    # What is known after a checkpoint.
    "a sum that is lost": (
        *(
            "checkpoint",
            "`t` is set before the checkpoint `1` and used after it",
            "keep it in an array",
            "for i",
        ),
        graph(
            "t = 0\nfor i in range(4):\n    t += x[i]\nwith kp.checkpoint(1):\n    for i in range(4):\n        x[i] += t"
        ),
    ),
    "an element that is lost": (
        *("checkpoint", "`t` is set before the checkpoint `1` and used after it", None, "x[0] = t"),
        graph("t = x[1]\nwith kp.checkpoint(1):\n    for i in range(4):\n        x[i] += 1\nx[0] = t"),
    ),
    "a count of turns that is lost": (
        *("checkpoint", "`t` is set before the checkpoint `1` and used after it", None, "t += 1"),
        graph(
            "t = 0\nwhile kp.graph.do_while(c):\n    with kp.checkpoint(1):\n        pass\n    t += 1\n    x[0] = t"
        ),
    ),
    "a count of turns before the checkpoint": (
        *("checkpoint", "`t` is set before the checkpoint `1` and used after it", None, None),
        graph(
            "t = 0\nwhile kp.graph.do_while(c):\n    t += 1\n    x[0] = t\n    with kp.checkpoint(1):\n        pass"
        ),
    ),
    "a branch that is lost": (
        *("checkpoint", "`t` is set before the checkpoint `1` and used after it", None, None),
        graph("t = 1\nif x[0] > 0:\n    t = 2\nwith kp.checkpoint(1):\n    pass\nx[0] = t"),
    ),
    # Sections.
    "sections in no graph": (
        *("graph", "needs a kernel that is a graph", "graph=True", "kp.graph.parallel_context()"),
        graph("with kp.graph.parallel_context():\n    pass", ""),
    ),
    "a section by itself": (
        *("graph", "right inside `with graph.parallel_context():`", None, "kp.graph.parallel()"),
        graph("with kp.graph.parallel():\n    x[0] = 1"),
    ),
    "a statement beside sections": (
        *("graph", "holds sections only", "with graph.parallel():", "x[0] = 1"),
        graph("with kp.graph.parallel_context():\n    x[0] = 1"),
    ),
    "a loop beside sections": (
        *("graph", "holds sections only", None, "for i"),
        graph("with kp.graph.parallel_context():\n    for i in range(4):\n        x[i] = 1"),
    ),
    "sections in sections": (
        *("graph", "cannot be inside another", None, "kp.graph.parallel_context()"),
        graph("with kp.graph.parallel_context():\n    with kp.graph.parallel_context():\n        pass"),
    ),
    "sections in a section": (
        *("graph", "cannot be inside", None, "kp.graph.parallel_context()"),
        graph(
            "with kp.graph.parallel_context():\n    with kp.graph.parallel():\n        with kp.graph.parallel_context():\n            pass"
        ),
    ),
    "a loop of the graph in a section": (
        *("graph", "cannot be inside a section", None, "kp.graph.do_while(c)"),
        graph(
            "with kp.graph.parallel_context():\n    with kp.graph.parallel():\n        while kp.graph.do_while(c):\n            x[0] = 1"
        ),
    ),
    "a checkpoint in a section": (
        *("graph", "cannot be inside a section", None, "kp.checkpoint(1)"),
        graph(
            "with kp.graph.parallel_context():\n    with kp.graph.parallel():\n        with kp.checkpoint(1):\n            pass"
        ),
    ),
    "returning from a section": (
        *("graph", "a piece of a graph cannot return", None, "return"),
        graph("with kp.graph.parallel_context():\n    with kp.graph.parallel():\n        return"),
    ),
    "a section that may not be there": (
        *("graph", "whether there is a section must be known", "static", "x[0] > 0"),
        graph(
            "with kp.graph.parallel_context():\n    if x[0] > 0:\n        with kp.graph.parallel():\n            pass"
        ),
    ),
    "arguments of sections": (
        *(
            "graph",
            "`graph.parallel_context` takes no arguments",
            None,
            "kp.graph.parallel_context(2)",
        ),
        graph("with kp.graph.parallel_context(2):\n    pass"),
    ),
    "a variable of a section": (
        *("undefined", "`t` is used before it is assigned", None, "t"),
        graph("with kp.graph.parallel_context():\n    with kp.graph.parallel():\n        t = 1\nx[0] = t"),
    ),
}

CASES = {
    name: (*case[:4], BEFORE + case[4], case[5] if len(case) > 5 else (X, C)) for name, case in _CASES.items()
}
