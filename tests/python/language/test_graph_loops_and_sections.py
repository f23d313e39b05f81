"""Graphs: loops that depend on arrays, sections beside each other, and what can be seen of them."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import keyprint as kp
import keyprint.quadrants as qd

Vector = kp.types.NDArray[kp.i32, 1]
Number = kp.types.NDArray[kp.i32, 0]


def number(value=0):
    return np.array(value, np.int32)


def zeros(n=5):
    return np.zeros(n, np.int32)


# -- Tasks -----------------------------------------------------------------------------------------


@kp.kernel(graph=True)
def tasks(x: Vector, n: kp.i32):
    total = 0
    for i in range(x.shape[0]):
        x[i] += i * n
    for i in range(x.shape[0]):
        total += x[i]
    x[0] = total
    if x[1] > 2:
        x[1] = -x[1]


def test_loops_and_statements_run_in_order_and_again_in_each_launch():
    x, expected = zeros(), zeros()
    for n in (1, 2, 3):
        assert tasks(x, n) is None
        expected += np.arange(5, dtype=np.int32) * n
        expected[0] = expected.sum()
        if expected[1] > 2:
            expected[1] *= -1
        np.testing.assert_array_equal(x, expected)
    assert tasks.observations.compiled == 1


def test_a_graph_and_a_kernel_of_one_function_share_nothing():
    def f(x: Vector):
        for i in range(x.shape[0]):
            x[i] += 1

    graph, plain = kp.kernel(f, graph=True), kp.kernel(f)
    gated = kp.kernel(f, graph=True, checkpoints=True)
    x = zeros()
    assert graph(x) is None and plain(x) is None
    assert gated(x) == kp.GraphStatus(False, None)
    assert x.tolist() == [3] * 5
    keys = {one._dispatcher.options.identity()[-1] for one in (graph, plain, gated)}
    assert keys == {(True, False), (False, False), (True, True)}


def test_checkpoints_need_a_graph():
    with pytest.raises(TypeError, match="only graphs have checkpoints"):
        kp.kernel(checkpoints=True)(tasks.__wrapped__)


# -- Loops -----------------------------------------------------------------------------------------


@kp.kernel(graph=True)
def counted(x: Vector, c: Number):
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            x[i] += 1
        c[()] -= 1


@pytest.mark.parametrize("turns", [1, 2, 7, 1000])
def test_a_loop_goes_on_until_its_counter_is_zero(turns):
    x, c = zeros(), number(turns)
    counted(x, c)
    assert x.tolist() == [turns] * 5 and c == 0


def test_the_body_runs_before_the_counter_is_looked_at():
    @kp.kernel(graph=True)
    def once(x: Vector, c: Number):
        while kp.graph.do_while(c):
            x[0] += 1

    x = zeros()
    once(x, number(0))
    assert x[0] == 1


def test_negative_numbers_are_not_zero():
    @kp.kernel(graph=True)
    def up(x: Vector, c: Number):
        while kp.graph.do_while(c):
            x[0] += 1
            c[()] += 1

    x = zeros()
    up(x, number(-3))
    assert x[0] == 3


def test_other_counters_need_no_other_kernel():
    @kp.kernel(graph=True)
    def k(x: Vector, c: Number):
        while kp.graph.do_while(c):
            x[0] += 1
            c[()] -= 1

    x = zeros()
    for turns in (1, 2, 3):
        k(x, number(turns))
    own = kp.ndarray(kp.i32, ())
    own[()] = 4
    k(x, own)
    assert x[0] == 10
    assert k.observations.compiled == 1


def test_loops_inside_and_beside_loops():
    @kp.kernel(graph=True)
    def k(x: Vector, a: Number, b: Number, c: Number):
        for i in range(x.shape[0]):
            x[i] += 1000
        while kp.graph.do_while(a):
            b[()] = 3
            while kp.graph.do_while(b):
                for i in range(x.shape[0]):
                    x[i] += 1
                b[()] -= 1
            for i in range(x.shape[0]):
                x[i] += 10
            a[()] -= 1
        while kp.graph.do_while(c):
            x[0] += 100
            c[()] -= 1
        x[1] = -x[1]

    x = zeros()
    k(x, number(4), number(), number(2))
    assert x.tolist() == [1252, -1052, 1052, 1052, 1052]
    levels = k._primal.graph_do_while_levels
    assert [(one.cond_arg_name, one.parent_id) for one in levels] == [("a", -1), ("b", 0), ("c", -1)]
    assert [k.graph().arguments[one.cond_cpp_arg_id] for one in levels] == ["a", "b", "c"]


def test_variables_of_the_kernel_go_through_loops():
    @kp.kernel(graph=True)
    def k(x: Vector, c: Number):
        turns = 0
        while kp.graph.do_while(c):
            turns += 1
            step = turns * 2
            for i in range(x.shape[0]):
                x[i] += step
            c[()] -= 1
        x[0] = turns

    x = zeros()
    k(x, number(3))
    assert x.tolist() == [3, 12, 12, 12, 12]


def test_functions_hold_loops_and_sections():
    @kp.func
    def inner(x: kp.template(), c: kp.template(), by):
        while kp.graph.do_while(c):
            for i in range(x.shape[0]):
                x[i] += by
            c[()] -= 1

    @kp.func
    def outer(x: kp.template(), c: kp.template()):
        inner(x, c, 1)
        c[()] = 2
        inner(x, c, 10)

    @kp.kernel(graph=True)
    def k(x: Vector, c: Number):
        outer(x, c)

    x = zeros()
    k(x, number(3))
    assert x.tolist() == [23] * 5
    assert len(k.graph().loops) == 2 and len(k.graph().tasks) == 5


def test_a_loop_of_a_large_task_uses_all_threads():
    @kp.kernel(graph=True)
    def k(x: Vector, c: Number):
        while kp.graph.do_while(c):
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + i
            c[()] -= 1

    x = np.arange(200_001, dtype=np.int32)
    expected = x.copy()
    k(x, number(5))
    for _ in range(5):
        expected = expected * 3 + np.arange(200_001, dtype=np.int32)
    np.testing.assert_array_equal(x, expected)


def test_other_threads_run_meanwhile():
    @kp.kernel(graph=True)
    def k(stop: Vector, c: Number):
        while kp.graph.do_while(c):
            if stop[0] != 0:
                c[()] = 0

    stop = zeros(1)
    k(np.ones(1, np.int32), number(1))
    timer = threading.Timer(0.05, lambda: stop.__setitem__(0, 1))
    timer.start()
    k(stop, number(1))
    timer.join()
    assert stop[0] == 1


ENDLESS = """
import os, signal, sys, threading
import numpy as np
import keyprint as kp

