"""What runs under compute-sanitizer: a kernel for each way in which tasks touch memory. Exits with 0 if results are right."""

from __future__ import annotations

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
    drawn(x)
    assert 0 <= x.to_numpy().min() < x.to_numpy().max() < 1
    kp.init(arch=kp.cuda, debug=True)
    plain(x, y)
    kp.sync()
    print("right")


if __name__ == "__main__":
    main()
