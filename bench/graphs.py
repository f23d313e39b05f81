"""Graphs: what a launch of small tasks costs, and a turn of a loop, beside C and Quadrants in one run.

C is the same loops without a call between them. Quadrants runs in an environment of its own, right after. Medians are
printed. Run by ``make bench``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from graph_programs import SIZE, C, program
from measured import record

import keyprint as kp

HERE = os.path.dirname(os.path.abspath(__file__))
QUADRANTS = os.path.join(HERE, ".venv-quadrants", "bin", "python")

MORE = """

@L.kernel(graph=True, checkpoints=True)
def gated(x: A, f: I):
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.5 + 1.0
    with L.checkpoint(1, yield_on=f):
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + 2.0


@L.kernel(graph=True)
def row(x: A, y: A):
    L.loop_config(serialize=True)
    for i in range(x.shape[0]):
        x[i] = L.exp(-x[i])
    L.loop_config(serialize=True)
    for i in range(y.shape[0]):
        y[i] = L.exp(-y[i])


@L.kernel(graph=True)
def beside(x: A, y: A):
    with L.graph.parallel_context():
        with L.graph.parallel():
            L.loop_config(serialize=True)
            for i in range(x.shape[0]):
                x[i] = L.exp(-x[i])
        with L.graph.parallel():
            L.loop_config(serialize=True)
            for i in range(y.shape[0]):
                y[i] = L.exp(-y[i])
"""

TURNS = 10_000


def load(directory):
    path = os.path.join(directory, "graphs_here.py")
    with open(path, "w") as file:
        file.write(program("keyprint", "graph=True", "L.graph.do_while") + MORE)
    spec = importlib.util.spec_from_file_location("graphs_here", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["graphs_here"] = module
    spec.loader.exec_module(module)
    return module


def native(directory):
    source, library = os.path.join(directory, "graphs.c"), os.path.join(directory, "graphs.so")
    with open(source, "w") as file:
        file.write(C)
    flags = ["-O3", "-march=native", "-ffp-contract=off"]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(library)


def medians(calls, rounds=15):
    """Return seconds for each call, taken in turns; each says how often it runs at a time."""
    times = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, (call, number, divisor) in calls.items():
            begin = time.perf_counter()
            for _ in range(number):
                call()
            if turn:
                times[name].append((time.perf_counter() - begin) / (number * divisor))
    return {name: statistics.median(samples) for name, samples in times.items()}


def quadrants():
    if not os.path.exists(QUADRANTS):
        print("Quadrants is not installed; left out")
        return {}
    done = subprocess.run(
        [QUADRANTS, os.path.join(HERE, "quadrants_graphs.py")], capture_output=True, text=True, cwd=HERE
    )
    if done.returncode:
        print("Quadrants failed; left out:", *done.stderr.strip().splitlines()[-1:])
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(directory):
    module, library = load(directory), native(directory)
    x, c, f = kp.ndarray(kp.f32, SIZE), kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ())
    singles = [getattr(module, f"task{k}") for k in range(10)]
    raw, count = np.zeros(SIZE, np.float32), np.zeros((), np.int32)
    address, counter = ctypes.c_void_p(raw.ctypes.data), ctypes.c_void_p(count.ctypes.data)
    long = ctypes.c_long

    def turns():
        c[()] = TURNS
        module.turns(x, c)

    def turns_in_c():
        count[()] = TURNS
        library.turns(address, counter, long(SIZE))

    def all_singles():
        for task in singles:
            task(x)

    big = [kp.ndarray(kp.f32, 200_000) for _ in range(2)]
    ten, gated = module.ten, module.gated
    return medians(
        {
            "nothing, called from Python": ((lambda: None), 20_000, 1),
            "ten tasks, in C": ((lambda: library.tens(address, long(SIZE), long(20_000))), 1, 20_000),
            "ten tasks, one graph": ((lambda: ten(x)), 20_000, 1),
            "ten tasks, ten launches": (all_singles, 2000, 1),
            "a turn of three tasks, in C": (turns_in_c, 5, TURNS),
            "a turn of three tasks": (turns, 5, TURNS),
            "a launch with a checkpoint": ((lambda: gated(x, f)), 20_000, 1),
            "resuming at it": ((lambda: gated.resume(x, f, from_checkpoint=1)), 5000, 1),
            "two long sections in a row": ((lambda: module.row(*big)), 20, 1),
            "two long sections beside each other": ((lambda: module.beside(*big)), 20, 1),
        }
    )


def main():
    with tempfile.TemporaryDirectory() as directory:
        kp.init(offline_cache_file_path=os.path.join(directory, "store"))
        times = measure(directory)
        others = quadrants()
    shown = {"ten tasks, one graph": "ten tasks", "a turn of three tasks": "a turn"}
    print("\n| graphs | ns | Quadrants |\n| --- | --- | --- |")
    for name, seconds in times.items():
        other = others.get(shown.get(name, ""))
        print(f"| {name} | {seconds * 1e9:,.1f} | {'' if other is None else f'{other * 1e9:,.0f}'} |")
    rows = {"a launch of ten tasks": "ten tasks, one graph", "a turn of three tasks": "a turn of three tasks"}
    for title, name in rows.items():
        in_c = times["ten tasks, in C" if name.startswith("ten") else f"{name}, in C"]
        record(
            "graphs", title, {"Keyprint": times[name], "C": in_c, "Quadrants": others.get(shown[name], "")}
        )
    empty = times["nothing, called from Python"]
    launch = times["ten tasks, one graph"] - empty - times["ten tasks, in C"]
    turn = times["a turn of three tasks"] - times["a turn of three tasks, in C"]
    beside = times["two long sections in a row"] / times["two long sections beside each other"]
    print(f"\na launch of ten tasks: ten inlined calls {launch * 1e9:+.0f} ns (bar +200)")
    print(f"a turn of three tasks: {turn * 1e9:+.1f} ns of our own (bar 1,000)")
    print(f"sections beside each other: {beside:.2f}x as fast as in a row, on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
