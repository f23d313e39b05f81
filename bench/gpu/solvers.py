"""The graphs that the benchmarks on a GPU run: small tasks in a row, a loop of three, a solver, many bodies."""

from __future__ import annotations

import keyprint as kp

A = kp.types.NDArray[kp.f32, 1]
Grid = kp.types.NDArray[kp.f32, 2]
Number = kp.types.NDArray[kp.f32, 0]
Count = kp.types.NDArray[kp.i32, 0]

DT, G, RADIUS = 0.001, 9.81, 0.01
ROUNDS = 4


def ten(x: A):
    for i in x:
        x[i] = x[i] * 0.5 + 0.0
    for i in x:
        x[i] = x[i] * 0.5 + 1.0
    for i in x:
        x[i] = x[i] * 0.5 + 2.0
    for i in x:
        x[i] = x[i] * 0.5 + 3.0
    for i in x:
        x[i] = x[i] * 0.5 + 4.0
    for i in x:
        x[i] = x[i] * 0.5 + 5.0
    for i in x:
        x[i] = x[i] * 0.5 + 6.0
    for i in x:
        x[i] = x[i] * 0.5 + 7.0
    for i in x:
        x[i] = x[i] * 0.5 + 8.0
    for i in x:
        x[i] = x[i] * 0.5 + 9.0


def turns(x: A, c: Count):
    while kp.graph.do_while(c):
        for i in x:
            x[i] = x[i] * 0.5 + 1.0
        for i in x:
            x[i] = x[i] * 0.5 + 2.0
        c[None] -= 1


# -- Conjugate gradients on a grid -----------------------------------------------------------------


@kp.func
def product(p: Grid, q: Grid, pq: Number):
    for i, j in p:
        value = 4.0 * p[i, j]
        if i > 0:
            value -= p[i - 1, j]
        if i < p.shape[0] - 1:
            value -= p[i + 1, j]
        if j > 0:
            value -= p[i, j - 1]
        if j < p.shape[1] - 1:
            value -= p[i, j + 1]
        q[i, j] = value
        pq[None] += p[i, j] * value


@kp.func
def step(x: Grid, r: Grid, p: Grid, q: Grid, rr: Number, pq: Number, fresh: Number):
    for i, j in x:
        alpha = rr[None] / pq[None]
        x[i, j] += alpha * p[i, j]
        value = r[i, j] - alpha * q[i, j]
        r[i, j] = value
        fresh[None] += value * value


@kp.func
def direction(r: Grid, p: Grid, rr: Number, fresh: Number):
    for i, j in p:
        p[i, j] = r[i, j] + fresh[None] / rr[None] * p[i, j]


def solve(
    x: Grid, r: Grid, p: Grid, q: Grid, rr: Number, pq: Number, fresh: Number, left: Count, small: kp.f32
):
    while kp.graph.do_while(left):
        product(p, q, pq)
        step(x, r, p, q, rr, pq, fresh)
        direction(r, p, rr, fresh)
        rr[None] = fresh[None]
        pq[None] = 0.0
        fresh[None] = 0.0
        left[None] -= 1
        if rr[None] < small:
            left[None] = 0


@kp.kernel
def product_alone(p: Grid, q: Grid, pq: Number):
    product(p, q, pq)


@kp.kernel
def step_alone(x: Grid, r: Grid, p: Grid, q: Grid, rr: Number, pq: Number, fresh: Number):
    step(x, r, p, q, rr, pq, fresh)


@kp.kernel
def direction_alone(r: Grid, p: Grid, rr: Number, fresh: Number):
    direction(r, p, rr, fresh)


@kp.kernel
def end_alone(rr: Number, pq: Number, fresh: Number, left: Count):
    rr[None] = fresh[None]
    pq[None] = 0.0
    fresh[None] = 0.0
    left[None] -= 1


# -- Many bodies that touch each other -------------------------------------------------------------


@kp.func
def fall(vy: A):
    for i in vy:
        vy[i] -= G * DT


@kp.func
def move(px: A, py: A, vx: A, vy: A):
    for i in px:
        px[i] += DT * vx[i]
        py[i] += DT * vy[i]


@kp.func
def touch(px: A, py: A, dx: A, dy: A):
    for i in px:
        sx = 0.0
        sy = 0.0
        for j in range(px.shape[0]):
            ex = px[i] - px[j]
            ey = py[i] - py[j]
            far = ex * ex + ey * ey
            if far > 0 and far < 4 * RADIUS * RADIUS:
                distance = kp.sqrt(far)
                push = 0.25 * (2 * RADIUS - distance) / distance
                sx += push * ex
                sy += push * ey
        dx[i] = sx
        dy[i] = sy


@kp.func
def apart(px: A, py: A, dx: A, dy: A):
    for i in px:
        px[i] += dx[i]
        py[i] += dy[i]


@kp.func
def push(vx: A, vy: A, dx: A, dy: A):
    for i in vx:
        vx[i] += dx[i] / DT * 0.1
        vy[i] += dy[i] / DT * 0.1


@kp.func
def stand(py: A, vy: A):
    for i in py:
        if py[i] < RADIUS:
            py[i] = RADIUS
            vy[i] = 0.0


def simulate(px: A, py: A, vx: A, vy: A, dx: A, dy: A, steps: Count, rounds: Count):
    while kp.graph.do_while(steps):
        fall(vy)
        move(px, py, vx, vy)
        rounds[None] = ROUNDS
        while kp.graph.do_while(rounds):
            touch(px, py, dx, dy)
            apart(px, py, dx, dy)
            push(vx, vy, dx, dy)
            rounds[None] -= 1
        stand(py, vy)
        steps[None] -= 1


@kp.kernel
def fall_alone(vy: A):
    fall(vy)


@kp.kernel
def move_alone(px: A, py: A, vx: A, vy: A):
    move(px, py, vx, vy)


@kp.kernel
def touch_alone(px: A, py: A, dx: A, dy: A):
    touch(px, py, dx, dy)


@kp.kernel
def apart_alone(px: A, py: A, dx: A, dy: A):
    apart(px, py, dx, dy)


@kp.kernel
def push_alone(vx: A, vy: A, dx: A, dy: A):
    push(vx, vy, dx, dy)


@kp.kernel
def stand_alone(py: A, vy: A):
    stand(py, vy)
