"""A second process parses nothing, lowers nothing and starts no compiler."""

from __future__ import annotations

import os
import textwrap

import pytest
from programs import start

PROGRAM = """
import dataclasses
import sys
import numpy as np
import keyprint as kp

import only_warm

SCALE = 3


@kp.func
def scaled(x):
    return x * SCALE


@kp.kernel
def plain(x: kp.types.NDArray[kp.f32, 1], a: kp.f32) -> kp.f32:
    total = 0.0
    for i in x:
        x[i] = scaled(x[i]) + a
        total += x[i]
    return total


@dataclasses.dataclass
class Params:
    x: kp.types.NDArray[kp.f32, 1]
    n: kp.i32
    unread: object


@kp.kernel
def unrolled(p: Params):
    for k in kp.static(range(p.n)):
        for i in p.x:
            p.x[i] += k
    return kp.Vector([p.n, 1]), p.n


@kp.data_oriented
class Sim:
    def __init__(self):
        self.x = kp.ndarray(kp.f32, 4)
        self.dt = 0.25

    @kp.kernel
    def step(self):
        for i in self.x:
            self.x[i] += self.dt


x = np.arange(4, dtype=np.float32)
print(plain(x, 1), x.tolist())
print(*unrolled(Params(x, 3, object())), x.tolist())
print(*unrolled(Params(x, 2, object())), x.tolist())
sim = Sim()
sim.step()
print(sim.x.to_numpy().tolist())
print([(k.observations.compiled, k.observations.validated, k.observations.files_parsed) for k in (plain, unrolled, Sim.step)], file=sys.stderr)
primal = plain._primal.src_ll_cache_observations
print(primal.cache_key_generated, primal.cache_validated, primal.cache_loaded, primal.cache_stored, file=sys.stderr)
"""


def run(directory, *arguments, program=PROGRAM, **environment):
    return start(directory, program, *arguments, **environment)


def test_a_warm_process(tmp_path):
    cold = run(tmp_path)
    assert cold.returncode == 0, cold.stderr
    assert cold.stderr.splitlines()[-1] == "True False False True"
    warm = run(tmp_path, "warm")
    assert warm.returncode == 0, warm.stderr
    assert warm.stdout == cold.stdout
    assert warm.stderr.splitlines()[-2:] == ["[(0, 1, 0), (0, 2, 0), (0, 1, 0)]", "True True True False"]


def test_a_warm_process_needs_no_compiler(tmp_path):
    cold = run(tmp_path)
    (tmp_path / "empty").mkdir()
    warm = run(tmp_path, "warm", PATH=str(tmp_path / "empty"))
    assert (warm.returncode, warm.stdout) == (0, cold.stdout), warm.stderr


@pytest.mark.parametrize(
    ("edit", "misses"),
    [
        (("SCALE = 3", "SCALE = 4"), (1, 0, 0)),
        (("return x * SCALE", "return x * SCALE + 0.5"), (1, 0, 0)),
        (("self.dt = 0.25", "self.dt = 0.5"), (0, 0, 1)),
        (("p.x[i] += k", "p.x[i] += k + 1"), (0, 2, 0)),
        (("    total = 0.0\n", "    # a comment\n    total = 0.0\n"), (0, 0, 0)),
        (("import sys\n", "import sys\nUNRELATED = 1\n"), (0, 0, 0)),
        (("a: kp.f32)", "a: kp.f64)"), (1, 0, 0)),
    ],
)
def test_edits(tmp_path, edit, misses):
    assert run(tmp_path).returncode == 0
    assert PROGRAM.count(edit[0]) == 1
    warm = run(tmp_path, program=PROGRAM.replace(*edit))
    assert warm.returncode == 0, warm.stderr
    observed = eval(warm.stderr.splitlines()[-2])
    assert tuple(counts[0] for counts in observed) == misses


def test_another_compiler_misses(tmp_path):
    assert run(tmp_path).returncode == 0
    script = tmp_path / "other-cc"
    script.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "other 1.0"; exit; fi\nexec cc "$@"\n')
    script.chmod(0o755)
    other = run(tmp_path, KEYPRINT_CC=str(script))
    assert other.returncode == 0, other.stderr
    assert [counts[0] for counts in eval(other.stderr.splitlines()[-2])] == [1, 2, 1]
    # The same file, with another time and another version: it is asked again.
    script.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "other 2.0"; exit; fi\nexec cc "$@"\n')
    os.utime(script, ns=(1, 1))
    again = run(tmp_path, KEYPRINT_CC=str(script))
    assert [counts[0] for counts in eval(again.stderr.splitlines()[-2])] == [1, 2, 1]


SETTINGS = """
import sys
import numpy as np
import keyprint as kp


@kp.kernel
def k(x: kp.types.NDArray[kp.f64, 1]):
    for i in x:
        x[i] = 1 / 3


x = np.zeros(1)
for settings in ({}, {"default_fp": kp.f64}, {"fast_math": True}, {"contract": True}, {"debug": True}, {"march": "x86-64-v2"}, {}):
    kp.init(**settings)
    k(x)
    print(settings, x[0] == 1 / 3, k.observations.key_made)
print(k.observations.compiled, k.observations.refreshed)
"""


