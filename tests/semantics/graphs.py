"""Random graphs of loops, statements, checkpoints and sections, judged by an interpreter of the same structure.

`programs` is about what is computed for one iteration, and `loops` about loops in a row. This is about what decides whether
tasks run, how often and after what: loops that an array repeats, launches that end at a checkpoint and resume there,
sections. Tasks read what others of other threads have written just before, so that whoever does not wait is seen.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import keyprint as kp

#: Loops of a graph, at most: each has a counter.
LOOPS = 4

#: How often each graph is launched or resumed.
LAUNCHES = 12

NAMES = ["x", "y0", "y1", "log", "t", "when", "flag", *(f"c{at}" for at in range(LOOPS))]
VECTORS = ("x", "y0", "y1", "when")

Nodes = list[tuple[Any, ...]]
WRAP = 2**32


def wrapped(value: Any) -> int:
    """Return an int as 32 bits hold it."""
    return (int(value) + WRAP // 2) % WRAP - WRAP // 2


# -- Making programs -------------------------------------------------------------------------------


@dataclasses.dataclass
class Graph:
    """A graph: a tree of tuples that begin with what they are."""

    nodes: Nodes
    #: How a program gets at the arrays: as ``parameters``, or as members of an ``object``.
    style: str
    has_checkpoints: bool


class Maker:
    """Makes the tree of a graph."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.has_checkpoints = seed % 5 != 2
        self.labels = self.rng.sample(range(-3, 50), 12) if self.has_checkpoints else []
        self.loops = 0
        self.forks = 0
        self.constants = 0

    def graph(self, style: str) -> Graph:
        return Graph(self._body(2), style, self.has_checkpoints)

    def _number(self) -> int:
        self.constants += 1
        return self.constants

    def _leaf(self) -> tuple[Any, ...]:
        kind = self.rng.choice(
            ["for", "mix", "pull", "some", "plane", "let", "bare", "if", "serial", "atomic"]
        )
        return (kind, self._number())

    def _body(self, depth: int, in_checkpoint: bool = False) -> Nodes:
        nodes: Nodes = []
        for _ in range(self.rng.randint(1, 5)):
            kind = self.rng.random()
            if kind < 0.3 and depth > 0 and self.loops < LOOPS:
                at, self.loops = self.loops, self.loops + 1
                turns = self.rng.randint(1, 3)
                # A loop in a checkpoint is set up in it, or whatever it was left with is one turn.
                nodes.append(("while", at, [*self._body(depth - 1, in_checkpoint), ("count", at)], turns))
            elif kind < 0.5 and not in_checkpoint and self.labels:
                nodes.append(("checkpoint", self.labels.pop(), self._checkpoint_body(depth)))
            elif kind < 0.56 and self.forks < 2:
                self.forks += 1
                nodes.append(("fork", [self._section(side) for side in (0, 1)]))
            else:
                nodes.append(self._leaf())
        return nodes

    def _checkpoint_body(self, depth: int) -> Nodes:
        nodes: Nodes = []
        for _ in range(self.rng.randint(0, 2)):
            if self.rng.random() < 0.2 and depth > 0 and self.loops < LOOPS:
                at, self.loops = self.loops, self.loops + 1
                nodes.append(("while", at, [*self._body(0, True), ("count", at)], self.rng.randint(1, 2)))
            else:
                nodes.append((self.rng.choice(["for", "mix", "pull", "some", "if"]), self._number()))
        nodes.insert(self.rng.randint(0, len(nodes)), ("flag", self._number()))
        return nodes

    def _section(self, side: int) -> Nodes:
        kinds = self.rng.choices(["own", "turn", "first"], k=self.rng.randint(1, 3))
        return [(kind, side, self._number()) for kind in kinds]


def make(seed: int) -> Graph:
    return Maker(seed).graph("object" if seed % 4 == 3 else "parameters")


