"""The main job, for now: a small kernel, compiled once, found again by other processes, and why not.

Run by ``make demo``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import keyprint as kp


class Layout(enum.Enum):
    ROW = "row"
    COLUMN = "column"


@dataclasses.dataclass(frozen=True)
class Stencil:
    name: str
    offsets: frozenset[tuple[int, int]]
    weights: dict[tuple[int, int], float]


@dataclasses.dataclass
class Program:
    stencils: list[Stencil]
    tiles: dict[str, int]
    layout: Layout
    flags: set[str]
    last_run_seconds: float = dataclasses.field(default=0.0, metadata=kp.no_fingerprint())


def program(tile: int = 64) -> Program:
    cross = frozenset({(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)})
    laplacian = Stencil("laplacian", cross, {offset: -4.0 if offset == (0, 0) else 1.0 for offset in cross})
    return Program(
        stencils=[laplacian, dataclasses.replace(laplacian, name="diffusion")],
        tiles={"x": tile, "y": 8},
        layout=Layout.ROW,
        flags={"-O3", "-march=native", "-ffast-math"},
        last_run_seconds=time.perf_counter(),
    )


def c_source(program: Program) -> str:
    """The first stencil as C: what a kernel language would generate."""
    stencil = program.stencils[0]
    terms = " + ".join(
        f"{weight} * in[(i + {di}) * n + j + {dj}]" for (di, dj), weight in sorted(stencil.weights.items())
    )
    tile = program.tiles["x"]
    return f"""
void {stencil.name}(const double *in, double *out, long n) {{
  for (long ii = 1; ii < n - 1; ii += {tile})
    for (long i = ii; i < n - 1 && i < ii + {tile}; i++)
      for (long j = 1; j < n - 1; j++)
        out[i * n + j] = {terms};
}}
"""


def compiled(program: Program) -> dict[str, bytes]:
    source = c_source(program)
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "kernel.so"
        command = ["cc", "-shared", "-fPIC", *sorted(program.flags), "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=source.encode(), check=True)
        return {"kernel.so": library.read_bytes(), "kernel.c": source.encode()}


def run(store_path: str, tile: int) -> None:
    """What a user's process does: find or compile the kernel, load it, call it."""
    stencils = program(tile)
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    start = time.perf_counter()
    store = kp.Store(store_path)
    key = kp.Key("laplacian", {"program": stencils, "compiler": compiler.splitlines()[0]}, tool=("demo", "1"))
    entry = store.get_or_build(key, lambda: compiled(stencils))
    kernel = ctypes.CDLL(entry.load("kernel.so"))
    took = time.perf_counter() - start
    n = 64
    grid, out = (ctypes.c_double * (n * n))(), (ctypes.c_double * (n * n))()
    grid[n * n // 2 + n // 2] = 1.0
    kernel.laplacian(grid, out, ctypes.c_long(n))
    center, neighbour = out[n * n // 2 + n // 2], out[n * n // 2 + n // 2 + 1]
    how = {"built": "compiled", "disk": "loaded from disk"}[entry.how]
    print(f"tile {tile:>3}: {how:<17} {took * 1e3:7.1f} ms   result {center} {neighbour}")


def in_another_process(*arguments: str, seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["print"]:
        print(kp.fingerprint(program()))
        return

    print("A program of stencils, fingerprinted in two processes with different hash seeds:\n")
    for seed in ("1", "2"):
        print(f"  PYTHONHASHSEED={seed}  {in_another_process('print', seed=seed)}")

    with tempfile.TemporaryDirectory() as directory:
        print(
            "\nCompiled to native code in a fresh process each time: cold, warm, after an edit, warm again:\n"
        )
        for seed, tile in enumerate(("64", "64", "128", "64")):
            print(f"  {in_another_process('run', directory, tile, seed=str(seed))}", flush=True)

        print("\nWhy the third one was not found (`keyprint why --last` says the same):\n")
        name, key, changes = kp.Store(directory).why_last(1)[0]
        print(f"  {name} {key[:12]}: {', '.join(changes or ())}")

    print("\nSomething that has no identity across processes:\n")
    try:
        kp.Key("kernel", {"program": {"steps": [program(), {"hook": lambda x: x}]}})
    except kp.FingerprintError as error:
        for line in str(error).splitlines():
            print(f"  {line}")


if __name__ == "__main__":
    main()