@kp.kernel(graph=True)
def endless(x: kp.types.NDArray[kp.i32, 1], c: kp.types.NDArray[kp.i32, 0]):
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            x[i] += 1

x, c = np.zeros(3, np.int32), np.zeros((), np.int32)
endless(x, c)
c[()] = 1
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    endless(x, c)
except KeyboardInterrupt:
    print("interrupted", x[0] > 1, x[0] == x[2])
c[()] = 0
endless(x, c)
print("goes on")
"""


def test_a_loop_without_an_end_can_be_interrupted(tmp_path, kernel_store):
    path = tmp_path / "program.py"
    path.write_text(ENDLESS)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split("\n") == ["interrupted True True", "goes on", ""], done.stderr


SLOW = """
import os, signal, sys, threading, time
import numpy as np
import keyprint as kp

@kp.kernel(graph=True)
def slow(x: kp.types.NDArray[kp.i32, 1], turns: kp.types.NDArray[kp.i32, 0], c: kp.types.NDArray[kp.i32, 0]):
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            for j in range(1000):
                x[i] = x[i] * 3 + j
        turns[()] += 1

x, turns, c = np.zeros(20_000, np.int32), np.zeros((), np.int32), np.zeros((), np.int32)
slow(x, turns, c)
c[()], turns[()] = 1, 0

def interrupt():
    while turns < 3:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    slow(x, turns, c)
except KeyboardInterrupt:
    print("interrupted", turns >= 3)