def lines_of(nodes: Nodes, name: Callable[[str], str], in_checkpoint: bool = False) -> list[str]:
    """The statements of a tree; ``name`` is how the program gets at an array."""
    x, log, t, when, flag = (name(array) for array in ("x", "log", "t", "when", "flag"))
    size = f"{x}.shape[0]"
    lines = []

    def inside(nodes: Nodes, depth: int, in_checkpoint: bool = False) -> list[str]:
        return ["    " * depth + line for line in lines_of(nodes, name, in_checkpoint)]

    for kind, *rest in nodes:
        k = rest[-1]
        if kind == "for":
            lines += [
                "for i in range(known[0]):",
                f"    {x}[i] = {x}[i] * 3 + {k} + i + half * known[1]",
            ]
        elif kind == "mix":
            lines += [f"for i in {x}:", f"    {name(f'y{k % 2}')}[i] += {x}[(i * 7 + {k}) % {size}]"]
        elif kind == "pull":
            lines += [f"for i in {x}:", f"    {x}[i] += {name(f'y{k % 2}')}[(i * 5 + {k}) % {size}]"]
        elif kind == "some":
            lines += [f"for i in range(min({log}[()] & 1023, {size})):", f"    {x}[i] += {k}"]
        elif kind == "plane":
            lines += [f"for i, j in kp.ndrange(3, {size}):", f"    {x}[j] += i * {k}"]
        elif kind == "let":
            lines += [f"v{k} = {log}[()] + {k}", f"for i in {x}:", f"    {x}[i] += v{k}"]
        elif kind == "atomic":
            lines += [f"for i in range({size}):", f"    {log}[()] += {x}[i] + {k}"]
        elif kind == "serial":
            lines += [] if in_checkpoint else ["kp.loop_config(serialize=True)"]
            lines += [f"for i in range({size}):", f"    {x}[i] += {k}"]
        elif kind == "bare":
            lines += [f"{log}[()] = {log}[()] * 5 + {k}"]
        elif kind == "if":
            lines += [f"if {log}[()] % 2 == 0:", f"    {log}[()] += {k}"]
            lines += ["else:", f"    {log}[()] -= {k}"]
        elif kind == "count":
            lines += ["for _ in range(1):", f"    {name(f'c{k}')}[()] -= 1"]
        elif kind == "flag":
            lines += [
                "for _ in range(1):",
                f"    {t}[()] += 1",
                f"    {log}[()] = {log}[()] * 7 + {k}",
                f"    for k in range({when}.shape[0]):",
                f"        if {t}[()] == {when}[k]:",
                f"            {flag}[()] = 1",
            ]
        elif kind == "while":
            at, body, turns = rest
            counter = name(f"c{at}")
            lines += ["for _ in range(1):", f"    {counter}[()] = {turns}"]
            lines += [f"while kp.graph.do_while({counter}):", *inside(body, 1)]
        elif kind == "checkpoint":
            label, body = rest
            lines += [f"with kp.checkpoint({label}, yield_on={flag}):", *inside(body, 1, True)]
        elif kind == "own":
            y = name(f"y{rest[0]}")
            lines += [f"for i in range({y}.shape[0]):", f"    {y}[i] = {y}[i] * 3 + {k} + {x}[i]"]
        elif kind == "turn":
            y = name(f"y{rest[0]}")
            lines += [f"for i in {y}:", f"    {y}[i] += {y}[0] * 0 + {x}[(i * 3 + {k}) % {size}]"]
        elif kind == "first":
            y = name(f"y{rest[0]}")
            lines += [f"{y}[{size} - 1] = {y}[0] * 5 + {k}"]
        elif kind == "fork":
            lines += ["with kp.graph.parallel_context():"]
            for section in rest[0]:
                lines += ["    with kp.graph.parallel():", *inside(section, 2)]
    return lines


