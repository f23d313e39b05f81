"""Discs that push each other apart until none overlap: one launch, in which a list runs out of room and grows.

The graph repeats: find all pairs that overlap, push them apart, move the discs. How many pairs there are is not known
before. Where the list is too short, the launch ends at a checkpoint; the program makes it longer and goes on there.

python examples/packing.py [discs]
"""

from __future__ import annotations

import enum
import sys

import numpy as np
import picture

import keyprint as kp


class Stage(enum.IntEnum):
    PAIRS = 1


@kp.data_oriented
class Packing:
    def __init__(self, n: int, room: int) -> None:
        self.at = kp.ndarray(kp.types.vector(2, kp.f64), n)
        self.push = kp.ndarray(kp.types.vector(2, kp.f64), n)
        self.pairs = kp.ndarray(kp.types.vector(2, kp.i32), room)
        self.found, self.turns, self.full, self.again = (kp.ndarray(kp.i32, ()) for _ in range(4))
        self.width = 0.65 / n**0.5

    @kp.kernel(graph=True, checkpoints=True)
    def settle(self):
        while kp.graph.do_while(self.again):
            with kp.checkpoint(Stage.PAIRS, yield_on=self.full):
                # The block runs again when the list has grown: it begins with nothing found.
                for _ in range(1):
                    self.found[()] = 0
                for i in self.at:
                    for j in range(i + 1, self.at.shape[0]):
                        if (self.at[i] - self.at[j]).norm() < self.width:
                            k = kp.atomic_add(self.found[()], 1)
                            if k < self.pairs.shape[0]:
                                self.pairs[k] = kp.Vector([i, j])
                            else:
                                self.full[()] = 1
            for k in range(self.found[()]):
                i, j = self.pairs[k][0], self.pairs[k][1]
                apart = self.at[i] - self.at[j]
                distance = apart.norm()
                move = apart * (
                    0.5 * (kp.f64(self.width) * kp.f64(1.02) - distance) / (distance + kp.f64(1e-12))
                )
                self.push[i] += move
                self.push[j] -= move
            for i in self.at:
                self.at[i] = kp.math.clamp(self.at[i] + self.push[i], 0.0, 1.0)
                self.push[i] = kp.Vector([0.0, 0.0])
            self.turns[()] += 1
            self.again[()] = self.found[()] > 0 and self.turns[()] < 2000


def run(n: int, room: int = 16) -> tuple[Packing, int]:
    """Return discs that are settled, and how often the list grew."""
    packing = Packing(n, room)
    packing.at.from_numpy(np.random.default_rng(1).random((n, 2)) * 0.5 + 0.25)
    grown = 0
    status = packing.settle()
    while status.yielded:
        assert status.checkpoint is Stage.PAIRS
        room = 2 * packing.found[()]
        packing.pairs = kp.ndarray(kp.types.vector(2, kp.i32), room)
        packing.full[()] = 0
        grown += 1
        status = packing.settle.resume(from_checkpoint=status.checkpoint)
    return packing, grown


def drawn(packing: Packing, size: int = 768) -> np.ndarray:
    """Return a picture of the discs."""
    radius = packing.width * size / 2
    image, reach = np.zeros((size, size)), int(radius) + 1
    around = np.arange(-reach, reach + 1)
    for at, (x, y) in enumerate(packing.at.to_numpy() * size):
        rows, columns = np.meshgrid(around + int(y), around + int(x), indexing="ij")
        inside = (rows - y) ** 2 + (columns - x) ** 2 < (0.9 * radius) ** 2
        inside &= (rows >= 0) & (columns >= 0) & (rows < size) & (columns < size)
        image[rows[inside], columns[inside]] = 0.3 + at % 7 / 10
    return picture.coloured(image, 0, 1)


if __name__ == "__main__":
    n = int([*sys.argv[1:], "1500"][0])
    packing, grown = run(n)
    print(packing.settle.graph())
    picture.write("packing.png", drawn(packing))
    print(
        f"{n} discs apart after {packing.turns[()]} turns in {1 + grown} launches; the list grew to "
        f"{packing.pairs.shape[0]} pairs; see packing.png"
    )
