"""Kernels that go on and on are interrupted from the keyboard, wherever they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import keyprint as kp

N = kp.types.NDArray

@kp.kernel
def endless():
    while True:
        a = 0

@kp.kernel
def an_iteration_that_takes_long(x: N[kp.f64, 1]):
    for i in x:
        s = kp.f64(0)
        for j in range(2_000_000_000):
            s += kp.sin(s + j)
        x[i] = s

@kp.kernel
def an_innermost_loop(x: N[kp.f64, 1], n: kp.i64):
    for i in range(1):
        s = kp.f64(0)
        for j in range(n):
            s = s * 0.5 + x[j % 8]
        x[0] = s

@kp.kernel
def in_order(x: N[kp.f64, 1], n: kp.i64):
    kp.loop_config(serialize=True)
    for i in range(n):
        x[i % 8] += 1

@kp.kernel
def loops_in_loops(x: N[kp.f64, 1], n: kp.i64):
    kp.loop_config(serialize=True)
    for i in range(n):
        for j in range(i % 3):
            if x[j] < 0:
                break
            for k in range(2):
                x[k] += 1

@kp.kernel
def a_loop_in_an_iteration(x: N[kp.f64, 1]):
    for i in x:
        while x[i] >= 0:
            x[i] += 1

@kp.kernel
def many_iterations(x: N[kp.f64, 1], n: kp.i64):
    for i in range(n):
        kp.atomic_add(x[i % 8], kp.sin(kp.f64(i)))

@kp.kernel
def rows_of_iterations(x: N[kp.f64, 1], n: kp.i64):
    for i, j in kp.ndrange(n, 1000):
        kp.atomic_add(x[j % 8], 1.0)

@kp.kernel(graph=True)
def a_loop_of_a_graph(x: N[kp.f64, 1], more: N[kp.i32, 0]):
    while kp.graph.do_while(more):
        for i in range(1):
            while x[i] >= 0:
                x[i] += 1

@kp.kernel
def counts(x: N[kp.f64, 1], n: kp.i64):
    kp.loop_config(serialize=True)
    for i in range(n):
        x[0] += 1

x = np.zeros(64)
CALLS = {
    "endless": lambda: endless(),
    "an iteration that takes long": lambda: an_iteration_that_takes_long(x),
    "an innermost loop": lambda: an_innermost_loop(x, 10**12),
    "in order": lambda: in_order(x, 10**12),
    "loops in loops": lambda: loops_in_loops(x, 10**12),
    "a loop in an iteration": lambda: a_loop_in_an_iteration(x),
    "many iterations": lambda: many_iterations(x, 10**12),
    "rows of iterations": lambda: rows_of_iterations(x, 10**9),
    "a loop of a graph": lambda: a_loop_of_a_graph(x, np.array(1, np.int32)),
}

def later(number):
    # Other threads can run Python meanwhile: otherwise this never comes.
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()

for name, call in CALLS.items():
    # What was interrupted is no other kernel when it is called again.
    for _ in range(2):
        x[:] = 0
        later(signal.SIGINT)
        try:
            call()
        except KeyboardInterrupt:
            print("stopped:", name)

# A handler that raises nothing changes nothing.
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(x[0]))
x[:] = 0
later(signal.SIGUSR1)
while not seen:
    x[:] = 0
    counts(x, 50_000_000)
    assert x[0] == 50_000_000
print("done")
"""


@pytest.mark.parametrize("threads", ["1", "3"])
def test_every_loop(tmp_path, threads):
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "KEYPRINT_CACHE_DIR": str(tmp_path / "store"), "KEYPRINT_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith("stopped")]) == 18, done.stdout
    assert lines[-1] == "done"


def test_a_handler_that_raises_something_else():
    import numpy as np

    import keyprint as kp

    @kp.kernel
    def waits(x: kp.types.NDArray[kp.f64, 1]):
        for i in x:
            while x[i] >= 0:
                x[i] += 1

    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            waits(np.zeros(3))
    finally:
        signal.signal(signal.SIGALRM, before)
