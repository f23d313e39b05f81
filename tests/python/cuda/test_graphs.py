"""Graphs on a device: in which way they are launched, what is built once, how they are called off."""

from __future__ import annotations

import ctypes
import gc
import os

import numpy as np
import pytest

import keyprint as kp

X = kp.types.NDArray[kp.i32, 1]
Number = kp.types.NDArray[kp.i32, 0]

#: What is asked for, and what it comes to for few elements.
ASKED = {"fused": "block", "block": "block", "grid": "grid", "nodes": "nodes", "host": "host"}


def turns(x: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] = x[i] * 3 + 1
        for i in x:
            x[i] += i
        c[None] -= 1


def own(values):
    values = np.array(values, np.int32)
    array = kp.ndarray(kp.i32, values.shape)
    array.from_numpy(values)
    return array


def turned(values, count):
    values = np.array(values, np.int32)
    for _ in range(count):
        values = values * 3 + 1 + np.arange(len(values), dtype=np.int32)
    return values


@pytest.mark.parametrize("asked", ASKED)
def test_a_way_that_is_asked_for_is_taken(asked):
    k = kp.kernel(graph=asked)(turns)
    assert k.graph(own([0]), own(1)).launch is None
    x, c = own(range(40)), own(3)
    k(x, c)
    launch = k.graph().launch
    assert (launch.way, launch.why) == (ASKED[asked], "asked for")
    assert x.to_numpy().tolist() == turned(range(40), 3).tolist() and c.to_numpy() == 0
    assert set(launch.expected) == {"block", "grid", "nodes", "host"} and min(launch.expected.values()) > 0
    assert (launch.blocks is None) == (asked in ("nodes", "host"))
    assert f"│  {launch.title}\n│  {launch.details}\n" in str(k.graph())


def test_a_way_is_asked_for_by_a_variable(monkeypatch):
    monkeypatch.setenv("KEYPRINT_GRAPH", "nodes")
    k, forced = kp.kernel(graph=True)(turns), kp.kernel(graph="grid")(turns)
    for kernel, way in ((k, "nodes"), (forced, "grid")):
        kernel(own([1]), own(1))
        assert kernel.graph().launch.way == way
    monkeypatch.setenv("KEYPRINT_GRAPH", "quickly")
    other = kp.kernel(graph=True)(turns)
    with pytest.raises(kp.KernelRuntimeError, match="`KEYPRINT_GRAPH` is `quickly`") as caught:
        other(own([1, 2]), own(1))
    assert caught.value.code == "graph-way" and "`nodes`" in str(caught.value)
    with pytest.raises(ValueError, match="'fused', 'block', 'grid', 'nodes', 'host', found 'quick'"):
        kp.kernel(graph="quick")


def test_a_way_says_nothing_of_what_is_computed():
    """All ways share an entry of the store."""

    def row(x: X):
        for i in x:
            x[i] += 1234
        for i in x:
            x[i] *= 2

    first, second = kp.kernel(graph="nodes")(row), kp.kernel(graph="block")(row)
    first(own([1])), second(own([1]))
    assert (first.observations.compiled, second.observations.compiled) == (1, 0)


def test_ways_depend_on_sizes():
    k = kp.kernel(graph=True)(turns)
    k(own(range(64)), own(2))
    launch = k.graph().launch
    assert (launch.way, launch.why) == (
        min(launch.expected, key=launch.expected.get),
        "expected to take the least time",
    )
    small = launch.expected
    x = kp.ndarray(kp.i32, 1 << 18)
    k.graph(x, own(1))
    forced = kp.kernel(graph="nodes")(turns)
    forced(x, own(1))
    assert forced.graph().launch.expected["block"] > 20 * small["block"]


SIZES = [0, 1, 31, 32, 33, 1000, 1024, 1025, 3000, 10_000]


