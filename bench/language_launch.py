"""Launches, warm starts and cold compiles of the kernel language beside Quadrants, Numba, ctypes and the C compiler.

Tools take turns within this process; Quadrants runs in an environment of its own, right before and after. Medians and
ratios are printed. Run by ``make bench``.
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
import timeit

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from measured import record

import keyprint as kp

NAMES = [f"a{at}" for at in range(30)]
HERE = os.path.dirname(os.path.abspath(__file__))
QUADRANTS = os.path.join(HERE, ".venv-quadrants", "bin", "python")


def program(directory: str):
    """Return kernels, from a file as those of a program are."""
    total = lambda prefix: " + ".join(f"{prefix}{name}[0]" for name in NAMES)  # noqa: E731
    text = f"""
import dataclasses
import keyprint as kp

A = kp.types.NDArray[kp.f32, 1]


@kp.kernel
def one(x: A):
    x[0] = 1.0


@kp.kernel
def loop(x: A):
    for i in range(1):
        x[i] = 1.0


@kp.kernel
def four(a: A, b: A, c: A, d: A):
    a[0] = b[0] + c[0] + d[0]


@kp.kernel
def thirty({", ".join(f"{name}: A" for name in NAMES)}):
    a0[0] = {total("")}


@kp.data_oriented
class Holder:
    @kp.kernel
    def run(self):
        self.a0[0] = {total("self.")}


@dataclasses.dataclass
class Record:
    {"; ".join(f"{name}: A" for name in NAMES)}


@kp.kernel
def record(r: Record):
    r.a0[0] = {total("r.")}
"""
    path = os.path.join(directory, "launches.py")
    with open(path, "w") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("launches", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["launches"] = module
    spec.loader.exec_module(module)
    return module


def medians(calls, rounds=9, number=50_000):
    timers = {name: timeit.Timer(call, globals=names) for name, (call, names) in calls.items()}
    times = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, timer in timers.items():
            duration = timer.timeit(number) / number
            if turn:
                times[name].append(duration)
    return {name: statistics.median(samples) for name, samples in times.items()}


def with_numba(count):
    try:
        import numba
    except ImportError:
        return None
    names = NAMES[:count]
    scope = {}
    exec(f"def f({', '.join(names)}):\n    a0[0] = {' + '.join(f'{name}[0]' for name in names)}", scope)
    return numba.njit(scope["f"])


def launches(module, directory):
    own = [kp.ndarray(kp.f32, 4) for _ in NAMES]
    arrays = [np.zeros(4, np.float32) for _ in NAMES]
    holder = module.Holder()
    for name, array in zip(NAMES, own, strict=True):
        setattr(holder, name, array)
    record = module.Record(*own)
    source, library = os.path.join(directory, "n.c"), os.path.join(directory, "n.so")
    with open(source, "w") as file:
        file.write("void f(float *x) { x[0] = 1; }\n")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    native = ctypes.CDLL(library).f
    native.argtypes = [ctypes.c_void_p]
    address = arrays[0].ctypes.data
    calls = {
        "an empty Python function": ("f(x)", {"f": lambda x: None, "x": own[0]}),
        "1 array": ("f(x)", {"f": module.one, "x": own[0]}),
        "1 array of NumPy": ("f(x)", {"f": module.one, "x": arrays[0]}),
        "a loop of one iteration": ("f(x)", {"f": module.loop, "x": own[0]}),
        "4 arrays": ("f(a, b, c, d)", {"f": module.four, **dict(zip("abcd", own, strict=False))}),
        "30 arrays": (f"f({', '.join(NAMES)})", {"f": module.thirty, **dict(zip(NAMES, own, strict=True))}),
        "object with 30 arrays": ("h.run()", {"h": holder}),
        "dataclass with 30 arrays": ("f(r)", {"f": module.record, "r": record}),
        "ctypes, 1 array": ("f(x)", {"f": native, "x": address}),
    }
    for count in (1, 4, 30):
        numba = with_numba(count)
        if numba is not None:
            given = ", ".join(NAMES[:count])
            calls[f"Numba, {count} arrays"] = (
                f"f({given})",
                {"f": numba, **dict(zip(NAMES, arrays, strict=True))},
            )
    return medians(calls)


WARM = """
import sys
import keyprint as kp


@kp.kernel
def saxpy(a: kp.f32, x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] += a * x[i]


x, y = kp.ndarray(kp.f32, 4), kp.ndarray(kp.f32, 4)
x.fill(2)
saxpy(2.0, x, y)
assert y[3] == 4.0
if "tell" in sys.argv:
    print(saxpy.observations)
