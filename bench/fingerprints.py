"""Fingerprints beside their peers, in one run.

Every line times the same value with each tool, interleaved, and prints medians and ratios. A peer
that is not installed, or that cannot do a line, is left out and named. Run by ``make bench``.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pickle
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from measured import record

import keyprint as kp

Tool = Callable[[Any], object]


@dataclasses.dataclass
class Small:
    a: int
    b: float
    c: str


@dataclasses.dataclass
class SmallSlots:
    __slots__ = ("a", "b", "c")
    a: int
    b: float
    c: str


@dataclasses.dataclass
class Leafy:
    name: str
    values: list[int]
    table: dict[str, float]


def small_instances(cls: type) -> list[Any]:
    return [cls(i, i * 0.5, f"name{i}") for i in range(2400)]


def nested(leaves: int) -> dict[str, Any]:
    per = 17
    return {
        f"group{i}": Leafy(f"leaf{i}", list(range(i, i + per)), {f"k{j}": j * 1.5 + i for j in range(per)})
        for i in range(leaves // (2 * per))
    }


def chain(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def dag(levels: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value, value]
    return value


def pickle_xxh64() -> Tool:
    import xxhash

    return lambda value: xxhash.xxh64(pickle.dumps(value, protocol=5)).hexdigest()


def joblib_hash() -> Tool:
    import joblib

    return joblib.hash


def dask_tokenize() -> Tool:
    from dask.base import tokenize

    return tokenize


def gt4py_strict() -> Tool:
    from gt4py.next import fingerprinting

    return fingerprinting.strict_fingerprinter


def load(tools: dict[str, Callable[[], Tool]]) -> dict[str, Tool]:
    loaded = {}
    for name, make in tools.items():
        try:
            loaded[name] = make()
        except ImportError as error:
            print(f"# {name} is left out: {error}")
    return loaded


def seconds(
    tools: dict[str, Tool], value: Any, budget: float, *, turn: float = 0.002
) -> dict[str, float | str]:
    """Median seconds per call; tools take turns, so that drift of the machine hits all alike.

    A turn is at least ``turn`` seconds of calls. The first call, which finds out about types, does not
    count.
    """
    samples: dict[str, list[float]] = {name: [] for name in tools}
    failed: dict[str, str] = {}
    inner: dict[str, int] = {}
    for name, tool in tools.items():
        try:
            start = time.perf_counter()
            tool(value)
            once = time.perf_counter() - start
            if once < budget:
                start = time.perf_counter()
                tool(value)
                once = time.perf_counter() - start
        except (RecursionError, TypeError) as error:
            failed[name] = type(error).__name__
            continue
        inner[name] = max(1, int(turn / max(once, 1e-9)))
        if once > budget:
            samples[name].append(once)
            inner[name] = 0
    deadline = time.perf_counter() + budget * len(tools)
    rounds = 0
    while time.perf_counter() < deadline and rounds < 200:
        rounds += 1
        for name, tool in tools.items():
            if inner.get(name, 0) == 0:
                continue
            start = time.perf_counter()
            for _ in range(inner[name]):
                tool(value)
            samples[name].append((time.perf_counter() - start) / inner[name])
    return {name: failed.get(name) or statistics.median(samples[name]) for name in tools}


def line(title: str, results: dict[str, float | str]) -> None:
    own = results["keyprint"]
    assert isinstance(own, float)
    record(
        "fingerprints",
        title,
        {"Keyprint" if name == "keyprint" else name: result for name, result in results.items()},
    )
    cells = [f"keyprint {own * 1e3:9.4f} ms"]
    for name, result in results.items():
        if name == "keyprint":
            continue
        if isinstance(result, str):
            cells.append(f"{name} {result}")
        else:
            cells.append(f"{name} {result * 1e3:.3f} ms ({result / own:.1f}x)")
    print(f"{title:38} " + " | ".join(cells), flush=True)


def ir_tree() -> Any | None:
    """A tree of GT4Py's own nodes, about 2,400 of them."""
    try:
        from gt4py.next.iterator.ir_utils import ir_makers as im
    except ImportError as error:
        print(f"# the GT4Py tree is left out: {error}")
        return None

    def statement(index: int) -> Any:
        shifted = [im.deref(im.shift("V2E", i)(f"in{index % 7}")) for i in range(6)]
        total = shifted[0]
        for part in shifted[1:]:
            total = im.plus(im.multiplies_(part, im.literal(f"{index}.5", "float64")), total)
        return total

    program = im.lambda_("x")(statement(0))
    for index in range(1, 32):
        program = im.let(f"v{index}", statement(index))(im.plus(f"v{index}", im.call(program)("x")))
    return program


