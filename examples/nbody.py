"""A disc of bodies that attract each other: every pair, in every step.

python examples/nbody.py [bodies] [steps]
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import picture
import place  # noqa: F401 (it takes `--cuda`)

import keyprint as kp

vec3 = kp.types.vector(3, kp.f64)
Vectors = kp.types.NDArray[vec3, 1]


@dataclasses.dataclass
class Bodies:
    """Where bodies are, how fast, and how heavy."""

    x: Vectors
    v: Vectors
    mass: kp.types.NDArray[kp.f64, 1]
    softening: kp.f64
    dt: kp.f64


@kp.func
def attraction(bodies, i):
    total = vec3(0.0)
    for j in range(bodies.x.shape[0]):
        d = bodies.x[j] - bodies.x[i]
        inverse = 1.0 / kp.sqrt(d.norm_sqr() + bodies.softening**2)
        total += bodies.mass[j] * inverse * inverse * inverse * d
    return total


@kp.kernel
def kick(bodies: Bodies, part: kp.f64):
    for i in bodies.x:
        bodies.v[i] += part * bodies.dt * attraction(bodies, i)


@kp.kernel
def drift(bodies: Bodies):
    for i in bodies.x:
        bodies.x[i] += bodies.dt * bodies.v[i]


@kp.kernel
def energy(bodies: Bodies) -> kp.f64:
    total = kp.f64(0.0)
    for i in bodies.x:
        total += 0.5 * bodies.mass[i] * bodies.v[i].norm_sqr()
        for j in range(i):
            distance = kp.sqrt((bodies.x[i] - bodies.x[j]).norm_sqr() + bodies.softening**2)
            total -= bodies.mass[i] * bodies.mass[j] / distance
    return total


def disc(count: int) -> Bodies:
    """Return bodies that circle around a heavy one."""
    rng = np.random.default_rng(3)
    x, v, mass = (kp.ndarray(kind, count) for kind in (vec3, vec3, kp.f64))
    radius = 0.1 + 0.9 * np.sqrt(rng.random(count))
    angle = 2 * np.pi * rng.random(count)
    at = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.02 * rng.normal(size=count)], 1)
    speed = np.sqrt(1.0 / radius)
    fast = np.stack([-speed * np.sin(angle), speed * np.cos(angle), np.zeros(count)], 1)
    heavy = np.full(count, 0.3 / count)
    at[0], fast[0], heavy[0] = 0, 0, 1.0
    for array, values in ((x, at), (v, fast), (mass, heavy)):
        array.from_numpy(values)
    return Bodies(x, v, mass, 0.02, 0.002)


def run(count: int, steps: int) -> Bodies:
    """Return the bodies after some steps."""
    bodies = disc(count)
    for _ in range(steps):
        kick(bodies, 0.5)
        drift(bodies)
        kick(bodies, 0.5)
    return bodies


if __name__ == "__main__":
    count, steps = (int(argument) for argument in [*sys.argv[1:], "3000", "300"][:2])
    before = energy(disc(count))
    bodies = run(count, steps)
    at = bodies.x.to_numpy()
    picture.write("nbody.png", picture.points(at[:, :2] / 2.6 + 0.5, 400))
    print(f"{steps} steps of {count} bodies: energy {before:.5f} -> {energy(bodies):.5f}; see nbody.png")
