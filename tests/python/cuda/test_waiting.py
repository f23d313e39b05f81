"""Waiting for a device can be interrupted from the keyboard, wherever that is; the device goes on."""

from __future__ import annotations

import pytest

PROGRAM = """
import ctypes, os, signal, sys, threading, time
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

def interrupt_who_waits():
    while not os.path.exists(STUCK + ".asked"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

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
    threading.Thread(target=interrupt_who_waits).start()
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


COMMON = """
import ctypes, os, signal, sys, threading, time
import keyprint as kp

kp.init(arch=kp.cuda)
STUCK = os.environ["KPE_STUCK"]
kp.ndarray(kp.i32, 1)
driver = ctypes.CDLL(os.environ["KEYPRINT_CUDA_DRIVER"])
N = kp.types.NDArray[kp.i32, 1]

class Foreign:
    # An array of another library, on a stream of its own.
    def __init__(self):
        self.stream, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0
        assert driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(32), self.stream) == 0
        self.address = address.value

    @property
    def __cuda_array_interface__(self):
        return {"shape": (8,), "typestr": "<i4", "data": (self.address, False), "version": 3,
                "stream": self.stream.value}

def stuck():
    open(STUCK, "w").close()

def interrupt_who_waits():
    while not os.path.exists(STUCK + ".asked"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(work):
    threading.Thread(target=interrupt_who_waits).start()
    try:
        work()
    except KeyboardInterrupt:
        return "interrupted"
    return "not interrupted"

@kp.kernel
def add(x: N):
    for i in x:
        x[i] += 1
"""

ORDERED = (
    COMMON
    + """
@kp.kernel
def fill(x: N, own: N) -> kp.i32:
    for i in x:
        own[i] = 7
    return 1

@kp.kernel
def copy(a: N, b: N):
    for i in a:
        b[i] = a[i]

x, own, other = Foreign(), kp.ndarray(kp.i32, 8), kp.ndarray(kp.i32, 8)
kp.ndarray(kp.i32, 1, device="cuda:1")
fill(x, own), copy(own, other), own.fill(0), other.fill(0), kp.sync()
contexts = [ctypes.c_void_p(), ctypes.c_void_p()]
for at, context in enumerate(contexts):
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), at)
stuck()
# The stream waits for something that another device does.
driver.cuCtxSetCurrent(contexts[1])
event = ctypes.c_void_p()
driver.cuEventCreate(ctypes.byref(event), 2), driver.cuEventRecord(event, None)
driver.cuCtxSetCurrent(contexts[0])
driver.cuStreamWaitEvent(x.stream, event, 0)
print(interrupted(lambda: fill(x, own)))
os.unlink(STUCK)
copy(own, other)  # on our own stream, after the launch that nobody waits for any more
kp.sync()
print(other.to_numpy().tolist())
"""
)


def test_what_follows_an_interrupted_launch_follows_it(run, tmp_path):
    done = run(ORDERED, KPE_STUCK=str(tmp_path / "stuck"), KPE_DEVICES="2")
    assert (done.stdout, done.stderr) == (f"interrupted\n{[7] * 8}\n", "")


THREADS = (
    COMMON
    + """
x = Foreign()
add(x), kp.sync()
early = 0
for _ in range(5):
    stuck()
    add(x)
    waits = threading.Thread(target=kp.sync)
    waits.start()
    time.sleep(0.05)
    threading.Timer(0.1, os.unlink, (STUCK,)).start()
    kp.sync()
    early += driver.cuStreamQuery(x.stream)
    waits.join()
print(early)
"""
)


def test_threads_that_wait_all_wait(run, tmp_path):
    done = run(THREADS, KPE_STUCK=str(tmp_path / "stuck"))
    assert (done.stdout, done.stderr) == ("0\n", "")


DEVICES = (
    COMMON
    + """
x, y = (kp.ndarray(kp.i32, 8, device=f"cuda:{at}") for at in range(2))
add(x), add(y), kp.sync()
stuck()
add(x), add(y)
print(interrupted(kp.sync))
os.unlink(STUCK)
kp.sync()
print(x[0], y[0])
"""
)


def test_waiting_for_several_devices_is_interrupted_once(run, tmp_path):
    done = run(DEVICES, KPE_STUCK=str(tmp_path / "stuck"), KPE_DEVICES="2")
    assert (done.stdout, done.stderr) == ("interrupted\n2 2\n", "")


PRINTS = (
    COMMON
    + """
@kp.kernel
def show(x: N):
    for i in range(1):
        print("value", x[0])

x = kp.ndarray(kp.i32, 8)
show(x)
x[0] = 2
stuck()
print(interrupted(lambda: show(x)))
os.unlink(STUCK)
kp.sync()
"""
)


def test_what_an_interrupted_launch_prints_is_shown(run, tmp_path):
    done = run(PRINTS, KPE_STUCK=str(tmp_path / "stuck"))
    assert (done.stdout, done.stderr) == ("value 0\ninterrupted\nvalue 2\n", "")
