"""Launches and warm starts beside Numba and ctypes, in one run.

The kernels do nothing, so that a launch is all there is: each tool calls a native function with the addresses
of its arrays. Tools take turns; medians and ratios are printed. Needs a C compiler. Run by ``make bench``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

# Its threads spin for a while after a start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from measured import record

import keyprint as kp

SOURCE = "#include <stdint.h>\nint32_t nothing(uint64_t *words) { return 0; }\n"
NAMES = [f"a{at}" for at in range(30)]
TOOLS = ("Keyprint", "Numba", "ctypes")


class Holder:
    """An object with arrays for members."""


Record = dataclasses.make_dataclass("Record", NAMES)


def library(directory: Path) -> Path:
    (directory / "nothing.c").write_text(SOURCE)
    built = directory / "nothing.so"
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", built, directory / "nothing.c"], check=True)
    return built


def functions(directory: Path) -> Any:
    """Return the kernels, from a file as those of a program are."""
    lines = ["TILE = 3"]
    for count in (1, 4, 30):
        names = ", ".join(NAMES[:count])
        lines.append(f"def arrays{count}({names}):\n    return ({names}, TILE)")
    lines.append(f"def members(s):\n    return ({', '.join(f's.{name}' for name in NAMES)}, TILE)")
    (directory / "kernels.py").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(directory))
    import kernels

    return kernels


def medians(calls: dict[str, tuple[str, dict[str, Any]]], rounds: int = 11) -> dict[str, float]:
    """Return seconds for one call of each tool; the tools take turns."""
    number = 50_000
    timers = {name: timeit.Timer(call, globals=names) for name, (call, names) in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, timer in timers.items():
            duration = timer.timeit(number) / number
            if turn:
                times[name].append(duration)
    return {name: statistics.median(samples) for name, samples in times.items()}


def line(title: str, times: dict[str, float], scale: float = 1e9) -> None:
    ours = times["Keyprint"]
    cells = [f"{ours * scale:9.1f}"]
    for name in TOOLS[1:]:
        theirs = times.get(name)
        cells.append(f"{'-':>18}" if theirs is None else f"{theirs * scale:9.1f} ({theirs / ours:4.1f}x)")
    print(f"{title:<42}" + "  ".join(cells), flush=True)


def numba_of(source: Any, count: int) -> Any:
    try:
        import numba
    except ImportError:
        return None
    names = ", ".join(NAMES[:count])
    scope: dict[str, Any] = {}
    exec(f"def nothing({names}): pass", scope)
    return numba.njit(scope["nothing"])


def launches(directory: Path) -> None:
    native = ctypes.CDLL(str(library(directory)))
    address = ctypes.cast(native.nothing, ctypes.c_void_p).value or 0
    kernels = functions(directory)

    def kernel(function: Any, **options: Any) -> Any:
        code = kp.NativeCode(address, keep=native)
        return kp.jit(function, compile=lambda s: b"", load=lambda a: code, **options)

    arrays = [np.zeros(4) for _ in NAMES]
    for count in (1, 4, 30):
        chosen = dict(zip(NAMES[:count], arrays, strict=False))
        call = f"f({', '.join(chosen)})"
        calls = {"Keyprint": (call, {"f": kernel(getattr(kernels, f"arrays{count}")), **chosen})}
        if (peer := numba_of(kernels, count)) is not None:
            calls["Numba"] = (call, {"f": peer, **chosen})
        block = (ctypes.c_uint64 * count)(*[array.ctypes.data for array in arrays[:count]])
        if count == 1:
            # The least that ctypes can do: the address is known already.
            pointer = native.nothing
            pointer.argtypes = [ctypes.c_void_p]
            calls["ctypes"] = ("f(p)", {"f": pointer, "p": ctypes.addressof(block)})
        line(f"{count} array{'s' if count > 1 else ''}", medians(calls))
    members = kernel(kernels.members)
    for title, owner in (("object with 30 arrays", Holder()), ("dataclass with 30 arrays", Record(*arrays))):
        for name, array in zip(NAMES, arrays, strict=True):
            setattr(owner, name, array)
        line(title, medians({"Keyprint": ("f(s)", {"f": members, "s": owner})}))
    changing = kernel(kernels.arrays1)
    loop = "kernels.other = i; f(x)"
    names = {"f": changing, "x": arrays[0], "kernels": kernels, "i": 0}
    line("1 array, another global changes each time", medians({"Keyprint": (loop, names)}))
    python = kp.jit(kernels.arrays1, compile=lambda s: lambda x: None)
    line("1 array, a Python callable", medians({"Keyprint": ("f(x)", {"f": python, "x": arrays[0]})}))
    rekey = kp.jit(kernels.arrays1, compile=lambda s: lambda x: None)

    def first() -> None:
        rekey.forget()
        rekey(arrays[0])

    median = medians_of(first, 200)
    line("a first call, in process (us)", {"Keyprint": median}, 1e6)


def medians_of(call: Any, number: int) -> float:
    return statistics.median(timeit.repeat(call, number=number, repeat=7)) / number


# -- Warm starts ---------------------------------------------------------------------------------

WARM = """
import time
begin = time.perf_counter()
import keyprint as kp
imported = time.perf_counter()
TILE = 64
def helper(x):
    return x * TILE
