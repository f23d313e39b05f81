"""Kernels on a CUDA device beside CUDA C by hand, CuPy, Triton and torch, in one run.

Launches: the time until a call returns, and with a wait. Kernels: the time on the device, by events for CUDA C and by
many launches and one wait for all others. Tools take turns; medians and ratios to the floor are printed, and written to
``bench/gpu.md``. Needs a GPU and ``nvcc``. Run by ``make bench-gpu``.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import importlib.metadata
import itertools
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import keyprint as kp

HERE = Path(__file__).resolve().parent

#: Launches between two waits: fewer than a device queues. Tools take turns, so often.
BATCH = 200
ROUNDS = 150

NAMES = [f"a{at}" for at in range(30)]


# -- The floor -------------------------------------------------------------------------------------


def build_floor() -> Any:
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    library = Path(tempfile.mkdtemp()) / "floor.so"
    flags = ["-O3", "-arch=native", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
    subprocess.run([nvcc, *flags, "-o", library, HERE / "gpu_floor.cu", "-lcuda"], check=True)
    floor = ctypes.CDLL(str(library))
    for name in ("launch_us", "launch_and_wait_us", "saxpy_ms", "stencil_ms", "mandelbrot_ms"):
        getattr(floor, name).restype = ctypes.c_double
    for name in ("nbody_ms", "sum_ms", "histogram_ms", "matmul_ms"):
        getattr(floor, name).restype = ctypes.c_double
    return floor


# -- Kernels ---------------------------------------------------------------------------------------


@kp.kernel
def tiny(x: kp.types.NDArray[kp.f32, 1]):
    for _ in range(1):
        x[0] += 1.0


@kp.kernel
def tiny_four(
    a: kp.types.NDArray[kp.f32, 1],
    b: kp.types.NDArray[kp.f32, 1],
    c: kp.types.NDArray[kp.f32, 1],
    d: kp.types.NDArray[kp.f32, 1],
):
    for _ in range(1):
        a[0] = b[0] + c[0] + d[0]


@kp.data_oriented
class Thirty:
    """An object of thirty arrays, all of which its kernel reads."""

    def __init__(self) -> None:
        for name in NAMES:
            setattr(self, name, kp.ndarray(kp.f32, 4, device="cuda"))

    @kp.kernel
    def run(self):
        for _ in range(1):
            self.a0[0] = (
                self.a1[0] + self.a2[0] + self.a3[0] + self.a4[0] + self.a5[0] + self.a6[0] + self.a7[0]
                + self.a8[0] + self.a9[0] + self.a10[0] + self.a11[0] + self.a12[0] + self.a13[0] + self.a14[0]
                + self.a15[0] + self.a16[0] + self.a17[0] + self.a18[0] + self.a19[0] + self.a20[0] + self.a21[0]
                + self.a22[0] + self.a23[0] + self.a24[0] + self.a25[0] + self.a26[0] + self.a27[0] + self.a28[0]
                + self.a29[0]
            )  # fmt: skip


@kp.kernel
def saxpy(a: kp.f32, x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] = a * x[i] + y[i]


@kp.kernel
def stencil(a: kp.types.NDArray[kp.f32, 2], b: kp.types.NDArray[kp.f32, 2]):
    for i, j in kp.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        b[i, j] = 0.5 * a[i, j] + 0.125 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@kp.kernel
def mandelbrot(out: kp.types.NDArray[kp.i32, 2], most: kp.i32):
    for i, j in out:
        n = kp.f32(out.shape[0])
        cx = -2.0 + 2.5 * kp.f32(j) / n
        cy = -1.25 + 2.5 * kp.f32(i) / n
        x = 0.0
        y = 0.0
        k = 0
        while k < most:
            xx = x * x
            yy = y * y
            if xx + yy > 4.0:
                break
            y = 2.0 * x * y + cy
            x = xx - yy + cx
            k += 1
        out[i, j] = k


@kp.kernel
def nbody(
    px: kp.types.NDArray[kp.f32, 1],
    py: kp.types.NDArray[kp.f32, 1],
    pz: kp.types.NDArray[kp.f32, 1],
    m: kp.types.NDArray[kp.f32, 1],
    ax: kp.types.NDArray[kp.f32, 1],
    ay: kp.types.NDArray[kp.f32, 1],
    az: kp.types.NDArray[kp.f32, 1],
):
    for i in px:
        sx = 0.0
        sy = 0.0
        sz = 0.0
        for j in range(px.shape[0]):
            dx = px[j] - px[i]
            dy = py[j] - py[i]
            dz = pz[j] - pz[i]
            inv = 1.0 / kp.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            w = m[j] * inv * inv * inv
            sx += w * dx
            sy += w * dy
            sz += w * dz
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@kp.kernel
def total(x: kp.types.NDArray[kp.f32, 1], out: kp.types.NDArray[kp.f32, 0]):
    for i in x:
        out[None] += x[i]


@kp.kernel
def histogram(x: kp.types.NDArray[kp.i32, 1], bins: kp.types.NDArray[kp.i32, 1]):
    for i in x:
        bins[x[i]] += 1


@kp.kernel
def matmul(a: kp.types.NDArray[kp.f32, 2], b: kp.types.NDArray[kp.f32, 2], c: kp.types.NDArray[kp.f32, 2]):
    for i, j in c:
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


# -- Measuring -------------------------------------------------------------------------------------


def looped(call: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a function of a number: the microseconds that each of so many calls takes, written as programs write them."""
    names = [f"a{at}" for at in range(len(arguments))]
    text = f"""
def run(count, call, now, repeat, {", ".join(names)}):
    begun = now()
    for _ in repeat(None, count):
        call({", ".join(names)})
    return (now() - begun) / count * 1e6
"""
    known: dict[str, Any] = {}
    exec(text, known)
    return lambda count: known["run"](count, call, time.perf_counter, itertools.repeat, *arguments)


