"""What goes wrong on a device, and with it: said plainly, at the next point that waits."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp

V = kp.types.NDArray[kp.i32, 1]


@kp.kernel
def write(x: V, n: kp.i32):
    for i in range(n):
        x[i] = i


@kp.kernel
def check(x: V, most: kp.i32):
    for i in x:
        assert x[i] <= most, f"{x[i]} is more than {most}"
    for i in x:
        x[i] += 100


@kp.kernel
def checked_total(x: V) -> kp.i32:
    s = 0
    for i in x:
        assert x[i] >= 0
        s += x[i]
    return s


@pytest.fixture
def debug():
    kp.init(arch=kp.cuda, debug=True)


def test_indices_are_checked_at_the_next_wait(debug):
    x = kp.ndarray(kp.i32, 4)
    write(x, 5)
    with pytest.raises(
        kp.KernelIndexError, match=r"index 4 of `x` is out of range for shape \(4,\)"
    ) as raised:
        kp.sync()
    assert "x[i] = i" in str(raised.value)
    # What failed was told, and the device goes on.
    kp.sync()
    write(x, 4)
    assert x.to_numpy().tolist() == [0, 1, 2, 3]


def test_reading_waits_and_says(debug):
    x = kp.ndarray(kp.i32, 4)
    write(x, 9)
    with pytest.raises(kp.KernelIndexError):
        x.to_numpy()
    write(x, 9)
    with pytest.raises(kp.KernelIndexError):
        x[0]


def test_assertions_end_the_launch(debug):
    x = kp.ndarray(kp.i32, 300)
    x.fill(1)
    check(x, 1)
    assert x[0] == 101
    check(x, 7)
    with pytest.raises(kp.KernelAssertionError, match="101 is more than 7"):
        kp.sync()
    # Tasks behind the one that failed did not run.
    assert x.to_numpy().tolist() == [101] * 300


def test_the_first_of_many_is_told(debug):
    x = kp.ndarray(kp.i32, 4)
    write(x, 5)
    check(x, -1)
    with pytest.raises(kp.KernelIndexError):
        kp.sync()
    kp.sync()


def test_results_and_arrays_of_the_host_fail_at_once(debug):
    x = np.array([1, -2, 3], np.int32)
    with pytest.raises(kp.KernelAssertionError):
        checked_total(x)
    with pytest.raises(kp.KernelIndexError):
        write(x, 9)
    assert checked_total(np.array([1, 2], np.int32)) == 3


def test_arguments_are_refused_before_anything_runs():
    @kp.kernel
    def double(x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
        for i in x:
            x[i] += 1
            y[i] += 1

    memory = np.zeros(11, np.float32)
    with pytest.raises(kp.KernelRuntimeError, match="overlaps another array"):
        double(memory[:-1], memory[1:])
    assert not memory.any()


# -- The driver, and NVRTC -------------------------------------------------------------------------

PROGRAM = """
import sys
import keyprint as kp

try:
    kp.init(arch=kp.cuda)
    @kp.kernel
    def one(x: kp.types.NDArray[kp.i32, 1]):
        for i in x:
            x[i] = 1
    x = kp.ndarray(kp.i32, 3)
    one(x)
    print(x.to_numpy().tolist())
except kp.KernelError as error:
    print(type(error).__name__, error.code, str(error).replace("\\n", " | "))
"""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"KEYPRINT_CUDA_DRIVER": "/nowhere/libcuda.so"},
            "DeviceError no-driver the CUDA driver cannot be opened",
        ),
        ({"KPE_VERSION": "11010"}, "DeviceError no-driver the CUDA driver is too old: it is of CUDA 11.1"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "DeviceError no-device the CUDA driver finds no device"),
        ({"KEYPRINT_NVRTC": "/nowhere/libnvrtc.so"}, "CompilerError no-compiler `KEYPRINT_NVRTC` names"),
        ({"KEYPRINT_NVRTC": __file__}, "CompilerError no-compiler NVRTC cannot be opened"),
        ({}, "[1, 1, 1]"),
    ],
)
def test_what_is_missing_is_said(run, changes, said):
    done = run(PROGRAM, **changes)
    assert done.stdout.startswith(said), (done.stdout, done.stderr)
    assert ("hint:" in done.stdout) == ("Error" in said)


def test_a_warm_store_needs_no_compiler(run):
    assert run(PROGRAM).stdout == "[1, 1, 1]\n"
    assert run(PROGRAM, KEYPRINT_NVRTC="/nowhere").stdout == "[1, 1, 1]\n"


def test_an_illegal_access_is_said_and_everything_after_it(run):
    done = run(
        """
import keyprint as kp
kp.init(arch=kp.cuda)
@kp.kernel
def wild(x: kp.types.NDArray[kp.i32, 1], at: kp.i64):
    for _ in range(1):
        x[at] = 1
x = kp.ndarray(kp.i32, 3)
wild(x, 1 << 44)
for attempt in (kp.sync, lambda: x[0], lambda: wild(x, 0), lambda: kp.ndarray(kp.i32, 3)):
    try:
        attempt()
    except kp.DeviceError as error:
        print(error.code, str(error)[:90])
print("done")
"""
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 5, (done.stdout, done.stderr)
    for line in lines[:4]:
        assert line.startswith(
            "context-lost the context of `cuda:0` is lost: an earlier kernel ended with CUDA_ERROR_ILLEGAL"
        )
    assert lines[4] == "done"


def test_a_child_is_told_that_it_cannot(run):
    done = run(
        """
import os
import keyprint as kp
kp.init(arch=kp.cuda)
x = kp.ndarray(kp.i32, 3)
x.fill(2)
child = os.fork()
if child == 0:
    for attempt in (kp.sync, lambda: x[0], lambda: x.fill(3), lambda: kp.ndarray(kp.i32, 3)):
        try:
            attempt()
        except kp.DeviceError as error:
            print(error.code, flush=True)
    del x
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(x[0])
"""
    )
    assert done.stdout == "forked\n" * 4 + "2\n", (done.stdout, done.stderr)


def test_a_child_of_one_that_did_not_use_it_can(run):
    done = run(
        """
import os
import keyprint as kp
child = os.fork()
if child == 0:
    kp.init(arch=kp.cuda)
    x = kp.ndarray(kp.i32, 3)
    x.fill(2)
    print(x[1], flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    assert done.stdout == "2\n", (done.stdout, done.stderr)