def text_of(graph: Graph) -> str:
    """The program of a graph."""
    kinds = {name: f"kp.types.NDArray[kp.i32, {int(name in VECTORS)}]" for name in NAMES}
    decorator = f"@kp.kernel(graph=True, checkpoints={graph.has_checkpoints})"
    # Known wherever a launch begins.
    first = "half = {x}.shape[0] // 2\nknown = kp.Vector([{x}.shape[0], {x}.shape[0] + 10])\n"
    if graph.style == "parameters":
        parameters = ", ".join(f"{name}: {kinds[name]}" for name in NAMES)
        body = textwrap.indent(first.format(x="x") + "\n".join(lines_of(graph.nodes, str)), "    ")
        kernel = f"{decorator}\ndef k({parameters}):\n{body}"
    else:
        lines = "\n".join(lines_of(graph.nodes, lambda name: f"self.{name}"))
        body = textwrap.indent(first.format(x="self.x") + lines, "        ")
        kernel = f"@kp.data_oriented\nclass Sim:\n    {decorator}\n    def k(self):\n{body}"
    return f"import keyprint as kp\n\n{kernel}\n"


# -- Interpreting them -----------------------------------------------------------------------------


class Yielded(Exception):
    """A checkpoint has ended the launch."""


def holds(node: tuple[Any, ...], label: Any) -> bool:
    if node[0] == "checkpoint":
        return bool(node[1] == label)
    return node[0] == "while" and any(holds(child, label) for child in node[2])