"""

SEVERAL = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import numpy as np
import keyprint as kp

@kp.kernel(graph=True)
def k(x: kp.types.NDArray[kp.i32, 1], c: kp.types.NDArray[kp.i32, 0]):
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            x[i] += 1
        with kp.graph.parallel_context():
            with kp.graph.parallel():
                for i in range(x.shape[0]):
                    x[i] += 1
        c[()] -= 1

interpreters.destroy(interpreters.create())
x = np.zeros(1_000_000, np.int32)
k(x, np.array(100, np.int32))
print(x.min(), x.max())
"""


@pytest.mark.parametrize(("program", "expected"), [(SLOW, "interrupted True\n"), (SEVERAL, "200 200\n")])
def test_processes_with_slow_turns_and_with_several_interpreters(program, expected, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_each_turn_draws_other_numbers():
    @kp.kernel(graph=True)
    def k(x: kp.types.NDArray[kp.f32, 2], c: Number):
        while kp.graph.do_while(c):
            for i in range(10):
                x[c[()] - 1, i] = kp.random()
            x[c[()] - 1, 10] = kp.random()
            with kp.graph.parallel_context():
                with kp.graph.parallel():
                    x[c[()] - 1, 11] = kp.random()
                    for i in range(12, 20):
                        x[c[()] - 1, i] = kp.random()
                with kp.graph.parallel():
                    x[c[()] - 1, 20] = kp.random()
            c[()] -= 1

    found = []
    for _ in range(2):
        kp.init(random_seed=3)
        x = np.zeros((6, 21), np.float32)
        k(x, number(6))
        assert len(np.unique(x)) == 6 * 21
        found.append(x)
    np.testing.assert_array_equal(*found)


def test_failures_in_loops_are_reported(tmp_path):
    kp.init(debug=True, offline_cache=False)

    @kp.kernel(graph=True)
    def k(x: Vector, c: Number):
        while kp.graph.do_while(c):
            for i in range(x.shape[0]):
                x[i + c[()] - 1] += 1
            c[()] += 1

    with pytest.raises(kp.KernelIndexError, match="index 5 of `x` is out of range"):
        k(zeros(), number(1))
    with pytest.raises(kp.KernelIndexError):
        k(zeros(300_000), number(100))


# -- What they depend on ---------------------------------------------------------------------------


@dataclasses.dataclass
class Params:
    x: Vector
    c: Number


@dataclasses.dataclass(frozen=True)
class Deep:
    inner: Params


@kp.data_oriented
class Sim:
    def __init__(self, turns=3):
        self.x, self.c = kp.ndarray(kp.i32, 5), kp.ndarray(kp.i32, ())
        self.c[()] = turns
        self.params = Params(self.x, self.c)

    @kp.kernel(graph=True)
    def step(self):
        while kp.graph_do_while(self.c):
            for i in self.x:
                self.x[i] += 1
            self.c[()] -= 1

    @kp.kernel(graph=True)
    def step_params(self, by: kp.i32):
        while kp.graph.do_while(self.params.c):
            for i in self.params.x:
                self.params.x[i] += by
            self.params.c[()] -= 1


@kp.data_oriented
class World:
    def __init__(self):
        self.sim = Sim()
        self.all = (self.sim.c, self.sim.x)

    @kp.kernel(graph=True)
    def step(self):
        while kp.graph.do_while(self.sim.params.c):
            self.sim.x[0] += 1
            self.sim.params.c[()] -= 1


@kp.kernel(graph=True)
def typed(p: Params):
    while kp.graph.do_while(p.c):
        for i in range(p.x.shape[0]):
            p.x[i] += 1
        p.c[()] -= 1


@kp.kernel(graph=True)
def nested(d: Deep):
    while kp.graph.do_while(d.inner.c):
        for i in range(d.inner.x.shape[0]):
            d.inner.x[i] += 1
        d.inner.c[()] -= 1


@kp.kernel(graph=True)
def templated(d: kp.template()):
    c = d.inner.c
    while kp.graph.do_while(c):
        for i in range(d.inner.x.shape[0]):
            d.inner.x[i] += 1
        c[()] -= 1


def test_counters_are_members_of_objects():
    sim = Sim()
    sim.step()
    assert sim.x.to_numpy().tolist() == [3] * 5
    sim.c[()] = 2
    sim.step_params(10)
    assert sim.x.to_numpy().tolist() == [23] * 5
    world = World()
    world.step()
    assert world.sim.x[0] == 3


@pytest.mark.parametrize("kernel", [typed, nested, templated])
def test_counters_are_members_of_dataclasses(kernel):
    params = Params(zeros(), number(4))
    kernel(params if kernel is typed else Deep(params))
    assert params.x.tolist() == [4] * 5 and params.c == 0


def test_other_members_need_no_other_kernel_and_are_not_kept():
    before = Sim.step.observations.compiled
    sim = Sim()
    sim.step()
    for turns in (1, 2):
        sim.c = kp.ndarray(kp.i32, ())
        sim.c[()] = turns
        sim.step()
    assert sim.x.to_numpy().tolist() == [6] * 5
    assert Sim.step.observations.compiled <= max(before, 1)
    gone = weakref.ref(sim)
    del sim
    gc.collect()
    assert gone() is None


def test_a_counter_that_turns_into_something_else_is_refused():
    sim = Sim()
    sim.step()
    sim.c = 3
    with pytest.raises(kp.KernelSyntaxError, match="does not resolve to an ndarray kernel parameter"):
        sim.step()
    sim.c = kp.ndarray(kp.f32, ())
    with pytest.raises(kp.KernelSyntaxError, match="is not a 0-d `i32` ndarray"):
        sim.step()
    del sim.c
    with pytest.raises(kp.KernelSyntaxError, match="does not resolve to an ndarray kernel parameter"):
        sim.step()
    sim.c = kp.ndarray(kp.i32, ())
    sim.c[()] = 2
    sim.step()
    assert sim.x.to_numpy().tolist() == [5] * 5


# -- Sections --------------------------------------------------------------------------------------


@kp.kernel(graph=True)
def sections(x: Vector, y: Vector, z: Vector, c: Number):
    scale = x.shape[0] + 1
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            x[i] += 1
        with kp.graph.parallel_context():
            with kp.graph.parallel():
                for i in range(y.shape[0]):
                    y[i] = y[i] * 3 + x[i] * scale
                total = 0
                for i in range(y.shape[0]):
                    total += y[i]
                y[0] = total
            with kp.graph.parallel():
                first = x[0]
                for i in range(z.shape[0]):
                    z[i] = z[i] * 5 + first
                if z[0] > 3:
                    z[1] += 1
        for i in range(x.shape[0]):
            x[i] += y[i] + z[i]
        c[()] -= 1


def expected_sections(n, turns):
    x, y, z = (np.zeros(n, np.int32) for _ in range(3))
    with np.errstate(over="ignore"):
        for _ in range(turns):
            x += 1
            y = (y * 3 + x * (n + 1)).astype(np.int32)
            y[0] = y.sum(dtype=np.int32)
            z = z * 5 + x[0]
            if z[0] > 3:
                z[1] += 1
            x += y + z
    return x, y, z


@pytest.mark.parametrize("n", [2, 5, 20_000, 60_000, 400_000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sections_give_the_same_however_they_run(n, threads):
    kp.init(cpu_max_num_threads=threads, offline_cache=False)
    for _ in range(3):
        x, y, z = zeros(n), zeros(n), zeros(n)
        sections(x, y, z, number(6))
        for found, expected in zip((x, y, z), expected_sections(n, 6), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_sections_can_be_compiled_in_or_out():
    @kp.kernel(graph=True)
    def k(x: Vector, which: kp.template()):
        with kp.graph.parallel_context():
            """Sections, and nothing else."""
            if kp.static(which > 0):
                with kp.graph.parallel():
                    x[0] += 1
            elif kp.static(which == 0):
                with kp.graph.parallel():
                    x[1] += 1
            else:
                pass
            with kp.graph.parallel():
                x[2] += 1

    x = zeros()
    for which, many in ((1, 2), (0, 2), (-1, 1)):
        k(x, which)
        assert len(k.graph().nodes[0].sections) == many
    assert x.tolist() == [1, 1, 3, 0, 0]


def test_sections_change_variables_of_the_kernel():
    @kp.kernel(graph=True)
    def k(x: Vector):
        a, b = 1, 2
        v = kp.Vector([1, 2])
        with kp.graph.parallel_context():
            with kp.graph.parallel():
                a = 10
                for i in range(x.shape[0]):
                    a += x[i]
            with kp.graph.parallel():
                b += 20
                v[0] = 7
        x[0], x[1], x[2], x[3] = a, b, v[0], v[1]

    x = np.ones(5, np.int32)
    k(x)
    assert x.tolist() == [15, 22, 7, 2, 1]


def test_failures_in_sections_are_reported():
    kp.init(debug=True, offline_cache=False)

    @kp.kernel(graph=True)
    def k(x: Vector, at: kp.i32):
        with kp.graph.parallel_context():
            with kp.graph.parallel():
                for i in range(x.shape[0]):
                    x[i] += 1
            with kp.graph.parallel():
                x[at] = 1
        x[0] = 100

    x = zeros()
    with pytest.raises(kp.KernelIndexError, match="index 9 of `x` is out of range"):
        k(x, 9)
    assert x[0] == 1
    k(x, 1)
    assert x[0] == 100


def test_random_numbers_of_sections_differ_and_repeat():
    @kp.kernel(graph=True)
    def k(x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
        with kp.graph.parallel_context():
            with kp.graph.parallel():
                x[0] = kp.random()
                for i in range(1, x.shape[0]):
                    x[i] = kp.random()
            with kp.graph.parallel():
                y[0] = kp.random()
                for i in range(1, y.shape[0]):
                    y[i] = kp.random()

    found = []
    for _ in range(2):
        kp.init(random_seed=5)
        x, y = np.zeros(50, np.float32), np.zeros(50, np.float32)
        k(x, y)
        assert len({*x.tolist(), *y.tolist()}) == 100
        found.append((x.tolist(), y.tolist()))
    assert found[0] == found[1]


# -- Looking at graphs -----------------------------------------------------------------------------


@kp.kernel(graph=True, checkpoints=True)
def looked_at(x: Vector, c: Number, f: Number):
    n = x.shape[0] // 2
    for i in range(n):
        x[i] += 1
    while kp.graph.do_while(c):
        with kp.checkpoint(7, yield_on=f):
            for i in range(n):
                x[i] += 1
        c[()] -= 1
    with kp.graph.parallel_context():
        with kp.graph.parallel():
            x[0] = 1
        with kp.graph.parallel():
            for i in range(n):
                x[i + 1] = 2


TREE = """\
graph of `{module}.looked_at`
├─ task 0: parallel loop, line {0}; reads x; writes x
├─ loop 0: while `c` is not zero, line {1}
│  ├─ checkpoint 7, yields on `f`, line {2}
│  │  └─ task 1: parallel loop, line {3}; reads x; writes x
│  └─ task 2: statements, line {4}; reads c; writes c
└─ 2 sections beside each other, line {5}
   ├─ section 0
   │  └─ task 3: statements, line {6}; writes x
   └─ section 1
      └─ task 4: parallel loop, line {7}; writes x"""


def test_a_graph_is_shown_as_a_tree():
    first = looked_at.__wrapped__.__code__.co_firstlineno
    lines = [first + at for at in (3, 5, 6, 7, 9, 10, 12, 14)]
    graph = looked_at.graph(zeros(), number(1), number())
    assert str(graph) == TREE.format(*lines, module=__name__)
    assert looked_at.observations.launches == 0
    assert [node.kind for node in graph.nodes] == ["task", "loop", "sections"]
    assert [node.id for node in graph.tasks] == [0, 1, 2, 3, 4]
    assert graph.checkpoints[0].label == 7 and graph.checkpoints[0].on == "f"
    assert graph.arguments == ["x", "c", "f"]
    assert "5 tasks" in repr(graph)


def test_looking_launches_nothing_and_the_last_launch_stays_the_last():
    @kp.kernel(graph=True)
    def k(x: Vector, many: kp.template()):
        for _ in kp.static(range(many)):
            for i in x:
                x[i] += 1

    x = zeros()
    assert len(k.graph(x, 2).tasks) == 2
    with pytest.raises(kp.KernelRuntimeError, match="was not launched yet"):
        k.graph()
    k(x, 1)
    assert len(k.graph(x, 3).tasks) == 3 and len(k.graph(x, 2).tasks) == 2
    assert len(k.graph().tasks) == 1
    k(x, 3)
    assert len(k.graph().tasks) == 3 and x.tolist() == [4] * 5


def test_tasks_read_what_they_are_computed_from():
    @kp.kernel(graph=True)
    def k(x: Vector, y: Vector, z: Vector):
        pair = (y[1], 2)
        for i in range(pair[0]):
            x[i] = z[i]

    graph = k.graph(zeros(), zeros(), zeros())
    assert graph.tasks[-1].reads == ["y", "z"] and graph.tasks[-1].writes == ["x"]


@kp.data_oriented
class Method:
    def __init__(self):
        self.x, self.c = kp.ndarray(kp.i32, 4), kp.ndarray(kp.i32, ())

    @kp.func
    def inner(self):
        while kp.graph.do_while(self.c):
            for i in self.x:
                self.x[i] += 1

    @kp.kernel(graph=True)
    def run(self):
        self.inner()


def test_pieces_in_methods_have_lines():
    first = Method.inner.__wrapped__.__code__.co_firstlineno
    graph = Method.run.graph(Method())
    assert graph.loops[0].line == first + 2 and graph.tasks[0].line == first + 3


def test_a_graph_is_drawn():
    import xml.etree.ElementTree as ElementTree

    graph = looked_at.graph(zeros(), number(1), number())
    root = ElementTree.fromstring(graph.to_svg())
    assert len(root.findall("{*}rect")) == 1 + len(list(graph.walk()))
    dot = graph.to_dot()
    assert dot.count("{") == dot.count("}") and dot.count("[label=") >= 5
    # Each task follows another piece.
    for task in graph.tasks:
        assert f"-> task{task.id};" in dot


def test_what_has_no_graph_says_so():
    @kp.kernel
    def plain(x: Vector):
        x[0] = 1

    with pytest.raises(kp.KernelRuntimeError, match="was not launched yet") as caught:
        plain.graph()
    assert caught.value.code == "no-graph"
    plain(zeros())
    with pytest.raises(kp.KernelRuntimeError, match="is no graph"):
        plain.graph()
    assert plain._primal.graph_do_while_levels == []


def test_the_names_of_quadrants_are_there():
    @qd.kernel(graph=True, checkpoints=True)
    def k(x: qd.types.ndarray(qd.i32, ndim=1), c: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph_do_while(condition=c):
            with qd.checkpoint(cp_id=3, yield_on=c):
                for i in range(x.shape[0]):
                    x[i] += 1
        with qd.graph_parallel_context():  # noqa: SIM117 (sections are written like this)
            with qd.graph_parallel():
                x[0] = 1

    x, c = qd.ndarray(qd.i32, 4), qd.ndarray(qd.i32, ())
    status = k(x, c)
    assert isinstance(status, qd.GraphStatus) and not status.yielded and status.checkpoint is None
    primal = k._primal
    assert primal.checkpoint_user_labels_by_cp_id == [3]
    assert primal.checkpoint_yield_on_args == ["c"]
    assert primal.checkpoint_yield_on_cpp_arg_ids == [k.graph().arguments.index("c")]
    assert [one.cond_arg_name for one in primal.graph_do_while_levels] == ["c"]
    assert qd.graph.do_while is kp.graph.do_while
    with pytest.raises(AttributeError, match="nope"):
        _ = primal.nope


def test_pieces_of_graphs_mean_nothing_outside_of_kernels():
    with kp.checkpoint(1, yield_on=None), kp.graph.parallel_context(), kp.graph.parallel():
        pass
    with pytest.raises(RuntimeError, match="can only be called in a kernel"):
        kp.graph.do_while(number())
