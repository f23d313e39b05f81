"""Kernels on a CUDA device beside CUDA C by hand, CuPy, Triton, torch, JAX and Numba, in one run: ``python bench/gpu``.

Launches: the time until a call returns, and with a wait. Kernels: the time on the device, by events for CUDA C and by
many launches and one wait for all others. Graphs: the time of a turn, of many turns less one. Tools take turns; medians and
ratios to the floor are printed, and written to ``bench/gpu.md``. ``launches``, ``starts``, ``graphs`` and ``kernels`` name
parts of it. Needs a GPU and ``nvcc``. Run by ``make bench-gpu``.
"""

from __future__ import annotations

import ctypes
import datetime
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

# JAX would take most of the memory for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Plots are drawn as those of the benchmarks on the CPU.
sys.path.append(str(Path(__file__).resolve().parent.parent))

import graphs
import kernels
import launches
import plots
import starts
from table import Table

import keyprint as kp

HERE = Path(__file__).resolve().parent
PARTS = ("starts", "launches", "graphs", "kernels")
PACKAGES = ("keyprint", "cupy-cuda12x", "cupy-cuda13x", "torch", "triton", "jax", "numba", "quadrants")


#: What each library of floors measures.
FLOORS = {
    "floor": (
        *("launch_us", "launch_and_wait_us", "saxpy_ms", "stencil_ms", "mandelbrot_ms", "nbody_ms"),
        *("sum_ms", "histogram_ms", "shared_histogram_ms", "matmul_ms"),
    ),
    "graphs": (*("graph_of_ten_us", "graph_of_ten_and_wait_us", "turn_us", "solver_us", "bodies_us"),),
}


def build_floor(name: str) -> Any:
    """Compile CUDA C by hand; return what measures it."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    library = Path(tempfile.mkdtemp()) / f"{name}.so"
    flags = ["-O3", "-arch=native", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
    subprocess.run([nvcc, *flags, "-o", library, HERE / f"{name}.cu", "-lcuda"], check=True)
    floor = ctypes.CDLL(str(library))
    for function in FLOORS[name]:
        getattr(floor, function).restype = ctypes.c_double
    return floor


def main() -> None:
    parts = sys.argv[1:] or list(PARTS)
    version, devices = kp._native._cuda_devices()
    tools = [f"CPython {platform.python_version()}"]
    for package in PACKAGES:
        try:
            tools.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    head = f"{devices[0][1]}, driver of CUDA {version // 1000}.{version % 1000 // 10}, {', '.join(tools)}"
    print(head, flush=True)
    table = Table()
    if "starts" in parts:
        # Before this process has a context of its own.
        starts.processes(table)
        starts.cold_compiles(table)
    if "launches" in parts:
        launches.measure(table, build_floor("floor"))
    out = Path(os.environ.get("OUT", HERE.parent))
    pictures = ""
    if "graphs" in parts:
        sizes = graphs.measure(table, build_floor("graphs"))
        title = "A turn of three tasks, by elements (microseconds)"
        (out / "plots").mkdir(exist_ok=True)
        (out / "plots" / "turns.svg").write_text(plots.lines(title, sizes))
        pictures = f"![{title}](plots/turns.svg)\n\n"
    if "kernels" in parts:
        kernels.measure(table, build_floor("floor"))
    head = textwrap.fill(f"{head}; {datetime.date.today()}.", 100)
    (out / "gpu.md").write_text(f"# On a GPU\n\n{head}\n\n{pictures}{table.text()}\n")


if __name__ == "__main__":
    main()