def wait_us(call: Any, arguments: tuple[Any, ...], wait: Any, rounds: int = 300) -> float:
    call(*arguments)
    samples = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call(*arguments)
        wait()
        samples.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(samples)


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


class Report:
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
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"({name} is not here)")
        return None


def launches(report: Report, floor: Any) -> None:
    def own() -> Any:
        return kp.ndarray(kp.f32, 4, device="cuda")

    four, thirty = tuple(own() for _ in range(4)), Thirty()
    calls: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
        "own array": (tiny, (own(),), kp.sync),
        "4 own arrays": (tiny_four, four, kp.sync),
        "object of 30 own arrays": (thirty.run, (), kp.sync),
    }
    torch, cupy, triton = optional("torch"), optional("cupy"), optional("triton")
    if torch is not None:
        wait = torch.cuda.synchronize
        tensors = tuple(torch.zeros(4, device="cuda") for _ in range(4))
        calls["torch tensor"] = (tiny, tensors[:1], wait)
        calls["4 torch tensors"] = (tiny_four, tensors, wait)
        calls["torch `add_`"] = (tensors[0].add_, (1.0,), wait)
    if cupy is not None:
        wait = cupy.cuda.runtime.deviceSynchronize
        array = cupy.zeros(4, cupy.float32)
        raw = cupy.RawKernel('extern "C" __global__ void f(float *x) { if (!threadIdx.x) x[0] += 1; }', "f")
        calls["CuPy array"] = (tiny, (array,), wait)
        calls["CuPy `RawKernel`"] = (raw, ((1,), (256,), (array,)), wait)
    if triton is not None and torch is not None:
        from gpu_triton import add_one

        calls["Triton, torch tensor"] = (add_one[(1,)], tensors[:1], torch.cuda.synchronize)
    runs = {name: looped(call, arguments) for name, (call, arguments, _) in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    floors = []
    for name, run in runs.items():
        run(20)
        calls[name][2]()
    gc.disable()
    for _ in range(ROUNDS):
        floors.append(floor.launch_us(1, BATCH))
        for name, run in runs.items():
            calls[name][2]()
            samples[name].append(run(BATCH))
            calls[name][2]()
            ratios[name].append(samples[name][-1] / floors[-1])
    gc.enable()
    lowest = statistics.median(floors)
    report.add("launch, submit", "cuLaunchKernel, C", lowest, "us", lowest)
    for name, taken in samples.items():
        report.add("launch, submit", name, statistics.median(taken), "us", lowest, statistics.median(ratios[name]))
    lowest = floor.launch_and_wait_us(300)
    report.add("launch and wait", "cuLaunchKernel, C", lowest, "us", lowest)
    for name in ("own array", "torch tensor"):
        if name in calls:
            call, arguments, _ = calls[name]
            report.add("launch and wait", name, wait_us(call, arguments, kp.sync), "us", lowest)


def kernels(report: Report, floor: Any, label: str) -> None:
    cupy = optional("cupy")
    n = 100_000_000
    report.add("saxpy 100M", "CUDA C", lowest := floor.saxpy_ms(ctypes.c_long(n)), "ms", lowest)
    x, y = (kp.ndarray(kp.f32, n, device="cuda") for _ in range(2))
    report.add("saxpy 100M", label, kernel_ms(lambda: saxpy(0.999, x, y), kp.sync, 20), "ms", lowest)
    report.add("sum 100M", "CUDA C", lowest := floor.sum_ms(ctypes.c_long(n)), "ms", lowest)
    out = kp.ndarray(kp.f32, (), device="cuda")
    report.add("sum 100M", label, kernel_ms(lambda: total(x, out), kp.sync, 20), "ms", lowest)
    if cupy is not None:
        z = cupy.asarray(x)
        report.add(
            "sum 100M", "CuPy", kernel_ms(z.sum, cupy.cuda.runtime.deviceSynchronize, 20), "ms", lowest
        )
    a, b = (kp.ndarray(kp.f32, (8192, 8192), device="cuda") for _ in range(2))
    report.add("stencil 8192^2", "CUDA C", lowest := floor.stencil_ms(8192), "ms", lowest)
    report.add("stencil 8192^2", label, kernel_ms(lambda: stencil(a, b), kp.sync, 20), "ms", lowest)
    image = kp.ndarray(kp.i32, (4096, 4096), device="cuda")
    report.add("mandelbrot 4096^2 x 200", "CUDA C", lowest := floor.mandelbrot_ms(4096, 200), "ms", lowest)
    report.add(
        "mandelbrot 4096^2 x 200", label, kernel_ms(lambda: mandelbrot(image, 200), kp.sync, 20), "ms", lowest
    )
    bodies = [kp.ndarray(kp.f32, 65_536, device="cuda") for _ in range(7)]
    report.add("n-body 65,536", "CUDA C", lowest := floor.nbody_ms(65_536), "ms", lowest)
    report.add("n-body 65,536", label, kernel_ms(lambda: nbody(*bodies), kp.sync, 3), "ms", lowest)
    import numpy as np

    count = 50_000_000
    values = kp.ndarray(kp.i32, count, device="cuda")
    values.from_numpy(np.random.default_rng(0).integers(0, 256, count).astype(np.int32))
    bins = kp.ndarray(kp.i32, 256, device="cuda")
    addresses = (ctypes.c_void_p(values.address), ctypes.c_void_p(bins.address), ctypes.c_long(count))
    report.add("histogram 50M, 256 bins", "CUDA C", lowest := floor.histogram_ms(*addresses), "ms", lowest)
    report.add(
        "histogram 50M, 256 bins",
        label,
        kernel_ms(lambda: histogram(values, bins), kp.sync, 10),
        "ms",
        lowest,
    )
    if cupy is not None:
        wait, x = cupy.cuda.runtime.deviceSynchronize, cupy.asarray(values)
        counted = kernel_ms(lambda: cupy.bincount(x, minlength=256), wait, 10)
        report.add("histogram 50M, 256 bins", "CuPy `bincount`", counted, "ms", lowest)
    matrices = [kp.ndarray(kp.f32, (2048, 2048), device="cuda") for _ in range(3)]
    report.add("matmul 2048, plain loops", "CUDA C", lowest := floor.matmul_ms(2048), "ms", lowest)
    report.add(
        "matmul 2048, plain loops", label, kernel_ms(lambda: matmul(*matrices), kp.sync, 5), "ms", lowest
    )
    if cupy is not None:
        a, b, _ = (cupy.asarray(matrix) for matrix in matrices)
        report.add(
            "matmul 2048, plain loops", "CuPy `@` (cuBLAS)", kernel_ms(lambda: a @ b, wait, 5), "ms", lowest
        )


FIRST = """
import time
begun = time.perf_counter()
import keyprint as kp
loaded = time.perf_counter()
kp.init(arch=kp.cuda)
up = time.perf_counter()

@kp.kernel
def tiny(x: kp.types.NDArray[kp.f32, 1]):
    for _ in range(1):
        x[0] += 1.0

x = kp.ndarray(kp.f32, 4)
made = time.perf_counter()
tiny(x)
value = x[0]
print(time.perf_counter() - begun, loaded - begun, up - loaded, made - up, time.perf_counter() - made, value)
"""

DRIVER = """
import ctypes, time
begun = time.perf_counter()
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuMemAllocAsync(ctypes.byref(memory), ctypes.c_size_t(16), None)
cuda.cuCtxSynchronize()
print(time.perf_counter() - begun)
"""


def starts(report: Report) -> None:
    """From a fresh process to the first result, cold and warm, beside the driver alone."""
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "KEYPRINT_CACHE_DIR": store}

        def run(program: str) -> list[float]:
            file = Path(store) / "program.py"
            file.write_text(program)
            done = subprocess.run(
                [sys.executable, file], env=environment, check=True, capture_output=True, text=True
            )
            return [float(part) * 1e3 for part in done.stdout.split()]

        lowest = statistics.median(run(DRIVER)[0] for _ in range(5))
        report.add("process to first result", "the driver alone", lowest, "ms", lowest)
        cold = run(FIRST)
        report.add("process to first result", "Keyprint, cold", cold[0], "ms", lowest)
        warm = [run(FIRST) for _ in range(5)]
        report.add(
            "process to first result",
            "Keyprint, warm",
            statistics.median(all[0] for all in warm),
            "ms",
            lowest,
        )
        parts = [statistics.median(column) for column in zip(*warm, strict=True)]
        print("  import {1:.1f}, init {2:.1f}, array {3:.1f}, kernel {4:.1f} ms".format(*parts))


