"""How long the first result takes: of a fresh process, and of a kernel that is compiled."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from table import Table

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


def processes(report: Table) -> None:
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

        cold, alone, warm = run(FIRST), [], []
        for _ in range(7):
            alone.append(run(DRIVER)[0])
            warm.append(run(FIRST))
        lowest = statistics.median(alone)
        report.add("process to first result", "the driver alone", lowest, "ms", lowest)
        report.add("process to first result", "Keyprint, cold", cold[0], "ms", lowest)
        first = statistics.median(all[0] for all in warm)
        report.add("process to first result", "Keyprint, warm", first, "ms", lowest)
        parts = [statistics.median(column) for column in zip(*warm, strict=True)]
        print("  import {1:.1f}, init {2:.1f}, array {3:.1f}, kernel {4:.1f} ms".format(*parts))


#: Kernels that nobody has compiled: from the call until it is launched, and NVRTC's part of that.
COLD = """
import time
import keyprint as kp
from keyprint.language.compile import cuda
kp.init(arch=kp.cuda)
{kernels}
compile, alone = cuda._nvrtc_compile, []

def timed(*arguments):
    begun = time.perf_counter()
    compiled = compile(*arguments)
    alone.append(time.perf_counter() - begun)
    return compiled

cuda._nvrtc_compile = timed
x = kp.ndarray(kp.f32, 4)
tiny0(x)  # opens NVRTC and the store
for kernel in [{names}]:
    kp.sync()
    begun = time.perf_counter()
    kernel(x)
    print(alone[-1], time.perf_counter() - begun)
"""

COLD_KERNEL = """
@kp.kernel
def tiny{at}(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] += {at}.0
"""


def cold_compiles(report: Table) -> None:
    """A small kernel that nobody has compiled, until it is launched, beside NVRTC's part of it."""
    count = 20
    with tempfile.TemporaryDirectory() as store:
        kernels = "".join(COLD_KERNEL.format(at=at) for at in range(count))
        names = ", ".join(f"tiny{at}" for at in range(1, count))
        file = Path(store) / "cold.py"
        file.write_text(COLD.format(kernels=kernels, names=names))
        environment = {**os.environ, "KEYPRINT_CACHE_DIR": f"{store}/store"}
        done = subprocess.run(
            [sys.executable, file], env=environment, check=True, capture_output=True, text=True
        )
    pairs = [[float(part) * 1e3 for part in line.split()] for line in done.stdout.splitlines()]
    alone, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    report.add("a kernel, cold", "NVRTC `--minimal` alone", alone, "ms", alone)
    report.add("a kernel, cold", "Keyprint, until it is launched", ours, "ms", alone)
