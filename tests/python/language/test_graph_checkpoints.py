"""Checkpoints: where a launch ends, and what one that begins there runs."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle

import numpy as np
import pytest

import keyprint as kp

Vector = kp.types.NDArray[kp.i32, 1]
Number = kp.types.NDArray[kp.i32, 0]


class Stage(enum.IntEnum):
    FIRST = 10
    SECOND = 20
    THIRD = 30


def number(value=0):
    return np.array(value, np.int32)


#: Each piece appends a digit to x[0], so that its number tells what ran, in order.
@kp.kernel(graph=True, checkpoints=True)
def row(x: kp.types.NDArray[kp.i64, 1], f: Number, g: Number, h: Number):
    for _ in range(1):
        x[0] = x[0] * 10 + 1
    with kp.checkpoint(Stage.FIRST, yield_on=f):
        for _ in range(1):
            x[0] = x[0] * 10 + 2
    x[0] = x[0] * 10 + 3
    with kp.checkpoint(Stage.SECOND, yield_on=g):
        for _ in range(1):
            x[0] = x[0] * 10 + 4
        for _ in range(1):
            x[0] = x[0] * 10 + 5
    for _ in range(1):
        x[0] = x[0] * 10 + 6
    with kp.checkpoint(Stage.THIRD, yield_on=h):
        for _ in range(1):
            x[0] = x[0] * 10 + 7


def digits():
    return np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("which", "label", "ran"), [(0, Stage.FIRST, 12), (1, Stage.SECOND, 12345), (2, Stage.THIRD, 1234567)]
)
def test_a_flag_ends_the_launch_after_its_checkpoint(which, label, ran):
    x, flags = digits(), [number(), number(), number()]
    flags[which][()] = 5
    status = row(x, *flags)
    assert status == kp.GraphStatus(True, label) and status.checkpoint is label
    assert x[0] == ran
    # The flag is the program's own.
    assert flags[which] == 5


@pytest.mark.parametrize(
    ("label", "ran"), [(Stage.FIRST, 234567), (Stage.SECOND, 4567), (Stage.THIRD, 7), (20, 4567)]
)
def test_resuming_skips_exactly_what_came_before(label, ran):
    x = digits()
    status = row.resume(x, number(), number(), number(), from_checkpoint=label)
    assert status == kp.GraphStatus(False) and status.checkpoint is None
    assert x[0] == ran


def test_a_flag_that_is_not_cleared_ends_the_next_launch_too():
    x, g = digits(), number(1)
    assert row(x, number(), g, number()).checkpoint is Stage.SECOND
    assert row.resume(x, number(), g, number(), from_checkpoint=Stage.SECOND).yielded
    assert x[0] == 1234545
    assert row.resume(x, number(1), g, number(), from_checkpoint=Stage.THIRD) == kp.GraphStatus(False)


def test_a_flag_that_is_set_before_its_checkpoint_counts_when_that_is_done():
    x = digits()
    assert row(x, number(), number(), number(1)).checkpoint is Stage.THIRD
    assert x[0] == 1234567


def test_without_a_flag_the_launch_goes_on():
    @kp.kernel(graph=True, checkpoints=True)
    def k(x: kp.types.NDArray[kp.i64, 1]):
        with kp.checkpoint(1):
            for _ in range(1):
                x[0] = x[0] * 10 + 1
        with kp.checkpoint(2, yield_on=None):
            for _ in range(1):
                x[0] = x[0] * 10 + 2

    x = digits()
    assert not k(x).yielded
    assert not k.resume(x, from_checkpoint=2).yielded
    assert x[0] == 122
    assert k._primal.checkpoint_yield_on_cpp_arg_ids == [-1, -1]


# -- Loops -----------------------------------------------------------------------------------------


@kp.kernel(graph=True, checkpoints=True)
def one_loop(x: kp.types.NDArray[kp.i64, 1], c: Number, f: Number, when: kp.i32):
    x[0] = x[0] * 10 + 1
    while kp.graph.do_while(c):
        x[0] = x[0] * 10 + 2
        with kp.checkpoint(1, yield_on=f):
            for _ in range(1):
                x[0] = x[0] * 10 + 3
                if c[()] == when:
                    f[()] = 1
        x[0] = x[0] * 10 + 4
        c[()] -= 1
    x[0] = x[0] * 10 + 5


def test_a_yield_leaves_the_loop_and_resuming_enters_that_iteration():
    x, c, f = digits(), number(3), number()
    assert one_loop(x, c, f, 2) == kp.GraphStatus(True, 1)
    assert (x[0], c) == (123423, 2)
    f[()] = 0
    assert not one_loop.resume(x, c, f, 0, from_checkpoint=1).yielded
    # The iteration goes on behind its beginning, the last one is whole, and what follows runs.
    assert (x[0], c) == (123423342345, 0)


@kp.kernel(graph=True, checkpoints=True)
def two_loops(x: kp.types.NDArray[kp.i64, 1], a: Number, b: Number, f: Number, g: Number):
    while kp.graph.do_while(a):
        x[0] = x[0] * 10 + 1
        while kp.graph.do_while(b):
            x[0] = x[0] * 10 + 2
            with kp.checkpoint(Stage.FIRST, yield_on=f):
                for _ in range(1):
                    x[0] = x[0] * 10 + 3
            with kp.checkpoint(Stage.SECOND, yield_on=g):
                for _ in range(1):
                    x[0] = x[0] * 10 + 4
            b[()] -= 1
        x[0] = x[0] * 10 + 5
        b[()] = 1
        a[()] -= 1
    x[0] = x[0] * 10 + 6


def test_a_yield_leaves_all_loops_and_resuming_enters_them():
    x, a, b, f, g = digits(), number(1), number(2), number(1), number()
    assert two_loops(x, a, b, f, g).checkpoint is Stage.FIRST
    assert (x[0], a, b) == (123, 1, 2)
    f[()], g[()] = 0, 1
    assert two_loops.resume(x, a, b, f, g, from_checkpoint=Stage.FIRST).checkpoint is Stage.SECOND
    assert (x[0], a, b) == (12334, 1, 2)
    g[()] = 0
    assert not two_loops.resume(x, a, b, f, g, from_checkpoint=Stage.SECOND).yielded
    assert (x[0], a, b) == (12334423456, 0, 1)


def test_loops_before_and_after_are_skipped_and_run_whole():
    @kp.kernel(graph=True, checkpoints=True)
    def k(x: kp.types.NDArray[kp.i64, 1], a: Number, b: Number, f: Number):
        while kp.graph.do_while(a):
            x[0] = x[0] * 10 + 1
            a[()] -= 1
        with kp.checkpoint(-1, yield_on=f):
            while kp.graph.do_while(b):
                for _ in range(1):
                    x[0] = x[0] * 10 + 2
                b[()] -= 1
        while kp.graph.do_while(f):
            x[0] = x[0] * 10 + 3

    x = digits()
    assert not k.resume(x, number(5), number(2), number(), from_checkpoint=-1).yielded
    assert x[0] == 223
    assert k(x, number(1), number(1), number(7)).checkpoint == -1
    assert x[0] == 22312


# -- What is known ---------------------------------------------------------------------------------


def test_what_depends_on_arguments_is_known_wherever_a_launch_begins():
    @kp.kernel(graph=True, checkpoints=True)
    def k(x: Vector, c: Number, a: kp.i32):
        n = x.shape[0] // 2
        twice = 2 * a
        v = kp.Vector([twice + 1, n])
        while kp.graph.do_while(c):
            k3 = n * 3
            for i in range(n):
                x[i] += 1
            with kp.checkpoint(1):
                for i in range(n):
                    x[i] += twice * 10 + v[0] * 100 + k3 * 10000
            c[()] -= 1
        x[0] = v[1]

    x = np.zeros(6, np.int32)
    k.resume(x, number(1), 4, from_checkpoint=1)
    assert x.tolist() == [3, 90980, 90980, 0, 0, 0]


def test_variables_between_checkpoints_are_fine():
    @kp.kernel(graph=True, checkpoints=True)
    def k(x: Vector, f: Number):
        before = x[1]
        for i in range(x.shape[0]):
            x[i] += before
        with kp.checkpoint(1, yield_on=f):
            for i in range(x.shape[0]):
                x[i] += 1
        after = 0
        for i in range(x.shape[0]):
            after += x[i]
        old = kp.atomic_add(x[2], 1)
        x[0] = after + old

    x = np.array([1, 2, 3], np.int32)
    k(x, number())
    assert x.tolist() == [21, 5, 7]
    k.resume(x, number(), from_checkpoint=1)
    assert x.tolist() == [44, 6, 9]


@pytest.mark.parametrize(
    "before",
    [
        "v = kp.Vector([n, x[1]]); u = v[0] * 2",
        "v = kp.Vector([n, n]); v[1] = x[1]; u = v[0] * 2",
        "v = kp.Matrix([[n, 0], [0, x[1]]]); u = v[0, 0] * 2",
        "a = n; a += 1; u = a",
    ],
)
def test_what_comes_from_something_that_is_lost_is_lost(before, tmp_path):
    import importlib.util

    path = tmp_path / "program.py"
    path.write_text(
        "import keyprint as kp\n\n\n@kp.kernel(graph=True, checkpoints=True)\n"
        "def k(x: kp.types.NDArray[kp.i32, 1], n: kp.i32):\n"
        f"    {before}\n    with kp.checkpoint(1):\n        for i in range(1):\n            x[0] = u\n"
    )
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(kp.KernelSyntaxError, match="a launch that resumes there would not know it"):
        module.k(np.zeros(2, np.int32), 3)


def test_names_that_a_checkpoint_binds():
    @kp.kernel(graph=True, checkpoints=True)
    def fine(x: Vector, n: kp.i32):
        with kp.checkpoint(1):
            """Texts are comments."""
            if kp.static(True):
                scale = 7
                n2 = n * 2
            for i in x:
                x[i] = scale
            """Here, too."""
        x[0] = scale + n2

    x = np.zeros(2, np.int32)
    fine(x, 4)
    assert x.tolist() == [15, 7]

    @kp.kernel(graph=True, checkpoints=True)
    def gone(x: Vector, n: kp.i32):
        with kp.checkpoint(1):
            if kp.static(True):
                pair = (n * 3 + 1, 7)
            for i in x:
                x[i] = pair[0]
        x[0] = pair[0]

    with pytest.raises(kp.KernelNameError, match="`pair` may not have been assigned here"):
        gone(x, 4)


def test_checks_of_what_is_made_again_are_made_again():
    kp.init(debug=True, offline_cache=False)

    @kp.kernel(graph=True, checkpoints=True)
    def k(x: Vector, n: kp.i32):
        x[3] = 1
        part = 10 // n
        x[1] = 10 // x[2]
        with kp.checkpoint(1):
            for _ in range(1):
                x[0] = part

    # There is no `x[3]`, and it is skipped.
    x = np.ones(3, np.int32)
    k.resume(x, 3, from_checkpoint=1)
    assert x[0] == 3
    with pytest.raises(kp.KernelRuntimeError, match="division"):
        k.resume(x, 0, from_checkpoint=1)
    x[2] = 0
    # What is before the checkpoint and belongs to arrays is skipped, with its checks.
    k.resume(x, 5, from_checkpoint=1)
    assert x[0] == 2


# -- Labels ----------------------------------------------------------------------------------------


@kp.kernel(graph=True, checkpoints=True)
def special(x: kp.types.NDArray[kp.i64, 1], f: Number, many: kp.template()):
    for j in kp.static(range(many)):
        with kp.checkpoint(j * 2, yield_on=f):
            for _ in range(1):
                x[0] = x[0] * 10 + j + 1
    if kp.static(many == 0):
        x[0] = x[0] * 10 + 9


def test_specialisations_have_checkpoints_of_their_own():
    for _ in range(2):
        for many in (3, 0, 2, 1):
            x = digits()
            assert special(x, number(), many) == kp.GraphStatus(False)
            assert x[0] == {3: 123, 0: 9, 2: 12, 1: 1}[many]
            primal = special._primal
            assert primal.checkpoint_user_labels_by_cp_id == [0, 2, 4][:many]
            assert primal.checkpoint_yield_on_args == ["f"] * many
            assert len(primal.checkpoint_yield_on_cpp_arg_ids) == many
            assert len(special.graph().checkpoints) == many
            if many > 1:
                assert special(x, number(1), many).checkpoint == 0
                assert not special.resume(x, number(), many, from_checkpoint=2).yielded
            else:
                with pytest.raises(kp.KernelRuntimeError, match="has no checkpoint `2`"):
                    special.resume(x, number(), many, from_checkpoint=2)
    assert special.observations.compiled <= 4


@pytest.mark.parametrize("label", [2, -10, None, "10", 10.0, True, Stage])
def test_other_labels_are_refused(label):
    x = digits()
    with pytest.raises(kp.KernelRuntimeError) as caught:
        row.resume(x, number(), number(), number(), from_checkpoint=label)
    assert caught.value.code == "unknown-label" and "Stage.THIRD" in caught.value.hint
    assert x[0] == 0


def test_resuming_needs_checkpoints_and_a_label():
    @kp.kernel(graph=True)
    def k(x: Vector):
        x[0] += 1

    x = np.zeros(1, np.int32)
    with pytest.raises(kp.KernelRuntimeError, match="has no checkpoints to resume from"):
        k.resume(x, from_checkpoint=1)
    with pytest.raises(TypeError, match="from_checkpoint"):
        row.resume(x)
    with pytest.raises(TypeError, match="missing"):
        row.resume(from_checkpoint=10)
    with pytest.raises(TypeError, match="unexpected"):
        row.resume(x, x, x, x, nope=1, from_checkpoint=10)
    assert x[0] == 0


def test_labels_are_members_of_local_enums_and_of_parameters():
    class Local(enum.IntEnum):
        HERE = 4

    renamed = Stage

    @kp.kernel(graph=True, checkpoints=True)
    def k(x: kp.types.NDArray[kp.i64, 1], f: Number, which: kp.template()):
        with kp.checkpoint(Local.HERE, yield_on=f):
            for _ in range(1):
                x[0] += 1
        with kp.checkpoint(renamed.SECOND, yield_on=f):
            for _ in range(1):
                x[0] += 1
        with kp.checkpoint(which, yield_on=f):
            for _ in range(1):
                x[0] += 1

    x = digits()
    assert k(x, number(1), Stage.FIRST).checkpoint is Local.HERE
    assert k.resume(x, number(1), Stage.FIRST, from_checkpoint=20).checkpoint is Stage.SECOND
    assert k.resume(x, number(1), Stage.FIRST, from_checkpoint=10).checkpoint is Stage.FIRST
    assert type(k.resume(x, number(1), 5, from_checkpoint=5).checkpoint) is int


class Plain(enum.Enum):
    ONE = 1


class Colour(enum.IntEnum):
    RED = 30


#: Means something else here than the parameter of that name.
label = Colour.RED


@kp.func
def labelled(x: kp.template(), f: kp.template(), label: kp.template()):
    with kp.checkpoint(label, yield_on=f):
        for _ in range(1):
            x[0] += 1


@kp.kernel(graph=True, checkpoints=True)
def passed_on(x: kp.types.NDArray[kp.i64, 1], f: Number):
    labelled(x, f, Stage.THIRD)
    labelled(x, f, label=Stage.FIRST)
    labelled(x, f, 4)


def test_labels_go_through_functions():
    x = digits()
    assert passed_on(x, number(1)).checkpoint is Stage.THIRD
    assert passed_on.resume(x, number(1), from_checkpoint=10).checkpoint is Stage.FIRST
    assert type(passed_on.resume(x, number(1), from_checkpoint=np.int64(4)).checkpoint) is int


def test_labels_are_attributes_of_classes():
    @kp.data_oriented
    class Holder:
        mine = Stage.SECOND

        def __init__(self):
            self.x, self.f = kp.ndarray(kp.i32, 1), kp.ndarray(kp.i32, ())
            self.f[()] = 1
            self.other = Colour.RED

        @kp.kernel(graph=True, checkpoints=True)
        def run(self):
            with kp.checkpoint(self.mine, yield_on=self.f):
                for i in self.x:
                    self.x[i] += 1
            with kp.checkpoint(self.other, yield_on=self.f):
                for i in self.x:
                    self.x[i] += 1

    holder = Holder()
    assert holder.run().checkpoint is Stage.SECOND
    assert holder.run.resume(from_checkpoint=20).checkpoint is Stage.SECOND
    assert holder.run.resume(from_checkpoint=30).checkpoint is Colour.RED
    holder.other = Stage.FIRST
    assert holder.run.resume(from_checkpoint=10).checkpoint is Stage.FIRST
    holder.other = 30
    assert type(holder.run.resume(from_checkpoint=30).checkpoint) is int


def test_other_enums_are_no_labels():
    @kp.kernel(graph=True, checkpoints=True)
    def k(x: Vector):
        with kp.checkpoint(Plain.ONE):
            for i in x:
                x[i] = 1

    with pytest.raises(kp.KernelSyntaxError, match="a member of an enum of other things") as caught:
        k(np.zeros(1, np.int32))
    assert "IntEnum" in caught.value.hint and "Plain.ONE" in str(caught.value)


def test_resume_keeps_its_name_for_itself():
    with pytest.raises(TypeError, match="which `resume` takes for itself"):

        @kp.kernel(graph=True, checkpoints=True)
        def k(x: Vector, from_checkpoint: kp.i32):
            x[0] = from_checkpoint


def test_a_status_does_not_change():
    status = kp.GraphStatus(True, Stage.FIRST)
    assert repr(status) == "GraphStatus(yielded=True, checkpoint=<Stage.FIRST: 10>)"
    assert repr(kp.GraphStatus(False)) == "GraphStatus(yielded=False)"
    assert status != kp.GraphStatus(False) and len({status, kp.GraphStatus(True, 10)}) == 1
    for copied in (copy.copy(status), pickle.loads(pickle.dumps(status))):
        assert copied == status and copied.checkpoint is Stage.FIRST
    with pytest.raises(AttributeError, match="does not change"):
        status.yielded = False
    with pytest.raises(AttributeError, match="does not change"):
        del status.checkpoint


# -- Methods ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Flags:
    f: Number
    g: Number


@kp.data_oriented
class Sim:
    def __init__(self):
        self.x = kp.ndarray(kp.i64, 1)
        self.flags = Flags(kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ()))
        self.f = self.flags.f

    @kp.kernel(graph=True, checkpoints=True)
    def step(self, by: kp.i32):
        for _ in range(1):
            self.x[0] = self.x[0] * 10 + 1
        with kp.checkpoint(Stage.FIRST, yield_on=self.f):
            for _ in range(1):
                self.x[0] = self.x[0] * 10 + by
        with kp.checkpoint(Stage.SECOND, yield_on=self.flags.g):
            for _ in range(1):
                self.x[0] = self.x[0] * 10 + 3


def test_methods_resume():
    sim, other = Sim(), Sim()
    sim.f[()] = 1
    assert sim.step(2).checkpoint is Stage.FIRST
    sim.f[()] = 0
    sim.flags.g[()] = 1
    assert sim.step.resume(2, from_checkpoint=Stage.FIRST).checkpoint is Stage.SECOND
    sim.flags.g[()] = 0
    resume = sim.step.resume
    assert not resume(by=2, from_checkpoint=Stage.SECOND).yielded
    assert sim.x[0] == 12233
    assert other.x[0] == 0
    # As of any method.
    bound = sim.step
    assert bound.__self__ is sim and bound.__func__ is Sim.step and bound == sim.step != other.step
    assert bound.__name__ == "step" and hash(bound) == hash(sim.step)
    assert bound.observations.launches == Sim.step.observations.launches
    assert len(bound.graph().checkpoints) == len(bound.graph(2).checkpoints) == 2
    assert Sim.step.resume(other, 5, from_checkpoint=Stage.FIRST) == kp.GraphStatus(False)
    assert other.x[0] == 53
    assert bound(4) == kp.GraphStatus(False) and sim.x[0] == 12233143
    import inspect

    assert [*inspect.signature(bound).parameters] == ["by"]
    assert not Sim.step.resume(self=other, by=6, from_checkpoint=Stage.SECOND).yielded