"""

CTYPES = """
import ctypes
f = ctypes.CDLL({library!r}).f
x = (ctypes.c_float * 4)()
f(x)
assert x[0] == 1.0
"""


def seconds(command, environment, repeat=15):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def warm_starts(directory):
    environment = {**os.environ, "KEYPRINT_CACHE_DIR": os.path.join(directory, "warm")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ours, native = os.path.join(directory, "warm.py"), os.path.join(directory, "native.py")
    with open(ours, "w") as file:
        file.write(WARM)
    with open(native, "w") as file:
        file.write(CTYPES.format(library=os.path.join(directory, "n.so")))
    for _ in range(2):
        subprocess.run([sys.executable, ours], check=True, env=environment)
    rounds = [
        (seconds([sys.executable, ours], environment, 5), seconds([sys.executable, native], environment, 5))
        for _ in range(5)
    ]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def cold_compiles(directory):
    """Return seconds for a first call, and what the C compiler takes of them for the same text."""
    dump = os.path.join(directory, "dump")
    os.environ["KEYPRINT_DUMP"] = dump
    first, alone = [], []
    for at in range(9):
        path = os.path.join(directory, f"cold{at}.py")
        with open(path, "w") as file:
            file.write(
                WARM.split("x, y =")[0].replace("a * x[i]", f"a * x[i] + {at}").replace("import sys\n", "")
            )
        spec = importlib.util.spec_from_file_location(f"cold{at}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x, y = kp.ndarray(kp.f32, 4), kp.ndarray(kp.f32, 4)
        begin = time.perf_counter()
        module.saxpy(2.0, x, y)
        first.append(time.perf_counter() - begin)
        (text,) = [name for name in os.listdir(dump) if name.startswith(f"cold{at}.") and name.endswith(".c")]
        flags = kp.language.settings.TARGET.state["value"][3]
        command = [
            "cc",
            *flags,
            "-o",
            os.path.join(directory, "alone.so"),
            os.path.join(dump, text),
            "-lm",
            "-lgcc",
        ]
        begin = time.perf_counter()
        subprocess.run(command, check=True)
        alone.append(time.perf_counter() - begin)
    del os.environ["KEYPRINT_DUMP"]
    return statistics.median(first), statistics.median(alone)


def quadrants():
    if not os.path.exists(QUADRANTS):
        print("Quadrants is not installed; left out")
        return {}
    script = os.path.join(HERE, "quadrants_kernels.py")
    done = subprocess.run([QUADRANTS, script, "launches", "1"], capture_output=True, text=True)
    if done.returncode:
        print("Quadrants failed; left out:", *done.stderr.strip().splitlines()[-1:])
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


BARS = {
    "1 array": 60,
    "4 arrays": 100,
    "30 arrays": 250,
    "object with 30 arrays": 150,
    "dataclass with 30 arrays": 300,
}


def main():
    with tempfile.TemporaryDirectory() as directory:
        kp.init(offline_cache_file_path=os.path.join(directory, "store"))
        module = program(directory)
        times = launches(module, directory)
        others = quadrants()
        print("\n| a warm launch | ns | bar | Quadrants | Numba |\n| --- | --- | --- | --- | --- |")
        for name, own in times.items():
            if name.startswith("Numba"):
                continue
            count = name.split()[0]
            numba = (
                times.get(f"Numba, {count} arrays") if name in ("1 array", "4 arrays", "30 arrays") else None
            )
            cells = [
                f"{own * 1e9:.0f}",
                str(BARS.get(name, "")),
                f"{others[name] * 1e9:.0f}" if name in others else "",
            ]
            print(f"| {name} | {' | '.join(cells)} | {'' if numba is None else f'{numba * 1e9:.0f}'} |")
        for name in ("1 array", "4 arrays", "30 arrays", "object with 30 arrays", "dataclass with 30 arrays"):
            row = {
                "Keyprint": times[name],
                "Quadrants": others.get(name, ""),
                "Numba": times.get(f"Numba, {name.split()[0]} arrays", ""),
            }
            if "with" in name:
                del row["Numba"]
            record("launch", name, row)
        warm, native = warm_starts(directory)
        record("start", "the kernel language", {"Keyprint": warm, "Python + ctypes": native})
        print(
            f"\nwarm process: {warm * 1e3:.1f} ms, Python + ctypes {native * 1e3:.1f} ms: {warm / native:.2f}x (bar 1.5x)"
        )
        first, alone = cold_compiles(directory)
        print(
            f"cold compile: {first * 1e3:.1f} ms, the C compiler alone {alone * 1e3:.1f} ms: "
            f"{(first - alone) * 1e3:+.1f} ms (bar +5)"
        )


if __name__ == "__main__":
    main()
