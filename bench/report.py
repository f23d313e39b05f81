"""Runs every benchmark, beside its peers, and writes what they found: ``bench/report.md`` and the plots beside it.

Run by ``make bench``, in the environment of the peers.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from plots import chart

HERE = Path(__file__).resolve().parent

#: Scripts, and what they are about.
SCRIPTS = {
    "fingerprints.py": "Fingerprints",
    "store.py": "The store",
    "store_growth.py": "A store that grows",
    "launch.py": "Launches and warm starts of a jit decorator",
    "language_launch.py": "The kernel language: launches, warm starts, cold compiles",
    "language_kernels.py": "The kernel language: kernels",
    "graphs.py": "Graphs",
}

#: Plots, and their titles.
PLOTS = {
    "launch": "A warm launch of a tiny kernel",
    "start": "From a fresh process to the first result, artifact on disk",
    "fingerprints": "Fingerprints of Python values",
    "store": "The store: one operation",
    "growth": "A store of 100 entries, and a large one",
    "kernels": "Kernels on two threads",
    "graphs": "Graphs on the CPU",
}

PEERS = ("numpy", "numba", "gt4py", "joblib", "dask", "xxhash", "diskcache")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> list[str]:
    tools = [f"CPython {platform.python_version()}", f"Keyprint {importlib.metadata.version('keyprint')}"]
    for name in PEERS:
        try:
            tools.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            tools.append(f"{name}: not installed")
    quadrants = HERE / ".venv-quadrants" / "bin" / "python"
    if quadrants.exists():
        ask = "import importlib.metadata as m; print(m.version('quadrants'))"
        told = subprocess.run([quadrants, "-c", ask], capture_output=True, text=True)
        tools.append(f"Quadrants {told.stdout.strip() or 'unknown'}")
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.splitlines()
    return [*tools, compiler[0] if compiler else "no C compiler"]


def run(script: str, record: Path) -> str:
    """Run a benchmark, show what it prints, and return it."""
    environment = {**os.environ, "BENCH_RECORD": str(record)}
    process = subprocess.Popen(
        [sys.executable, str(HERE / script)], env=environment, stdout=subprocess.PIPE, text=True, cwd=HERE
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        lines.append(f"(ended with status {process.returncode})\n")
    return "".join(lines)


def as_markdown(text: str) -> str:
    """Return output as it is, with tables as tables."""
    parts, plain = [], []

    def flush() -> None:
        if any(line.strip() for line in plain):
            parts.append("```text\n" + "\n".join(plain).strip("\n") + "\n```")
        plain.clear()

    table: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            flush()
            table.append(line)
            continue
        if table:
            parts.append("\n".join(table))
            table = []
        plain.append(line)
    flush()
    return "\n\n".join(parts)


def main() -> None:
    begun = datetime.datetime.now(datetime.timezone.utc)
    sections = []
    with tempfile.TemporaryDirectory() as directory:
        record = Path(directory) / "rows"
        for script, title in SCRIPTS.items():
            print(f"\n\033[1m== {title}\033[0m", flush=True)
            sections.append(f"## {title}\n\n{as_markdown(run(script, record))}")
        rows: dict[str, dict[str, dict[str, float]]] = {}
        for line in record.read_text().splitlines() if record.exists() else []:
            entry = json.loads(line)
            if entry["seconds"]:
                rows.setdefault(entry["plot"], {})[entry["row"]] = entry["seconds"]
    pictures = []
    (HERE / "plots").mkdir(exist_ok=True)
    for plot, title in PLOTS.items():
        if plot in rows:
            (HERE / "plots" / f"{plot}.svg").write_text(chart(title, rows[plot]))
            pictures.append(f"![{title}](plots/{plot}.svg)")
    took = datetime.datetime.now(datetime.timezone.utc) - begun
    head = (
        f"# Benchmarks\n\n{begun:%d %B %Y}, {processor()}, {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}; {took.seconds // 60} minutes.\n\n"
        f"{'; '.join(versions())}.\n\n"
        "Everything in one run, tools taking turns, medians. The machine drifts by half between runs: ratios within a run mean "
        "more than numbers; a *bar* is our own target. Written by `make bench`."
    )
    head = "\n\n".join(textwrap.fill(paragraph, 100) for paragraph in head.split("\n\n"))
    (HERE / "report.md").write_text("\n\n".join([head, *pictures, *sections]) + "\n")
    print(f"\n{HERE.name}/report.md, {len(pictures)} plots")


if __name__ == "__main__":
    main()
