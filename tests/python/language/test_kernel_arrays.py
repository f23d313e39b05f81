"""Arrays of our own, NumPy's, and what they exchange."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import keyprint as kp

DTYPES = {
    "bool": np.bool_,
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
}


@kp.kernel
def copy(x: kp.types.NDArray, y: kp.types.NDArray):
    for I in kp.grouped(x):
        y[I] = x[I]


@pytest.mark.cpu
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2, 1, 2), (0,), (3, 0)])
def test_round_trips(name, shape):
    dtype = getattr(kp, name)
    wanted = np.arange(int(np.prod(shape))).reshape(shape).astype(DTYPES[name])
    x, y = kp.ndarray(dtype, shape), kp.ndarray(dtype, shape)
    assert (x.shape, x.dtype, x.ndim, x.nbytes) == (shape, dtype, len(shape), wanted.nbytes)
    x.from_numpy(wanted)
    copy(x, y)
    copied = y.to_numpy()
    assert copied.dtype == wanted.dtype and copied.shape == shape and np.array_equal(copied, wanted)
    assert np.array_equal(np.asarray(y), wanted)
    if shape:
        assert np.array_equal(np.from_dlpack(y), wanted) or name == "bool"


@pytest.mark.cpu
def test_memory_is_shared():
    x = kp.ndarray(kp.f32, (2, 3))
    view = np.asarray(x)
    view[1, 2] = 7
    assert x[1, 2] == 7
    x[0, 0] = 5
    assert view[0, 0] == 5
    other = np.from_dlpack(x)
    other[0, 1] = 9
    assert x[0, 1] == 9 and memoryview(x)[0, 1] == 9
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is not None and view[1, 2] == 7
    del view, other
    gc.collect()
    assert gone() is None


def test_elements_from_python():
    x = kp.ndarray(kp.i16, (2, 3))
    x[1, -1] = 300
    assert x[1, 2] == 300 and len(x) == 2
    for index in ((2, 0), (0, 3), (-3, 0)):
        with pytest.raises(IndexError):
            x[index]
    for index in (0, (0, 0, 0), "a", 1.5):
        with pytest.raises((IndexError, TypeError)):
            x[index]
    with pytest.raises(OverflowError, match="does not fit into a `i16`"):
        x[0, 0] = 40000
    with pytest.raises(TypeError, match="whole number"):
        x[0, 0] = 1.5
    x.fill(3)
    assert x.to_numpy().tolist() == [[3] * 3] * 2
    v = kp.ndarray(kp.types.vector(2, kp.f32), 3)
    v[1] = [1.5, 2.5]
    assert v[1].to_list() == [1.5, 2.5] and v.to_numpy().shape == (3, 2)
    v.fill(2)
    v[0] = kp.Vector([7.0, 8.0])
    assert v.to_numpy().tolist() == [[7, 8], [2, 2], [2, 2]]
    with pytest.raises(ValueError, match="an element has 2 numbers, found 3"):
        v[1] = [1, 2, 3]
    m = kp.ndarray(kp.types.matrix(2, 2, kp.i32), ())
    m[None] = [[1, 2], [3, 4]]
    assert m[None].to_list() == [[1, 2], [3, 4]]


def test_bad_arrays():
    with pytest.raises(TypeError, match="expected the type of the elements"):
        kp.ndarray("f32", 3)
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        kp.ndarray(kp.f32, (1,) * 9)
    with pytest.raises(ValueError, match="not negative"):
        kp.ndarray(kp.f32, -1)
    with pytest.raises(MemoryError):
        kp.ndarray(kp.f64, (2**40, 2**40))
    x = kp.ndarray(kp.f32, 3)
    with pytest.raises(ValueError, match="expected an array of shape"):
        x.from_numpy(np.zeros(4))
    with pytest.raises(TypeError):
        x.from_numpy(np.zeros(3, complex))
    with pytest.raises(TypeError):
        len(kp.ndarray(kp.f32, ()))


@pytest.mark.parametrize("make", ["C", "F", "step", "reversed", "transposed", "broadcast"])
def test_layouts_of_numpy(make):
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = {
        "C": base,
        "F": np.asfortranarray(base),
        "step": np.arange(96, dtype=np.float32).reshape(8, 12)[::2, ::2],
        "reversed": base[::-1, ::-1],
        "transposed": np.arange(24, dtype=np.float32).reshape(6, 4).T,
        "broadcast": np.broadcast_to(np.arange(6, dtype=np.float32), (4, 6)),
    }[make]
    y = np.zeros((4, 6), np.float32)
    copy(x, y)
    assert np.array_equal(x, y)
    if make != "broadcast":
        copy(y[::-1], x)
        assert np.array_equal(x, y[::-1])


def test_one_kernel_for_all_that_are_alike():
    before = copy.observations.key_made
    copy(np.zeros((2, 2)), np.zeros((2, 2)))
    copy(np.zeros((5, 7)), np.zeros((5, 7)))
    assert copy.observations.key_made <= before + 1


@kp.kernel
def untyped(
    x: kp.types.ndarray(), y: kp.types.ndarray(dtype=kp.f64), z: kp.types.ndarray(ndim=2), t: kp.Tensor
):
    for i in range(2):
        x[i] = y[i, 0] + z[i, 0] + t[i]


def test_annotations_without_types():
    x = np.zeros(2, np.int64)
    untyped(x, np.ones((2, 1)), np.ones((2, 1), np.float32), np.ones(2, np.int8))
    assert x.tolist() == [3, 3]
    with pytest.raises(kp.KernelTypeError):
        untyped(x, np.ones((2, 1), np.float32), np.ones((2, 1), np.float32), np.ones(2, np.int8))
    with pytest.raises(kp.KernelTypeError):
        untyped(x, np.ones((2, 1)), np.ones(2, np.float32), np.ones(2, np.int8))


def test_misaligned_arrays_are_refused():
    raw = np.zeros(17, np.uint8)
    x = raw[1:].view(np.float32)
    with pytest.raises(kp.KernelTypeError, match="not aligned"):
        copy(x, np.zeros(4, np.float32))


def test_byte_order_is_refused():
    with pytest.raises(kp.KernelTypeError, match="of which kernels know nothing"):
        copy(np.zeros(4, ">f4"), np.zeros(4, np.float32))


F = kp.field(kp.i32, (2, 2))
V = kp.Vector.field(3, kp.f32, shape=4)
M = kp.Matrix.field(2, 2, kp.f32, shape=())


@kp.kernel
def into_fields(k: kp.i32):
    for i, j in F:
        F[i, j] += k
    for i in V:
        V[i] = kp.Vector([i, k, 1])
    M[None] = kp.Matrix([[1, 2], [3, k]])


def test_fields():
    F.fill(1)
    into_fields(5)
    into_fields(5)
    assert F.to_numpy().tolist() == [[11, 11], [11, 11]]
    assert V.to_numpy().tolist() == [[i, 5, 1] for i in range(4)]
    assert M[None].to_list() == [[1, 2], [3, 5]]
    F.from_numpy(np.zeros((2, 2), np.int32))
    F[0, 1] = 8
    assert F[0, 1] == 8 and F.shape == (2, 2) and F.dtype == kp.i32
    assert into_fields.observations.stored == 0


def test_another_field_is_another_kernel(monkeypatch):
    into_fields(1)
    monkeypatch.setitem(globals(), "F", kp.field(kp.i32, (3, 1)))
    with pytest.raises(kp.DriftError, match=r"test_kernel_arrays\.F"):
        into_fields(1)


@kp.kernel
def takes_field(f: kp.template(), g: kp.template()):
    for I in kp.grouped(f):
        f[I] = 2 * g[I]


@pytest.mark.cpu
def test_fields_as_arguments():
    a, b = kp.field(kp.f32, 3), kp.field(kp.f32, 3)
    a.fill(1)
    b.fill(5)
    takes_field(a, b)
    assert a.to_numpy().tolist() == [10] * 3
    takes_field(b, a)
    assert b.to_numpy().tolist() == [20] * 3
    x = np.zeros(3)
    takes_field(x, a)
    assert x.tolist() == [20] * 3
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


class Foreign:
    """An array of another library, which speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_memory_of_others():
    base = np.arange(6, dtype=np.float32).reshape(2, 3)
    for other in (base, Foreign(base)):
        x = kp.asarray(other)
        before = base[1, 2]
        copy(x, x)
        x[1, 2] = before + 1
        assert base[1, 2] == before + 1 and x.shape == (2, 3)
    v = kp.asarray(base, kp.types.vector(3, kp.f32))
    assert v.shape == (2,) and v[1].to_list() == base[1].tolist()
    gone = weakref.ref(base)
    del base, other, x
    gc.collect()
    assert gone() is not None and v[0].y == 1
    del v
    gc.collect()
    assert gone() is None
    for bad in (np.zeros((4, 4))[:, ::2], np.zeros(3, complex), np.broadcast_to(np.zeros(1), (3,))):
        with pytest.raises((TypeError, ValueError)):
            kp.asarray(bad)
    with pytest.raises(TypeError, match="expected elements"):
        kp.asarray(np.zeros((2, 3)), kp.types.vector(2, kp.f64))


