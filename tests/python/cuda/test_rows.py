"""Loops of two dimensions whose threads do several rows each."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp


@kp.kernel
def inside(a: kp.types.NDArray[kp.i64, 2], b: kp.types.NDArray[kp.i64, 2]):
    for i, j in kp.ndrange((1, a.shape[0] - 1), (2, a.shape[1] - 3)):
        b[i, j] += a[i - 1, j] * 3 + a[i + 1, j - 2] - a[i, j + 3]
        if b[i, j] % 2 == 0:
            b[i, j] = i * 1000 + j


@kp.kernel
def from_below(x: kp.types.NDArray[kp.i32, 2]):
    for i, j in kp.ndrange((-2, x.shape[0]), (-1, x.shape[1])):
        if i >= 0 and j >= 0:
            x[i, j] += i * 7 + j


@pytest.mark.parametrize(
    "shape", [(3, 6), (4, 5), (2, 2), (5, 700), (700, 9), (300, 257), (1025, 130), (2049, 64), (4099, 8)]
)
def test_every_row_is_done_once(shape):
    start = np.random.default_rng(1).integers(-100, 100, shape)
    a, b = kp.ndarray(kp.i64, shape), kp.ndarray(kp.i64, shape)
    a.from_numpy(start), b.from_numpy(start[::-1].copy())
    inside(a, b)
    expected = start[::-1].copy()
    rows, columns = shape
    part = np.s_[1 : rows - 1, 2 : columns - 3]
    if rows > 2 and columns > 5:
        expected[part] += (
            start[: rows - 2, 2 : columns - 3] * 3 + start[2:, : columns - 5] - start[1 : rows - 1, 5:]
        )
        i, j = np.mgrid[1 : rows - 1, 2 : columns - 3]
        expected[part] = np.where(expected[part] % 2 == 0, i * 1000 + j, expected[part])
    assert np.array_equal(b.to_numpy(), expected)
    x = kp.ndarray(kp.i32, shape)
    from_below(x)
    from_below(x)
    i, j = np.mgrid[:rows, :columns]
    assert np.array_equal(x.to_numpy(), 2 * (i * 7 + j))
