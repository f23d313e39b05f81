"""The programs of `language_kernels.py` and `language_launch.py` under Quadrants: run in its own environment by those.

Prints one line of JSON: seconds by name.
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import sys
import time

import numpy as np

with contextlib.redirect_stdout(io.StringIO()):
    import quadrants as qd

F1, F2, I2 = qd.types.NDArray[qd.f32, 1], qd.types.NDArray[qd.f32, 2], qd.types.NDArray[qd.i32, 2]
NAMES = [f"a{at}" for at in range(30)]


@qd.kernel
def saxpy(a: qd.f32, x: F1, y: F1):
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@qd.kernel
def stencil(x: F2, y: F2):
    n = x.shape[0]
    for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


@qd.kernel
def mandelbrot(n: qd.i32, most: qd.i32, out: I2):
    for i, j in qd.ndrange(n, n):
        cx = -2.0 + 3.0 * j / n
        cy = -1.5 + 3.0 * i / n
        x = 0.0
        y = 0.0
        k = 0
        while k < most and x * x + y * y < 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            k += 1
        out[i, j] = k


@qd.kernel
def nbody(p: F2, f: F2):
    for i in range(p.shape[0]):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(p.shape[0]):
            dx = p[j, 0] - p[i, 0]
            dy = p[j, 1] - p[i, 1]
            dz = p[j, 2] - p[i, 2]
            inv = 1.0 / qd.sqrt(dx * dx + dy * dy + dz * dz + 1e-4)
            w = inv * inv * inv
            ax += dx * w
            ay += dy * w
            az += dz * w
        f[i, 0] = ax
        f[i, 1] = ay
        f[i, 2] = az


@qd.kernel
def one(x: F1):
    x[0] = 1.0


@qd.kernel
def four(a: F1, b: F1, c: F1, d: F1):
    a[0] = b[0] + c[0] + d[0]


def own(array, dtype=qd.f32):
    copied = qd.ndarray(dtype, array.shape)
    copied.from_numpy(array)
    return copied


def median(work, repeat):
    work()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def kernels():
    rng = np.random.default_rng(0)
    x, y = own(rng.random(10_000_000, np.float32)), own(np.zeros(10_000_000, np.float32))
    grid, other = own(rng.random((4096, 4096), np.float32)), own(np.zeros((4096, 4096), np.float32))
    out = own(np.zeros((1024, 1024), np.int32), qd.i32)
    p, f = own(rng.random((4096, 3), np.float32)), own(np.zeros((4096, 3), np.float32))
    return {
        "saxpy": median(lambda: saxpy(2.0, x, y), 9),
        "stencil": median(lambda: stencil(grid, other), 9),
        "mandelbrot": median(lambda: mandelbrot(1024, 200, out), 5),
        "nbody": median(lambda: nbody(p, f), 5),
    }


def launches():
    text = (
        "import quadrants as qd\n\n\n@qd.data_oriented\nclass Holder:\n    @qd.kernel\n    def run(self):\n"
    )
    text += f"        self.a0[0] = {' + '.join(f'self.{name}[0]' for name in NAMES)}\n"
    import importlib.util
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("holder", file.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arrays = [own(np.zeros(4, np.float32)) for _ in NAMES]
    holder = module.Holder()
    for name, array in zip(NAMES, arrays, strict=True):
        setattr(holder, name, array)

    def each(work, number=3000):
        work()

        def many():
            for _ in range(number):
                work()

        return median(many, 5) / number

    return {
        "1 array": each(lambda: one(arrays[0])),
        "4 arrays": each(lambda: four(*arrays[:4])),
        "object with 30 arrays": each(holder.run),
    }


def main():
    threads = int(sys.argv[2])
    with contextlib.redirect_stdout(io.StringIO()):
        qd.init(arch=qd.cpu, cpu_max_num_threads=threads, fast_math=False, offline_cache=False)
        results = kernels() if sys.argv[1] == "kernels" else launches()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
