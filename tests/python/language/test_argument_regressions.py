"""What is easily got wrong when arguments and members are passed: each of these was wrong once."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

import keyprint as kp

Ints = kp.types.NDArray[kp.i32, 1]
Floats = kp.types.NDArray[kp.f32, 1]
vec2 = kp.types.vector(2, kp.f32)
Pair = kp.types.struct(m=kp.f32, p=vec2)


def ints(*values):
    return np.array(values, np.int32)


WIDE = kp.Vector([1.0, 2.0], kp.f64)


@dataclasses.dataclass
class WithVector:
    v: kp.types.vector(2, kp.f64)
    w: kp.template() = None


@kp.kernel
def of_global() -> kp.f64:
    return WIDE[0] / 3


@kp.kernel
def of_member(p: WithVector) -> kp.f64:
    return p.v[0] / 3 + p.v.y


def test_vectors_keep_their_type():
    assert of_global() == 1 / 3
    assert of_member(WithVector(kp.Vector([1.0, 2.0], kp.f64))) == 1 / 3 + 2
    keys_made = of_member.observations.key_made
    assert of_member(WithVector(kp.Vector([2.0, 5.0], kp.f64))) == 2 / 3 + 5
    assert of_member.observations.key_made == keys_made
    assert of_member(WithVector((1.0, 2.0))) == 1 / 3 + 2
    with pytest.raises(kp.KernelTypeError, match="has 2 numbers, found 3"):
        of_member(WithVector(kp.Vector([1.0, 2.0, 3.0], kp.f64)))


@kp.kernel
def of_struct(s: Pair) -> kp.f32:
    return s.m + s.p.y


@kp.kernel
def of_template(s: kp.template()) -> kp.f32:
    return s.m + s.p.y


def test_structs_as_arguments():
    assert of_struct(Pair(1.0, [2.0, 3.0])) == 4
    assert of_struct(Pair(1.5, [2.0, 3.0])) == 4.5
    assert of_template(Pair(1.0, [2.0, 3.0])) == 4


class Lists:
    def __init__(self, array):
        self.items = [array]


@kp.kernel
def in_a_list(o: kp.template()) -> kp.f64:
    return o.items[0][0]


f = lambda x: x + 1  # noqa: E731


@kp.kernel
def calls_lambda(x: kp.f64) -> kp.f64:
    return f(x)


@pytest.mark.filterwarnings("ignore:.*has no cache signature")
def test_what_cannot_be_is_said():
    for array in (np.ones(3), kp.ndarray(kp.f64, 3)):
        with pytest.raises(kp.KernelTypeError, match="inside of something that cannot hold arrays"):
            in_a_list(Lists(array))
    with pytest.raises(kp.KernelError, match="a `lambda` cannot be called in a kernel"):
        calls_lambda(1.0)


@kp.kernel
def increase_all(a: kp.types.NDArray[kp.i64, 2]):
    for i, j in a:
        a[i, j] += 1


def test_an_array_that_holds_elements_twice():
    strided = np.lib.stride_tricks.as_strided
    base = np.zeros(100, np.int64)
    for shape, strides in (((50, 2), (0, 8)), ((10, 10), (8, 8)), ((5, 20), (152, 8))):
        with pytest.raises(kp.KernelRuntimeError) as caught:
            increase_all(strided(base, shape, strides, writeable=True))
        assert caught.value.code == "overlap"
    increase_all(base.reshape(10, 10).T[::-1, ::2])
    assert base.sum() == 50


@kp.kernel
def sometimes(out: Floats, x: Floats, n: kp.i32):
    for i in x:
        if n > 5:
            out[5] += x[i]
    for i in x:
        if x[i] < 0:
            continue
        out[n] += 1.0


def test_elements_that_are_not_changed_are_not_touched():
    # Behind the end of an array is another number.
    whole = np.zeros(1_000_006, np.float32)
    out, x = whole[:5], -np.ones(1_000_000, np.float32)
    sometimes(out, x, 5)
    assert not whole.any()
    sometimes(np.zeros(0, np.float32), x, 2**31 - 1)


def struct_with(factor):
    @kp.func
    def scaled(self):
        return self.x * factor

    return kp.types.struct(x=kp.f32, __struct_methods={"scaled": scaled})


@kp.kernel
def scales(s: kp.template()) -> kp.f32:
    return s.scaled()


def test_structs_of_other_methods_are_others():
    struct_type, other = struct_with(2.0), struct_with(3.0)
    assert [scales(kind(x=1.0)) for kind in (struct_type, other, struct_type, other)] == [2, 3, 2, 3]
    with pytest.raises(AttributeError):
        struct_type.name = "another"
    with pytest.raises(TypeError):
        struct_type.methods["scaled"] = None


@kp.kernel
def adds_half(c: kp.template()) -> kp.f64:
    v = c[0]
    v += 0.5
    return v


@pytest.mark.filterwarnings("ignore")
def test_lists_are_compared_to_the_type():
    assert [adds_half(c) for c in ([1], [1.0], [True], [1], [1.0])] == [1, 1.5, 1, 1, 1.5]
    assert np.isnan(adds_half([float("nan")]))
    assert str(adds_half([-0.5])) == "0.0"


@kp.kernel
def both_change(a: Ints, b: Ints):
    for i in b:
        a[i] += 1
        b[i] += 1


def test_arrays_that_share_a_first_element_or_go_backwards():
    x = np.zeros(16, np.int32)
    for a, b in ((x, x[::2]), (x[8::-1], x[:8]), (x[:8], x[8::-1]), (x[:10], x[5:])):
        with pytest.raises(kp.KernelRuntimeError) as caught:
            both_change(a, b)
        assert caught.value.code == "overlap"
    both_change(x[:8], x[15:7:-1])
    assert x.tolist() == [1] * 16


def test_lists_that_contain_themselves():
    x = kp.ndarray(vec2, 1)
    endless = []
    endless.append(endless)
    for work in (lambda: x.fill(endless), lambda: x.__setitem__(0, endless)):
        with pytest.raises(ValueError, match="made of numbers"):
            work()


@pytest.mark.cpu
def test_buffers_that_are_asked_for_in_another_order():
    import ctypes

    x = kp.ndarray(kp.f32, (2, 3))
    assert bytes(x) == bytes(24) and memoryview(x).f_contiguous is False
    view = (ctypes.c_char * 200)()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    with pytest.raises(BufferError):
        get(x, view, 0x40 | 0x10 | 0x08)


FACTOR = 2.0


@kp.dataclass
class Scaled:
    x: kp.f32

    @kp.func
    def scaled(self):
        return self.x * FACTOR


SCALED = Scaled.field(2)


@kp.kernel
def of_field() -> kp.f32:
    return SCALED[1].scaled()


@kp.kernel
def of_field_argument(f: kp.template()) -> kp.f32:
    return f[1].scaled()


def test_methods_of_fields_of_structs_count(monkeypatch):
    SCALED.x.fill(4)
    assert of_field() == 8 and of_field_argument(SCALED) == 8
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    for launch in (of_field, lambda: of_field_argument(SCALED)):
        with pytest.raises(kp.DriftError, match="FACTOR"):
            launch()


@kp.kernel
def long_over_field(f: kp.template(), n: kp.i32):
    for i in f:
        for _ in range(n):
            f[i] = kp.sin(f[i]) + 1.0


def test_fields_live_while_a_kernel_runs():
    class Holder:
        pass

    holder, stop = Holder(), threading.Event()
    holder.f = kp.field(kp.f32, 4000)
    long_over_field(holder.f, 1)

    def rebind():
        while not stop.is_set():
            holder.f = None
            holder.f = kp.field(kp.f32, 4000)

    thread = threading.Thread(target=rebind)
    thread.start()
    try:
        for _ in range(3):
            given = kp.field(kp.f32, 4000)
            references = [given]
            del given
            long_over_field(references.pop(), 300)
    finally:
        stop.set()
        thread.join()
