"""What is easily got wrong when programs are lowered: each of these was wrong once."""

from __future__ import annotations

import importlib.util
import threading

import numpy as np
import pytest

import keyprint as kp

Ints = kp.types.NDArray[kp.i32, 1]
Floats = kp.types.NDArray[kp.f32, 1]
vec2 = kp.types.vector(2, kp.f32)
Vectors = kp.types.NDArray[vec2, 1]
Pair = kp.types.struct(m=kp.f32, p=vec2)
PAIRS = Pair.field(3)


def ints(*values):
    return np.array(values, np.int32)


@kp.kernel
def swap_elements(x: Vectors):
    x[0], x[1] = x[1], x[0]


@kp.kernel
def swap_variables(x: Vectors):
    a, b, c = x[0], x[1], x[2]
    a, b, c = b, c, a
    x[0], x[1], x[2] = a, b, c


@kp.kernel
def swap_structs():
    PAIRS[1], PAIRS[2] = PAIRS[2], PAIRS[1]


@kp.kernel
def kept_in_a_tuple() -> kp.f32:
    v = kp.Vector([1.0, 2.0])
    t = (v, 1)
    v[0] = 9.0
    return t[0][0]


def test_exchanging_vectors_copies_them():
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    swap_elements(x)
    assert x.tolist() == [[3, 4], [1, 2], [5, 6]]
    swap_variables(x)
    assert x.tolist() == [[1, 2], [5, 6], [3, 4]]
    PAIRS[1], PAIRS[2] = Pair(1, [2, 3]), Pair(4, [5, 6])
    swap_structs()
    assert PAIRS[1].to_dict()["m"] == 4 and PAIRS[1].p.to_list() == [5, 6] and PAIRS[2].p.to_list() == [2, 3]
    assert kept_in_a_tuple() == 1.0


@kp.kernel
def sum_of_vectors(x: Vectors) -> kp.types.vector(2, kp.f64):
    s = kp.Vector([0.0, 0.0], kp.f64)
    for i in x:
        s += kp.cast(x[i], kp.f64)
    return s


@kp.kernel
def histogram(x: Ints) -> kp.types.vector(4, kp.i32):
    h = kp.Vector.zero(kp.i32, 4)
    for i in x:
        h[x[i]] += 1
    return h


@kp.kernel
def atomic_lane(x: Ints) -> kp.i32:
    s = kp.Vector([0, 0])
    for i in x:
        kp.atomic_add(s[1], x[i])
    return s[1]


