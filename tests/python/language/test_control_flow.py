"""Loops, branches, functions, returns: executed, and compared with what Python does."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp

N = 50


def ran(kernel, *arguments, size=N, dtype=np.int32):
    out = np.zeros(size, dtype)
    kernel(out, *arguments)
    return out.tolist()


Out = kp.types.NDArray[kp.i32, 1]


@kp.kernel
def ranges(out: Out, n: kp.i32):
    for i in range(n):
        out[i] += 1
    for i in range(3, n):
        out[i] += 10
    for i in range(1, n, 4):
        out[i] += 100
    for i in range(n - 1, 2, -3):
        out[i] += 1000
    for i in range(n, 3):
        out[i] += 10000


@pytest.mark.parametrize("n", [0, 1, 2, 5, 17, N])
def test_ranges(n):
    wanted = [0] * N
    for given, add in ((range(n), 1), (range(3, n), 10), (range(1, n, 4), 100), (range(n - 1, 2, -3), 1000)):
        for i in given:
            wanted[i] += add
    assert ran(ranges, n) == [w + (10000 if n <= i < 3 else 0) for i, w in enumerate(wanted)]


@kp.kernel
def inner_loops(out: Out):
    for i in range(out.shape[0]):
        total = 0
        for j in range(i):
            if j == 7:
                continue
            if j > 20:
                break
            total += j
            for k in range(2):
                total += k
        while total > 100:
            total -= 30
            if total % 7 == 0:
                break
        out[i] = total


def test_inner_loops_with_break_and_continue():
    wanted = []
    for i in range(N):
        total = 0
        for j in range(i):
            if j == 7:
                continue
            if j > 20:
                break
            total += j
            for k in range(2):
                total += k
        while total > 100:
            total -= 30
            if total % 7 == 0:
                break
        wanted.append(total)
    assert ran(inner_loops) == wanted


@kp.kernel
def boxes(out: kp.types.NDArray[kp.i32, 3]):
    for i, j, k in kp.ndrange(2, (1, 4), 5):
        out[i, j, k] = 100 * i + 10 * j + k
    for i, j in kp.ndrange((1, 3), 2):
        out[i, j, 0] += 1000
        for a, b in kp.ndrange(3, 3):
            if a == 1 and b == 1:
                break
            out[i, j, 1] += 1


def test_boxes():
    out = np.zeros((3, 4, 5), np.int32)
    boxes(out)
    wanted = np.zeros((3, 4, 5), np.int32)
    for i in range(2):
        for j in range(1, 4):
            for k in range(5):
                wanted[i, j, k] = 100 * i + 10 * j + k
    wanted[1:3, 0:2, 0] += 1000
    wanted[1:3, 0:2, 1] += 4
    assert np.array_equal(out, wanted)


@kp.kernel
def over_arrays(
    x: kp.types.NDArray[kp.f32, 2], y: kp.types.NDArray[kp.f32, 2], z: kp.types.NDArray[kp.f32, 0]
):
    for i, j in x:
        x[i, j] = i * 10 + j
    for I in kp.grouped(x):
        y[I] = x[I] + I[0] + I.y
    for I in kp.grouped(kp.ndrange(2, 2)):
        y[I + 1] += 100
    for I in z:
        z[None] = 7.5


def test_loops_over_arrays():
    x, y, z = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.float32), np.zeros((), np.float32)
    over_arrays(x, y, z)
    i, j = np.meshgrid(np.arange(4), np.arange(5), indexing="ij")
    assert np.array_equal(x, (i * 10 + j).astype(np.float32))
    wanted = x + i + j
    wanted[1:3, 1:3] += 100
    assert np.array_equal(y, wanted)
    assert z == 7.5


@kp.kernel
def branches(out: Out):
    for i in range(out.shape[0]):
        if i < 10:
            kind = 1
        elif i < 20:
            kind = 2
        elif i == 33:
            kind = 3
        else:
            kind = 4
        value = 0
        if kind == 2:
            value = i
            if i % 2:
                value = -i
        out[i] = kind * 100 + value


def test_branches_define_variables():
    wanted = []
    for i in range(N):
        kind = 1 if i < 10 else 2 if i < 20 else 3 if i == 33 else 4
        value = (-i if i % 2 else i) if kind == 2 else 0
        wanted.append(kind * 100 + value)
    assert ran(branches) == wanted


@kp.kernel
def unrolled(out: Out):
    for i in range(10):
        for k in kp.static(range(3)):
            out[i] += k * i
        for name, factor in kp.static([("a", 2), ("b", 3)]):
            if kp.static(name == "b"):
                out[i] += factor * 1000
        for a, b in kp.static(kp.ndrange(2, 2)):
            out[i] += a * 10 + b
        for k in kp.static(range(5)):
            if k == i:
                break
            if k == 1:
                continue
            out[i] += 100000
        if kp.static(out.ndim == 1):
            out[i] += 1


def test_unrolled_loops():
    wanted = []
    for i in range(10):
        value = 3 * i + 3000 + (0 + 1 + 10 + 11) + 1
        for k in range(5):
            if k == i:
                break
            if k == 1:
                continue
            value += 100000
        wanted.append(value)
    assert ran(unrolled, size=10) == wanted


@kp.func
def clamp(x, low: kp.i32, high: kp.i32 = 5):
    if x < low:
        return low
    if x > high:
        return high
    return x


@kp.func
def both(a, b):
    return a + b, a * b


@kp.func
def grows(x: kp.template(), by):
    x += by


@kp.func
def nothing(x):
    x += 1


@kp.func
def first_at_least(limit):
    first = -1
    for k in range(100):
        if k * k >= limit:
            first = k
            break
    return first


@kp.kernel
def calls(out: Out):
    for i in range(out.shape[0]):
        total, product = both(i, 2)
        value = clamp(i, 3) + clamp(i, 1, high=2) + total - product
        grows(value, 10)
        nothing(value)
        out[i] = value + first_at_least(i)


def test_functions_are_inlined():
    wanted = []
    for i in range(N):
        value = min(max(i, 3), 5) + min(max(i, 1), 2) + (i + 2) - i * 2 + 10
        wanted.append(value + next(k for k in range(100) if k * k >= i))
    assert ran(calls) == wanted


@kp.kernel
def evaluation_order(out: Out):
    for i in range(1):
        a = 1
        b = 2
        a, b = b, a
        out[0] = a * 10 + b
        out[1] = 5
        out[2] = out[1] + bump(out)
        out[3] = out[1]
        a, b, c = 1, a, b
        out[4] = a * 100 + b * 10 + c


@kp.func
def bump(x):
    x[1] = 50
    return 1


def test_what_was_read_does_not_change_afterwards():
    assert ran(evaluation_order, size=5) == [21, 50, 6, 50, 121]


@kp.kernel
def short_circuit(out: Out, n: kp.i32):
    for i in range(100):
        if i < n and out[i] == 0:
            out[i] = 1
        if i >= n or out[i] == 1:
            if i < n:
                out[i] += 1


def test_the_second_condition_is_only_looked_at_if_it_matters():
    assert ran(short_circuit, 10, size=10) == [2] * 10


@kp.kernel
def returns_number(x: kp.types.NDArray[kp.f64, 1], limit: kp.f64) -> kp.f64:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    if total > limit:
        return limit
    return total


@kp.kernel
def returns_int(n: kp.i32) -> kp.i64:
    result = kp.i64(1)
    for i in range(n):
        result *= 3
    return result


@kp.kernel
def returns_vector(a: kp.f32) -> kp.types.vector(3, kp.f32):
    return kp.Vector([a, 2 * a, 3 * a])


@kp.kernel
def returns_several(a: kp.i32):
    return a, 2.5, a > 3


@kp.kernel
def returns_unsigned() -> kp.u64:
    return kp.u64(0) - kp.u64(1)


def test_returns():
    x = np.arange(5.0)
    kp.init(default_fp=kp.f64)
    assert returns_number(x, 100.0) == 10.0
    assert returns_number(x, 3) == 3.0
    assert returns_int(20) == 3**20
    assert returns_vector(1.5).to_list() == [1.5, 3.0, 4.5]
    assert returns_several(4) == (4, 2.5, True)
    assert returns_unsigned() == 2**64 - 1


@kp.kernel
def serialized(out: Out) -> kp.i32:
    kp.loop_config(serialize=True)
    for i in range(1, out.shape[0]):
        out[i] = out[i - 1] + i
    last = 0
    kp.loop_config(serialize=True)
    for i in range(out.shape[0]):
        if out[i] > 100:
            break
        last = i
    return last


def test_serialized_loops_run_in_order():
    out = np.zeros(N, np.int32)
    last = serialized(out)
    wanted = np.cumsum(np.arange(N))
    assert out.tolist() == wanted.tolist()
    assert last == int(np.argmax(wanted > 100)) - 1


@kp.kernel
def assigned_loop_variable(out: Out):
    for i in range(10):
        j = i
        i += 5
        out[j] = i
    for i, k in kp.ndrange(2, 3):
        k *= 2
        out[10 + i] += k


def test_a_loop_variable_can_be_assigned():
    assert ran(assigned_loop_variable, size=12) == [*range(5, 15), 6, 6]


@kp.kernel
def while_outside(out: Out) -> kp.i32:
    n = 0
    while n < out.shape[0]:
        out[n] = n * 2
        n += 1
    return n


def test_while_at_the_top():
    out = np.zeros(10, np.int32)
    assert while_outside(out) == 10
    assert out.tolist() == [2 * n for n in range(10)]


@kp.kernel
def parameters_are_copies(out: Out, n: kp.i32):
    n += 1
    for i in range(n):
        out[i] = n


def test_a_parameter_can_be_assigned():
    assert ran(parameters_are_copies, 3, size=5) == [4, 4, 4, 4, 0]


@kp.kernel
def annotated(out: kp.types.NDArray[kp.f64, 1]):
    for i in range(3):
        x: kp.f64 = 0.1
        n: kp.i64 = i
        n = n * 4000000000
        out[i] = x + n


def test_annotated_variables():
    out = np.zeros(3)
    annotated(out)
    assert out.tolist() == [0.1 + i * 4000000000 for i in range(3)]


@kp.kernel
def comprehension(out: Out):
    for i in range(3):
        squares = [k * k for k in range(4) if k != 2]
        out[i] = squares[0] + squares[1] + squares[2] + len(squares)


def test_comprehensions_are_unrolled():
    assert ran(comprehension, size=3) == [0 + 1 + 9 + 3] * 3
