"""Compiled on a machine without a GPU, run on one without a compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

import keyprint as kp

KERNEL = """
import keyprint as kp

@kp.kernel
def scale(a: kp.f32, x: kp.types.NDArray[kp.f32, 1], m: kp.types.NDArray[kp.types.vector(3, kp.f64), 2], n: kp.i32 = 3):
    for i in x:
        x[i] = a * i + n
    for i, j in m:
        m[i, j] += 1.0
"""

AHEAD = (
    KERNEL
    + """
key = kp.compile(
    scale, 2.0, kp.types.NDArray[kp.f32, 1], kp.types.NDArray[kp.types.vector(3, kp.f64), 2], target="cuda:sm_90"
)
print(key.name, scale.observations.compiled, scale.observations.loaded)
"""
)

LAUNCH = (
    KERNEL
    + """
kp.init(arch=kp.cuda)
x, m = kp.ndarray(kp.f32, 3), kp.ndarray(kp.types.vector(3, kp.f64), (2, 2))
scale(2.0, x, m)
print(x.to_numpy().tolist(), m.to_numpy().sum(), scale.observations.compiled, scale.why())
"""
)


def test_compiled_there_run_here(run, tmp_path):
    done = run(AHEAD, KEYPRINT_CUDA_DRIVER="/nowhere")
    assert done.stdout == "program.scale 1 0\n".replace("program", "__main__"), (done.stdout, done.stderr)
    exported, imported = tmp_path / "kernels.kpx", tmp_path / "elsewhere"
    command = [sys.executable, "-m", "keyprint"]
    known = {"KEYPRINT_CACHE_DIR": str(tmp_path / "store")}
    import os

    environment = {**os.environ, **known}
    subprocess.run([*command, "export", exported], env=environment, check=True, capture_output=True)
    environment["KEYPRINT_CACHE_DIR"] = str(imported)
    subprocess.run(
        [*command, "import", "--trust", exported], env=environment, check=True, capture_output=True
    )
    done = run(LAUNCH, KEYPRINT_CACHE_DIR=str(imported), KEYPRINT_NVRTC="/nowhere")
    assert done.stdout.startswith("[3.0, 5.0, 7.0] 12.0 0 hit"), (done.stdout, done.stderr)


def test_what_is_described_is_what_is_launched(run):
    assert run(AHEAD).stdout.endswith("1 0\n")
    assert run(AHEAD).stdout.endswith("0 0\n")
    assert " 0 hit" in run(LAUNCH).stdout
    # Another capability is another target.
    assert " 1 miss" in run(LAUNCH, KPE_CAPABILITY="80").stdout


@kp.kernel
def fill(x: kp.types.NDArray[kp.i32, 1], value: kp.i32):
    for i in x:
        x[i] = value


def test_for_the_cpu_and_wherever_it_would_run():
    fill_array = kp.types.NDArray[kp.i32, 1]
    kp.init()
    kp.compile(fill, fill_array, 1, target="cpu")
    compiled = fill.observations.compiled
    x = kp.ndarray(kp.i32, 3)
    fill(x, 4)
    assert x.to_numpy().tolist() == [4, 4, 4]
    assert fill.observations.compiled == compiled


def test_what_cannot_be_compiled_ahead():
    array = kp.types.NDArray[kp.i32, 1]
    with pytest.raises(ValueError, match="a target is a compute capability, found 'cuda:hopper'"):
        kp.compile(fill, array, 1, target="cuda:hopper")
    with pytest.raises(TypeError, match="value"):
        kp.compile(fill, array, target="cuda:sm_90")
    with pytest.raises(TypeError, match="described by its type and dimensions"):
        kp.compile(fill, kp.types.NDArray[kp.i32], 1, target="cuda:sm_90")
    kp.init(offline_cache=False)
    with pytest.raises(TypeError, match="no store"):
        kp.compile(fill, array, 1, target="cuda:sm_90")
