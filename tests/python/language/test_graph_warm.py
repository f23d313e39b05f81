"""Graphs in a second process: everything is restored, and nothing is parsed, lowered or compiled."""

from __future__ import annotations

import enum

import pytest
from programs import start

from keyprint.language.graph.kernel import labels_of
from keyprint.store import plain

#: One kernel for each way to get at an array, for loops and for checkpoints.
PROGRAM = """
import dataclasses
import sys
import numpy as np
import keyprint as kp
from stages import Stage

import only_warm

V, I = kp.types.NDArray[kp.i32, 1], kp.types.NDArray[kp.i32, 0]


@dataclasses.dataclass
class Params:
    x: V
    c: I
    f: I


@dataclasses.dataclass
class Outer:
    params: Params


def array(value=0):
    return np.array(value, np.int32)


def params():
    return Params(np.zeros(3, np.int32), array(), array())


@kp.kernel(graph=True)
def parameter_loop(x: V, c: I):
    while kp.graph.do_while(c):
        for i in range(x.shape[0]):
            x[i] += 1
        c[()] -= 1


@kp.kernel(graph=True, checkpoints=True)
def parameter_checkpoint(x: V, f: I):
    for i in range(x.shape[0]):
        x[i] += 1
    with kp.checkpoint(Stage.LOAD, yield_on=f):
        for i in range(x.shape[0]):
            x[i] += 10
    with kp.checkpoint(5, yield_on=f):
        for i in range(x.shape[0]):
            x[i] += 100


@kp.kernel(graph=True)
def dataclass_loop(p: Params):
    while kp.graph.do_while(p.c):
        for i in range(p.x.shape[0]):
            p.x[i] += 1
        p.c[()] -= 1


@kp.kernel(graph=True, checkpoints=True)
def dataclass_checkpoint(p: Params):
    for i in range(p.x.shape[0]):
        p.x[i] += 1
    with kp.checkpoint(Stage.LOAD, yield_on=p.f):
        for i in range(p.x.shape[0]):
            p.x[i] += 10


@kp.data_oriented
class Sim:
    def __init__(self):
        self.outer = Outer(params())
        self.x, self.c, self.f = self.outer.params.x, self.outer.params.c, self.outer.params.f

    @kp.kernel(graph=True)
    def loop(self):
        while kp.graph.do_while(self.c):
            for i in range(self.x.shape[0]):
                self.x[i] += 1
            self.c[()] -= 1

    @kp.kernel(graph=True, checkpoints=True)
    def checkpoint(self):
        for i in range(self.x.shape[0]):
            self.x[i] += 1
        with kp.checkpoint(Stage.LOAD, yield_on=self.f):
            for i in range(self.x.shape[0]):
                self.x[i] += 10

    @kp.kernel(graph=True)
    def nested_loop(self):
        while kp.graph.do_while(self.outer.params.c):
            while kp.graph.do_while(self.outer.params.f):
                for i in range(self.x.shape[0]):
                    self.x[i] += 1
                self.outer.params.f[()] -= 1
            self.outer.params.f[()] = 1
            self.outer.params.c[()] -= 1

    @kp.kernel(graph=True, checkpoints=True)
    def nested_checkpoint(self, many: kp.template()):
        while kp.graph.do_while(self.outer.params.c):
            for i in range(self.x.shape[0]):
                self.x[i] += 1
            for j in kp.static(range(many)):
                with kp.checkpoint(j, yield_on=self.outer.params.f):
                    for i in range(self.x.shape[0]):
                        self.x[i] += 10
            self.outer.params.c[()] -= 1


def told(kernel, *results):
    primal = kernel._primal
    print(kernel.__name__, *results)
    print(" ", primal.checkpoint_user_labels_by_cp_id, primal.checkpoint_yield_on_args)
    print(" ", primal.checkpoint_yield_on_cpp_arg_ids, primal.graph_do_while_levels)
    print(kernel.graph())


x, c = np.zeros(3, np.int32), array(4)
parameter_loop(x, c)
told(parameter_loop, x, c)
x, f = np.zeros(3, np.int32), array(1)
status = parameter_checkpoint(x, f)
assert status.checkpoint is Stage.LOAD
second = parameter_checkpoint.resume(x, array(), from_checkpoint=status.checkpoint)
told(parameter_checkpoint, x, status, second)

p = params()
p.c[()] = 4
dataclass_loop(p)
told(dataclass_loop, p.x, p.c)
p.f[()] = 1
status = dataclass_checkpoint(p)
assert status.checkpoint is Stage.LOAD
p.f[()] = 0
told(dataclass_checkpoint, p.x, status, dataclass_checkpoint.resume(p, from_checkpoint=Stage.LOAD))

sim = Sim()
sim.c[()] = 4
sim.loop()
told(Sim.loop, sim.x, sim.c)
sim.f[()] = 1
status = sim.checkpoint()
assert status.checkpoint is Stage.LOAD
sim.f[()] = 0
told(Sim.checkpoint, sim.x, status, sim.checkpoint.resume(from_checkpoint=Stage.LOAD))
sim.c[()], sim.f[()] = 2, 3
sim.nested_loop()
told(Sim.nested_loop, sim.x, sim.c)
for many in (2, 0, 1, 2):
    sim.c[()], sim.f[()] = 2, many == 2
    status = sim.nested_checkpoint(many)
    told(Sim.nested_checkpoint, many, sim.x, status)
    sim.f[()] = 0
    if status.yielded:
        told(Sim.nested_checkpoint, sim.x, sim.nested_checkpoint.resume(many, from_checkpoint=1))

KERNELS = [
    parameter_loop, parameter_checkpoint, dataclass_loop, dataclass_checkpoint,
    Sim.loop, Sim.checkpoint, Sim.nested_loop, Sim.nested_checkpoint,
]
print([k.observations.compiled for k in KERNELS], [k.observations.files_parsed for k in KERNELS], file=sys.stderr)
"""

