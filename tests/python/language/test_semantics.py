"""Programs mean what `docs/semantics.md` says: its examples, and random programs judged by an interpreter of it.

``make fuzz-kernels`` judges as many as one likes.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import keyprint as kp
from semantics import loops, model
from semantics.judge import MODES, Mode, judge, make, report

ROOT = Path(__file__).parent.parent.parent.parent

N = kp.types.NDArray
YES = True


# -- Random programs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "batches"),
    [
        *(("plain", 10), ("serial", 2), ("debug", 3), ("contract", 1), ("fast math", 1)),
        *(("graph", 1), ("checkpoints", 2)),
    ],
)
def test_random_programs(mode: str, batches: int, tmp_path: Path) -> None:
    for seed in range(batches):
        difference = judge(make(seed, 20, 8, MODES[mode]), MODES[mode], tmp_path, f"batch{seed}")
        assert difference is None, report(*difference)


def test_random_loops(tmp_path: Path) -> None:
    for seed in range(40):
        difference = loops.judge(seed, tmp_path)
        assert difference is None, difference


def test_the_judge_of_loops_sees_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loops._CHANGES, "max", "{0} = max({0}, {1}) + 1")
    assert any("differ" in (loops.judge(seed, tmp_path) or "") for seed in range(40))


def test_the_judge_sees_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "shift", lambda op, kind, x, count: 1)
    batch = next(
        batch
        for batch in (make(seed, 20, 4, Mode("plain")) for seed in range(20))
        if any("<<" in program.text.split("OI[")[0] for program in batch.programs)
    )
    difference = judge(batch, MODES["plain"], tmp_path, "wrong")
    assert difference is not None and len(difference[0].programs) == 1 and len(difference[0].rows) == 1


def test_the_table_of_types_is_the_models() -> None:
    page = (ROOT / "docs" / "semantics.md").read_text()
    text = re.search(r"<!-- types -->(.*?)<!-- end -->", page, re.DOTALL).group(1)
    head, _, *rows = text.strip().splitlines()
    columns = re.findall(r"`(\w+)`", head)
    for row in rows:
        first, *promoted = re.findall(r"`(\w+)`", row)
        assert promoted == [model.promote(first, other) for other in columns]


# -- What each rule is for -------------------------------------------------------------------------


@kp.kernel
def subtracts(x: N[kp.i64, 1], y: N[kp.u32, 1], z: N[kp.i64, 1]):
    for i in x:
        x[i] -= y[i]
    s = kp.i64(0)
    for i in y:
        s -= y[i]
    for i in y:
        kp.atomic_sub(z[0], y[i])
    z[1] = s


def test_what_is_taken_away_is_converted_first():
    x, y, z = np.zeros(5, np.int64), np.ones(5, np.uint32), np.zeros(2, np.int64)
    subtracts(x, y, z)
    assert x.tolist() == [-1] * 5 and z.tolist() == [-5, -5]


@kp.kernel
def changes(f: N[kp.f32, 1], b: N[kp.bool, 1], u: N[kp.u8, 1], x: kp.f64, n: kp.i32):
    for i in range(1):
        f[0] += x
        kp.atomic_max(u[0], n)
        kp.atomic_min(u[1], n)
        b[0] -= YES


def test_changes_are_done_in_the_common_type():
    f, b, u = np.array([16777216], np.float32), np.array([True]), np.array([200, 200], np.uint8)
    changes(f, b, u, 1.5, 300)
    # In single precision, 1.5 would have been rounded away.
    assert f[0] == np.float32(16777216.0 + 1.5)
    assert not b[0]
    assert u.tolist() == [300 % 256, 200]


@kp.kernel
def operators(o: N[kp.f64, 1], a: kp.u32, b: kp.i32, c: kp.u8, d: kp.i8, e: kp.u32, m: kp.i64):
    o[0] = a / b
    o[1] = b >> e
    o[2] = min(c, d)
    o[3] = max(c, d)
    o[4] = c << m
    o[5] = kp.u64(1) > d
    o[6] = (c + 0) << 33


def test_division_shifts_and_orders_of_mixed_signs():
    o = np.zeros(7)
    operators(o, 6, -8, 200, -1, 1, 9)
    assert o.tolist() == [-0.75, -4, -1, 200, 0, 1, 0]


@kp.kernel
def logic(o: N[kp.f64, 1], n: kp.i32, x: kp.f64, z: kp.i32):
    o[0] = n or 3
    o[1] = z or 3
    o[2] = n and x
    o[3] = z and x
    o[4] = z or x or 7
    if n and x:
        o[5] = 1
    o[6] = (n and o[0] > 4) + 1


def test_and_and_or_give_an_operand():
    o = np.zeros(7)
    logic(o, 5, 0.5, 0)
    assert o.tolist() == [5, 3, 0.5, 0, 0.5, 1, 2]


@kp.func
def some(n):
    if n > 2:
        return 1
    if n > 1:
        return kp.i64(1) << 40
    return 2.5


@kp.kernel
def branches(o: N[kp.f64, 1], n: kp.i32, u: kp.u16):
    if n > 0:
        d = 1
    else:
        d = 2.5
    o[0] = d / 2 + d
    if n > 3:
        v = kp.Vector([1, 2])
    elif n > 2:
        v = kp.Vector([0.5, 1])
    else:
        v = kp.Vector([kp.u8(7), kp.u8(8)])
    o[1] = v[0]
    o[2] = 5 if u > -1 else 2.5
    # The type is that of both, also where the compiler knows better: 7 // 2 of floats.
    o[3] = (7 if u > -1 else 2.5) / 2
    o[4] = 1 // ((u > -1) + (u < -1))
    if YES:
        w = 16777217
    else:
        w = 0.5
    o[5] = w
    o[6] = 16777217 if YES else 0.5
    o[7] = 16777217 if kp.static(YES) else 0.5
    o[8] = some(n)
    if n > 5:
        late = 1
    late = 2.5
    o[9] = late


def test_types_are_those_of_all_branches():
    o = np.zeros(10)
    branches(o, 0, 7)
    assert o.tolist() == [3.75, 7, 5, 3.5, 1, 16777216, 16777217, 16777217, 2.5, 2.5]
    branches(o, 3, 7)
    assert o[:2].tolist() == [1.5, 0.5] and o[8] == 1
    branches(o, 2, 7)
    assert o[8] == 2**40


@kp.kernel
def unclear(n: kp.i32) -> kp.i32:
    if n > 0:
        d = 1
    return d


def test_a_variable_that_one_branch_sets():
    with pytest.raises(kp.KernelNameError, match="may not have been assigned"):
        unclear(1)


@kp.kernel
def zeros(o: N[kp.f64, 1], x: N[kp.f64, 1], n: N[kp.i32, 1]):
    for i in x:
        o[i] = 1.0 / int(x[i])
    for i in range(4):
        o[8 + i] = 0.0 - kp.f64(n[i])
    o[12] = kp.f64(kp.f32(x[1]))
    o[13] = kp.f64(kp.f32(x[2]))


def test_there_is_no_negative_zero_among_ints():
    x = np.array([-0.5] + [-0.1] * 7)
    o, n = np.zeros(14), np.zeros(4, np.int32)
    zeros(o, x, n)
    assert o[:8].tolist() == [np.inf] * 8
    assert not np.signbit(o[8:12]).any()
    assert o[12:].tolist() == [float(np.float32(-0.1))] * 2


@kp.kernel
def smallest(o: N[kp.i64, 1], a: N[kp.i8, 1], b: N[kp.i16, 1], c: N[kp.i32, 1], d: N[kp.i64, 1]):
    for i in a:
        o[0] -= kp.select(abs(a[i]) >= 0.5, 3, 0)
        o[1] -= kp.select(abs(b[i]) >= 0.5, 3, 0)
        o[2] -= kp.select(abs(c[i]) >= 0.5, 3, 0)
        o[3] -= kp.select(abs(d[i]) >= 0.5, 3, 0)


def test_the_absolute_value_of_the_smallest_is_itself():
    given = [np.array([np.iinfo(kind).min], kind) for kind in (np.int8, np.int16, np.int32, np.int64)]
    o = np.zeros(4, np.int64)
    smallest(o, *given)
    assert o.tolist() == [0, 0, 0, 0]


@kp.kernel
def boxes(x: N[kp.i32, 1], low: kp.i32, high: kp.u32):
    for i, j in kp.ndrange((low, high), 2):
        x[0] += 1


def test_signed_and_unsigned_bounds():
    x = np.zeros(1, np.int32)
    boxes(x, -1, 2)
    assert x[0] == 6


def test_math_vectors_are_of_the_default_float():
    kp.init(default_fp=kp.f64, default_ip=kp.i64)

    @kp.kernel
    def k(o: N[kp.f64, 1]):
        o[0] = kp.math.vec3(0.1, 0.2, 0.3).x
        o[1] = kp.math.ivec2(1 << 40, 3).x
        o[2] = kp.math.mat2(0.1, 0.0, 0.0, 1.0)[0, 0]

    o = np.zeros(3)
    k(o)
    assert o.tolist() == [0.1, 2.0**40, 0.1]
    assert kp.ndarray(kp.math.vec3, 2).dtype == kp.types.vector(3, kp.f64)


@kp.kernel
def default_vectors(o: N[kp.f64, 1], v: kp.math.vec2):
    o[0] = kp.math.vec2(0.1, 0.2).x
    o[1] = v.x


def test_vectors_of_the_default_float_count_by_the_default():
    o = np.zeros(2)
    for default, wanted in (
        (kp.f32, float(np.float32(0.1))),
        (kp.f64, 0.1),
        (kp.f32, float(np.float32(0.1))),
    ):
        kp.init(default_fp=default)
        default_vectors(o, (0.1, 0.2))
        assert o.tolist() == [wanted, wanted]


# -- Warnings --------------------------------------------------------------------------------------


@kp.kernel
def sums(x: N[kp.f64, 1], n: N[kp.i64, 1]) -> kp.f64:
    s = 0.0
    for i in x:
        s += x[i]
    t = 0
    for i in range(2):
        t += n[i]
    return s * 0.1 + t


@kp.kernel
def sums_with_care(x: N[kp.f64, 1], n: N[kp.i64, 1]) -> kp.f64:
    s = kp.f64(0)
    for i in x:
        s += x[i]
    t = kp.i64(0)
    for i in range(2):
        t += n[i]
    return s * 0.5 + t * kp.f64(0.1)


def test_narrow_sums_and_digits_are_pointed_out():
    x, n = np.ones(3), np.ones(3, np.int64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sums(x, n)
    lines = Path(__file__).read_text().splitlines()
    told = {lines[warning.lineno - 1].strip(): str(warning.message) for warning in caught}
    assert "`s` is a `f32`, and what changes it a `f64`: every result is rounded" in told["s += x[i]"]
    assert "begin with `s = kp.f64(0)`" in told["s += x[i]"]
    assert "results wrap" in told["t += n[i]"]
    assert all(warning.filename == __file__ for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert abs(sums_with_care(x, n) - 1.7) < 1e-12


# -- On the host -----------------------------------------------------------------------------------


def test_elements_that_are_set_on_the_host():
    v = kp.ndarray(kp.types.vector(3, kp.i64), 4)
    v[0][1] = 2**40
    v[1].z = 7
    v[-1][-1] = 3
    assert v.to_numpy().tolist() == [[0, 2**40, 0], [0, 0, 7], [0, 0, 0], [0, 0, 3]]
    assert v[0][1] == 2**40
    m = kp.field(kp.types.matrix(2, 2, kp.f64), 3)
    m[1][0, 1] = 0.1
    m[1][1][0] = 5
    m[2][1] = [8, 9]
    assert m.to_numpy()[1:].tolist() == [[[0, 0.1], [5, 0]], [[0, 0], [8, 9]]]
    kind = kp.types.struct(idx=kp.i32, at=kp.types.vector(2, kp.f32))
    nested = kp.types.struct(inner=kind, w=kp.f64)
    s, t = kind.field(3), nested.field(2)
    s[0].idx = 7
    s[1].at[1] = 3
    s[1].at.x = 1
    s[2].at = (4, 5)
    t[1].inner.idx = 9
    t[1].inner.at.y = 2.5
    t[0].w = 0.5
    assert s.to_numpy()["idx"].tolist() == [7, 0, 0]
    assert s.to_numpy()["at"].tolist() == [[0, 0], [1, 3], [4, 5]]
    array = t.to_numpy()
    assert array["inner"]["idx"].tolist() == [0, 9] and array["inner"]["at"][1].tolist() == [0, 2.5]
    assert array["w"].tolist() == [0.5, 0]


def test_what_cannot_be_set_raises():
    import copy

    v = kp.ndarray(kp.types.vector(3, kp.f32), 2)
    with pytest.raises(IndexError):
        v[0][3] = 1
    with pytest.raises(AttributeError):
        v[0].xy = (1, 2)
    with pytest.raises(AttributeError):
        kp.types.struct(a=kp.i32).field(2)[0].b = 1
    # A copy is a copy.
    copied = copy.deepcopy(v[0])
    copied[0] = 5
    other = kp.Vector(v[0])
    other[0] = 5
    assert v.to_numpy().sum() == 0