def test_vectors_that_iterations_share():
    n = 1_000_000
    assert sum_of_vectors(np.ones((n, 2), np.float32)).to_list() == [n, n]
    x = np.arange(n, dtype=np.int32) % 4
    assert histogram(x).to_list() == [n // 4] * 4
    assert atomic_lane(np.ones(n, np.int32)) == n


@kp.kernel
def ping_pong(a: Ints, b: Ints):
    src, dst = a, b
    s = 0
    while s < 3:
        for i in range(2):
            dst[i] = src[i] + 1
        src, dst = dst, src
        s += 1


@kp.kernel
def static_ping_pong(a: Ints, b: Ints):
    src, dst = a, b
    for _ in kp.static(range(3)):
        for i in range(2):
            dst[i] = src[i] + 1
        src, dst = dst, src


@kp.kernel
def a_name_of_its_own_in_each_iteration(a: Ints, b: Ints):
    u = a
    for i in range(2):
        u = b
        u[i] = 5
    a[0] = 7


def test_names_of_arrays_in_loops():
    with pytest.raises(
        kp.KernelNameError, match="`src` stands for another thing in each iteration"
    ) as caught:
        ping_pong(ints(0, 0), ints(0, 0))
    assert caught.value.code == "undefined"
    a, b = ints(0, 0), ints(0, 0)
    static_ping_pong(a, b)
    assert (a.tolist(), b.tolist()) == ([2, 2], [3, 3])
    a_name_of_its_own_in_each_iteration(a, b)
    assert (a.tolist(), b.tolist()) == ([7, 2], [5, 5])


@kp.kernel
def left_unrolled(c: kp.i32) -> kp.i32:
    last = -1
    for i in kp.static(range(5)):
        if i == c:
            break
        last = i
    return last


@kp.kernel
def target_after_leaving(c: kp.i32) -> kp.i32:
    for i in kp.static(range(5)):
        if i == c:
            break
    return i


@kp.kernel
def number_known_before_a_branch(c: kp.i32) -> kp.i32:
    x = kp.static(3)
    if c > 0:
        x += 1
    return x


def test_unrolled_loops_that_are_left():
    assert [left_unrolled(c) for c in (0, 2, 9)] == [-1, 1, 4]
    with pytest.raises(kp.KernelNameError):
        target_after_leaving(2)
    assert [number_known_before_a_branch(c) for c in (0, 1)] == [3, 4]


@kp.func
def increase(x: kp.template()):
    x += 1


@kp.func
def first_to_nine(v: kp.template()):
    v[0] = 9.0


@kp.func
def changes_a_copy(v):
    v[0] = 100.0
    v.y += 1.0
    return v


@kp.func
def changes_a_struct(s):
    s.m += 5.0
    s.p.x = 2.0
    return s.m + s.p.x


@kp.func
def changes_the_struct(s: kp.template()):
    s.m += 5.0
    s.p.x = 2.0


@kp.dataclass
class Counter:
    n: kp.i32

    @kp.func
    def count(self):
        self.n += 1
        return self.n


@kp.kernel
def references(o: Ints, x: Vectors):
    increase(o[0])
    increase(o[1])
    v = kp.Vector([1.0, 2.0])
    first_to_nine(v)
    first_to_nine(x[0])
    w = changes_a_copy(v)
    x[1] = kp.Vector([v.x, w.x + w.y])
    s = Pair(1.0, kp.Vector([1.0, 1.0]))
    o[2] = int(changes_a_struct(s))
    o[3] = int(s.m)
    changes_the_struct(s)
    o[4] = int(s.m + s.p.x)
    c = Counter(5)
    c.count()
    o[5] = c.count() + c.n


def test_parameters_by_reference_and_by_value():
    o, x = ints(0, 10, 0, 0, 0, 0), np.zeros((2, 2), np.float32)
    references(o, x)
    assert o.tolist() == [1, 11, 8, 1, 8, 14]
    assert x.tolist() == [[9, 0], [9, 103]]


@kp.kernel
def float_into_ints(o: Ints):
    for i in range(2):
        o[i] *= 0.5


def test_floats_do_not_change_ints_atomically():
    with pytest.raises(kp.KernelTypeError, match="cannot be changed atomically by a `f32`"):
        float_into_ints(ints(10, 10))


@kp.kernel
def unsigned(n: kp.u32, m: kp.u64, k: kp.i64, o: Ints):
    kp.loop_config(serialize=True)
    for i in range(n - 1, -1, -1):
        o[0] += 1
        o[1] = int(i)
    kp.loop_config(serialize=True)
    for i in range(-1, n):
        o[2] += 1
    o[3] = n > -1
    o[4] = m >= -5
    o[5] = k < m
    o[6] = m > k
    o[7] = k == m
    o[8] = -1 < n  # noqa: SIM300
    o[9] = kp.i32(-1) < n


def test_unsigned_numbers_meet_negative_ones():
    o = np.zeros(10, np.int32)
    unsigned(5, 2**63 + 5, -3, o)
    assert o.tolist() == [5, 0, 6, 1, 1, 1, 1, 0, 1, 1]


@kp.kernel
def many_steps(a: kp.i32, b: kp.i32) -> kp.i64:
    count = kp.i64(0)
    for _ in range(a, b, 1 << 12):
        count += 1
    return count


def test_steps_over_the_whole_range():
    assert many_steps(-(2**31), 2**31 - 1) == len(range(-(2**31), 2**31 - 1, 1 << 12))


@kp.kernel
def constants(o: kp.types.NDArray[kp.f64, 1]):
    o[0] = 1.0 // 0.1
    o[1] = -7.5 // 2.0
    o[2] = 0x0FFFFFFF << 4
    o[3] = 1 << 40


def test_constants_are_those_of_python():
    o = np.zeros(4)
    constants(o)
    assert o.tolist() == [1.0 // 0.1, -7.5 // 2.0, 0x0FFFFFFF << 4, 1 << 40]


@kp.func
def following(o):
    o[0] += 1
    return o[0]


@kp.kernel
def chained(o: Ints):
    o[1] = 1 if 5 < following(o) < following(o) else 0
    o[2] = 1 if 0 < following(o) < following(o) < 10 else 0


def test_chained_comparisons_stop_early():
    o = ints(0, 0, 0)
    chained(o)
    assert o.tolist() == [3, 0, 1]


@kp.func
def returns_in_a_loop(o):
    for i in range(8):
        if i > 3:
            return
        o[i] = 1


@kp.kernel
def returns_outermost(o: Ints):
    returns_in_a_loop(o)


@kp.kernel
def returns_inside(o: Ints):
    for _ in range(1):
        returns_in_a_loop(o)


def test_returning_from_loops_of_functions():
    with pytest.raises(kp.KernelSyntaxError, match="a parallel loop cannot return"):
        returns_outermost(np.zeros(8, np.int32))
    o = np.zeros(8, np.int32)
    returns_inside(o)
    assert o.tolist() == [1] * 4 + [0] * 4


@kp.func
def two_tuples(n):
    if n > 0:
        return 1.5, 2
    return 3.5, 4


@kp.func
def vectors_and_numbers(n):
    if n > 0:
        return kp.Vector([1.0, 2.0]), 1
    return kp.Vector([3.0, 4.0]), 2


@kp.func
def early_struct(n):
    s = Pair(m=1.0, p=kp.Vector([1.0, 2.0]))
    if n > 0:
        s.p.x = 7.0
        return s
    return s


@kp.func
def until(n):
    k = 0
    while True:
        k += 3
        if k > n:
            return k


@kp.func
def other_types(n):
    if n > 0:
        return 1
    return 2.5


@kp.kernel
def results(o: Floats, n: kp.i32):
    a, b = two_tuples(n)
    v, c = vectors_and_numbers(n)
    s = early_struct(n)
    o[0], o[1], o[2], o[3], o[4], o[5] = a, b, v.y, c, s.p.x, s.m
    o[6] = until(n)


@kp.kernel
def result_of_other_types(n: kp.i32) -> kp.f32:
    return other_types(n)


def test_results_of_functions():
    o = np.zeros(7, np.float32)
    results(o, 1)
    assert o.tolist() == [1.5, 2, 2, 1, 7, 1, 3]
    results(o, 0)
    assert o.tolist() == [3.5, 4, 4, 2, 1, 1, 3]
    # All returns have their common type.
    assert [result_of_other_types(n) for n in (1, 0)] == [other_types(n) for n in (1, 0)]


class Optional:
    def __init__(self, n):
        self.n = n


@kp.kernel
def asks(ob: kp.template()) -> kp.i32:
    r = 0
    if ob.n is None:
        r = 1
    return r


def test_members_of_which_only_the_type_is_asked():
    assert [asks(Optional(n)) for n in (None, 3, 2.5, Optional(1))] == [1, 0, 0, 0]


@kp.kernel
def walrus(c: kp.i32) -> kp.i32:
    z = 0
    if c > 5 and (z := c + 1) > 2:
        z += 100
    return z


@kp.kernel
def walrus_on_one_way(c: kp.i32) -> kp.i32:
    r = 0
    if c > 5 and (y := c + 1) > 2:
        r = y  # noqa: F841
    return y


@kp.kernel
def returns_on_one_way(c: kp.i32) -> kp.i32:
    if c > 5:
        return 1


def test_values_on_some_ways_only():
    assert [walrus(c) for c in (1, 6)] == [0, 107]
    for kernel in (walrus_on_one_way, returns_on_one_way):
        with pytest.raises(kp.KernelError):
            kernel(1)


@kp.kernel
def choices(c: kp.i32, o: Ints):
    a, b = (1, 2) if c > 0 else (3, 4)
    m = kp.Matrix([[1, 2], [3, 4]])
    m[0][1] = 7
    m[1] = kp.Vector([8, 9])
    o[0], o[1], o[2], o[3] = a, b, m[0, 1], m[1, 0]


def test_tuples_can_be_chosen_and_rows_assigned():
    o = np.zeros(4, np.int32)
    choices(0, o)
    assert o.tolist() == [3, 4, 7, 8]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (" + ".join(["a"] * 300), 600),
        ("-" * 600 + "a", 2),
        ("abs(" * 80 + "a" + ")" * 80, 2),
        ("1 if a < 0 else " * 80 + "a", 2),
    ],
)
def test_deep_expressions_on_a_small_stack(expression, wanted, tmp_path):
    path = tmp_path / "deep.py"
    path.write_text(
        f"import keyprint as kp\n\n\n@kp.kernel\ndef k(a: kp.i32) -> kp.i32:\n    return {expression}\n"
    )
    spec = importlib.util.spec_from_file_location("deep", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    returned = []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: returned.append(module.k(2)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert returned == [wanted]


@kp.func
def with_effects(s):
    t = s
    t += 1.0
    return t


@kp.func
def add_to_first(a: kp.template(), s):
    a[0] += s


@kp.func
def set_it(a: kp.template(), s):
    a = s  # noqa: F841


@kp.kernel
def references_before_effects(y: Vectors, o: Floats):
    v = kp.Vector([0.0, 0.0])
    add_to_first(v, with_effects(1.0))
    add_to_first(s=with_effects(1.0), a=v)
    add_to_first(y[1], with_effects(1.0))
    n = 0.0
    set_it(n, with_effects(4.0))
    o[0], o[1] = v[0], n


def test_references_stay_while_later_arguments_are_computed():
    y, o = np.zeros((2, 2), np.float32), np.zeros(2, np.float32)
    references_before_effects(y, o)
    assert (o.tolist(), y.tolist()) == ([4, 5], [[0, 0], [2, 0]])


def test_truth_values_of_numpy_are_numbers():
    assert number_known_before_a_branch(np.bool_(True)) == 4
