"""The nesting table: every container with every member, rebound to the same type, another type, another rank."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import keyprint as kp


@dataclasses.dataclass
class Typed:
    x: kp.types.NDArray
    k: kp.i32 = 2


@dataclasses.dataclass
class TypedAny:
    x: kp.template()
    k: kp.i32 = 2


@dataclasses.dataclass(frozen=True)
class TypedOuter:
    inner: Typed


@dataclasses.dataclass(frozen=True)
class TypedAnyOuter:
    inner: TypedAny


@kp.data_oriented
class Oriented:
    def __init__(self, x, k=2):
        self.x = x
        self.k = k

    @kp.kernel
    def run(self):
        for I in kp.grouped(self.x):
            self.x[I] += self.k


@kp.data_oriented
class OrientedOuter:
    def __init__(self, inner):
        self.inner = inner

    @kp.kernel
    def run(self):
        for I in kp.grouped(self.inner.x):
            self.inner.x[I] += self.inner.k


@kp.func
def increase(c, I):
    c.x[I] += c.k


@kp.kernel
def typed(c: Typed):
    for I in kp.grouped(c.x):
        increase(c, I)


@kp.kernel
def typed_any(c: TypedAny):
    for I in kp.grouped(c.x):
        increase(c, I)


@kp.kernel
def typed_outer(o: TypedOuter):
    for I in kp.grouped(o.inner.x):
        increase(o.inner, I)


@kp.kernel
def typed_any_outer(o: TypedAnyOuter):
    for I in kp.grouped(o.inner.x):
        increase(o.inner, I)


@kp.kernel
def by_template(c: kp.template()):
    for I in kp.grouped(c.x):
        increase(c, I)


@kp.kernel
def by_template_outer(o: kp.template()):
    for I in kp.grouped(o.inner.x):
        increase(o.inner, I)


#: What makes an object around an array, what launches, and where the array is.
CONTAINERS = {
    "typed dataclass": (Typed, typed, lambda o: o),
    "typed dataclass in another": (lambda x: TypedOuter(Typed(x)), typed_outer, lambda o: o.inner),
    "dataclass by template": (Typed, by_template, lambda o: o),
    "dataclass in another by template": (
        lambda x: TypedOuter(Typed(x)),
        by_template_outer,
        lambda o: o.inner,
    ),
    "data-oriented": (Oriented, lambda o: o.run(), lambda o: o),
    "data-oriented by template": (Oriented, by_template, lambda o: o),
    "data-oriented in another": (lambda x: OrientedOuter(Oriented(x)), lambda o: o.run(), lambda o: o.inner),
    "dataclass in data-oriented": (lambda x: OrientedOuter(Typed(x)), lambda o: o.run(), lambda o: o.inner),
    "data-oriented in dataclass by template": (
        lambda x: TypedOuter(Oriented(x)),
        by_template_outer,
        lambda o: o.inner,
    ),
}
FIELD_CONTAINERS = {
    **CONTAINERS,
    "typed dataclass": (TypedAny, typed_any, lambda o: o),
    "typed dataclass in another": (lambda x: TypedAnyOuter(TypedAny(x)), typed_any_outer, lambda o: o.inner),
}

DTYPES = {np.float32: kp.f32, np.int64: kp.i64}


def numpy_array(dtype, shape):
    return np.zeros(shape, dtype)


def own_array(dtype, shape):
    return kp.ndarray(DTYPES[dtype], shape)


def field(dtype, shape):
    return kp.field(DTYPES[dtype], shape)


def values(array):
    return array if isinstance(array, np.ndarray) else array.to_numpy()


@pytest.mark.parametrize("make", [numpy_array, own_array, field])
@pytest.mark.parametrize("container", CONTAINERS)
def test_rebinding(container, make):
    build, run, holder = (FIELD_CONTAINERS if make is field else CONTAINERS)[container]
    first = make(np.float32, (3,))
    whole = build(first)
    run(whole)
    assert values(first).tolist() == [2] * 3
    for dtype, shape in (
        (np.float32, (3,)),
        (np.float32, (5,)),
        (np.int64, (3,)),
        (np.float32, (2, 2)),
        (np.float32, (3,)),
    ):
        other = make(dtype, shape)
        holder(whole).x = other
        run(whole)
        run(whole)
        assert values(other).tolist() == np.full(shape, 4).tolist(), (dtype, shape)
    # What was there before was left alone.
    assert values(first).tolist() == [2] * 3


@pytest.mark.parametrize("container", CONTAINERS)
def test_numbers_that_change(container):
    build, run, holder = CONTAINERS[container]
    array = np.zeros(2)
    whole = build(array)
    run(whole)
    holder(whole).k = 5
    run(whole)
    holder(whole).k = 2
    run(whole)
    assert array.tolist() == [9, 9]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_member_that_is_gone(container):
    build, run, holder = CONTAINERS[container]
    whole = build(np.zeros(2))
    run(whole)
    del holder(whole).x
    with pytest.raises((kp.SignatureError, kp.KernelError), match=r"has no member .*\.x`"):
        run(whole)
    holder(whole).x = np.zeros(2)
    run(whole)
    assert holder(whole).x.tolist() == [2, 2]


def test_going_back_finds_what_was_there():
    whole = Oriented(np.zeros(2))
    counts = []
    for array in (np.zeros(2), np.zeros(2, np.int32), np.zeros(2), np.zeros((2, 2)), np.zeros(2)):
        whole.x = array
        whole.run()
        counts.append(Oriented.run.observations.compiled + Oriented.run.observations.validated)
    assert counts[2] == counts[1] and counts[4] == counts[3]
