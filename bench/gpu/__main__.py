"""Kernels on a CUDA device beside CUDA C by hand, CuPy, Triton, torch, JAX and Numba, in one run: ``python bench/gpu``.

Launches: the time until a call returns, and with a wait. Kernels: the time on the device, by events for CUDA C and by
many launches and one wait for all others. Tools take turns; medians and ratios to the floor are printed, and written to
``bench/gpu.md``. ``launches``, ``starts`` and ``kernels`` name parts of it. Needs a GPU and ``nvcc``. Run by
``make bench-gpu``.
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

import kernels
import launches
import starts
from table import Table

import keyprint as kp

HERE = Path(__file__).resolve().parent
PARTS = ("starts", "launches", "kernels")
PACKAGES = ("keyprint", "cupy-cuda12x", "cupy-cuda13x", "torch", "triton", "jax", "numba", "quadrants")


def build_floor() -> Any:
    """Compile CUDA C by hand; return what measures it."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    library = Path(tempfile.mkdtemp()) / "floor.so"
    flags = ["-O3", "-arch=native", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
    subprocess.run([nvcc, *flags, "-o", library, HERE / "floor.cu", "-lcuda"], check=True)
    floor = ctypes.CDLL(str(library))
    times = ("saxpy", "stencil", "mandelbrot", "nbody", "sum", "histogram", "shared_histogram", "matmul")
    for name in ("launch_us", "launch_and_wait_us", *(f"{time}_ms" for time in times)):
        getattr(floor, name).restype = ctypes.c_double
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
    floor = build_floor()
    if "launches" in parts:
        launches.measure(table, floor)
    if "kernels" in parts:
        kernels.measure(table, floor)
    out = Path(os.environ.get("OUT", HERE.parent)) / "gpu.md"
    head = textwrap.fill(f"{head}; {datetime.date.today()}.", 100)
    out.write_text(f"# On a GPU\n\n{head}\n\n{table.text()}\n")


if __name__ == "__main__":
    main()
