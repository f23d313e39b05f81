"""Launches that follow each other take a short way: whatever changes in between is seen all the same.

Random programs of launches and changes, judged by what Python computes from the same objects.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import keyprint as kp

SCALE = 3
BESIDE = 0

N = kp.types.NDArray


@kp.func
def helped(x: kp.i64) -> kp.i64:
    return x * SCALE


@kp.data_oriented
class Pair:
    def __init__(self, seed):
        self.a = array(kp.i32, seed)
        self.b = array(kp.i64, seed + 1)
        self.n = 1

    @kp.kernel(on_drift="rekey")
    def total(self, out: N[kp.i64, 1], k: kp.i32):
        for i in range(4):
            out[i] = helped(self.a[i]) + self.b[i] * k + self.n


@kp.kernel(on_drift="rekey")
def plain(x: N[kp.i64, 1], y: N[kp.i64, 1], unread: N[kp.i64, 1], k: kp.i32):
    for i in range(4):
        y[i] = helped(x[i]) + k


def array(dtype, seed):
    made = kp.ndarray(dtype, 4)
    made.from_numpy(np.arange(seed, seed + 4).astype("i4" if dtype is kp.i32 else "i8"))
    return made


class Round:
    """One random program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.objects = [Pair(1), Pair(20)]
        self.out = array(kp.i64, 0)
        self.others = [array(kp.i64, 5), np.arange(7, 11), array(kp.i64, 9)]

    def launch_object(self):
        pair = self.random.choice(self.objects)
        k = self.random.randrange(3)
        pair.total(self.out, k)
        expected = pair.a.to_numpy() * SCALE + pair.b.to_numpy() * k + pair.n
        assert self.out.to_numpy().tolist() == expected.tolist()

    def launch_plain(self):
        x, k = self.random.choice(self.others), self.random.randrange(3)
        taken = x if isinstance(x, np.ndarray) else x.to_numpy()
        y = np.zeros(4, np.int64) if isinstance(x, np.ndarray) else self.out
        plain(x, y, y, k)
        result = y if isinstance(y, np.ndarray) else y.to_numpy()
        assert result.tolist() == (taken * SCALE + k).tolist()

    def wrong_calls(self):
        x = self.others[0]
        for call in (
            lambda: plain(x, self.out, 1),
            lambda: plain(x, self.out),
            lambda: plain(x, self.out, self.out, 1, 2),
            lambda: self.objects[0].total(self.out),
        ):
            with pytest.raises(TypeError):
                call()
        with pytest.raises((OverflowError, TypeError)):
            plain(x, self.out, self.out, 2**40)

    def rebind(self):
        pair = self.random.choice(self.objects)
        dtype = self.random.choice([kp.i32, kp.i64])
        setattr(pair, self.random.choice("ab"), array(dtype, self.random.randrange(50)))

    def rebind_in_dict(self):
        pair = self.random.choice(self.objects)
        vars(pair)["a"] = array(kp.i32, self.random.randrange(50))

    def swap(self):
        first, second = self.objects
        first.a, second.a = second.a, first.a

    def replace_dict(self):
        pair = self.random.choice(self.objects)
        pair.__dict__ = dict(vars(pair), b=array(kp.i64, self.random.randrange(50)))

    def write(self):
        self.random.choice(self.objects).a[self.random.randrange(4)] = self.random.randrange(100)

    def change_number(self):
        self.random.choice(self.objects).n = self.random.choice([1, 2])

    def change_scale(self):
        global SCALE
        SCALE = self.random.choice([3, 4])

    def change_beside(self):
        global BESIDE
        BESIDE += 1

    def delete_and_put_back(self):
        pair = self.random.choice(self.objects)
        kept = pair.b
        del pair.b
        with pytest.raises(TypeError, match="has no member"):
            pair.total(self.out, 1)
        pair.b = kept


CHANGES = [
    Round.rebind,
    Round.rebind_in_dict,
    Round.swap,
    Round.replace_dict,
    Round.write,
    Round.change_number,
    Round.change_scale,
    Round.change_beside,
    Round.delete_and_put_back,
    Round.wrong_calls,
]


@pytest.mark.parametrize("seed", range(6))
def test_every_change_is_seen(seed):
    program = Round(seed)
    for _ in range(60):
        for _ in range(program.random.randrange(1, 5)):
            program.random.choice([Round.launch_object, Round.launch_plain])(program)
        program.random.choice(CHANGES)(program)