STAGES = """
import enum

class Stage(enum.IntEnum):
    LOAD = 1
    SOLVE = 2
"""


def run(directory, *arguments, program=PROGRAM, stages=STAGES):
    (directory / "stages.py").write_text(stages)
    done = start(directory, program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()[-1]


def test_a_warm_process_restores_all_of_it(tmp_path):
    cold, compiled = run(tmp_path)
    assert compiled.startswith("[1, 1, 1, 1, 1, 1, 1, 3] ")
    assert "Stage.LOAD" in cold and "[111 111 111]" not in cold
    warm, compiled = run(tmp_path, "warm")
    assert compiled == f"{[0] * 8} {[0] * 8}"
    assert warm == cold


def test_lines_are_those_of_the_program_as_it_is(tmp_path):
    cold, _ = run(tmp_path)
    moved, compiled = run(tmp_path, program=PROGRAM.replace("V, I =", "# More.\n\n\nV, I ="))
    assert compiled.startswith(f"{[0] * 8}")
    first = next(line for line in cold.splitlines() if "while `c`" in line)
    line = int(first.rpartition(" ")[2])
    assert f"while `c` is not zero, line {line + 3}" in moved


@pytest.mark.parametrize(
    ("edit", "compiled"),
    [
        # What a label is counts; what else the enum has counts as well, for members count by their class.
        (("LOAD = 1", "LOAD = 4"), [0, 1, 0, 1, 0, 1, 0, 0]),
        (("class Stage", "# A comment.\nclass Stage"), [0] * 8),
    ],
)
def test_labels_are_part_of_the_key(tmp_path, edit, compiled):
    run(tmp_path)
    _, counts = run(tmp_path, stages=STAGES.replace(*edit))
    assert counts.startswith(str(compiled))


def test_options_are_part_of_the_key(tmp_path):
    run(tmp_path)
    edited = PROGRAM.replace("@kp.kernel(graph=True)\ndef parameter_loop", "@kp.kernel\ndef parameter_loop")
    assert edited != PROGRAM
    # What is no graph must not find what was compiled for one.
    assert "`graph.do_while` needs a kernel that is a graph" in start(tmp_path, edited).stderr


def test_an_older_record_is_a_miss(tmp_path):
    before = "import keyprint as kp\n"
    older = (
        "import keyprint.language.kernel as older\nolder.TOOL = (older.TOOL[0], older.TOOL[1][:-1] + '1')\n"
    )
    cold, compiled = run(tmp_path, program=PROGRAM.replace(before, before + older))
    assert compiled.startswith("[1, 1, 1, 1, 1, 1, 1, 3] ")
    again, compiled = run(tmp_path)
    assert compiled.startswith("[1, 1, 1, 1, 1, 1, 1, 3] ")
    _, compiled = run(tmp_path, "warm")
    assert compiled.startswith(f"{[0] * 8}")


class Kept(enum.IntEnum):
    HERE = 3


def test_labels_that_are_gone_come_back_as_ints():
    class Local(enum.IntEnum):
        HERE = 3

    def kernel():
        return Local.HERE

    stored = plain.loads(plain.dumps([[Kept.HERE, "Kept.HERE", True], [7, "7", False]]))
    assert labels_of({"labels": stored}, kernel) == [Kept.HERE, 7] and stored[0][0] is Kept.HERE
    # Renamed, renumbered, gone: the number.
    for name, value in (("Gone.HERE", 3), ("Kept.AWAY", 3), ("Kept.HERE", 4), ("Kept", 3), ("kernel.x", 3)):
        (label,) = labels_of({"labels": [[value, name, True]]}, kernel)
        assert type(label) is int and label == value
    # A class inside a function is found as the kernel finds it.
    (label,) = labels_of({"labels": [[3, "Local.HERE", True]]}, kernel)
    assert label is Local.HERE
    # What another function calls by that name is something else.
    (label,) = labels_of({"labels": [[3, "Local.HERE", False]]}, kernel)
    assert type(label) is int
