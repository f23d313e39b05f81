"""The graphs of `graphs.py` under Quadrants on a CUDA device: run by its own interpreter, with sizes and turns.

Prints one line of JSON: microseconds by name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

with contextlib.redirect_stdout(io.StringIO()):
    import quadrants as qd

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent))

from graph_programs import program


def load(directory: str):
    path = Path(directory) / "graphs_of_quadrants.py"
    path.write_text(program("quadrants", "graph=True", "L.graph.do_while"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def array(n: int):
    x = qd.ndarray(qd.f32, (n,))
    x.from_numpy(np.zeros(n, np.float32))
    return x


def ten_tasks(module, n: int, batch: int) -> dict[str, float]:
    arrays = [array(n) for _ in range(4)]
    for x in arrays:
        module.ten(x)
    qd.sync()
    submits, waits = [], []
    for _ in range(30):
        begun = time.perf_counter()
        for _ in range(batch // 4):
            for x in arrays:
                module.ten(x)
        submits.append((time.perf_counter() - begun) * 1e6 / batch)
        qd.sync()
    for at in range(200):
        begun = time.perf_counter()
        module.ten(arrays[at % 4])
        qd.sync()
        waits.append((time.perf_counter() - begun) * 1e6)
    return {"submit": statistics.median(submits), "wait": statistics.median(waits)}


def turn(module, n: int, most: int) -> float:
    x, c = array(n), qd.ndarray(qd.i32, ())

    def run(turns: int) -> float:
        samples = []
        for at in range(6):
            c.from_numpy(np.array(turns, np.int32))
            qd.sync()
            begun = time.perf_counter()
            module.turns(x, c)
            qd.sync()
            if at:
                samples.append((time.perf_counter() - begun) * 1e6)
        return statistics.median(samples)

    return (run(most + 1) - run(1)) / most


def main() -> None:
    sizes = {int(n): int(most) for n, most in (pair.split(":") for pair in sys.argv[2:])}
    with contextlib.redirect_stdout(io.StringIO()):
        qd.init(arch=qd.cuda)
    with tempfile.TemporaryDirectory() as directory:
        module = load(directory)
        results = {f"ten tasks, {name}": us for name, us in ten_tasks(module, 16, int(sys.argv[1])).items()}
        results |= {f"a turn, {n}": turn(module, n, most) for n, most in sizes.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
