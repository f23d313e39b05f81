"""What the benchmarks on a GPU share: the table that they fill, libraries that may be missing, how a kernel is timed."""

from __future__ import annotations

import importlib
import statistics
import time
from typing import Any


def kernel_ms(call: Any, wait: Any, repeats: int) -> float:
    """Return the milliseconds of one launch: of many that follow each other."""
    call()
    samples = []
    for _ in range(5):
        wait()
        begun = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        samples.append((time.perf_counter() - begun) / repeats * 1e3)
    return statistics.median(samples)


class Table:
    """Lines of a table: what, by which tool, and beside the floor."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, float, str, float | None]] = []

    def add(
        self, what: str, tool: str, value: float, unit: str, floor: float | None, ratio: float | None = None
    ) -> None:
        """Add a line; ``ratio`` is that to the floor, where it was measured by itself."""
        if ratio is None and floor is not None:
            ratio = value / floor
        self.rows.append((what, tool, value, unit, ratio))
        shown = "" if ratio is None else f"  {ratio:6.3f}x"
        print(f"{what:28} {tool:28} {value:10.3f} {unit}{shown}", flush=True)

    def text(self) -> str:
        lines = ["| work | tool | | beside CUDA C |", "| --- | --- | --- | --- |"]
        for what, tool, value, unit, ratio in self.rows:
            shown = "" if ratio is None else f"{ratio:.2f}x"
            lines.append(f"| {what} | {tool} | {value:.3g} {unit} | {shown} |")
        return "\n".join(lines)


def optional(name: str) -> Any:
    """Return a library, or nothing if it is not here."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"({name} is not here)")
        return None
