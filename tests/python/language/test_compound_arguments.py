"""Compound arguments: dataclasses, data-oriented objects, and what they hold, in every nesting."""

from __future__ import annotations

import dataclasses
import enum
import gc
import weakref

import numpy as np
import pytest

import keyprint as kp

F32 = kp.types.NDArray[kp.f32, 1]


def array(values, dtype=np.float32):
    return np.array(values, dtype)


@kp.data_oriented
class Sim:
    def __init__(self, n=4, dtype=np.float32):
        self.x = np.arange(n, dtype=dtype)
        self.v = np.ones(n, dtype)
        self.dt = 0.5
        self.unread = object()

    @kp.func
    def speed(self, i):
        return self.v[i] * self.dt

    @kp.kernel
    def step(self):
        for i in self.x:
            self.x[i] += self.speed(i)

    @kp.kernel
    def scale(self, factor: kp.f32):
        for i in self.v:
            self.v[i] *= factor


def test_kernels_are_methods():
    sim = Sim()
    sim.step()
    assert sim.x.tolist() == [0.5, 1.5, 2.5, 3.5]
    sim.scale(3)
    sim.step()
    assert sim.x.tolist() == [2, 3, 4, 5]
    other = Sim(2)
    before = Sim.step.observations.compiled
    other.step()
    assert other.x.tolist() == [0.5, 1.5]
    assert Sim.step.observations.compiled == before


def test_primitive_members_are_baked():
    sim = Sim()
    sim.step()
    before = Sim.step.observations.key_made
    sim.dt = 2.0
    sim.step()
    assert Sim.step.observations.key_made == before + 1
    assert sim.x.tolist() == [2.5, 3.5, 4.5, 5.5]
    sim.dt = 0.5
    sim.step()
    assert Sim.step.observations.key_made == before + 1
    assert sim.x.tolist() == [3, 4, 5, 6]


def test_rebinding_a_member():
    sim = Sim()
    sim.step()
    sim.x = array([10, 20])
    sim.step()
    assert sim.x.tolist() == [10.5, 20.5]
    compiled = Sim.step.observations.compiled
    sim.x = np.array([1.0, 2.0], np.float64)
    sim.step()
    assert sim.x.dtype == np.float64 and sim.x.tolist() == [1.5, 2.5]
    assert Sim.step.observations.key_made >= 1
    sim.x = array([1])
    sim.step()
    assert sim.x.tolist() == [1.5]
    assert Sim.step.observations.compiled <= compiled + 1


def test_another_number_of_dimensions():
    sim = Sim()
    sim.step()
    sim.x = np.zeros((2, 2), np.float32)
    with pytest.raises(kp.KernelError, match="2 dimensions"):
        sim.step()
    sim.x = array([1, 2])
    sim.step()
    assert sim.x.tolist() == [1.5, 2.5]


def test_deleting_and_adding_members():
    sim = Sim()
    sim.step()
    del sim.v
    with pytest.raises(kp.KernelError, match=r"has no member `self\.v`"):
        sim.step()
    sim.v = np.full(4, 4, np.float32)
    sim.step()
    assert sim.x.tolist() == [2.5, 3.5, 4.5, 5.5]
    sim.something_new = 3
    sim.step()
    assert sim.x.tolist() == [4.5, 5.5, 6.5, 7.5]


@pytest.mark.cpu
def test_instances_and_arrays_are_not_kept_alive():
    sim = Sim()
    own = kp.ndarray(kp.f32, 4)
    sim.x = own
    sim.step()
    gone = [weakref.ref(sim), weakref.ref(own), weakref.ref(sim.v)]
    del sim, own
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


@kp.data_oriented(template_primitives=False)
class Open:
    def __init__(self):
        self.n = 3
        self.a = 1.5
        self.flag = True

    @kp.kernel
    def total(self, out: kp.types.NDArray[kp.f64, 1]):
        for i in range(self.n):
            if self.flag:
                out[i] = self.a * i

    @kp.kernel
    def unrolled(self) -> kp.i32:
        total = 0
        for i in kp.static(range(self.n)):
            total += i
        return total


def test_primitive_members_as_arguments():
    instance, out = Open(), np.zeros(5)
    instance.total(out)
    assert out.tolist() == [0, 1.5, 3, 0, 0]
    compiled = Open.total.observations.key_made
    instance.n, instance.a = 5, 2.0
    instance.total(out)
    assert out.tolist() == [0, 2, 4, 6, 8]
    assert Open.total.observations.key_made == compiled


def test_values_that_are_needed_to_compile_count():
    instance = Open()
    assert instance.unrolled() == 3
    instance.n = 5
    assert instance.unrolled() == 10
    instance.n = 3
    compiled = Open.unrolled.observations.compiled
    assert instance.unrolled() == 3
    assert Open.unrolled.observations.compiled == compiled


@dataclasses.dataclass
class Params:
    x: F32
    factor: kp.f32
    n: kp.i32


@dataclasses.dataclass(frozen=True)
class Frozen:
    params: Params
    shift: kp.f32


