"""Graphs: tasks, and loops that depend on arrays."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from graph_arrays import Number, Vector, number, zeros

import keyprint as kp

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
    keys = {kernel._dispatcher.options.identity()[-1] for kernel in (graph, plain, gated)}
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
    own = kp.ndarray(kp.i32, (), device="cpu")
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
    assert [(level.cond_arg_name, level.parent_id) for level in levels] == [("a", -1), ("b", 0), ("c", -1)]
    assert [k.graph().arguments[level.cond_cpp_arg_id] for level in levels] == ["a", "b", "c"]


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


@kp.kernel(graph=True)
def with_variables(x: Vector, left: Number):
    while kp.graph.do_while(left):
        if x[0] % 2 == 0:
            z = x[1] + 1
            x[2] += z
        v = kp.Vector([0, 0])
        if x[0] > 1:
            v[1] += x[0]
        for i in x:
            x[i] += 1 + v[1]
        left[None] -= 1


def test_each_turn_has_variables_of_its_own():
    x, left = zeros(), number(4)
    with_variables(x, left)
    expected = np.zeros(5, np.int64)
    for _ in range(4):
        if expected[0] % 2 == 0:
            expected[2] += expected[1] + 1
        expected += 1 + (expected[0] if expected[0] > 1 else 0)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.cpu  # A device has its own copies of arrays of the host.
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

    draws = []
    for _ in range(2):
        kp.init(random_seed=3)
        x = np.zeros((6, 21), np.float32)
        k(x, number(6))
        assert len(np.unique(x)) == 6 * 21
        draws.append(x)
    np.testing.assert_array_equal(*draws)


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
class Memory:
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
    world = Memory()
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
