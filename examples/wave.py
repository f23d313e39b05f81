"""Waves in a basin with an obstacle: a 2-D wave equation, one kernel for a step.

python examples/wave.py [size] [steps]
"""

from __future__ import annotations

import sys

import numpy as np
import picture
import place  # noqa: F401 (it takes `--cuda`)

import keyprint as kp

Grid = kp.types.NDArray[kp.f32, 2]


@kp.data_oriented
class Basin:
    """Heights of the water now and before, and where the walls are."""

    def __init__(self, size: int) -> None:
        self.now = kp.ndarray(kp.f32, (size, size))
        self.before = kp.ndarray(kp.f32, (size, size))
        self.speed = kp.ndarray(kp.f32, (size, size))
        self.damping = 0.9995

    @kp.kernel
    def start(self, x: kp.f32, y: kp.f32, width: kp.f32):
        n = self.now.shape[0]
        for i, j in self.now:
            dx = (i / n - x) / width
            dy = (j / n - y) / width
            self.now[i, j] = kp.exp(-(dx * dx + dy * dy))
            self.before[i, j] = self.now[i, j]
            # Water is shallow near the wall with two gaps, and there is none in it.
            gap = 0.4 < j / n < 0.47 or 0.53 < j / n < 0.6
            self.speed[i, j] = 0.0 if 0.55 < i / n < 0.57 and not gap else 0.25

    @kp.func
    def laplacian(self, i, j):
        u = self.now
        return u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]

    @kp.kernel
    def advance(self):
        n = self.now.shape[0]
        for i, j in kp.ndrange((1, n - 1), (1, n - 1)):
            change = self.now[i, j] - self.before[i, j] + self.speed[i, j] * self.laplacian(i, j)
            self.before[i, j] = self.now[i, j] + change * self.damping

    def step(self) -> None:
        """Advance by one step: what was written becomes what is."""
        self.advance()
        self.now, self.before = self.before, self.now


def run(size: int, steps: int) -> np.ndarray:
    """Return the heights after some steps."""
    basin = Basin(size)
    basin.start(0.3, 0.5, 0.03)
    for _ in range(steps):
        basin.step()
    return basin.now.to_numpy()


if __name__ == "__main__":
    size, steps = (int(argument) for argument in [*sys.argv[1:], "512", "520"][:2])
    heights = run(size, steps)
    picture.write("wave.png", picture.coloured(heights, -0.15, 0.15))
    print(
        f"{steps} steps on {size}x{size}: heights from {heights.min():.3f} to {heights.max():.3f}; see wave.png"
    )
