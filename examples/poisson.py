"""A Poisson equation on a square, solved by conjugate gradients: stencils, dot products, and a loop in Python.

python examples/poisson.py [size]
"""

from __future__ import annotations

import sys

import numpy as np
import picture
import place  # noqa: F401 (it takes `--cuda`)

import keyprint as kp

Grid = kp.types.NDArray[kp.f64, 2]


@kp.func
def at(x: kp.template(), i, j):
    """Return an element, or the zero that is all around."""
    n = x.shape[0]
    return x[i, j] if 0 <= i < n and 0 <= j < n else kp.f64(0.0)


@kp.kernel
def laplace(x: Grid, out: Grid):
    for i, j in x:
        around = at(x, i - 1, j) + at(x, i + 1, j) + at(x, i, j - 1) + at(x, i, j + 1)
        out[i, j] = 4.0 * x[i, j] - around


@kp.kernel
def dot(x: Grid, y: Grid) -> kp.f64:
    total = kp.f64(0.0)
    for i, j in x:
        total += x[i, j] * y[i, j]
    return total


@kp.kernel
def add(x: Grid, factor: kp.f64, y: Grid):
    for i, j in x:
        x[i, j] += factor * y[i, j]


@kp.kernel
def turn(p: Grid, factor: kp.f64, r: Grid):
    for i, j in p:
        p[i, j] = r[i, j] + factor * p[i, j]


def solve(right: np.ndarray, tolerance: float = 1e-8) -> tuple[np.ndarray, int]:
    """Return the solution for a right-hand side, and how many steps it took."""
    n = len(right)
    x, ap = kp.ndarray(kp.f64, (n, n)), kp.ndarray(kp.f64, (n, n))
    r, p = kp.ndarray(kp.f64, (n, n)), kp.ndarray(kp.f64, (n, n))
    for array in (r, p):
        array.from_numpy(right)
    rest = first = dot(r, r)
    steps = 0
    while rest > tolerance**2 * first and steps < 20 * n:
        laplace(p, ap)
        alpha = rest / dot(p, ap)
        add(x, alpha, p)
        add(r, -alpha, ap)
        rest, before = dot(r, r), rest
        turn(p, rest / before, r)
        steps += 1
    return x.to_numpy(), steps


def charges(n: int) -> np.ndarray:
    """Return a right-hand side: a few charges."""
    right = np.zeros((n, n))
    for x, y, charge in ((0.3, 0.3, 1), (0.7, 0.6, -1), (0.5, 0.8, 0.7), (0.2, 0.75, -0.6)):
        right[int(x * n), int(y * n)] = charge
    return right


if __name__ == "__main__":
    n = int([*sys.argv[1:], "512"][0])
    solution, steps = solve(charges(n))
    picture.write("poisson.png", picture.coloured(np.cbrt(solution)))
    print(
        f"{n}x{n} unknowns in {steps} steps; potential from {solution.min():.3f} to {solution.max():.3f}; see poisson.png"
    )
