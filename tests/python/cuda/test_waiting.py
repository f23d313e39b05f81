"""Waiting for a device can be interrupted from the keyboard, wherever that is; the device goes on."""

from __future__ import annotations

import pytest

PROGRAM = """
import ctypes, os, signal, sys, threading
import numpy as np
import keyprint as kp

kp.init(arch=kp.cuda)
STUCK = os.environ["KPE_STUCK"]

@kp.kernel
def add(x: kp.types.NDArray[kp.i32, 1]):
    for i in x:
        x[i] += 1

@kp.kernel
def total(x: kp.types.NDArray[kp.i32, 1]) -> kp.i32:
    sum = 0
    for i in x:
        sum += x[i]
    return sum

class Foreign:
    # An array on a stream of its own.
    def __init__(self, array):
        self.array, self.stream = array, ctypes.c_void_p()
        driver = ctypes.CDLL(os.environ["KEYPRINT_CUDA_DRIVER"])
        assert driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0

    @property
    def __cuda_array_interface__(self):
        return {"shape": (8,), "typestr": "<i4", "data": (self.array.address, False), "version": 3,
                "stream": self.stream.value}

def launch_elsewhere():
    add(foreign)
    kp.sync()

x, host = kp.ndarray(kp.i32, 8), np.zeros(8, np.int32)
foreign = Foreign(x)
add(x), add(foreign), add(host), total(x), kp.sync()  # all is compiled, and the streams are there
before = x.to_numpy()[0]
ways = {
    "sync": lambda: (add(x), kp.sync()),
    "result": lambda: (add(x), total(x)),
    "copy out": lambda: (add(x), x.to_numpy()),
    "element": lambda: (add(x), x[3]),
    "copy in": lambda: (add(x), kp.ndarray(kp.i32, 8).from_numpy(np.ones(8, np.int32))),
    "array of the host": lambda: (add(x), add(host)),
    "another stream": lambda: (add(x), launch_elsewhere()),
}
try:
    open(STUCK, "w").close()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    ways[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted")
else:
    print("not interrupted")
os.unlink(STUCK)
kp.sync()
print(x.to_numpy()[0] - before, total(x) == 8 * x[0])
"""

WAYS = ["sync", "result", "copy out", "element", "copy in", "array of the host", "another stream"]


@pytest.mark.parametrize("way", WAYS)
def test_waiting_is_interrupted(run, tmp_path, way):
    done = run(PROGRAM.replace("sys.argv[1]", repr(way)), KPE_STUCK=str(tmp_path / "stuck"))
    added = 2 if way == "another stream" else 1
    assert (done.stdout, done.stderr) == (f"interrupted\n{added} True\n", "")
