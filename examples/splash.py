"""Two blocks of water that fall: the material point method, after the 88 lines of Yuanming Hu.

python examples/splash.py [particles] [steps]
"""

from __future__ import annotations

import sys

import picture
import place

import keyprint as kp

vec2 = kp.types.vector(2, kp.f32)
mat2 = kp.types.matrix(2, 2, kp.f32)


@kp.data_oriented
class Water:
    """Particles, and the grid on which they meet."""

    def __init__(self, particles: int, grid: int = 128) -> None:
        self.n_grid = grid
        self.dx = 1.0 / grid
        self.dt = 2e-4 * 128 / grid
        self.stiffness = 400.0
        self.volume = (0.5 / grid) ** 2
        self.x = kp.ndarray(vec2, particles)
        self.v = kp.ndarray(vec2, particles)
        self.C = kp.ndarray(mat2, particles)
        self.J = kp.ndarray(kp.f32, particles)
        self.momentum = kp.ndarray(vec2, (grid, grid))
        self.mass = kp.ndarray(kp.f32, (grid, grid))

    @kp.kernel
    def start(self):
        for p in self.x:
            left = p % 2 == 0
            corner = kp.Vector([0.15, 0.3]) if left else kp.Vector([0.55, 0.55])
            self.x[p] = corner + 0.3 * kp.Vector([kp.random(), kp.random()])
            self.v[p] = kp.Vector([1.5 if left else -1.0, -1.0])
            self.J[p] = 1.0
            self.C[p] = kp.Matrix.zero(kp.f32, 2, 2)

    @kp.func
    def weights(self, fx):
        return [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]

    @kp.kernel
    def step(self):
        for i, j in self.mass:
            self.momentum[i, j] = kp.Vector([0.0, 0.0])
            self.mass[i, j] = 0.0
        for p in self.x:
            at = self.x[p] / self.dx
            base = kp.cast(at - 0.5, kp.i32)
            fx = at - base
            w = self.weights(fx)
            stress = -self.dt * 4.0 * self.stiffness * self.volume * (self.J[p] - 1.0) / self.dx**2
            affine = kp.Matrix([[stress, 0.0], [0.0, stress]]) + self.volume * self.C[p]
            for i, j in kp.static(kp.ndrange(3, 3)):
                offset = kp.Vector([i, j])
                weight = w[i].x * w[j].y
                far = (offset - fx) * self.dx
                self.momentum[base + offset] += weight * (self.volume * self.v[p] + affine @ far)
                self.mass[base + offset] += weight * self.volume
        for i, j in self.mass:
            if self.mass[i, j] > 0.0:
                v = self.momentum[i, j] / self.mass[i, j]
                v.y -= self.dt * 9.8
                edge = 3
                if (i < edge and v.x < 0.0) or (i > self.n_grid - edge and v.x > 0.0):
                    v.x = 0.0
                if (j < edge and v.y < 0.0) or (j > self.n_grid - edge and v.y > 0.0):
                    v.y = 0.0
                self.momentum[i, j] = v
        for p in self.x:
            at = self.x[p] / self.dx
            base = kp.cast(at - 0.5, kp.i32)
            fx = at - base
            w = self.weights(fx)
            v = kp.Vector([0.0, 0.0])
            C = kp.Matrix.zero(kp.f32, 2, 2)
            for i, j in kp.static(kp.ndrange(3, 3)):
                offset = kp.Vector([i, j])
                weight = w[i].x * w[j].y
                grid_v = self.momentum[base + offset]
                v += weight * grid_v
                C += 4.0 / self.dx * weight * grid_v.outer_product(offset - fx)
            self.v[p] = v
            self.x[p] += self.dt * v
            self.J[p] *= 1.0 + self.dt * C.trace()
            self.C[p] = C


def run(particles: int, steps: int, grid: int = 128) -> Water:
    """Return the water after some steps."""
    kp.init(arch=place.ARCH, random_seed=1)
    water = Water(particles, grid)
    water.start()
    for _ in range(steps):
        water.step()
    return water


if __name__ == "__main__":
    particles, steps = (int(argument) for argument in [*sys.argv[1:], "40000", "1500"][:2])
    water = run(particles, steps)
    at = water.x.to_numpy()
    picture.write("splash.png", picture.points(at, 512))
    print(f"{steps} steps of {particles} particles: centre at {at.mean(0).round(3)}; see splash.png")
