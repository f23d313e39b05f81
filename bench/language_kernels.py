"""Kernels beside hand-written C with OpenMP, Numba, Quadrants and NumPy: four programs, one run, tools in turns.

Ratios are to the C, which is compiled here by the same compiler at ``-O3 -march=native -fopenmp``. Tools that are
not installed are left out with a message. Quadrants runs in an environment of its own, if there is one.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from measured import record

import keyprint as kp

THREADS = os.cpu_count() or 1

C = r"""
#include <math.h>
#include <stdint.h>

void saxpy(int64_t n, float a, const float *restrict x, float *restrict y) {
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void stencil(int64_t n, const float *restrict x, float *restrict y) {
  #pragma omp parallel for
  for (int64_t i = 1; i < n - 1; ++i)
    for (int64_t j = 1; j < n - 1; ++j)
      y[i * n + j] = 0.25f * (x[(i - 1) * n + j] + x[(i + 1) * n + j] + x[i * n + j - 1] + x[i * n + j + 1]) - x[i * n + j];
}

void mandelbrot(int64_t n, int32_t most, int32_t *restrict out) {
  #pragma omp parallel for schedule(dynamic, 16)
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float cx = -2.0f + 3.0f * j / n, cy = -1.5f + 3.0f * i / n, x = 0, y = 0;
      int32_t k = 0;
      while (k < most && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = t;
        ++k;
      }
      out[i * n + j] = k;
    }
}