@pytest.mark.parametrize("way", ["block", "grid", "nodes", "host"])
def test_sizes_up_to_those_that_no_block_has(way):
    k = kp.kernel(graph=way)(turns)
    for size in SIZES:
        x, c = own(range(size)), own(2)
        k(x, c)
        assert np.array_equal(x.to_numpy(), turned(range(size), 2)), size
        assert k.graph().launch.way == way


@pytest.mark.parametrize("way", ["block", "grid", "nodes", "host"])
def test_launches_that_are_under_way_keep_their_arguments(way):
    k = kp.kernel(graph=way)(turns)
    arrays = [(own(range(at, at + 50)), own(1 + at % 4)) for at in range(32)]
    kp.sync()
    for x, c in arrays:
        k(x, c)
    for at, (x, c) in enumerate(arrays):
        assert np.array_equal(x.to_numpy(), turned(range(at, at + 50), 1 + at % 4)), at
        assert c.to_numpy() == 0


# -- What is built ---------------------------------------------------------------------------------


class Graphs:
    """How many CUDA graphs the emulated driver has made, and how many are left."""

    def __init__(self):
        library = ctypes.CDLL(os.environ["KEYPRINT_CUDA_DRIVER"])
        self._made, self._left = (
            ctypes.c_long.in_dll(library, f"kpe_graphs_{name}") for name in ("made", "left")
        )

    @property
    def made(self):
        return self._made.value

    @property
    def left(self):
        # What keeps what it is made of goes first.
        for _ in range(3):
            gc.collect()
        # It is given back when nothing can use it any more, which is seen here.
        kp.sync()
        return self._left.value


@pytest.mark.emulated
def test_other_arrays_need_no_other_graph():
    graphs = Graphs()
    left = graphs.left

    def launch():
        def some(x: X, c: Number):
            while kp.graph.do_while(c):
                for i in x:
                    x[i] = x[i] * 3 + 1
                for i in x:
                    x[i] += i
                c[None] -= 1

        made = graphs.made
        k = kp.kernel(graph="nodes")(some)
        for at in range(6):
            # So many blocks in all of them: threads look at sizes themselves.
            x, c = own(range(10 + at)), own(at + 1)
            k(x, c)
            assert np.array_equal(x.to_numpy(), turned(range(10 + at), at + 1))
            assert graphs.made == made + 1
        # Other grids: at most so many graphs are kept.
        for at in range(40):
            x = own(range(257 * at))
            k(x, own(1))
            assert np.array_equal(x.to_numpy(), turned(range(257 * at), 1))
        assert graphs.made > made + 10
        assert 0 < graphs.left - left <= 16

    launch()
    assert graphs.left == left


@pytest.mark.emulated
def test_one_kernel_is_one_graph():
    """A CUDA graph of one kernel is launched in less time than a kernel: the same for all arguments."""
    kp.kernel(graph=True)(turns)(own(range(10)), own(1))  # ways are measured
    graphs = Graphs()
    made = graphs.made
    k = kp.kernel(graph="block")(turns)
    for size in (10, 10, 500, 10):
        x, c = own(range(size)), own(3)
        k(x, c)
        assert np.array_equal(x.to_numpy(), turned(range(size), 3))
    assert graphs.made == made + 1
    k = kp.kernel(graph="grid")(turns)
    k(own(range(10)), own(3))
    assert graphs.made == made + 1


# -- Older drivers and devices ---------------------------------------------------------------------

OLD = """
import os
import numpy as np
import keyprint as kp

kp.init(arch=kp.cuda)
X, Number = kp.types.NDArray[kp.i32, 1], kp.types.NDArray[kp.i32, 0]

def turns(x: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += i
        c[None] -= 1

def row(x: X):
    for i in x:
        x[i] += i
    for i in x:
        x[i] *= 2

for way in ("nodes", "grid", True):
    k, straight = kp.kernel(graph=way)(turns), kp.kernel(graph=way)(row)
    for size in (10, 300):
        x, y, c = kp.ndarray(kp.i32, size), kp.ndarray(kp.i32, size), kp.ndarray(kp.i32, ())
        c.fill(3)
        k(x, c), straight(y)
        assert np.array_equal(x.to_numpy(), 3 * np.arange(size)) and np.array_equal(y.to_numpy(), 2 * np.arange(size))
    print(way, k.graph().launch.way, straight.graph().launch.way)
    if way is not True:
        print(k.graph().launch.why)
"""

