"""Atomics, reductions, shared variables, random numbers, printing, threads, forks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import keyprint as kp

N = 200_000


@kp.kernel
def histogram(x: kp.types.NDArray[kp.i32, 1], bins: kp.types.NDArray[kp.i32, 1]):
    for i in x:
        bins[x[i] % bins.shape[0]] += 1


def test_histogram():
    x = np.random.default_rng(1).integers(0, 1000, N).astype(np.int32)
    bins = np.zeros(16, np.int32)
    histogram(x, bins)
    assert bins.tolist() == np.bincount(x % 16, minlength=16).tolist()


@kp.kernel
def all_atomics(x: kp.types.NDArray, out: kp.types.NDArray):
    for i in x:
        kp.atomic_add(out[0], x[i])
        kp.atomic_sub(out[1], x[i])
        kp.atomic_min(out[2], x[i])
        kp.atomic_max(out[3], x[i])
        kp.atomic_mul(out[i % 2 + 4], x[i] % 2 + 1 if i < 40 else x[i] - x[i] + 1)


@kp.kernel
def bit_atomics(x: kp.types.NDArray, out: kp.types.NDArray):
    for i in x:
        kp.atomic_and(out[0], x[i])
        kp.atomic_or(out[1], x[i])
        kp.atomic_xor(out[2], x[i])
        out[i % 2 + 3] |= x[i]
        out[i % 2 + 5] ^= x[i]


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64"]
)
def test_atomics(dtype):
    x = np.random.default_rng(2).integers(0, 7, N).astype(dtype)
    out = np.array([0, 0, 100, 0, 1, 1], dtype)
    all_atomics(x, out)
    total = x.sum(dtype=dtype) if dtype[0] != "f" else x.sum()
    with np.errstate(all="ignore"):
        products = [np.prod(x[at:40:2] % 2 + 1, dtype=dtype) for at in range(2)]
        wanted = np.array([total, -np.asarray(total, dtype), 0, 6, *products], dtype)
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_atomics_on_bits(dtype):
    x = np.random.default_rng(3).integers(0, 100, N).astype(dtype)
    out = np.array([127, 0, 0, 0, 0, 0, 0], dtype)
    bit_atomics(x, out)
    wanted = [127 & np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)]
    wanted += [np.bitwise_or.reduce(x[at::2]) for at in range(2)] + [
        np.bitwise_xor.reduce(x[at::2]) for at in range(2)
    ]
    assert out.tolist() == [int(number) for number in wanted]


@kp.kernel
def old_values(out: kp.types.NDArray[kp.i32, 1], counter: kp.types.NDArray[kp.i32, 0]):
    for i in out:
        at = kp.atomic_add(counter[None], 1)
        out[at] += 1


def test_atomics_return_what_was_there():
    out, counter = np.zeros(N, np.int32), np.zeros((), np.int32)
    old_values(out, counter)
    assert counter == N and out.min() == out.max() == 1


@kp.kernel
def reductions(x: kp.types.NDArray[kp.f64, 1]):
    total = 0.0
    low = 1e9
    high = -1e9
    count = 0
    for i in x:
        total += x[i]
        kp.atomic_min(low, x[i])
        kp.atomic_max(high, x[i])
        if x[i] > 0.5:
            count += 1
    for i in x:
        count -= 1
    return total, low, high, count


def test_reductions():
    kp.init(default_fp=kp.f64)
    x = np.random.default_rng(4).random(N)
    total, low, high, count = reductions(x)
    assert total == pytest.approx(x.sum(), rel=1e-12)
    assert (low, high, count) == (x.min(), x.max(), int((x > 0.5).sum()) - N)


@kp.kernel
def into_elements(
    x: kp.types.NDArray[kp.f64, 2], rows: kp.types.NDArray[kp.f64, 1], total: kp.types.NDArray[kp.f64, 0]
):
    for i, j in x:
        rows[i] += x[i, j]
    for i, j in x:
        total[None] += x[i, j]
    for i, j in x:
        x[i, j] *= 2.0
        x[i, j] -= 1.0


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_reductions_into_elements(order):
    x = np.arange(6000.0).reshape(60, 100)
    x = np.asfortranarray(x) if order == "F" else x
    x = np.repeat(x, 2, axis=1)[:, ::2] if order == "strided" else x
    before, rows, total = x.copy(), np.zeros(60), np.zeros(())
    into_elements(x, rows, total)
    assert rows.tolist() == before.sum(1).tolist() and total == before.sum()
    assert np.array_equal(x, before * 2 - 1)


@kp.kernel
def scatter(index: kp.types.NDArray[kp.i32, 1], out: kp.types.NDArray[kp.f32, 1]):
    for i in index:
        out[index[i]] += 1.0
        out[i] += 0.0


def test_changes_of_elements_that_others_change_stay_atomic():
    index = np.zeros(N, np.int32)
    out = np.zeros(N, np.float32)
    scatter(index, out)
    assert out[0] == N


Ints = kp.types.NDArray[kp.i32, 1]
Int = kp.types.NDArray[kp.i32, 0]


@kp.kernel
def beside_sums(x: Ints, y: Ints, total: Int, other: Int):
    for i in x:
        x[i] += 3
        y[i] = x[i] * 2
        total[()] += x[i]
        other[()] += y[i] - 1


def wrapped(number):
    return np.int64(number).astype(np.int32)


def test_elements_of_an_iteration_beside_sums():
    """Changes of elements are plain, and each thread has a share of the sums."""
    for size in (0, 1, 1000, N):
        x, y = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
        total, other = np.array(7, np.int32), np.array(9, np.int32)
        beside_sums(x, y, total, other)
        expected = np.arange(size, dtype=np.int64) + 3
        assert np.array_equal(x, expected) and np.array_equal(y, 2 * expected)
        assert total == wrapped(7 + expected.sum())
        assert other == wrapped(9 + (2 * expected - 1).sum())


def test_sums_may_go_into_one_array_by_two_names():
    x, y = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
    total = np.array(0, np.int32)
    beside_sums(x, y, total, total)
    assert total == wrapped(((np.arange(N) + 3) * 3 - 1).sum())


def test_a_sum_into_an_element_that_an_iteration_changes_is_refused():
    x, other = np.zeros(10, np.int32), np.array(0, np.int32)
    with pytest.raises(kp.KernelRuntimeError, match="overlap") as caught:
        beside_sums(x, np.zeros(10, np.int32), x[3:4].reshape(()), other)
    assert caught.value.code == "overlap"


@kp.kernel
def stores_beside_a_sum(x: Ints, y: Ints, total: Int):
    for i in range(x.shape[0]):
        x[i] = i
        y[i] = 2 * i
        total[()] += i


def test_stores_beside_a_sum_may_be_anywhere():
    """Nothing becomes plain that was not: arrays need not be apart."""
    numbers, total = np.zeros((100, 3), np.int32), np.array(0, np.int32)
    stores_beside_a_sum(numbers[:, 0], numbers[:, 1], total)
    assert np.array_equal(numbers[:, 0], np.arange(100)) and np.array_equal(numbers[:, 1], 2 * np.arange(100))
    assert total == 4950 and not numbers[:, 2].any()
    stores_beside_a_sum(numbers[:, 0], numbers[:, 2], numbers[0, 1:2].reshape(()))
    assert numbers[0, 1] == 4950


def test_elements_that_lie_between_those_of_others_are_apart():
    numbers, other = np.zeros((100, 3), np.int32), np.array(0, np.int32)
    beside_sums(numbers[:, 0], numbers[:, 2], numbers[7, 1:2].reshape(()), other)
    assert (numbers[:, 0] == 3).all() and (numbers[:, 2] == 6).all()
    assert numbers[7, 1] == 300 and other == 500 and numbers[:, 1].sum() == 300
    beside_sums(numbers[::2, 0], numbers[50:0:-1, 1], other, other)
    for x, y in ((numbers[:, 0], numbers[::2, 0]), (numbers[:50, 0], numbers.reshape(-1)[:50])):
        with pytest.raises(kp.KernelRuntimeError, match="overlap"):
            beside_sums(x, y, other, other)


@kp.kernel
def by_two_names(x: Ints, y: Ints):
    for i in x:
        x[i] += 1
        y[0] += 2


def test_a_sum_into_an_array_that_may_be_the_same():
    x, y = np.zeros(N, np.int32), np.zeros(1, np.int32)
    by_two_names(x, y)
    assert (x == 1).all() and y == 2 * N
    by_two_names(x, x)
    assert x[0] == 2 + 2 * N and (x[1:] == 2).all()


@kp.kernel
def sum_and_largest(x: Ints, total: Int, largest: Int):
    for i in x:
        total[()] += x[i]
        kp.atomic_max(largest[()], x[i])


def test_a_sum_and_a_largest_element():
    x = np.arange(N, dtype=np.int32)
    total, largest = np.array(0, np.int32), np.array(0, np.int32)
    sum_and_largest(x, total, largest)
    assert total == wrapped(x.sum()) and largest == N - 1


@kp.kernel
def draw(
    out: kp.types.NDArray[kp.f64, 1], ints: kp.types.NDArray[kp.u32, 1], normal: kp.types.NDArray[kp.f64, 1]
):
    for i in out:
        out[i] = kp.random(kp.f64)
        ints[i] = kp.random(kp.u32)
        normal[i] = kp.randn(kp.f64)


def drawn():
    out, ints, normal = np.zeros(N), np.zeros(N, np.uint32), np.zeros(N)
    draw(out, ints, normal)
    return out, ints, normal


def test_random_numbers(kernel_store):
    kp.init(random_seed=5, offline_cache_file_path=kernel_store)
    first = drawn()
    second = drawn()
    assert not np.array_equal(first[0], second[0])
    kp.init(random_seed=5, offline_cache_file_path=kernel_store, cpu_max_num_threads=1)
    again = drawn()
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    kp.init(random_seed=6, offline_cache_file_path=kernel_store)
    assert not np.array_equal(first[0], drawn()[0])
    out, ints, normal = first
    assert out.min() >= 0 and out.max() < 1
    assert abs(out.mean() - 0.5) < 0.005 and abs(out.var() - 1 / 12) < 0.002
    assert len(np.unique(ints)) > 0.99 * N * (1 - N / 2**33)
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01
    # Neighbours, and draws of one iteration, do not depend on each other.
    assert abs(np.corrcoef(out[1:], out[:-1])[0, 1]) < 0.01
    assert abs(np.corrcoef(out, normal)[0, 1]) < 0.01
    bits = np.unpackbits(ints.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 0.001


@kp.kernel
def prints(n: kp.i32):
    for i in range(2):
        print("i is", i, 1.5, i > 0, kp.Vector([i, 2]), n)
    kp.loop_config(serialize=True)
    for i in range(2):
        print(f'again {i}%\t"quoted" é', end="")
    print()
    print((1, 2), None, kp.f32(0.1), sep="-")


def test_printing(capsys):
    prints(7)
    lines = capsys.readouterr().out.split("\n")
    assert sorted(lines[:2]) == ["i is 0 1.5 False [0, 2] 7", "i is 1 1.5 True [1, 2] 7"]
    assert lines[2] == 'again 0%\t"quoted" éagain 1%\t"quoted" é'
    assert lines[3] == "(1, 2)-None-0.1"


@kp.kernel
def slow(x: kp.types.NDArray[kp.f32, 1], n: kp.i32):
    for i in x:
        for _ in range(n):
            x[i] = kp.sin(x[i]) + 1.0


def test_other_threads_run_meanwhile():
    x = np.zeros(4000, np.float32)
    slow(x, 1)
    done = threading.Event()
    ticks = []

    def tick():
        while not done.is_set():
            ticks.append(None)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    slow(x, 3000)
    assert len(ticks) > before + 100
    done.set()
    thread.join()


def test_members_can_be_rebound_while_a_kernel_runs():
    class Holder:
        pass

    holder = Holder()
    holder.x = np.zeros(4000, np.float32)
    stop = threading.Event()

    def rebind():
        while not stop.is_set():
            holder.x = np.zeros(4000, np.float32)

    run = kp.kernel(_held)
    run(holder, 1)
    thread = threading.Thread(target=rebind)
    thread.start()
    for _ in range(20):
        run(holder, 100)
    stop.set()
    thread.join()


def _held(h: kp.template(), n: kp.i32):
    for i in h.x:
        for _ in range(n):
            h.x[i] = kp.sin(h.x[i]) + 1.0


def test_threads_launch_one_kernel():
    results = []

    def work(seed):
        x = np.full(N, seed, np.int32)
        bins = np.zeros(64, np.int32)
        for _ in range(5):
            histogram(x, bins)
        results.append(bins[seed] == 5 * N)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_has_threads_of_its_own():
    x = np.zeros(N, np.int32)
    bins = np.zeros(4, np.int32)
    histogram(x, bins)
    child = os.fork()
    if child == 0:
        try:
            bins[:] = 0
            for _ in range(3):
                histogram(x, bins)
            os._exit(0 if bins[0] == 3 * N else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@kp.kernel
def count_iterations(out: kp.types.NDArray[kp.i32, 1], n: kp.i32):
    kp.loop_config(grain_size=1000)
    for i in range(n):
        out[i] += 1
    for i, j in kp.ndrange(n // 7, 7):
        out[i * 7 + j] += 1


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 999, 1000, 100_003])
def test_every_iteration_runs_once(threads, n, kernel_store):
    kp.init(cpu_max_num_threads=threads, offline_cache_file_path=kernel_store)
    out = np.zeros(n + 1, np.int32)
    count_iterations(out, n)
    wanted = np.ones(n + 1, np.int32)
    wanted[: n // 7 * 7] += 1
    wanted[n] = 0
    assert np.array_equal(out, wanted)


@kp.kernel
def shared(out: kp.types.NDArray[kp.i32, 1], k: kp.i32):
    base = k * 10
    offsets = kp.Vector([1, 2, 3])
    for i in out:
        out[i] = base + offsets[i % 3]
    base = 7
    for i in out:
        out[i] += base


def test_variables_before_a_loop_are_seen_in_it():
    out = np.zeros(9, np.int32)
    shared(out, 4)
    assert out.tolist() == [40 + i % 3 + 1 + 7 for i in range(9)]
