"""What a benchmark measured, for whoever runs all of them: one line of JSON for each row, where `BENCH_RECORD` says."""

from __future__ import annotations

import json
import os


def record(plot: str, row: str, seconds: dict[str, float | str]) -> None:
    """Keep a row of a plot: seconds, by tool. What is no number (`RecursionError`) is left out."""
    path = os.environ.get("BENCH_RECORD")
    if path:
        numbers = {tool: value for tool, value in seconds.items() if isinstance(value, (int, float))}
        with open(path, "a") as file:
            file.write(json.dumps({"plot": plot, "row": row, "seconds": numbers}) + "\n")
