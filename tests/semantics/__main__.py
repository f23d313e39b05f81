"""Judges the kernel language: ``python -m semantics --programs 2000 --loops 500 --graphs 200``.

Exits with 1 if something differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import keyprint as kp

from . import graphs, loops
from .judge import ARCH, MODES, judge, make, report

#: How many programs are compiled together.
BATCH = 20

#: How graphs are launched on a device, besides as is quickest there; and how many elements they have.
WAYS = ("", "block", "grid", "nodes", "host")
SIZES = (5, 3000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--loops", type=int, default=0, help="kernels of several loops, besides")
    parser.add_argument("--graphs", type=int, default=0, help="graphs of loops and checkpoints, besides")
    parser.add_argument("--first", type=int, default=0, help="the first batch")
    parser.add_argument("--rows", type=int, default=12, help="how many rows of numbers each runs on")
    parser.add_argument("--mode", choices=list(MODES), help="all in turn, if not given")
    parser.add_argument("--show", type=int, default=5, help="how many differences are shrunk and shown")
    parser.add_argument("--cuda", action="store_true", help="on a CUDA device")
    options = parser.parse_args()
    if options.cuda:
        ARCH["arch"] = "cuda"
    begin, wrong, done = time.monotonic(), 0, 0
    modes = [
        "plain",
        "plain",
        "serial",
        "plain",
        "graph",
        "plain",
        "debug",
        "contract",
        "checkpoints",
        "fast math",
    ]
    with tempfile.TemporaryDirectory(prefix="keyprint-semantics-") as directory:
        for at in range(-(-options.programs // BATCH)):
            seed = options.first + at
            mode = MODES[options.mode or modes[seed % len(modes)]]
            difference = judge(make(seed, BATCH, options.rows, mode), mode, Path(directory), f"batch{seed}")
            done += BATCH
            if difference is not None:
                wrong += 1
                print(f"batch {seed}, {mode.name}: {report(*difference)}\n", flush=True)
                if wrong >= options.show:
                    break
            if at % 25 == 24 or sys.stderr.isatty():
                rate = done / (time.monotonic() - begin)
                print(
                    f"{done} programs, {rate:.0f} a second, {wrong} batches differ",
                    file=sys.stderr,
                    flush=True,
                )
    print(f"{done} programs: {wrong} batches differ")
    wrong += _loops(options.first, options.loops, options.show)
    wrong += _graphs(options.first, options.graphs, options.show, WAYS if options.cuda else ("",))
    return int(wrong > 0)


def _loops(first: int, many: int, show: int) -> int:
    kp.init(**ARCH)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="keyprint-loops-") as directory:
        for seed in range(first, first + many):
            difference = loops.judge(seed, Path(directory))
            if difference is not None:
                wrong += 1
                print(f"{difference}\n", flush=True)
                if wrong >= show:
                    break
    if many:
        print(f"{many} kernels of loops: {wrong} differ")
    return wrong


def _graphs(first: int, many: int, show: int, ways: tuple[str, ...]) -> int:
    """Judge graphs in each way, with few elements and with many, of arrays of NumPy and of our own."""
    wrong = 0
    for seed in range(first, first + many):
        # What is compiled for one way serves all.
        with tempfile.TemporaryDirectory(prefix="keyprint-graphs-") as directory:
            for way in ways:
                os.environ["KEYPRINT_GRAPH"] = way
                kp.init(offline_cache_file_path=directory, **ARCH)
                for size in SIZES:
                    difference = graphs.judge(seed, Path(directory), size, is_own=size > SIZES[0])
                    if difference is not None:
                        wrong += 1
                        print(f"{way or 'any way'}: {difference}\n", flush=True)
            kp.reset()
        if wrong >= show:
            break
    if many:
        print(f"{many} graphs: {wrong} launches differ")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
