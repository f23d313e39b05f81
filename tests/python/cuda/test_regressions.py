"""What was wrong once on devices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import keyprint as kp

V = kp.types.NDArray[kp.i32, 1]


@kp.kernel
def deep_bound(x: V, n: kp.i32, z: kp.i32):
    for i in range(
        z
        + (
            z
            + (
                z
                + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + (z + n)))))))))))))))
            )
        )
    ):
        x[i] = 1


def test_bounds_that_are_too_deep_for_the_host():
    x = kp.ndarray(kp.i32, 5000)
    deep_bound(x, 5000, 0)
    assert x.to_numpy().sum() == 5000


@kp.kernel
def add_to(x: V, out: V, k: kp.i32):
    for i in x:
        out[k] += x[i]


def test_what_no_iteration_changes_is_not_touched():
    empty, out = kp.ndarray(kp.i32, 0), kp.ndarray(kp.i32, 3)
    add_to(empty, out, 100_000_000)
    kp.sync()
    assert out.to_numpy().tolist() == [0, 0, 0]


@kp.kernel
def write(x: V, n: kp.i32):
    for i in range(n):
        x[i] = i


@kp.kernel
def total(x: V) -> kp.i32:
    s = 0
    for i in x:
        s += x[i]
    return s


def test_failures_are_not_lost_when_another_thread_waits():
    kp.init(arch=kp.cuda, debug=True)
    x, raised, stop = kp.ndarray(kp.i32, 4), [], threading.Event()

    def wait():
        while not stop.is_set():
            try:
                kp.sync()
            except kp.KernelIndexError:
                raised.append(1)

    write(x, 4)
    waiter = threading.Thread(target=wait)
    waiter.start()
    for _ in range(100):
        before = len(raised)
        write(x, 5)
        try:
            kp.sync()
        except kp.KernelIndexError:
            raised.append(1)
        while len(raised) == before:
            pass
    stop.set()
    waiter.join()
    assert len(raised) == 100


def test_results_raise_what_failed_before():
    kp.init(arch=kp.cuda, debug=True)
    x = kp.ndarray(kp.i32, 4)
    write(x, 9)
    with pytest.raises(kp.KernelIndexError):
        total(x)
    assert total(x) == 6


def test_many_launches_that_may_fail():
    kp.init(arch=kp.cuda, debug=True)
    x = kp.ndarray(kp.i32, 4)
    write(x, 5)
    for _ in range(5000):
        write(x, 4)
    with pytest.raises(kp.KernelIndexError):
        kp.sync()
    kp.sync()


@kp.kernel
def read_and_write(x: V, y: V):
    for i in x:
        y[i] = x[i]


def test_arrays_that_are_only_read_are_not_written_back():
    x, y = np.arange(10, dtype=np.int32), np.zeros(20, np.int32)
    stop, done = threading.Event(), []

    def write_between():
        # Elements between those of the view, and an array that the kernel only reads.
        count = 0
        while not stop.is_set():
            count += 1
            y[1], x[3] = count, count
            done.append(y[1] == count and x[3] == count)

    writer = threading.Thread(target=write_between)
    writer.start()
    for _ in range(200):
        read_and_write(x, y[::2])
    stop.set()
    writer.join()
    assert all(done)
    assert y[0::2].tolist()[4:] == list(range(4, 10))


def test_settings_are_not_half_said(monkeypatch):
    from keyprint.language import settings

    x = kp.ndarray(kp.i32, 4)
    kp.init()
    # Another thread launches while `init` works.
    monkeypatch.setattr(settings, "_set_threads", lambda _: write(x, 4))
    kp.init(debug=True, cpu_max_num_threads=2)
    write(x, 5)
    with pytest.raises(kp.KernelIndexError):
        kp.sync()


@kp.kernel
def smallest(x: kp.types.NDArray[kp.i16, 1], out: V):
    for i in x:
        negative = -x[i]
        out[i] = 1 if negative >> 0 >= -6 else 2
        out[i] += 10 if abs(x[i]) >= 0.5 else 20


def test_the_negative_of_the_smallest_is_itself():
    x, out = np.array([-32768, 3, -3], np.int16), np.zeros(3, np.int32)
    smallest(x, out)
    assert out.tolist() == [22, 11, 11]


@kp.kernel
def shrinks(n: V, bins: V, where: V):
    for i in range(n[0]):
        bins[where[i]] += 1
        n[0] = 3


@kp.kernel
def grows(n: V, out: V) -> kp.i32:
    m = n[1]
    for i in range(n[0], m):
        out[i] += 1
        m += 1
    return m


@kp.kernel
def stops(n: V, out: V):
    if n[0] > 0:
        return
    for i in range(n[1]):
        out[i] = i
        n[1] = 0
    for i, j in kp.ndrange(n[2], (n[3], n[4])):
        out[i * 10 + j] += 100
        n[2], n[3], n[4] = 0, 0, 0


@pytest.mark.parametrize("same", [False, True])
def test_a_loop_does_not_change_how_long_it_is(same):
    n, bins = np.array([1000, 50, 3, 2, 9], np.int32), np.zeros(4, np.int32)
    where = np.arange(1000, dtype=np.int32) % 4
    shrinks(n, bins, where)
    assert bins.tolist() == [250] * 4
    assert n.tolist() == [3, 50, 3, 2, 9]
    out = np.zeros(3000, np.int32)
    assert grows(n, out) == 97
    assert out.sum() == 47
    n[:], out[:] = [0, 2000, 3, 2, 9], 0
    expected = np.arange(3000) * (np.arange(3000) < 2000)
    for i in range(3):
        expected[i * 10 + 2 : i * 10 + 9] += 100
    if same:
        # One array by two names.
        n = kp.ndarray(kp.i32, 3000)
        n[1] = 2000
        stops(n, n)
        assert n.to_numpy()[5:2000].tolist() == [113 if i == 13 else i for i in range(5, 2000)]
    else:
        stops(n, out)
        assert out.tolist() == expected.tolist()
        assert n.tolist() == [0, 0, 0, 0, 0]
