"""What runs under compute-sanitizer: a kernel for each way in which tasks touch memory, and graphs in the ways that are
named, or in all. Exits with 0 if results are right."""

from __future__ import annotations

import sys

import numpy as np

import keyprint as kp

N = 5000


@kp.kernel
def plain(x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] += x[i]


@kp.kernel
def reduced(x: kp.types.NDArray[kp.f32, 1]) -> tuple[kp.f64, kp.f32]:
    total = kp.f64(0)
    largest = -1.0
    for i in x:
        total += x[i]
        kp.atomic_max(largest, x[i])
    return total, largest


@kp.kernel
def narrow(counts: kp.types.NDArray[kp.u8, 1], halves: kp.types.NDArray[kp.i16, 1]):
    for i in range(5000):
        counts[i % 7] += 1
        kp.atomic_max(halves[i % 3], kp.i16(i % 100))


@kp.kernel
def boxes(x: kp.types.NDArray[kp.i32, 3]):
    for i, j, k in x:
        x[i, j, k] = i * 100 + j * 10 + k


@kp.kernel
def crossing(x: kp.types.NDArray[kp.i32, 1], n: kp.i32) -> kp.i32:
    first = x[0]
    for i in range(n):
        x[i] += first
    last = x[n - 1]
    if last > 1000:
        return -1
    for i in range(x[1]):
        x[i] = 7
    return last + x[0]


@kp.kernel
def printed(x: kp.types.NDArray[kp.i32, 1]):
    for i in range(3):
        print("value", i, x[i])


@kp.kernel
def drawn(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] = kp.random(kp.f32)


def solve(
    x: kp.types.NDArray[kp.i32, 1],
    y: kp.types.NDArray[kp.i32, 1],
    total: kp.types.NDArray[kp.i64, 0],
    left: kp.types.NDArray[kp.i32, 0],
    full: kp.types.NDArray[kp.i32, 0],
):
    while kp.graph.do_while(left):
        for i in x:
            y[i] = x[(i + 1) % x.shape[0]] + 1
        for i in x:
            x[i] = y[(i + 1) % x.shape[0]]
        with kp.checkpoint(1, yield_on=full):
            for i in x:
                total[None] += x[i]
        left[None] -= 1


def graphs() -> None:
    for size in (40, N):
        expected = np.arange(size)
        for way in sys.argv[1:] or ("block", "grid", "nodes", "host"):
            kernel = kp.kernel(graph=way, checkpoints=True)(solve)
            x, y = (kp.ndarray(kp.i32, size) for _ in range(2))
            total, left, full = kp.ndarray(kp.i64, ()), kp.ndarray(kp.i32, ()), kp.ndarray(kp.i32, ())
            x.from_numpy(np.arange(size, dtype=np.int32))
            left.fill(3), full.fill(1)
            assert kernel(x, y, total, left, full).checkpoint == 1
            full.fill(0)
            assert not kernel.resume(x, y, total, left, full, from_checkpoint=1).yielded
            # The checkpoint ran again in the first turn.
            sums = [(np.roll(expected, -2 * at) + at).sum() for at in (1, 1, 2, 3)]
            assert total.to_numpy() == sum(sums) and left.to_numpy() == 0
            assert np.array_equal(x.to_numpy(), np.roll(expected, -6) + 3)


def main() -> None:
    kp.init(arch=kp.cuda)
    x, y = (kp.ndarray(kp.f32, N) for _ in range(2))
    x.from_numpy(np.arange(N, dtype=np.float32))
    plain(x, y)
    assert y.to_numpy().sum() == N * (N - 1) / 2
    assert reduced(x) == (N * (N - 1) / 2, N - 1)
    counts, halves = kp.ndarray(kp.u8, 7), kp.ndarray(kp.i16, 3)
    narrow(counts, halves)
    assert counts.to_numpy().tolist() == [((5000 - at + 6) // 7) % 256 for at in range(7)]
    assert halves.to_numpy().tolist() == [99, 99, 99]
    cube = kp.ndarray(kp.i32, (3, 4, 5))
    boxes(cube)
    assert cube.to_numpy()[2, 3, 4] == 234
    z = kp.ndarray(kp.i32, 8)
    z.fill(2)
    assert crossing(z, 8) == 4 + 7
    printed(z)
    graphs()
    drawn(x)
    assert 0 <= x.to_numpy().min() < x.to_numpy().max() < 1
    kp.init(arch=kp.cuda, debug=True)
    plain(x, y)
    kp.sync()
    print("right")


if __name__ == "__main__":
    main()