@kp.kernel
def fill_all(x: kp.template()):
    for I in kp.grouped(x):
        x[I] = 2.0


def test_what_elements_are_counts():
    kinds = [kp.f32, kp.types.vector(2, kp.f32), kp.types.vector(3, kp.f32), kp.types.matrix(2, 2, kp.f32)]
    for kind in (*kinds, *reversed(kinds)):
        x = kp.ndarray(kind, 5)
        fill_all(x)
        assert (x.to_numpy() == 2).all(), kind
    with_grad = kp.ndarray(kp.f32, 5, needs_grad=True)
    fill_all(with_grad)
    assert (with_grad.to_numpy() == 2).all()


@kp.kernel
def adds_one(x: kp.types.NDArray):
    for I in kp.grouped(x):
        x[I] += 1


@pytest.mark.cpu
@pytest.mark.parametrize("name", DTYPES)
def test_own_arrays_and_those_of_numpy_share_what_is_compiled(name):
    own, other = kp.ndarray(getattr(kp, name), 3), np.zeros(3, DTYPES[name])
    adds_one(own)
    seen = adds_one.observations
    adds_one(other)
    after = adds_one.observations
    assert (after.compiled, after.validated) == (seen.compiled, seen.validated)
    assert own.to_numpy().tolist() == other.tolist() == [1] * 3