void nbody(int64_t n, const float *restrict p, float *restrict f) {
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float ax = 0, ay = 0, az = 0;
    for (int64_t j = 0; j < n; ++j) {
      float dx = p[j * 3] - p[i * 3], dy = p[j * 3 + 1] - p[i * 3 + 1], dz = p[j * 3 + 2] - p[i * 3 + 2];
      float r2 = dx * dx + dy * dy + dz * dz + 1e-4f;
      float inv = 1.0f / sqrtf(r2);
      float w = inv * inv * inv;
      ax += dx * w; ay += dy * w; az += dz * w;
    }
    f[i * 3] = ax; f[i * 3 + 1] = ay; f[i * 3 + 2] = az;
  }
}
"""


@kp.kernel
def saxpy(a: kp.f32, x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] += a * x[i]


@kp.kernel
def stencil(x: kp.types.NDArray[kp.f32, 2], y: kp.types.NDArray[kp.f32, 2]):
    n = x.shape[0]
    for i, j in kp.ndrange((1, n - 1), (1, n - 1)):
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


@kp.kernel
def mandelbrot(n: kp.i32, most: kp.i32, out: kp.types.NDArray[kp.i32, 2]):
    for i, j in out:
        cx = -2.0 + 3.0 * j / n
        cy = -1.5 + 3.0 * i / n
        x = 0.0
        y = 0.0
        k = 0
        while k < most and x * x + y * y < 4.0:
            x, y = x * x - y * y + cx, 2.0 * x * y + cy
            k += 1
        out[i, j] = k


@kp.kernel
def nbody(
    p: kp.types.NDArray[kp.types.vector(3, kp.f32), 1], f: kp.types.NDArray[kp.types.vector(3, kp.f32), 1]
):
    for i in p:
        total = kp.Vector([0.0, 0.0, 0.0])
        for j in range(p.shape[0]):
            d = p[j] - p[i]
            inv = 1.0 / kp.sqrt(d.dot(d) + 1e-4)
            total += d * (inv * inv * inv)
        f[i] = total


def arrays():
    rng = np.random.default_rng(0)
    return {
        "saxpy": (rng.random(10_000_000, np.float32), np.zeros(10_000_000, np.float32)),
        "stencil": (rng.random((4096, 4096), np.float32), np.zeros((4096, 4096), np.float32)),
        "mandelbrot": (np.zeros((1024, 1024), np.int32),),
        "nbody": (rng.random((4096, 3), np.float32), np.zeros((4096, 3), np.float32)),
    }


def hand_written(directory):
    source, library = os.path.join(directory, "c.c"), os.path.join(directory, "c.so")
    with open(source, "w") as file:
        file.write(C)
    compiler = os.environ.get("KEYPRINT_CC", "cc")
    subprocess.run(
        [compiler, "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-o", library, source, "-lm"],
        check=True,
    )
    loaded = ctypes.CDLL(library)
    long, pointer = ctypes.c_int64, ctypes.c_void_p
    loaded.saxpy.argtypes = [long, ctypes.c_float, pointer, pointer]
    loaded.mandelbrot.argtypes = [long, ctypes.c_int32, pointer]
    loaded.stencil.argtypes = loaded.nbody.argtypes = [long, pointer, pointer]
    at = lambda array: array.ctypes.data  # noqa: E731
    return {
        "saxpy": lambda x, y: loaded.saxpy(len(x), 2.0, at(x), at(y)),
        "stencil": lambda x, y: loaded.stencil(len(x), at(x), at(y)),
        "mandelbrot": lambda out: loaded.mandelbrot(len(out), 200, at(out)),
        "nbody": lambda p, f: loaded.nbody(len(p), at(p), at(f)),
    }


def ours():
    return {
        "saxpy": lambda x, y: saxpy(2.0, x, y),
        "stencil": stencil,
        "mandelbrot": lambda out: mandelbrot(1024, 200, out),
        "nbody": nbody,
    }


def with_numba():
    try:
        import numba
    except ImportError:
        print("Numba is not installed; left out")
        return None
    jit = numba.njit(parallel=True)
    prange, sqrt = numba.prange, np.sqrt
    f32 = np.float32

    @jit
    def saxpy_(x, y):
        for i in prange(len(x)):
            y[i] += f32(2) * x[i]

    @jit
    def stencil_(x, y):
        n = x.shape[0]
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                y[i, j] = f32(0.25) * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]

    @jit
    def mandelbrot_(out):
        n = out.shape[0]
        for i in prange(n):
            for j in range(n):
                cx, cy = f32(-2) + f32(3) * f32(j) / f32(n), f32(-1.5) + f32(3) * f32(i) / f32(n)
                x = y = f32(0)
                k = 0
                while k < 200 and x * x + y * y < f32(4):
                    x, y = x * x - y * y + cx, f32(2) * x * y + cy
                    k += 1
                out[i, j] = k

    @jit
    def nbody_(p, f):
        for i in prange(len(p)):
            ax = ay = az = f32(0)
            for j in range(len(p)):
                dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                inv = f32(1) / sqrt(dx * dx + dy * dy + dz * dz + f32(1e-4))
                w = inv * inv * inv
                ax += dx * w
                ay += dy * w
                az += dz * w
            f[i, 0], f[i, 1], f[i, 2] = ax, ay, az

    return {"saxpy": saxpy_, "stencil": stencil_, "mandelbrot": mandelbrot_, "nbody": nbody_}


def with_numpy():
    def stencil_(x, y):
        y[1:-1, 1:-1] = (
            np.float32(0.25) * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) - x[1:-1, 1:-1]
        )

    def saxpy_(x, y):
        y += np.float32(2) * x

    return {"saxpy": saxpy_, "stencil": stencil_}


def seconds(work, given, repeat):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work(*given)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def quadrants_seconds():
    """Run the same programs under Quadrants, in its own environment."""
    python = os.path.join(os.path.dirname(__file__), ".venv-quadrants", "bin", "python")
    if not os.path.exists(python):
        print("Quadrants is not installed; left out")
        return {}
    script = os.path.join(os.path.dirname(__file__), "quadrants_kernels.py")
    done = subprocess.run([python, script, "kernels", str(THREADS)], capture_output=True, text=True)
    if done.returncode:
        print("Quadrants failed; left out:", done.stderr.strip().splitlines()[-1:])
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    names = ["saxpy", "stencil", "mandelbrot", "nbody"]
    directory = tempfile.TemporaryDirectory()
    kp.init(cpu_max_num_threads=THREADS, offline_cache_file_path=os.path.join(directory.name, "store"))
    tools = {
        "C": hand_written(directory.name),
        "keyprint": ours(),
        "Numba": with_numba(),
        "NumPy": with_numpy(),
    }
    tools = {name: tool for name, tool in tools.items() if tool}
    by_tool = {tool: {} for tool in tools}
    for name in names:
        reference = None
        for tool, kernels in tools.items():
            if name not in kernels:
                continue
            given = arrays()[name]
            kernels[name](*given)
            result = given[-1].copy()
            reference = result if reference is None else reference
            tolerance = {"mandelbrot": 0.02}.get(name, 2e-3)
            different = np.mean(~np.isclose(result, reference, rtol=tolerance, atol=1e-3))
            assert different < 0.02, (tool, name, different)
        given = arrays()[name]
        rounds = [{} for _ in range(5)]
        for turn in rounds:
            for tool, kernels in tools.items():
                if name in kernels:
                    # Threads of the tool before may spin for a while.
                    time.sleep(0.05)
                    turn[tool] = seconds(kernels[name], given, 5)
        for tool in tools:
            if name in tools[tool]:
                by_tool[tool][name] = statistics.median(turn[tool] for turn in rounds)
    # What compilers may do if a product and a sum were rounded once, as C's may by default, or floats were real numbers.
    store = os.path.join(directory.name, "store")
    for label, settings in (("contract", {"contract": True}), ("fast math", {"fast_math": True})):
        kp.init(cpu_max_num_threads=THREADS, offline_cache_file_path=store, **settings)
        times = by_tool[f"keyprint, {label}"] = {}
        for name in names:
            given = arrays()[name]
            tools["keyprint"][name](*given)
            times[name] = seconds(tools["keyprint"][name], given, 15)
    by_tool["Quadrants"] = quadrants_seconds()
    for name in names:
        row = {
            "Keyprint" if tool == "keyprint" else tool: times[name]
            for tool, times in by_tool.items()
            if name in times
        }
        record("kernels", name, row)
    print(f"\nkernels, {THREADS} threads, ratio to hand-written C with OpenMP (milliseconds)")
    print("| | " + " | ".join(names) + " |\n| --- " * 1 + "| --- " * len(names) + "|")
    for tool, times in by_tool.items():
        cells = [
            f"{times[name] / by_tool['C'][name]:.2f} ({times[name] * 1e3:.1f})" if name in times else "-"
            for name in names
        ]
        print(f"| {tool} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
