"""The programs under `examples/`, on small sizes, held against what is known of their results."""

from __future__ import annotations

import importlib
import pathlib
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.cpu

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def load(name):
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def test_wave():
    wave = load("wave")
    heights = wave.run(64, 60)
    n = 64
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    f32 = np.float32
    at = lambda x: (x.astype(np.float32) / f32(n)).astype(np.float32)  # noqa: E731
    now = np.exp(-(((at(i) - f32(0.3)) / f32(0.03)) ** 2 + ((at(j) - f32(0.5)) / f32(0.03)) ** 2)).astype(
        np.float32
    )
    before = now.copy()
    y = at(j)
    gap = ((y > f32(0.4)) & (y < f32(0.47))) | ((y > f32(0.53)) & (y < f32(0.6)))
    wall = (at(i) > f32(0.55)) & (at(i) < f32(0.57)) & ~gap
    speed = np.where(wall, 0, 0.25).astype(np.float32)
    for _ in range(60):
        laplacian = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        inner = now[1:-1, 1:-1]
        change = inner - before[1:-1, 1:-1] + speed[1:-1, 1:-1] * laplacian
        before[1:-1, 1:-1] = inner + change * f32(0.9995)
        now, before = before, now
    np.testing.assert_allclose(heights, now, atol=2e-5)
    assert abs(heights).max() > 0.01


def test_splash():
    splash = load("splash")
    water = splash.run(2000, 50, grid=32)
    x, v = water.x.to_numpy(), water.v.to_numpy()
    assert np.isfinite(x).all() and x.min() > 0 and x.max() < 1
    # What is on the grid is what the particles weigh.
    assert water.mass.to_numpy().sum() == pytest.approx(2000 * water.volume, rel=1e-4)
    first = splash.run(2000, 0, grid=32)
    fallen = first.x.to_numpy()[:, 1].mean() - x[:, 1].mean()
    assert fallen > 0.02 and v[:, 1].mean() < -1


def test_nbody():
    nbody = load("nbody")
    start = nbody.disc(200)
    before = nbody.energy(start)
    x, v, mass = start.x.to_numpy(), start.v.to_numpy(), start.mass.to_numpy()
    d = x[None] - x[:, None]
    distance = np.sqrt((d**2).sum(-1) + 0.02**2)
    pairs = np.triu(mass[:, None] * mass[None] / distance, 1).sum()
    assert before == pytest.approx(0.5 * (mass * (v**2).sum(1)).sum() - pairs, rel=1e-12)
    after = nbody.run(200, 50)
    assert nbody.energy(after) == pytest.approx(before, rel=1e-4)
    assert not np.allclose(after.x.to_numpy(), x)


def test_ray_marcher():
    image = load("ray_marcher").run(64)
    assert image.shape == (36, 64, 3)
    # The sky is blue above, the plane is grey below, and the spheres have their colours.
    assert image[0, :, 2].mean() > image[0, :, 0].mean() > 0.4
    assert abs(image[-1, 2:8, 0] - image[-1, 2:8, 2]).max() < 0.2
    assert 0.3 < image.mean() < 0.9 and image.min() >= 0


def test_poisson():
    poisson = load("poisson")
    n = 24
    right = poisson.charges(n)
    solution, steps = poisson.solve(right)
    line = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix = np.kron(line, np.eye(n)) + np.kron(np.eye(n), line)
    np.testing.assert_allclose(solution.ravel(), np.linalg.solve(matrix, right.ravel()), atol=1e-7)
    assert steps < 200


def test_pictures(tmp_path):
    picture = load("picture")
    picture.write(str(tmp_path / "one.png"), picture.coloured(np.arange(12.0).reshape(3, 4)))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_packing():
    packing = load("packing")
    settled, grown = packing.run(150)
    at = settled.at.to_numpy()
    distance = np.sqrt(((at[:, None] - at[None]) ** 2).sum(-1)) + 9 * np.eye(150)
    # None overlap any more, and it took more room than there was, without another kernel.
    assert distance.min() >= settled.width and settled.found[()] == 0
    assert grown >= 1 and settled.pairs.shape[0] > 16
    assert packing.Packing.settle.observations.compiled <= 1
