"""Arrays that tests of graphs count with."""

from __future__ import annotations

import numpy as np

import keyprint as kp

Vector = kp.types.NDArray[kp.i32, 1]
Number = kp.types.NDArray[kp.i32, 0]


def number(value=0):
    return np.array(value, np.int32)


def zeros(n=5):
    return np.zeros(n, np.int32)