MISSING = "the driver has no graphs of this kind: loops need one of CUDA 12.4 or later"
ALONE = "the device cannot have blocks of threads wait for each other"
MACHINES = {
    "all": ({}, "nodes nodes", "asked for", "grid grid", "asked for"),
    "no loops": ({"KPE_VERSION": "12030"}, "host nodes", MISSING, "grid grid", "asked for"),
    "no graphs": ({"KPE_VERSION": "11080"}, "host host", MISSING, "grid grid", "asked for"),
    "no cooperation": ({"KPE_COOPERATION": "0"}, "nodes nodes", "asked for", "block block", ALONE),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_there_is_done_otherwise(run, machine):
    variables, nodes, why, grid, why_grid = MACHINES[machine]
    done = run(OLD, KEYPRINT_LOG="info", **variables)
    lines = done.stdout.splitlines()
    assert lines[:4] == [f"nodes {nodes}", why, f"grid {grid}", why_grid], done.stderr
    way, straight = lines[4].split()[1:]
    # With loops, and without.
    missing = {"no loops": ("nodes", ""), "no graphs": ("nodes",) * 2, "no cooperation": ("grid",) * 2}
    assert all(
        taken != other for taken, other in zip((way, straight), missing.get(machine, ("", "")), strict=True)
    )
    said = "cannot be launched by way of"
    assert (said in done.stderr) == (machine != "all")
    if machine == "no graphs":
        assert f"`__main__.turns` {said} `nodes`: {MISSING}" in done.stderr


# -- Other processes -------------------------------------------------------------------------------

WARM = """
import sys
import numpy as np
import keyprint as kp

kp.init(arch=kp.cuda)
X, Number = kp.types.NDArray[kp.i32, 1], kp.types.NDArray[kp.i32, 0]

@kp.kernel(graph=True, checkpoints=True)
def k(x: X, c: Number, flag: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += 1
        with kp.checkpoint(7, yield_on=flag):
            for _ in range(1):
                if c[None] == 2:
                    flag[None] = 1
        for _ in range(1):
            c[None] -= 1

x, c, flag = kp.ndarray(kp.i32, 10), kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ())
c.fill(3)
status = k(x, c, flag)
while status.yielded:
    c.fill(1), flag.fill(0)
    status = k.resume(x, c, flag, from_checkpoint=status.checkpoint)
print(x.to_numpy().tolist(), k.observations.compiled, k.graph().launch.way, "keyprint.language.compile.host" in sys.modules)
"""


@pytest.mark.parametrize("way", ["", "fused", "grid", "nodes", "host"])
def test_a_warm_process_compiles_and_measures_nothing(run, way):
    cold = run(WARM, KEYPRINT_LOG="info", KEYPRINT_GRAPH=way)
    assert ("measured ways to launch graphs" in cold.stderr) == (way in ("", "fused")), cold.stderr
    warm = run(WARM, KEYPRINT_LOG="info", KEYPRINT_GRAPH=way, KEYPRINT_NVRTC="/nowhere/libnvrtc.so")
    assert "measured" not in warm.stderr
    shown, compiled = cold.stdout.split("] ")[0], cold.stdout.split("] ")[1].split()
    assert warm.stdout.split("] ")[0] == shown
    assert compiled[0] == "1" and warm.stdout.split("] ")[1].split() == ["0", compiled[1], "False"]


# -- Calling off -----------------------------------------------------------------------------------

ENDLESS = """
import os, signal, sys, threading, time
import numpy as np
import keyprint as kp

kp.init(arch=kp.cuda)
X, Number = kp.types.NDArray[kp.i32, 1], kp.types.NDArray[kp.i32, 0]

def turns(x: X, c: Number, inner: Number):
    while kp.graph.do_while(c):
        for _ in range(1):
            inner[None] = 2
        while kp.graph.do_while(inner):
            for i in x:
                x[i] += 1
            for _ in range(1):
                inner[None] -= 1
        c[None] += c[None] * 0
    for _ in range(1):
        inner[None] = 77

@kp.kernel
def total(x: X) -> kp.i32:
    s = 0
    for i in x:
        s += x[i]
    return s

k = kp.kernel(graph=WAY, checkpoints=CHECKPOINTS)(turns)
x, c, inner = kp.ndarray(kp.i32, 600), kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ())
k(x, c, inner)  # of one turn: all is compiled
total(x)
c.fill(1)
kp.sync()
"""

ALONE_INTERRUPTED = (
    ENDLESS
    + """
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    k(x, c, inner)
    kp.sync()
except KeyboardInterrupt:
    print("interrupted")
kp.sync()
values = x.to_numpy()
assert values[0] > 2 and (values == values[0]).all()
assert total(x) % 2**32 == 600 * int(values[0]) % 2**32
assert inner.to_numpy() != 77
c.fill(0), x.fill(0)
k(x, c, inner)
print(x.to_numpy()[0], inner.to_numpy())
"""
)

WAYS = ["block", "grid", "nodes", "host"]


def endless(program, way, checkpoints):
    return program.replace("WAY", repr(way)).replace("CHECKPOINTS", str(checkpoints))


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_loop_without_an_end_is_interrupted(run, way, checkpoints):
    done = run(endless(ALONE_INTERRUPTED, way, checkpoints))
    assert (done.stdout, done.stderr) == ("interrupted\n2 77\n", "")


OTHERS_INTERRUPTED = (
    ENDLESS
    + """
def other():
    try:
        k(x, c, inner)
        kp.sync()
        said.append("done")
    except kp.KernelRuntimeError as error:
        said.append(error.code)

said = []
thread = threading.Thread(target=other)
thread.start()
time.sleep(0.2)
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    kp.sync()
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
thread.join()
print(said)
c.fill(0), x.fill(0)
k(x, c, inner)
print(x.to_numpy()[0], inner.to_numpy())
"""
)


# With loops on the host there is a moment in each turn at which nothing is left to wait for.
@pytest.mark.parametrize("way", ["block", "grid", "nodes"])
def test_threads_are_told_that_their_launch_was_called_off(run, way):
    done = run(endless(OTHERS_INTERRUPTED, way, False))
    assert (done.stdout, done.stderr) == ("interrupted\n['called-off']\n2 77\n", "")


SHORT = (
    ENDLESS
    + """
@kp.kernel(graph=WAY)
def short(x: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += 1
        c[None] -= 1

y, one = kp.ndarray(kp.i32, 8), kp.ndarray(kp.i32, ())
one.fill(3)
short(y, one)
one.fill(3)
kp.sync()

def told():
    try:
        kp.sync()
        return "done"
    except kp.KernelRuntimeError as error:
        return error.code

def interrupted():
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        kp.sync()
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted")

def on_a_thread(launch, then):
    # Returns what has the thread go on, and waits for it.
    launched, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (launch(), launched.set(), go.wait(), then()))
    thread.start()
    launched.wait()
    return lambda: (go.set(), thread.join())
"""
)

EARLIER_CALLED_OFF = (
    SHORT
    + """
def then():
    short(y, one)
    print(told(), y.to_numpy()[0], told())

go_on = on_a_thread(lambda: k(x, c, inner), then)
interrupted()
go_on()
"""
)


@pytest.mark.parametrize("way", ["block", "grid", "nodes"])
def test_threads_are_told_of_earlier_launches(run, way):
    done = run(endless(EARLIER_CALLED_OFF, way, False))
    assert (done.stdout, done.stderr) == ("interrupted\ncalled-off 6 done\n", "")


DONE_BEFORE = (
    SHORT
    + """
go_on = on_a_thread(lambda: short(y, one), lambda: print(told(), y.to_numpy()[0]))
kp.sync()
k(x, c, inner)
interrupted()
go_on()
"""
)


@pytest.mark.parametrize("way", ["block", "grid", "nodes"])
def test_what_was_done_before_was_not_called_off(run, way):
    done = run(endless(DONE_BEFORE, way, False))
    assert (done.stdout, done.stderr) == ("interrupted\ndone 6\n", "")


MANY_BETWEEN = (
    SHORT
    + """
def many():
    for _ in range(1100):
        short(y, one)

x2, c2, inner2 = kp.ndarray(kp.i32, 600), kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ())
c2.fill(1)
kp.sync()
many_after = threading.Event()
ended = threading.Event()
go_on = on_a_thread(
    lambda: k(x, c, inner), lambda: (many(), many_after.set(), ended.wait(), print(told()))
)
interrupted()
threading.Thread(target=go_on).start()
many_after.wait()
k(x2, c2, inner2)
interrupted()
ended.set()
go_on()
# Whoever was told is not told again; nor is who launches as many as there are places, before another is ended.
short(y, one)
many()
go_on = on_a_thread(lambda: k(x2, c2, inner2), lambda: print(told()))
interrupted()
go_on()
print(told())
"""
)


def test_threads_are_told_of_launches_among_many(run):
    done = run(endless(MANY_BETWEEN, "block", False))
    wanted = "interrupted\ninterrupted\ncalled-off\ninterrupted\ncalled-off\ndone\n"
    assert (done.stdout, done.stderr) == (wanted, "")


BUILT_MEANWHILE = (
    SHORT
    + """
import gc

rows = [(kp.ndarray(kp.i32, 257 * at), kp.ndarray(kp.i32, ())) for at in range(100)]
for _, count in rows:
    count.fill(2)

@kp.kernel(graph=WAY)
def late(x: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += 2
        c[None] -= 1

k(x, c, inner)
# Nothing of this waits for the loop: other grids, more of them than are kept, kernels that go, graphs that are shown.
for row, count in rows:
    short(row, count)
    print(end=short.graph().launch.way[0])
late(y, one)
del late
gc.collect()
print()
interrupted()
kp.sync()
# They were called off with it, after a turn or after all: whole turns each.
for row, count in rows:
    assert (row.to_numpy() == 2 - count.to_numpy()).all() and count.to_numpy() in (0, 1)
    row.fill(0), count.fill(2)
    short(row, count)
    assert (row.to_numpy() == 2).all()
print("right")
"""
)


@pytest.mark.parametrize("way", ["block", "grid", "nodes"])
def test_nothing_but_waiting_waits_for_a_loop(run, way):
    done = run(endless(BUILT_MEANWHILE, way, False))
    assert (done.stdout, done.stderr) == (f"{way[0] * 100}\ninterrupted\nright\n", "")


# -- What goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_check_ends_the_loops(way):
    kp.init(arch=kp.cuda, debug=True)

    @kp.kernel(graph=way)
    def k(x: X, c: Number, seen: Number):
        while kp.graph.do_while(c):
            for _ in range(1):
                seen[None] += 1
            for i in range(8):
                x[i + seen[None] * 4] = 1
        for _ in range(1):
            seen[None] = 100

    x, c, seen = own([0] * 20), own(1), own(0)
    with pytest.raises(kp.KernelIndexError, match="is out of range for shape"):
        k(x, c, seen)
        kp.sync()
    # Turn 1 writes 4 to 11, turn 2 8 to 15, turn 3 12 to 19, turn 4 fails.
    assert seen.to_numpy() == 4
    assert x.to_numpy().tolist() == [0] * 4 + [1] * 16
    c.fill(0), seen.fill(0)
    k(x, c, seen)
    kp.sync()
    assert seen.to_numpy() == 100


# -- Streams ---------------------------------------------------------------------------------------

STREAMS = """
import ctypes, os
import numpy as np
import keyprint as kp

kp.init(arch=kp.cuda)
kp.ndarray(kp.i32, 1)
driver = ctypes.CDLL(os.environ["KEYPRINT_CUDA_DRIVER"])
X, Number = kp.types.NDArray[kp.i32, 1], kp.types.NDArray[kp.i32, 0]

class Foreign:
    # An array on a stream of its own.
    def __init__(self, values):
        values = np.ascontiguousarray(values, np.int32)
        self.shape, self.stream, address = values.shape, ctypes.c_void_p(), ctypes.c_uint64()
        assert driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0
        assert driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(4096), self.stream) == 0
        self.address = address.value
        bytes = ctypes.c_size_t(values.nbytes)
        assert driver.cuMemcpyHtoDAsync_v2(address, ctypes.c_void_p(values.ctypes.data), bytes, self.stream) == 0

    def read(self):
        values = np.empty(self.shape, np.int32)
        bytes = ctypes.c_size_t(values.nbytes)
        driver.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(values.ctypes.data), ctypes.c_uint64(self.address), bytes, self.stream)
        assert driver.cuStreamSynchronize(self.stream) == 0
        return values

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": "<i4", "data": (self.address, False), "version": 3,
                "stream": self.stream.value}

@kp.kernel(graph=WAY, checkpoints=CHECKPOINTS)
def k(x: X, own: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += i + own[0]
        for i in x:
            x[i] *= 2
        for _ in range(1):
            c[None] -= 1

for turn in range(3):
    arrays = [Foreign(np.arange(10) + at) for at in range(5)]
    counters = [kp.ndarray(kp.i32, ()) for _ in arrays]
    own = kp.ndarray(kp.i32, 1)
    own.fill(turn)
    for c in counters:
        c.fill(3)
    for x, c in zip(arrays, counters):
        k(x, own, c)
    for at, x in enumerate(arrays):
        wanted = np.arange(10) + at
        for _ in range(3):
            wanted = (wanted + np.arange(10) + turn) * 2
        assert np.array_equal(x.read(), wanted), (turn, at, x.read(), wanted)
    assert all(c.to_numpy() == 0 for c in counters)
print("right")
"""


FOLLOWED = (
    STREAMS.partition("@kp.kernel")[0]
    + """
import signal, threading, time

@kp.kernel(graph=WAY)
def k(x: X, own: X, c: Number):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += 1
        for i in own:
            own[i] += 1
        c[None] += c[None] * 0

@kp.kernel
def total(x: X) -> kp.i32:
    s = 0
    for i in x:
        s += x[i]
    return s

def told(wait):
    try:
        wait()
        return "done"
    except kp.KernelRuntimeError as error:
        return error.code

def other():
    k(x, own, c)
    launched.set()
    go.wait()
    print(told(lambda: total(own)), told(kp.sync))

x, own, c = Foreign(np.zeros(10)), kp.ndarray(kp.i32, 8), kp.ndarray(kp.i32, ())
k(x, own, c), total(own)
c.fill(1)
launched, go = threading.Event(), threading.Event()
thread = threading.Thread(target=other)
thread.start()
launched.wait()
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    kp.sync()
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
go.set()
thread.join()
"""
)


@pytest.mark.parametrize("way", ["block", "grid", "nodes"])
def test_what_follows_a_launch_on_another_stream_is_told_of_it(run, way):
    done = run(FOLLOWED.replace("WAY", repr(way)))
    assert (done.stdout, done.stderr) == ("interrupted\ncalled-off done\n", "")


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_launches_on_several_streams_share_nothing(run, way, checkpoints):
    done = run(endless(STREAMS, way, checkpoints))
    assert (done.stdout, done.stderr) == ("right\n", "")