def main() -> None:
    version, devices = kp._native._cuda_devices()
    name = devices[0][1]
    tools = [f"CPython {platform.python_version()}"]
    for package in ("keyprint", "cupy-cuda12x", "cupy-cuda13x", "torch", "triton"):
        try:
            tools.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    print(f"{name}, driver of CUDA {version // 1000}.{version % 1000 // 10}, {', '.join(tools)}\n")
    report = Report()
    floor = build_floor()
    launches(report, floor)
    if "launches" in sys.argv:
        return
    starts(report)
    # CUDA C is compiled with products and sums rounded once.
    kp.init(contract=True)
    kernels(report, floor, "Keyprint, `contract=True`")
    kp.init(fast_math=True)
    bodies = [kp.ndarray(kp.f32, 65_536, device="cuda") for _ in range(7)]
    lowest = floor.nbody_ms(65_536)
    report.add(
        "n-body 65,536",
        "Keyprint, `fast_math=True`",
        kernel_ms(lambda: nbody(*bodies), kp.sync, 3),
        "ms",
        lowest,
    )
    out = Path(os.environ.get("OUT", HERE)) / "gpu.md"
    head = f"{name}, driver of CUDA {version // 1000}.{version % 1000 // 10}, {', '.join(tools)}"
    head = textwrap.fill(f"{head}; {datetime.date.today()}.", 100)
    out.write_text(f"# On a GPU\n\n{head}\n\n{report.text()}\n")


if __name__ == "__main__":
    main()