def test_settings_count(tmp_path):
    done = run(tmp_path, program=SETTINGS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("{'default_fp': f64}")
    assert lines[-1].split()[0] == "6"
    again = run(tmp_path, program=SETTINGS)
    assert again.stdout.splitlines()[-1].split()[0] == "0"


def test_importing_loads_no_numpy(tmp_path):
    program = """
    import sys
    import keyprint as kp

    @kp.kernel
    def k(x: kp.types.NDArray[kp.f32, 1]) -> kp.f32:
        for i in x:
            x[i] = i
        return x[2]

    x = kp.ndarray(kp.f32, 3)
    assert k(x) == 2 and x[1] == 1
    print("numpy" in sys.modules, "torch" in sys.modules)
    """
    assert run(tmp_path, program=textwrap.dedent(program)).stdout == "False False\n"


STRUCTS = """
import sys
import keyprint as kp


@kp.dataclass
class Ball:
    radius: kp.f32

    @kp.func
    def area(self):
        return 3.0 * self.radius * self.radius


@kp.kernel
def of(b: kp.template()) -> kp.f32:
    return b.area() + b.radius


print(of(Ball(2.0)), of(Ball(1.0)), of(Ball(2.0)))
print(of.observations.compiled, file=sys.stderr)
"""


def test_what_structs_define_counts(tmp_path):
    first = run(tmp_path, program=STRUCTS)
    assert (first.stdout, first.stderr) == ("14.0 4.0 14.0\n", "2\n"), first.stderr
    assert run(tmp_path, program=STRUCTS).stderr == "0\n"
    edited = run(tmp_path, program=STRUCTS.replace("3.0 *", "4.0 *"))
    assert (edited.stdout, edited.stderr) == ("18.0 5.0 18.0\n", "2\n")
    typed = run(tmp_path, program=STRUCTS.replace("radius: kp.f32", "radius: kp.i32"))
    assert typed.stderr == "2\n"


POSTPONED = """
from __future__ import annotations
import dataclasses
import sys
import numpy as np
import keyprint as kp

REAL = kp.f32


@dataclasses.dataclass
class P:
    x: REAL


@kp.func
def third(x: REAL, y: Later):
    return x / 3


Later = kp.i32


@kp.kernel
def k(p: P, out: kp.types.NDArray[kp.f64, 1]):
    out[0] = p.x / 3
    out[1] = third(p.x, 1)


out = np.zeros(2)
k(P(1.0), out)
print(out.tolist())
print(k.observations.compiled, file=sys.stderr)
"""


def test_types_behind_postponed_annotations_count(tmp_path):
    import numpy as np

    single = float(np.float32(1) / np.float32(3))
    first = run(tmp_path, program=POSTPONED)
    assert (first.stdout, first.stderr) == (f"{[single, single]}\n", "1\n"), first.stderr
    edited = run(tmp_path, program=POSTPONED.replace("REAL = kp.f32", "REAL = kp.f64"))
    assert (edited.stdout, edited.stderr) == (f"{[1 / 3, 1 / 3]}\n", "1\n"), edited.stderr
    assert run(tmp_path, program=POSTPONED).stderr == "0\n"
    # The same, where only the dataclass names the type.
    alone = POSTPONED.replace("def third(x: REAL, y: Later)", "def third(x, y)")
    assert run(tmp_path, program=alone).stdout == f"{[single, single]}\n"
    edited = run(tmp_path, program=alone.replace("REAL = kp.f32", "REAL = kp.f64"))
    assert (edited.stdout, edited.stderr) == (f"{[1 / 3, 1 / 3]}\n", "1\n"), edited.stderr


def test_arguments_of_the_compiler_count(tmp_path):
    assert run(tmp_path, KEYPRINT_CC="cc -DONE").returncode == 0
    other = run(tmp_path, KEYPRINT_CC="cc -DTWO")
    assert [counts[0] for counts in eval(other.stderr.splitlines()[-2])] == [1, 2, 1]
    again = run(tmp_path, KEYPRINT_CC="cc -DONE")
    assert [counts[0] for counts in eval(again.stderr.splitlines()[-2])] == [0, 0, 0]


WORDS = """
import keyprint as kp


@kp.kernel
def k(x: kp.types.NDArray[kp.f64, 1]):
    for i in x:
        x[i] = 1


x = kp.ndarray(kp.f64, 1)
for settings in ({}, {"fast_math": True}, {"debug": True}, {"march": "x86-64-v2"}):
    kp.init(**settings)
    k(x)
    print(k.why())
"""


def test_targets_are_compared_in_words(tmp_path):
    done = run(tmp_path, program=WORDS)
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == "miss: first compile"
    assert "`target['fast_math']`: False -> True" in others[0]
    assert "`target['debug']`: False -> True" in others[1]
    assert "`target['march']`: 'native' -> 'x86-64-v2'" in others[2]
