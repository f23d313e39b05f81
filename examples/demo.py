"""The main job, for now: the identity of a realistic value, in two processes, and what a difference is.

Run by ``make demo``.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import subprocess
import sys
import time
from typing import Any

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


def in_another_process(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, __file__, "--print"], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def main() -> None:
    if "--print" in sys.argv:
        print(kp.fingerprint(program()))
        return

    print("A program of stencils, fingerprinted in two processes with different hash seeds:\n")
    for seed in ("1", "2"):
        print(f"  PYTHONHASHSEED={seed}  {in_another_process(seed)}")

    fingerprinter = kp.Fingerprinter()
    one, other = program(tile=64), program(tile=128)
    print("\nWhat it is made of (a field that opted out is not there):\n")
    for line in fingerprinter.explain(one).render(depth=2, lines=16).splitlines():
        print(f"  {line}")

    print("\nThe same program with another tile:\n")
    for difference in fingerprinter.diff(one, other):
        print(f"  {difference}")

    print("\nSomething that has no identity across processes:\n")
    broken: dict[str, Any] = {"steps": [one, {"hook": lambda x: x}]}
    try:
        fingerprinter(broken)
    except kp.FingerprintError as error:
        for line in str(error).splitlines():
            print(f"  {line}")


if __name__ == "__main__":
    main()
