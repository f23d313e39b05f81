"""Graphs: sections beside each other, and what can be seen of graphs."""

from __future__ import annotations

import numpy as np
import pytest
from graph_arrays import Number, Vector, number, zeros

import keyprint as kp
import keyprint.quadrants as qd

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
        for actual, expected in zip((x, y, z), expected_sections(n, 6), strict=True):
            np.testing.assert_array_equal(actual, expected)


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
    assert x[0] in (0, 1)  # sections are in no order
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

    draws = []
    for _ in range(2):
        kp.init(random_seed=5)
        x, y = np.zeros(50, np.float32), np.zeros(50, np.float32)
        k(x, y)
        assert len({*x.tolist(), *y.tolist()}) == 100
        draws.append((x.tolist(), y.tolist()))
    assert draws[0] == draws[1]


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
    assert [level.cond_arg_name for level in primal.graph_do_while_levels] == ["c"]
    assert qd.graph.do_while is kp.graph.do_while
    with pytest.raises(AttributeError, match="nope"):
        _ = primal.nope


def test_pieces_of_graphs_mean_nothing_outside_of_kernels():
    with kp.checkpoint(1, yield_on=None), kp.graph.parallel_context(), kp.graph.parallel():
        pass
    with pytest.raises(RuntimeError, match="can only be called in a kernel"):
        kp.graph.do_while(number())
