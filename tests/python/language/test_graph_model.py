"""Random graphs of loops, statements, checkpoints and sections, beside an interpreter of the same structure."""

from __future__ import annotations

import importlib.util
import random
import textwrap

import numpy as np
import pytest

import keyprint as kp

N = 5
LOOPS = 4
WRAP = 2**32


def wrapped(value):
    """Return an int as 32 bits hold it."""
    return (int(value) + WRAP // 2) % WRAP - WRAP // 2


# -- Making programs -------------------------------------------------------------------------------


class Maker:
    """Makes the tree of a graph: tuples that begin with what they are."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.labels = self.random.sample(range(-3, 50), 12)
        self.loops = 0
        self.forks = 0
        self.constants = 0

    def number(self):
        self.constants += 1
        return self.constants

    def leaf(self):
        kind = self.random.choice(["for", "for", "bare", "if", "serial", "atomic"])
        return (kind, self.number())

    def body(self, depth, in_checkpoint=False):
        nodes = []
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.3 and depth > 0 and self.loops < LOOPS:
                at, self.loops = self.loops, self.loops + 1
                turns = self.random.randint(1, 3)
                # A loop in a checkpoint is set up in it, or whatever it was left with is one turn.
                inside = [*self.body(depth - 1, in_checkpoint), ("count", at)]
                nodes += [("while", at, inside, turns)]
            elif kind < 0.6 and not in_checkpoint and self.labels:
                label = self.labels.pop()
                nodes.append(("checkpoint", label, self.checkpoint_body(depth)))
            elif kind < 0.7 and self.forks < 2:
                self.forks += 1
                nodes.append(
                    (
                        "fork",
                        [[("own", side, self.number()), ("own", side, self.number())] for side in (0, 1)],
                    )
                )
            else:
                nodes.append(self.leaf())
        return nodes

    def checkpoint_body(self, depth):
        nodes = []
        for _ in range(self.random.randint(0, 2)):
            if self.random.random() < 0.2 and depth > 0 and self.loops < LOOPS:
                at, self.loops = self.loops, self.loops + 1
                nodes.append(("while", at, [*self.body(0, True), ("count", at)], self.random.randint(1, 2)))
            else:
                nodes.append((self.random.choice(["for", "if"]), self.number()))
        nodes.insert(self.random.randint(0, len(nodes)), ("flag", self.number()))
        return nodes


def text_of(nodes, name, in_checkpoint=False):
    """Return the statements of a tree; ``name`` is how the program gets at an array."""
    x, log, t, when, flag = (name(array) for array in ("x", "log", "t", "when", "flag"))
    lines = []
    for node in nodes:
        kind = node[0]
        if kind == "for":
            lines += [
                "for i in range(known[0]):",
                f"    {x}[i] = {x}[i] * 3 + {node[1]} + i + half * known[1]",
            ]
        elif kind == "atomic":
            lines += [f"for i in range({x}.shape[0]):", f"    {log}[()] += {x}[i] + {node[1]}"]
        elif kind == "serial":
            lines += [
                "kp.loop_config(serialize=True)" if not in_checkpoint else "",
                f"for i in range({x}.shape[0]):",
                f"    {x}[i] += {node[1]}",
            ]
        elif kind == "bare":
            lines += [f"{log}[()] = {log}[()] * 5 + {node[1]}"]
        elif kind == "if":
            lines += [
                f"if {log}[()] % 2 == 0:",
                f"    {log}[()] += {node[1]}",
                "else:",
                f"    {log}[()] -= {node[1]}",
            ]
        elif kind == "count":
            lines += ["for _ in range(1):", f"    {name(f'c{node[1]}')}[()] -= 1"]
        elif kind == "flag":
            lines += [
                "for _ in range(1):",
                f"    {t}[()] += 1",
                f"    {log}[()] = {log}[()] * 7 + {node[1]}",
                f"    for k in range({when}.shape[0]):",
                f"        if {t}[()] == {when}[k]:",
                f"            {flag}[()] = 1",
            ]
        elif kind == "while":
            _, at, body, turns = node
            counter = name(f"c{at}")
            lines += ["for _ in range(1):", f"    {counter}[()] = {turns}"]
            lines += [f"while kp.graph.do_while({counter}):"]
            lines += textwrap.indent(text_of(body, name), "    ").splitlines()
        elif kind == "checkpoint":
            lines += [f"with kp.checkpoint({node[1]}, yield_on={flag}):"]
            lines += textwrap.indent(text_of(node[2], name, True), "    ").splitlines()
        elif kind == "own":
            y = name(f"y{node[1]}")
            lines += [f"for i in range({y}.shape[0]):", f"    {y}[i] = {y}[i] * 3 + {node[2]} + {x}[i]"]
        elif kind == "fork":
            lines += ["with kp.graph.parallel_context():"]
            for section in node[1]:
                lines += ["    with kp.graph.parallel():"]
                lines += textwrap.indent(text_of(section, name), "        ").splitlines()
    return "\n".join(line for line in lines if line)


NAMES = ["x", "y0", "y1", "log", "t", "when", "flag", *(f"c{at}" for at in range(LOOPS))]
VECTORS = ("x", "y0", "y1", "when")


def program(nodes, style):
    kinds = {name: f"kp.types.NDArray[kp.i32, {int(name in VECTORS)}]" for name in NAMES}
    decorator = "@kp.kernel(graph=True, checkpoints=True)"
    # Known wherever a launch begins.
    first = "half = {x}.shape[0] // 2\nknown = kp.Vector([{x}.shape[0], {x}.shape[0] + 10])\n"
    if style == "parameters":
        parameters = ", ".join(f"{name}: {kinds[name]}" for name in NAMES)
        body = textwrap.indent(first.format(x="x") + text_of(nodes, str), "    ")
        return f"{decorator}\ndef k({parameters}):\n{body}"
    body = textwrap.indent(first.format(x="self.x") + text_of(nodes, lambda name: f"self.{name}"), "        ")
    return f"@kp.data_oriented\nclass Sim:\n    {decorator}\n    def k(self):\n{body}"


# -- Interpreting them -----------------------------------------------------------------------------


class Yielded(Exception):
    pass


def holds(node, label):
    if node[0] == "checkpoint":
        return node[1] == label
    return node[0] == "while" and any(holds(child, label) for child in node[2])


class Model:
    """Runs a tree on plain lists and ints."""

    def __init__(self, state):
        self.state = {
            name: list(value) if isinstance(value, list) else value for name, value in state.items()
        }
        self.start = None

    def launch(self, nodes, start=None):
        self.start = start
        try:
            self.run(nodes)
        except Yielded as yielded:
            return yielded.args[0]
        return None

    def run(self, nodes):
        for node in nodes:
            if self.start is None or holds(node, self.start):
                getattr(self, f"run_{node[0]}")(*node[1:])

    def run_for(self, k):
        s = self.state
        s["x"] = [wrapped(value * 3 + k + i + N // 2 * (N + 10)) for i, value in enumerate(s["x"])]

    def run_atomic(self, k):
        s = self.state
        s["log"] = wrapped(s["log"] + sum(value + k for value in s["x"]))

    def run_serial(self, k):
        s = self.state
        s["x"] = [wrapped(value + k) for value in s["x"]]

    def run_bare(self, k):
        self.state["log"] = wrapped(self.state["log"] * 5 + k)

    def run_if(self, k):
        log = self.state["log"]
        self.state["log"] = wrapped(log + (k if log % 2 == 0 else -k))

    def run_count(self, at):
        self.state[f"c{at}"] = wrapped(self.state[f"c{at}"] - 1)

    def run_flag(self, k):
        s = self.state
        s["t"] = wrapped(s["t"] + 1)
        s["log"] = wrapped(s["log"] * 7 + k)
        if s["t"] in s["when"]:
            s["flag"] = 1

    def run_while(self, at, body, turns):
        if self.start is None:
            self.state[f"c{at}"] = turns
        for _ in range(1000):
            self.run(body)
            if self.state[f"c{at}"] == 0:
                return
        raise AssertionError("a loop without an end")

    def run_checkpoint(self, label, body):
        self.start = None
        self.run(body)
        if self.state["flag"] != 0:
            raise Yielded(label)

    def run_own(self, side, k):
        s = self.state
        name = f"y{side}"
        s[name] = [wrapped(value * 3 + k + s["x"][i]) for i, value in enumerate(s[name])]

    def run_fork(self, sections):
        for section in sections:
            self.run(section)


# -- Both beside each other ------------------------------------------------------------------------


def load(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text("import keyprint as kp\n\n" + text + "\n")
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def labels_in(nodes):
    for node in nodes:
        if node[0] == "checkpoint":
            yield node[1]
        elif node[0] == "while":
            yield from labels_in(node[2])


class Machine:
    """The compiled kernel and its arrays."""

    def __init__(self, module, style, state):
        self.arrays = {name: np.array(value, np.int32) for name, value in state.items()}
        if style == "parameters":
            self.kernel, self.arguments = module.k, list(self.arrays.values())
        else:
            self.sim = module.Sim()
            for name, array in self.arrays.items():
                setattr(self.sim, name, array)
            self.kernel, self.arguments = self.sim.k, []

    def launch(self, start=None):
        if start is None:
            return self.kernel(*self.arguments)
        return self.kernel.resume(*self.arguments, from_checkpoint=start)


@pytest.mark.parametrize("seed", range(48))
def test_random_graphs_do_what_an_interpreter_does(seed, tmp_path):
    rng = random.Random(seed)
    style = "object" if seed % 4 == 3 else "parameters"
    nodes = Maker(seed).body(2)
    labels = list(labels_in(nodes))
    module = load(tmp_path, program(nodes, style))
    state = {name: [rng.randint(0, 9) for _ in range(N)] if name in VECTORS else 0 for name in NAMES}
    state["when"] = sorted(rng.sample(range(1, 12), 3))
    model, machine = Model(state), Machine(module, style, state)

    def check(expected, status):
        assert status == kp.GraphStatus(expected is not None, expected), program(nodes, style)
        arrays = {name: array.tolist() for name, array in machine.arrays.items()}
        assert arrays == model.state, program(nodes, style)

    start = None
    for _ in range(12):
        expected = model.launch(nodes, start)
        check(expected, machine.launch(start))
        model.state["flag"] = 0
        machine.arrays["flag"][()] = 0
        if expected is not None and rng.random() < 0.8:
            start = expected
        else:
            start = rng.choice([None, *labels])
            # A loop that is entered in its middle has something left to do.
            for name in (f"c{at}" for at in range(LOOPS)):
                if model.state[name] <= 0:
                    model.state[name] = 1
                    machine.arrays[name][()] = 1
    assert machine.kernel.observations.compiled <= 1
