"""What graphs cost: ten small tasks, a turn of a loop by each way and size, a solver, many bodies."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import solvers
from table import Table, optional

import keyprint as kp

WAYS = ("block", "grid", "nodes", "host")
FLOORS = ("block", "grid", "nodes")

#: Ten tasks by hand: as a graph with the arrays it was made with, with others, and as one kernel.
TEN = ("graph, same arrays", "graph, other arrays", "one kernel, other arrays")

#: Elements, and turns that are timed together.
SIZES = {16: 1000, 1024: 1000, 16_384: 1000, 1 << 20: 100, 1 << 24: 20}

#: Launches between two waits: fewer than a device queues.
BATCH = 100

#: What libraries are called.
LIBRARIES = {"cupy": "CuPy", "torch": "torch"}

HERE = Path(__file__).resolve().parent


def median_us(call: Callable[[], Any], repeats: int) -> float:
    """Return the microseconds of a call and a wait."""
    samples = []
    for at in range(repeats + 1):
        begun = time.perf_counter()
        call()
        kp.sync()
        if at:
            samples.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(samples)


def measure(table: Table, floor: Any) -> dict[str, dict[int, float]]:
    """Fill the table; return microseconds of a turn, by size, for a plot."""
    others = quadrants()
    ten_tasks(table, floor, others)
    lines = turns(table, floor, others)
    solver(table, floor)
    bodies(table, floor)
    return lines


def quadrants() -> dict[str, float]:
    """Return what Quadrants takes, by its own interpreter; nothing where it is not installed."""
    python = HERE.parent / ".venv-quadrants" / "bin" / "python"
    if not python.exists():
        print("(quadrants is not here)")
        return {}
    sizes = [f"{n}:{min(most, 100)}" for n, most in SIZES.items()]
    done = subprocess.run(
        [python, HERE / "quadrants_graphs.py", str(BATCH), *sizes],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print("(quadrants failed:", *done.stderr.strip().splitlines()[-1:], ")")
        return {}
    results: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return results


# -- Ten small tasks -------------------------------------------------------------------------------


def ten_tasks(table: Table, floor: Any, others: dict[str, float]) -> None:
    n = 16
    arrays = [kp.ndarray(kp.f32, n, device="cuda") for _ in range(4)]
    ways = {"as chosen": True, "`nodes`": "nodes", "`block`": "block"}
    kernels = {name: kp.kernel(graph=way)(solvers.ten) for name, way in ways.items()}
    for kernel in kernels.values():
        kernel(arrays[0])
    kp.sync()
    submits: dict[str, list[float]] = {name: [] for name in kernels}
    floors: list[list[float]] = [[] for _ in TEN]
    for _ in range(60):
        for way, samples in enumerate(floors):
            samples.append(floor.graph_of_ten_us(way, n, 1, BATCH))
        for name, kernel in kernels.items():
            begun = time.perf_counter()
            for _ in range(BATCH // 4):
                for array in arrays:
                    kernel(array)
            submits[name].append((time.perf_counter() - begun) * 1e6 / BATCH)
            kp.sync()
    what = "ten tasks, other arrays, submit"
    lowest = statistics.median(floors[0])
    for name, samples in zip(TEN, floors, strict=True):
        table.add(what, f"CUDA C, {name}", statistics.median(samples), "us", lowest)
    for name, samples in submits.items():
        table.add(what, f"Keyprint, {name}", statistics.median(samples), "us", lowest)
    if others:
        table.add(what, "Quadrants", others["ten tasks, submit"], "us", lowest)
    what = "ten tasks, other arrays, and wait"
    waits = [floor.graph_of_ten_and_wait_us(way, n, 300) for way in range(len(TEN))]
    lowest = waits[0]
    for name, taken in zip(TEN, waits, strict=True):
        table.add(what, f"CUDA C, {name}", taken, "us", lowest)
    for name, kernel in kernels.items():
        count = iter(range(1 << 30))
        taken = median_us(lambda kernel=kernel, count=count: kernel(arrays[next(count) % 4]), 300)
        table.add(what, f"Keyprint, {name}", taken, "us", lowest)
    if others:
        table.add(what, "Quadrants", others["ten tasks, wait"], "us", lowest)


# -- A turn of three tasks -------------------------------------------------------------------------


def turn_us(launch: Callable[[int], None], begin: Callable[[int], None], turns: int) -> float:
    """Return the microseconds of a turn: of many, less those of one. ``begin`` prepares a launch of so many turns."""

    def run(count: int) -> float:
        samples = []
        for at in range(6):
            begin(count)
            kp.sync()
            begun = time.perf_counter()
            launch(count)
            kp.sync()
            if at:
                samples.append((time.perf_counter() - begun) * 1e6)
        return statistics.median(samples)

    return (run(turns + 1) - run(1)) / turns


def turns(table: Table, floor: Any, others: dict[str, float]) -> dict[str, dict[int, float]]:
    ways = {"as chosen": True, **{f"`{way}`": way for way in WAYS}}
    kernels = {name: kp.kernel(graph=way)(solvers.turns) for name, way in ways.items()}
    lines: dict[str, dict[int, float]] = {}
    for n, most in SIZES.items():
        taken = turns_of(table, floor, kernels, n, most)
        if others:
            taken["Quadrants"] = others[f"a turn, {n}"]
            lowest = min(taken[f"CUDA C, {way}"] for way in FLOORS)
            table.add(f"a turn of three tasks, {n:,}", "Quadrants", taken["Quadrants"], "us", lowest)
        for name, us in taken.items():
            lines.setdefault(name, {})[n] = us
    return lines


def turns_of(table: Table, floor: Any, kernels: dict[str, Any], n: int, most: int) -> dict[str, float]:
    x, counter = kp.ndarray(kp.f32, n, device="cuda"), kp.ndarray(kp.i32, (), device="cuda")
    what = f"a turn of three tasks, {n:,}"

    def count_of(way: str) -> int:
        # One block takes long for many elements.
        count = most if way != "block" or n < 1 << 18 else 4
        return count if way != "host" else min(count, 100)

    taken = {f"CUDA C, {way}": floor.turn_us(at, n, count_of(way), 5) for at, way in enumerate(FLOORS)}
    lowest = min(taken.values())
    for name, us in taken.items():
        table.add(what, name, us, "us", lowest)
    for name, kernel in kernels.items():
        way = name.strip("`")
        us = turn_us(lambda _, kernel=kernel: kernel(x, counter), counter.fill, count_of(way))
        shown = f"as chosen (`{kernel.graph().launch.way}`)" if way == "as chosen" else name
        table.add(what, f"Keyprint, {shown}", us, "us", lowest)
        taken[f"Keyprint, {way}"] = us
    return taken


# -- Conjugate gradients on a grid -----------------------------------------------------------------


def solver(table: Table, floor: Any) -> None:
    solve = kp.kernel(graph=True)(solvers.solve)
    for n, most in {64: 100, 256: 100, 1024: 50, 4096: 20}.items():
        solver_on(table, floor, solve, n, most)


def solver_on(table: Table, floor: Any, solve: Any, n: int, most: int) -> None:
    """Measure turns on a grid of n times n."""
    what = f"conjugate gradients, {n}^2, a turn"
    ways = ("launches", "graph", "grid")
    by_hand = {name: floor.solver_us(at, n, most, 5) for at, name in enumerate(ways)}
    lowest = min(by_hand.values())
    for name, taken in by_hand.items():
        table.add(what, f"CUDA C, {name}", taken, "us", lowest)
    x, r, p, q = (kp.ndarray(kp.f32, (n, n), device="cuda") for _ in range(4))
    rr, pq, fresh = (kp.ndarray(kp.f32, (), device="cuda") for _ in range(3))
    left = kp.ndarray(kp.i32, (), device="cuda")

    def begin(turns: int) -> None:
        for array, value in ((x, 0), (r, 1), (p, 1), (pq, 0), (fresh, 0), (rr, n * n), (left, turns)):
            array.fill(value)

    taken = turn_us(lambda _: solve(x, r, p, q, rr, pq, fresh, left, 0.0), begin, most)
    way = solve.graph().launch.way
    if n == 64:
        begin(2000)
        check_solution(solve, (x, r, p, q, rr, pq, fresh, left))
    table.add(what, f"Keyprint, one graph (`{way}`)", taken, "us", lowest)

    def launches() -> None:
        for _ in range(most):
            solvers.product_alone(p, q, pq)
            solvers.step_alone(x, r, p, q, rr, pq, fresh)
            solvers.direction_alone(r, p, rr, fresh)
            solvers.end_alone(rr, pq, fresh, left)

    begin(0)
    table.add(what, "Keyprint, a launch for each task", median_us(launches, 5) / most, "us", lowest)
    for name in ("cupy", "torch"):
        library = optional(name)
        if library is not None:
            table.add(what, LIBRARIES[name], solver_of(library, n, most), "us", lowest)


def check_solution(solve: Any, arrays: Any) -> None:
    """Solve a system, and see that it is solved."""
    x, r, p, q, rr, pq, fresh, left = arrays
    solve(x, r, p, q, rr, pq, fresh, left, 1e-3)
    values = np.pad(x.to_numpy().astype(np.float64), 1)
    around = values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:]
    residual = np.abs(1 - (4 * values[1:-1, 1:-1] - around)).max()
    assert residual < 0.02 and left.to_numpy() == 0, residual


def solver_of(library: Any, n: int, most: int) -> float:
    """Return the microseconds of a turn by operations of a library, which wait for nothing."""
    where = {"device": "cuda"} if library.__name__ == "torch" else {}
    x, q = library.zeros((n, n), **where), library.zeros((n, n), **where)
    r, p = library.ones((n, n), **where), library.ones((n, n), **where)

    def run() -> None:
        nonlocal x, r, p
        rr = (r * r).sum()
        for _ in range(most):
            q[:] = 4 * p
            q[1:] -= p[:-1]
            q[:-1] -= p[1:]
            q[:, 1:] -= p[:, :-1]
            q[:, :-1] -= p[:, 1:]
            alpha = rr / (p * q).sum()
            x += alpha * p
            r -= alpha * q
            fresh = (r * r).sum()
            p = r + fresh / rr * p
            rr = fresh

    return timed(library, run) / most


def timed(library: Any, run: Callable[[], None]) -> float:
    wait = library.cuda.synchronize if library.__name__ == "torch" else library.cuda.runtime.deviceSynchronize
    run(), wait()
    samples = []
    for _ in range(5):
        begun = time.perf_counter()
        run()
        wait()
        samples.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(samples)


# -- Many bodies that touch each other -------------------------------------------------------------


def bodies(table: Table, floor: Any) -> None:
    simulate = kp.kernel(graph=True)(solvers.simulate)
    for n in (64, 256, 1024):
        so_many_bodies(table, floor, simulate, n, 100)


def so_many_bodies(table: Table, floor: Any, simulate: Any, n: int, steps: int) -> None:
    what = f"{n} bodies, a step of 15 tasks"
    lowest = floor.bodies_us(n, steps, 5)
    table.add(what, "CUDA C, launches", lowest, "us", lowest)
    px, py, vx, vy, dx, dy = (kp.ndarray(kp.f32, n, device="cuda") for _ in range(6))
    left, rounds = (kp.ndarray(kp.i32, (), device="cuda") for _ in range(2))
    at = np.arange(n)
    places = (0.015 * (at % 16)).astype(np.float32), (0.015 * (at // 16) + 0.01).astype(np.float32)

    def begin() -> None:
        px.from_numpy(places[0]), py.from_numpy(places[1]), vx.fill(0), vy.fill(0)

    samples = []
    for _ in range(6):
        begin()
        left.fill(steps)
        kp.sync()
        begun = time.perf_counter()
        simulate(px, py, vx, vy, dx, dy, left, rounds)
        kp.sync()
        samples.append((time.perf_counter() - begun) * 1e6)
    way = simulate.graph().launch.way
    table.add(what, f"Keyprint, one graph (`{way}`)", statistics.median(samples[1:]) / steps, "us", lowest)
    ends = px.to_numpy(), py.to_numpy()

    def launches() -> None:
        for _ in range(steps):
            solvers.fall_alone(vy)
            solvers.move_alone(px, py, vx, vy)
            for _ in range(solvers.ROUNDS):
                solvers.touch_alone(px, py, dx, dy)
                solvers.apart_alone(px, py, dx, dy)
                solvers.push_alone(vx, vy, dx, dy)
            solvers.stand_alone(py, vy)

    begin()
    launches()
    for mine, alone in zip(ends, (px, py), strict=True):
        assert np.array_equal(mine, alone.to_numpy())
    table.add(what, "Keyprint, a launch for each task", median_us(launches, 5) / steps, "us", lowest)
    for name in ("cupy", "torch"):
        library = optional(name)
        if library is not None:
            table.add(what, LIBRARIES[name], bodies_of(library, places, steps), "us", lowest)


def bodies_of(library: Any, places: tuple[Any, Any], steps: int) -> float:
    """Return the microseconds of a step by operations of a library."""
    is_torch = library.__name__ == "torch"
    place = (lambda array: library.from_numpy(array).cuda()) if is_torch else library.asarray
    px, py = (place(array.copy()) for array in places)
    vx, vy = library.zeros_like(px), library.zeros_like(px)
    zero = library.zeros_like(px[:, None] - px[None, :])
    dt, radius = solvers.DT, solvers.RADIUS

    def run() -> None:
        for _ in range(steps):
            vy.__isub__(solvers.G * dt)
            px.__iadd__(dt * vx), py.__iadd__(dt * vy)
            for _ in range(solvers.ROUNDS):
                ex, ey = px[:, None] - px[None, :], py[:, None] - py[None, :]
                far = ex * ex + ey * ey
                distance = library.sqrt(far)
                near = (far > 0) & (far < 4 * radius * radius)
                push = library.where(near, 0.25 * (2 * radius - distance) / distance, zero)
                dx, dy = (push * ex).sum(1), (push * ey).sum(1)
                px.__iadd__(dx), py.__iadd__(dy)
                vx.__iadd__(dx / dt * 0.1), vy.__iadd__(dy / dt * 0.1)
            low = py < radius
            vy[low], py[low] = 0.0, radius

    return timed(library, run) / steps
