"""How long kernels take on a device, beside CUDA C by hand, CuPy and Triton."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import programs
from table import Table, kernel_ms, optional

import keyprint as kp


class Line:
    """One line of work: the floor, ours, and the others that are here."""

    def __init__(self, table: Table, what: str, floor: float, repeats: int) -> None:
        self.table, self.what, self.floor, self.repeats = table, what, floor, repeats
        table.add(what, "CUDA C", floor, "ms", floor)

    def add(self, tool: str, call: Callable[[], Any], wait: Callable[[], Any]) -> None:
        self.table.add(self.what, tool, kernel_ms(call, wait, self.repeats), "ms", self.floor)


def measure(table: Table, floor: Any) -> None:
    # CUDA C is compiled with products and sums rounded once.
    kp.init(contract=True)
    ours = "Keyprint, `contract=True`"
    streaming(table, floor, ours)
    bodies = [kp.ndarray(kp.f32, 65_536, device="cuda") for _ in range(7)]
    line = Line(table, "n-body 65,536", floor.nbody_ms(65_536), 3)
    line.add(ours, lambda: programs.nbody(*bodies), kp.sync)
    reductions(table, floor, ours)
    products(table, floor, ours)
    kp.init(fast_math=True)
    line.add("Keyprint, `fast_math=True`", lambda: programs.nbody(*bodies), kp.sync)


def streaming(table: Table, floor: Any, ours: str) -> None:
    n = 100_000_000
    line = Line(table, "saxpy 100M", floor.saxpy_ms(ctypes.c_long(n)), 20)
    x, y = (kp.ndarray(kp.f32, n, device="cuda") for _ in range(2))
    line.add(ours, lambda: programs.saxpy(0.999, x, y), kp.sync)
    line = Line(table, "stencil 8192^2", floor.stencil_ms(8192), 20)
    a, b = (kp.ndarray(kp.f32, (8192, 8192), device="cuda") for _ in range(2))
    line.add(ours, lambda: programs.stencil(a, b), kp.sync)
    line = Line(table, "mandelbrot 4096^2 x 200", floor.mandelbrot_ms(4096, 200), 20)
    image = kp.ndarray(kp.i32, (4096, 4096), device="cuda")
    line.add(ours, lambda: programs.mandelbrot(image, 200), kp.sync)


def reductions(table: Table, floor: Any, ours: str) -> None:
    cupy, torch, triton = optional("cupy"), optional("torch"), optional("triton")
    n = 100_000_000
    line = Line(table, "sum 100M", floor.sum_ms(ctypes.c_long(n)), 20)
    x, out = kp.ndarray(kp.f32, n, device="cuda"), kp.ndarray(kp.f32, (), device="cuda")
    line.add(ours, lambda: programs.total(x, out), kp.sync)
    if cupy is not None:
        z = cupy.asarray(x)
        line.add("CuPy", z.sum, cupy.cuda.runtime.deviceSynchronize)
    if triton is not None and torch is not None:
        import triton_kernels

        z, into = torch.from_dlpack(x), torch.zeros(1, device="cuda")
        grid = (triton.cdiv(n, triton_kernels.SUM_BLOCK),)
        line.add("Triton", lambda: triton_kernels.total[grid](z, into, n), torch.cuda.synchronize)

    count = 50_000_000
    values, bins = kp.ndarray(kp.i32, count, device="cuda"), kp.ndarray(kp.i32, 256, device="cuda")
    values.from_numpy(np.random.default_rng(0).integers(0, 256, count).astype(np.int32))
    addresses = (ctypes.c_void_p(values.address), ctypes.c_void_p(bins.address), ctypes.c_long(count))
    what = "histogram 50M, 256 bins"
    line = Line(table, what, floor.histogram_ms(*addresses), 10)
    table.add(what, "CUDA C, bins of each block", floor.shared_histogram_ms(*addresses), "ms", line.floor)
    line.add(ours, lambda: programs.histogram(values, bins), kp.sync)
    if cupy is not None:
        z = cupy.asarray(values)
        wait = cupy.cuda.runtime.deviceSynchronize
        line.add("CuPy `bincount`", lambda: cupy.bincount(z, minlength=256), wait)
    if triton is not None and torch is not None:
        import triton_kernels

        z, into = torch.from_dlpack(values), torch.zeros(256, device="cuda", dtype=torch.int32)
        grid = (triton.cdiv(count, triton_kernels.HISTOGRAM_BLOCK),)
        line.add("Triton", lambda: triton_kernels.histogram[grid](z, into, count), torch.cuda.synchronize)


def products(table: Table, floor: Any, ours: str) -> None:
    cupy, torch, triton = optional("cupy"), optional("torch"), optional("triton")
    n = 2048
    line = Line(table, "matmul 2048, plain loops", floor.matmul_ms(n), 5)
    a, b, c = (kp.ndarray(kp.f32, (n, n), device="cuda") for _ in range(3))
    line.add(ours, lambda: programs.matmul(a, b, c), kp.sync)
    if cupy is not None:
        x, y = cupy.asarray(a), cupy.asarray(b)
        line.add("CuPy `@` (cuBLAS)", lambda: x @ y, cupy.cuda.runtime.deviceSynchronize)
    if triton is not None and torch is not None:
        import triton_kernels

        tensors = [torch.from_dlpack(array) for array in (a, b, c)]
        tile = triton_kernels.TILE
        grid = (triton.cdiv(n, tile), triton.cdiv(n, tile))
        call = triton_kernels.matmul[grid]
        line.add("Triton, tiles, `ieee`", lambda: call(*tensors, n), torch.cuda.synchronize)