def gt4py_lines(budget: float) -> None:
    tree = ir_tree()
    if tree is None:
        return
    from gt4py import eve
    from gt4py.next.iterator import ir

    nodes = sum(isinstance(node, ir.Node) for node in eve.pre_walk_values(tree))
    skipping = kp.Fingerprinter(mode="lenient", skip_fields=("location", "type"))
    line(
        f"GT4Py IR, {nodes} nodes, location/type skipped",
        seconds({"keyprint": skipping, "GT4Py": ir.lenient_ir_fingerprinter}, tree, budget),
    )
    strict = kp.Fingerprinter()
    line(
        "the same, one call a turn: cold caches",
        seconds({"keyprint": skipping, "GT4Py": ir.lenient_ir_fingerprinter}, tree, budget, turn=0),
    )
    line(
        f"GT4Py IR, {nodes} nodes, everything",
        seconds({"keyprint": strict, "GT4Py": gt4py_strict()}, tree, budget),
    )


def main() -> None:
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print(f"# CPython {platform.python_version()}, {platform.machine()}; medians, tools taking turns")
    for name in ("gt4py", "joblib", "dask", "xxhash", "numpy"):
        try:
            print(f"# {name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"# {name} is not installed")
    own: dict[str, Tool] = {"keyprint": kp.Fingerprinter()}
    peers = load(
        {
            "pickle+xxh64": pickle_xxh64,
            "joblib": joblib_hash,
            "dask": dask_tokenize,
            "GT4Py": gt4py_strict,
        }
    )
    dumps: dict[str, Tool] = {"pickle.dumps": lambda value: pickle.dumps(value, protocol=5)}
    everyone = {**own, **peers}

    gt4py_lines(budget)
    small = small_instances(Small)
    line("2,400 dataclass instances", seconds({**own, **dumps, **peers}, small, budget))
    line("2,400 slotted dataclass instances", seconds({**own, **dumps}, small_instances(SmallSlots), budget))
    line("nested, 102k leaves", seconds(everyone, nested(102_000), budget))
    strings = {f"key number {i}": f"value {i * 7919}" for i in range(10_000)}
    line("dict of 10k strings", seconds(everyone, strings, budget))
    try:
        import numpy as np
    except ImportError as error:
        print(f"# arrays are left out: {error}")
    else:
        array = np.random.default_rng(0).random(1_000_000)
        raw = array.tobytes()
        floor: dict[str, Tool] = {"bytes of that size": lambda _: kp.fingerprint(raw)}
        line("float64 array, 1M elements", seconds({**everyone, **floor}, array, budget))
        line(
            "the same, Fortran order, 1000x1000",
            seconds(own, np.asfortranarray(array.reshape(1000, 1000)), budget),
        )
    line("list 5,000 deep", seconds(everyone, chain(5_000), budget))
    line("list 100,000 deep", seconds(own, chain(100_000), budget))
    line("list 1,000,000 deep", seconds(own, chain(1_000_000), budget))
    sharing = {name: tool for name, tool in everyone.items() if name != "dask"}
    line("DAG, 40 levels of sharing (dask: minutes)", seconds(sharing, dag(40), budget))


if __name__ == "__main__":
    main()
