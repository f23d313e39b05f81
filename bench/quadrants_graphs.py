"""The graphs of `graphs.py` under Quadrants: run in its own environment by that.

Prints one line of JSON: seconds by name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import statistics
import sys
import tempfile
import time

with contextlib.redirect_stdout(io.StringIO()):
    import quadrants as qd

import numpy as np
from graph_programs import SIZE, program


def median(work, number, rounds=7):
    times = []
    for turn in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(number):
            work()
        if turn:
            times.append((time.perf_counter() - begin) / number)
    return statistics.median(times)


def main():
    with contextlib.redirect_stdout(io.StringIO()):
        qd.init(arch=qd.cpu, cpu_max_num_threads=2)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "graphs_of_quadrants.py")
        with open(path, "w") as file:
            file.write(program("quadrants", "graph=True", "L.graph.do_while"))
        spec = importlib.util.spec_from_file_location("graphs_of_quadrants", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["graphs_of_quadrants"] = module
        spec.loader.exec_module(module)
        x, c = qd.ndarray(qd.f32, (SIZE,)), qd.ndarray(qd.i32, ())
        x.from_numpy(np.zeros(SIZE, np.float32))

        def turns(many):
            c.from_numpy(np.array(many, np.int32))
            module.turns(x, c)

        turns(1)
        few, many = 1, 101
        results = {
            "ten tasks": median(lambda: module.ten(x), 50),
            "a turn": (median(lambda: turns(many), 3) - median(lambda: turns(few), 10)) / (many - few),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
