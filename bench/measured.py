"""What a benchmark measured, for whoever runs all of them: one line of JSON for each row, where `BENCH_RECORD` says."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable


def record(plot: str, row: str, seconds: dict[str, float | str]) -> None:
    """Keep a row of a plot: seconds, by tool. What is no number (`RecursionError`) is left out."""
    path = os.environ.get("BENCH_RECORD")
    if path:
        numbers = {tool: value for tool, value in seconds.items() if isinstance(value, (int, float))}
        with open(path, "a") as file:
            file.write(json.dumps({"plot": plot, "row": row, "seconds": numbers}) + "\n")


def medians(
    operations: dict[str, Callable[[int], object]], *, repeat: int, rounds: int = 15
) -> dict[str, float]:
    """Seconds for one operation of each tool; the tools take turns."""
    times: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(rounds + 1):
        for name, operation in operations.items():
            start = time.perf_counter()
            for i in range(repeat):
                operation(turn * repeat + i)
            if turn:
                times[name].append((time.perf_counter() - start) / repeat)
    return {name: statistics.median(samples) for name, samples in times.items()}