class Model:
    """Runs a tree on arrays and ints, one thing after the other."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = {name: value.copy() if name in VECTORS else int(value) for name, value in state.items()}
        self.start: Any = None

    def launch(self, nodes: Nodes, start: Any = None) -> Any:
        """Returns the label that the launch ended at, if any."""
        self.start = start
        try:
            with np.errstate(over="ignore"):
                self.run(nodes)
        except Yielded as yielded:
            return yielded.args[0]
        return None

    def run(self, nodes: Nodes) -> None:
        for node in nodes:
            if self.start is None or holds(node, self.start):
                getattr(self, f"run_{node[0]}")(*node[1:])

    @property
    def x(self) -> Any:
        return self.state["x"]

    def add(self, name: str, values: Any) -> None:
        self.state[name] += np.asarray(values).astype(np.int32)

    def shifted(self, name: str, factor: int, k: int) -> Any:
        size = len(self.x)
        return self.state[name][(np.arange(size) * factor + k) % size]

    def run_for(self, k: int) -> None:
        size = len(self.x)
        self.x[:] = (
            self.x * np.int32(3) + np.int32(k + size // 2 * (size + 10)) + np.arange(size, dtype=np.int32)
        )

    def run_mix(self, k: int) -> None:
        self.add(f"y{k % 2}", self.shifted("x", 7, k))

    def run_pull(self, k: int) -> None:
        self.add("x", self.shifted(f"y{k % 2}", 5, k))

    def run_some(self, k: int) -> None:
        self.x[: min(self.state["log"] & 1023, len(self.x))] += np.int32(k)

    def run_plane(self, k: int) -> None:
        self.add("x", np.full(len(self.x), (0 + 1 + 2) * k))

    def run_let(self, k: int) -> None:
        self.add("x", np.full(len(self.x), wrapped(self.state["log"] + k)))

    def run_atomic(self, k: int) -> None:
        self.state["log"] = wrapped(self.state["log"] + int(self.x.astype(np.int64).sum()) + k * len(self.x))

    def run_serial(self, k: int) -> None:
        self.add("x", np.full(len(self.x), k))

    def run_bare(self, k: int) -> None:
        self.state["log"] = wrapped(self.state["log"] * 5 + k)

    def run_if(self, k: int) -> None:
        log = self.state["log"]
        self.state["log"] = wrapped(log + (k if log % 2 == 0 else -k))

    def run_count(self, at: int) -> None:
        self.state[f"c{at}"] = wrapped(self.state[f"c{at}"] - 1)

    def run_flag(self, k: int) -> None:
        s = self.state
        s["t"] = wrapped(s["t"] + 1)
        s["log"] = wrapped(s["log"] * 7 + k)
        if s["t"] in s["when"]:
            s["flag"] = 1

    def run_while(self, at: int, body: Nodes, turns: int) -> None:
        if self.start is None:
            self.state[f"c{at}"] = turns
        for _ in range(1000):
            self.run(body)
            if self.state[f"c{at}"] == 0:
                return
        raise AssertionError("a loop without an end")

    def run_checkpoint(self, label: int, body: Nodes) -> None:
        self.start = None
        self.run(body)
        if self.state["flag"] != 0:
            raise Yielded(label)

    def run_own(self, side: int, k: int) -> None:
        y = self.state[f"y{side}"]
        y[:] = y * np.int32(3) + np.int32(k) + self.x

    def run_turn(self, side: int, k: int) -> None:
        self.add(f"y{side}", self.shifted("x", 3, k))

    def run_first(self, side: int, k: int) -> None:
        y = self.state[f"y{side}"]
        y[-1] = wrapped(int(y[0]) * 5 + k)

    def run_fork(self, sections: list[Nodes]) -> None:
        for section in sections:
            self.run(section)


# -- Both beside each other ------------------------------------------------------------------------


def labels_in(nodes: Nodes) -> Iterator[Any]:
    for node in nodes:
        if node[0] == "checkpoint":
            yield node[1]
        elif node[0] == "while":
            yield from labels_in(node[2])


class Machine:
    """The compiled kernel and its arrays."""

    def __init__(self, graph: Graph, module: Any, state: dict[str, Any], is_own: bool) -> None:
        self.is_own = is_own
        self.sim = None if graph.style == "parameters" else module.Sim()
        self.kernel = module.k if self.sim is None else self.sim.k
        self.place(state)

    def place(self, state: dict[str, Any]) -> None:
        """Take other arrays, with these values."""
        self.arrays: dict[str, Any] = {}
        for name, value in state.items():
            value = np.array(value, np.int32)
            self.arrays[name] = value
            if self.is_own:
                self.arrays[name] = kp.ndarray(kp.i32, value.shape)
                self.arrays[name].from_numpy(value)
            if self.sim is not None:
                setattr(self.sim, name, self.arrays[name])

    def launch(self, start: Any = None) -> Any:
        arguments = list(self.arrays.values()) if self.sim is None else []
        if start is None:
            return self.kernel(*arguments)
        return self.kernel.resume(*arguments, from_checkpoint=start)

    def state(self) -> dict[str, Any]:
        return {name: array.to_numpy() if self.is_own else array for name, array in self.arrays.items()}


def judge(seed: int, directory: Path, size: int = 5, is_own: bool = False) -> str | None:
    """Launch a graph and resume it, again and again. Return what differs from the interpreter."""
    graph = make(seed)
    path = directory / f"graph{seed}.py"
    path.write_text(text_of(graph))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = random.Random(seed)
    state: dict[str, Any] = {name: np.int32(0) for name in NAMES}
    state |= {name: np.array([rng.randint(0, 9) for _ in range(size)], np.int32) for name in VECTORS}
    state["when"] = np.array(sorted(rng.sample(range(1, 12), 3)), np.int32)
    model, machine = Model(state), Machine(graph, module, state, is_own)
    labels, start = list(labels_in(graph.nodes)), None
    for turn in range(LAUNCHES):
        expected, status = model.launch(graph.nodes, start), machine.launch(start)
        wanted = kp.GraphStatus(expected is not None, expected) if graph.has_checkpoints else None
        actual = machine.state()
        wrong = [name for name in NAMES if not np.array_equal(actual[name], model.state[name])]
        if status != wanted or wrong:
            where = f"seed {seed}, {size} elements, launch {turn} from {start}"
            ways = getattr(machine.kernel.graph(), "launch", None)
            return f"{path.read_text()}\n{where}, {ways}: {status} instead of {wanted}; {wrong} differ"
        model.state["flag"] = 0
        start = expected if expected is not None and rng.random() < 0.8 else rng.choice([None, *labels])
        # A loop that is entered in its middle has something left to do.
        for name in (f"c{at}" for at in range(LOOPS)):
            if start != expected or expected is None:
                model.state[name] = max(model.state[name], 1)
        if rng.random() < 0.5:
            machine.place(model.state)
        else:
            for name in ("flag", *(f"c{at}" for at in range(LOOPS))):
                array = machine.arrays[name]
                array.fill(model.state[name])
    many = machine.kernel.observations.compiled
    return None if many <= 1 else f"seed {seed}: compiled {many} times"