@kp.func
def shifted(p, i):
    return p.x[i] * p.factor


@kp.kernel
def typed(p: Params, out: F32):
    for i in range(p.n):
        out[i] = shifted(p, i)


@kp.kernel
def nested(f: Frozen, out: F32):
    for i in range(f.params.n):
        out[i] = shifted(f.params, i) + f.shift


@kp.kernel
def by_template(p: kp.template(), out: F32):
    for i in range(p.n):
        out[i] = shifted(p, i)


@kp.kernel
def unrolled_by(p: Params) -> kp.i32:
    total = 0
    for i in kp.static(range(p.n)):
        total += i
    return total


def test_typed_dataclasses():
    out = array([0, 0, 0, 0])
    p = Params(array([1, 2, 3, 4]), 2, 3)
    typed(p, out)
    assert out.tolist() == [2, 4, 6, 0]
    keys_made = typed.observations.key_made
    p.factor, p.n, p.x = 10.5, 4, array([1, 1, 1, 1])
    typed(p, out)
    assert out.tolist() == [10.5] * 4
    # An int and a float are both numbers of the type that the field has.
    assert typed.observations.compiled <= 2 and typed.observations.key_made <= keys_made + 1


def test_nested_dataclasses():
    out = array([0, 0])
    f = Frozen(Params(array([1, 2]), 2.0, 2), 100.0)
    nested(f, out)
    assert out.tolist() == [102, 104]
    f.params.x = array([5, 6])
    nested(f, out)
    assert out.tolist() == [110, 112]
    with pytest.raises(kp.KernelTypeError, match=r"`f\.params\.x` is annotated with"):
        f.params.x = np.zeros(2)
        nested(f, out)


def test_dataclasses_through_templates():
    out = array([0, 0])
    by_template(Params(array([1, 2]), 3.0, 2), out)
    assert out.tolist() == [3, 6]
    by_template(Params(np.array([1.0, 2.0]), 4.0, 2), out)
    assert out.tolist() == [4, 8]


def test_a_member_of_a_dataclass_that_is_needed_to_compile():
    assert unrolled_by(Params(array([0]), 1.0, 4)) == 6
    assert unrolled_by(Params(array([0]), 1.0, 5)) == 10
    assert unrolled_by(Params(array([0]), 7.0, 4)) == 6
    assert unrolled_by.observations.compiled <= 3


@dataclasses.dataclass
class Holder:
    sim: Sim
    scale: kp.f32


@kp.kernel
def holds(h: kp.template(), out: F32):
    for i in h.sim.x:
        out[i] = h.sim.x[i] * h.scale + h.sim.speed(i)


@kp.kernel
def holds_typed(h: Holder, out: F32):
    for i in range(2):
        out[i] = h.sim.x[i]


def test_data_oriented_in_a_dataclass():
    out = array([0, 0, 0, 0])
    holds(Holder(Sim(), 10.0), out)
    assert out.tolist() == [0.5, 10.5, 20.5, 30.5]
    with pytest.raises(kp.KernelError, match=r"field `sim` of `Holder`.*data_oriented") as caught:
        holds_typed(Holder(Sim(), 10.0), out)
    assert "template()" in str(caught.value)


class Mode(enum.IntEnum):
    SLOW = 1
    FAST = 2


@kp.data_oriented
class Deep:
    def __init__(self, depth):
        self.mode = Mode.FAST
        self.v = kp.ndarray(kp.types.vector(2, kp.f32), 3)
        self.f = kp.field(kp.f32, 3)
        self.params = Params(array([1, 2, 3]), 2.0, 3)
        self.me = self
        self.inner = Deep(depth - 1) if depth else None

    @kp.func
    def twice(self, i):
        return 2 * self.params.x[i]

    @kp.kernel
    def run(self):
        for i in self.v:
            self.v[i] = kp.Vector([i, self.inner.inner.params.x[i]])
            self.f[i] = self.inner.twice(i) + self.me.me.inner.params.factor
            if kp.static(self.mode == Mode.FAST):
                self.f[i] += 100


class Derived(Deep):
    @kp.func
    def twice(self, i):
        return 3 * self.params.x[i]


@pytest.mark.cpu
def test_deep_nesting_cycles_and_fields():
    deep = Deep(2)
    deep.run()
    assert deep.v.to_numpy().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert deep.f.to_numpy().tolist() == [104, 106, 108]
    deep.inner.inner.params.x = array([7, 8, 9])
    deep.inner.params.factor = 5.0
    deep.mode = Mode.SLOW
    deep.run()
    assert deep.v.to_numpy()[:, 1].tolist() == [7, 8, 9]
    assert deep.f.to_numpy().tolist() == [7, 9, 11]


@pytest.mark.cpu
def test_inheritance():
    deep = Deep(2)
    deep.inner = Derived(1)
    deep.run()
    assert deep.f.to_numpy().tolist() == [105, 108, 111]
    derived = Derived(2)
    derived.run()
    assert derived.f.to_numpy().tolist() == [104, 106, 108]