def compile(spec):
    with open({library!r}, "rb") as file:
        return file.read()
def load(artifact):
    import ctypes
    native = ctypes.CDLL(artifact.path())
    return kp.NativeCode(ctypes.cast(native.nothing, ctypes.c_void_p).value, keep=native)
@kp.jit(compile=compile, load=load, store=kp.Store({store!r}), tool=("bench", "1"))
def f(x, n):
    return helper(x) + n
decorated = time.perf_counter()
import ctypes  # not ours to measure
ready = time.perf_counter()
f(1.0, 2)
done = time.perf_counter()
print(1e3 * (imported - begin), 1e3 * (decorated - imported), 1e3 * (done - ready), f.why())
"""

PLAIN = """
import ctypes
native = ctypes.CDLL({library!r})
native.nothing(0)
"""

NUMBA = """
import numba
@numba.njit(cache=True)
def f(x, n):
    return x * 64 + n
f(1.0, 2)
"""


def process(script: Path) -> float:
    """Return the seconds that a process takes from beginning to end."""
    return timeit.timeit(
        lambda: subprocess.run([sys.executable, script], check=True, stdout=subprocess.DEVNULL), number=1
    )


def warm_starts(directory: Path) -> None:
    values = {"library": str(directory / "nothing.so"), "store": str(directory / "store")}
    scripts = {
        "Keyprint": WARM,
        "Python + ctypes": PLAIN,
        "Numba, cache=True": NUMBA,
        "Python alone": "pass\n",
    }
    times: dict[str, list[float]] = {}
    for name, text in scripts.items():
        script = directory / f"{name.split()[0].rstrip(',').lower()}_{len(text)}.py"
        script.write_text(text.format(**values))
        try:
            # The first run fills the caches.
            process(script)
        except subprocess.CalledProcessError:
            print(f"{name} cannot run here; left out")
            continue
        times[name] = []
        scripts[name] = str(script)
    for _ in range(15):
        for name in times:
            times[name].append(process(Path(scripts[name])))
    results = {name: statistics.median(samples) for name, samples in times.items()}
    floor = results["Python + ctypes"]
    record("start", "a jit decorator", results)
    print("\nFrom a fresh process to its end, artifact on disk")
    for name, seconds in results.items():
        print(f"{name:<42}{seconds * 1e3:9.1f} ms  ({seconds / floor:4.2f}x Python + ctypes)")
    parts = []
    for _ in range(11):
        text = subprocess.run(
            [sys.executable, scripts["Keyprint"]], check=True, capture_output=True, text=True
        ).stdout
        parts.append([float(word) for word in text.split()[:3]])
        assert text.strip().endswith("hit: disk"), text
    imported, decorated, first = (statistics.median(column) for column in zip(*parts, strict=True))
    print(f"  of which: import {imported:.2f} ms, decorate {decorated:.2f} ms, first call {first:.2f} ms")


def main() -> None:
    # A program that is started again and again has its byte code kept.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(
        f"CPython {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores; ns per call\n"
    )
    print(f"{'A warm launch':<42}{TOOLS[0]:>9}  " + "  ".join(f"{name:>18}" for name in TOOLS[1:]))
    with tempfile.TemporaryDirectory() as directory:
        launches(Path(directory))
        warm_starts(Path(directory))


if __name__ == "__main__":
    main()
