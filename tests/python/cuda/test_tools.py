"""What people look at: the stages of a kernel, what it takes of a device, how long it runs, what the machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import emulator
import keyprint as kp


@kp.kernel
def total(x: kp.types.NDArray[kp.f32, 1]) -> kp.f32:
    s = 0.0
    for i in x:
        s += x[i] * x[i]
    return s


@kp.kernel
def add(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] += 1


@pytest.mark.parametrize("has_toolkit", [True, False])
def test_every_stage_is_kept_for_people(tmp_path, monkeypatch, has_toolkit):
    monkeypatch.setenv("KEYPRINT_DUMP", str(tmp_path / "stages"))
    tool = tmp_path / "toolkit" / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\nset -e\ntest -s "$2"\necho "instructions, asked for with $1"\n')
    tool.chmod(0o755)
    if has_toolkit:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    elif shutil.which("nvdisasm") or os.path.exists("/usr/local/cuda/bin/nvdisasm"):
        pytest.skip("this machine has a toolkit")
    number = 2 + has_toolkit

    @kp.kernel
    def kept(x: kp.types.NDArray[kp.i32, 1]):
        for i in x:
            x[i] = number

    kept(np.zeros(3, np.int32))
    stages = {path.name.partition("kept-")[2][12:]: path for path in (tmp_path / "stages").iterdir()}
    known = [".cu", ".cubin", ".ir", ".optimised.ir", ".ptx"]
    assert sorted(stages) == known + [".sass"] * has_toolkit
    if has_toolkit and not shutil.which("nvdisasm"):
        assert stages[".sass"].read_text() == "instructions, asked for with -c\n"


def test_launches_are_timed(capsys):
    x = kp.ndarray(kp.f32, 1000)
    add(x)
    with kp.profile() as times:
        for _ in range(3):
            add(x)
        total(x)
    name = add._dispatcher.name
    assert [launch[0] for launch in times.launches].count(name) == 3
    assert len(times.launches) == 4
    assert all(milliseconds > 0 for _, milliseconds in times.launches)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "kernel",
        "launches",
        "total",
        "ms",
        "mean",
        "us",
        "least",
        "us",
        "most",
        "us",
    ]
    assert len(lines) == 3
    add(x)
    assert len(times.launches) == 4


def command(*arguments, **environment):
    known = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "keyprint", *arguments], env=known, capture_output=True, text=True, check=False
    )


def test_the_doctor_knows_devices(variables):
    out = command("doctor", **variables).stdout
    assert "a driver of CUDA" in out
    assert "cuda:0, " in out
    assert "compute capability 9.0" in out
    assert "its context took" in out
    assert "nvrtc" in out
    out = (
        command("doctor", **variables, KEYPRINT_CUDA_DRIVER="/nowhere/libcuda.so").stdout
        if not variables
        else ""
    )
    assert "not used" in out or not out


@pytest.mark.skipif(not emulator.real_nvrtc(), reason="needs the package nvidia-cuda-nvrtc-cu12")
def test_what_a_kernel_takes_of_a_device(run):
    """Code of the real NVRTC says how many registers it needs; `keyprint show` shows it."""
    program = """
import keyprint as kp

@kp.kernel
def total(x: kp.types.NDArray[kp.f32, 1]) -> kp.f32:
    s = 0.0
    for i in x:
        s += x[i]
    return s

print(kp.compile(total, kp.types.NDArray[kp.f32, 1], target="cuda:sm_90").hex())
"""
    done = run(program, KEYPRINT_NVRTC=emulator.real_nvrtc()["KPE_NVRTC"], KEYPRINT_CUDA_DRIVER="/nowhere")
    key = done.stdout.strip()
    assert len(key) == 64, done.stderr
    shown = command("show", key).stdout
    assert "kp_task1: " in shown
    assert " registers, 0 B spilled, " in shown
    tasks = json.loads(command("--json", "show", key).stdout)["tasks"]
    assert [task["name"] for task in tasks] == ["kp_task0", "kp_task1", "kp_task2"]
    assert all(1 <= task["registers"] <= 64 for task in tasks)
    # Blocks of this capability have a KiB that is not theirs.
    assert [task["shared"] % 1024 for task in tasks] == [0, 128, 0]