@pytest.mark.cpu
def test_fields_switch_the_store_off():
    Deep(2).run()
    seen = Deep.run.observations
    assert seen.stored == 0 and seen.validated == 0 and seen.compiled > 0


@kp.data_oriented
class Computes:
    def __init__(self):
        self.x = array([1, 2])

    @property
    def n(self):
        return 2

    @kp.kernel
    def run(self):
        for i in range(self.n):
            self.x[i] = 0


def test_properties_are_refused():
    with pytest.raises((kp.SignatureError, kp.KernelError), match="propert"):
        Computes().run()


GRID = kp.field(kp.f32, (2, 3))
Particle = kp.types.struct(mass=kp.f32, at=kp.types.vector(2, kp.f32))


@kp.dataclass
class Ball:
    radius: kp.f32
    particle: Particle

    @kp.func
    def area(self):
        return 3.0 * self.radius * self.radius


BALLS = Ball.field(3)


@kp.kernel
def fields():
    for i, j in GRID:
        GRID[i, j] = i * 10 + j
    for i in BALLS:
        BALLS[i] = Ball(i + 1.0, Particle(2.0, kp.Vector([i, 5.0])))
        BALLS[i].particle.at.y += 1.0
        ball = BALLS[i]
        ball.radius = ball.area()
        BALLS[i].particle.mass = ball.radius + BALLS.radius[i]


def test_fields_and_structs():
    fields()
    assert GRID.to_numpy().tolist() == [[0, 1, 2], [10, 11, 12]]
    balls = BALLS.to_numpy()
    assert balls["radius"].tolist() == [1, 2, 3]
    assert BALLS.particle.to_numpy()["mass"].tolist() == [4, 14, 30]
    assert BALLS[1].particle.at.to_list() == [1, 6]
    GRID[1, 2] = 99
    assert GRID[1, 2] == 99


def test_two_kernels_on_one_object_and_threads():
    import threading

    sims = [Sim(1000) for _ in range(8)]

    def work(sim):
        for _ in range(50):
            sim.step()
            sim.scale(1.0)

    threads = [threading.Thread(target=work, args=(sim,)) for sim in sims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sim in sims:
        assert np.array_equal(sim.x, np.arange(1000, dtype=np.float32) + 25)


class Config:
    """Says nothing about what counts: members are made up when they are asked for."""

    def __init__(self, n):
        self._n = n

    def __getattr__(self, name):
        if name == "n":
            return self._n
        raise AttributeError(name)


@kp.data_oriented
class Configured:
    def __init__(self):
        self.config = Config(2)
        self.table = [1, 2, 3]
        self.names = {"a": 10}

    @kp.kernel
    def run(self, out: kp.types.NDArray[kp.i32, 1]):
        for i in range(self.config.n):
            out[i] = self.table[1] + self.names["a"]


def test_what_says_nothing_runs_and_is_not_kept():
    configured, out = Configured(), np.zeros(4, np.int32)
    with pytest.warns(UserWarning, match=r"`self\.config` of the kernel `Configured\.run`") as told:
        configured.run(out)
    assert len(told) == 1
    assert out.tolist() == [12, 12, 0, 0]
    compiled = Configured.run.observations.compiled
    configured.run(out)
    assert Configured.run.observations.compiled == compiled
    configured.config._n = 3
    configured.run(out)
    assert out.tolist() == [12, 12, 12, 0]
    configured.table[1] = 5
    configured.run(out)
    assert out.tolist() == [15, 15, 15, 0]
    configured.table[2] = 99
    configured.names["b"] = 1
    configured.names["a"] = 20
    configured.run(out)
    assert out.tolist() == [25, 25, 25, 0]
    configured.config = Config(1)
    configured.run(out)
    assert Configured.run.observations.stored == 0


def test_annotations_that_are_postponed_know_local_names():
    # This file postpones its annotations.
    width = kp.types.vector(2, kp.f32)

    @kp.func
    def first(v: width) -> kp.f32:
        return v.x

    @kp.kernel
    def k(v: width, n: int, x: kp.types.NDArray[width, 1]) -> float:
        return first(v) + n + x[0].y

    assert k((1.0, 2.0), 3, np.array([[5, 6]], np.float32)) == 10
    with pytest.raises(kp.KernelError, match="cannot be evaluated"):

        @kp.kernel
        def other(x: not_there):  # noqa: F821
            pass


@kp.data_oriented
class Listed:
    def __init__(self, sizes):
        self.sizes = sizes

    @kp.kernel
    def fill(self, out: kp.types.NDArray[kp.i32, 1]):
        for i in out:
            out[i] = self.sizes[1]


def test_list_members_are_stored(tmp_path):
    kp.init(offline_cache_file_path=str(tmp_path))
    out = np.zeros(3, np.int32)
    Listed([1, 5]).fill(out)
    assert out.tolist() == [5, 5, 5]
    assert Listed.fill.observations.stored == 1
    Listed([1, 6]).fill(out)
    assert out.tolist() == [6, 6, 6]
    Listed([1, 5]).fill(out)
    assert out.tolist() == [5, 5, 5]
    assert Listed.fill.observations.compiled == 2
