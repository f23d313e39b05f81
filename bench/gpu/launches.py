"""What a launch costs: the time until a call returns, and with a wait."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from typing import Any

import programs
from table import Table, optional

import keyprint as kp

#: Launches between two waits: fewer than a device queues. Tools take turns, so often.
BATCH = 200
ROUNDS = 150

#: What has to work.
OURS = {
    "own array",
    "4 own arrays",
    "object of 30 own arrays",
    "torch tensor",
    "4 torch tensors",
    "CuPy array",
}


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


def measure(report: Table, floor: Any) -> None:
    def own() -> Any:
        return kp.ndarray(kp.f32, 4, device="cuda")

    four, thirty = tuple(own() for _ in range(4)), programs.Thirty()
    calls: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
        "own array": (programs.tiny, (own(),), kp.sync),
        "4 own arrays": (programs.tiny_four, four, kp.sync),
        "object of 30 own arrays": (thirty.run, (), kp.sync),
    }
    torch, cupy, triton = optional("torch"), optional("cupy"), optional("triton")
    if torch is not None:
        wait = torch.cuda.synchronize
        tensors = tuple(torch.zeros(4, device="cuda") for _ in range(4))
        calls["torch tensor"] = (programs.tiny, tensors[:1], wait)
        calls["4 torch tensors"] = (programs.tiny_four, tensors, wait)
        calls["torch `add_`"] = (tensors[0].add_, (1.0,), wait)
    if cupy is not None:
        wait = cupy.cuda.runtime.deviceSynchronize
        array = cupy.zeros(4, cupy.float32)
        raw = cupy.RawKernel('extern "C" __global__ void f(float *x) { if (!threadIdx.x) x[0] += 1; }', "f")
        calls["CuPy array"] = (programs.tiny, (array,), wait)
        calls["CuPy `RawKernel`"] = (raw, ((1,), (256,), (array,)), wait)
    if triton is not None and torch is not None:
        from triton_kernels import add_one

        calls["Triton, torch tensor"] = (add_one[(1,)], tensors[:1], torch.cuda.synchronize)
    jax, numba = optional("jax"), optional("numba.cuda")
    if jax is not None:
        ones = jax.numpy.ones(4, jax.numpy.float32)
        add = jax.jit(lambda x: x + 1)
        calls["JAX, `jit(x + 1)`"] = (add, (ones,), lambda: add(ones).block_until_ready())
    if numba is not None and numba.is_available():
        on_device = numba.device_array(4, "float32")

        @numba.jit
        def add_one_by_numba(x: Any) -> None:
            if numba.threadIdx.x == 0:
                x[0] += 1

        calls["Numba array"] = (add_one_by_numba[1, 256], (on_device,), numba.synchronize)
    runs = {name: looped(call, arguments) for name, (call, arguments, _) in calls.items()}
    for name in list(runs):
        try:
            runs[name](20)
        except Exception as error:
            if name in OURS:
                raise
            print(f"({name} does not work here: {type(error).__name__}: {error})")
            del runs[name]
        calls[name][2]()
    samples: dict[str, list[float]] = {name: [] for name in runs}
    ratios: dict[str, list[float]] = {name: [] for name in runs}
    floors = []
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
        report.add(
            "launch, submit", name, statistics.median(taken), "us", lowest, statistics.median(ratios[name])
        )
    lowest = floor.launch_and_wait_us(300)
    report.add("launch and wait", "cuLaunchKernel, C", lowest, "us", lowest)
    for name in ("own array", "torch tensor"):
        if name in calls:
            call, arguments, _ = calls[name]
            report.add("launch and wait", name, wait_us(call, arguments, kp.sync), "us", lowest)
