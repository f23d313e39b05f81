"""Launches on the streams of other libraries, by a stand-in for one: what is put there late is late."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import keyprint as kp

pytestmark = pytest.mark.emulated

N = 64


class Library:
    """A library with memory and a stream of its own, as the driver has them."""

    def __init__(self, path):
        self.driver = ctypes.CDLL(path)
        self.stream = ctypes.c_void_p()
        # One that does not wait for the default stream.
        assert self.driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0

    def fill(self, array, byte):
        self.driver.cuMemsetD8Async(
            ctypes.c_uint64(array.address), ctypes.c_ubyte(byte), ctypes.c_size_t(4 * N), self.stream
        )

    def wait(self):
        self.driver.cuStreamSynchronize(self.stream)


class Foreign:
    """An array of that library."""

    def __init__(self, library, *, says_stream=True, **changes):
        self.library = library
        address = ctypes.c_uint64()
        size = ctypes.c_size_t(4 * N)
        assert library.driver.cuMemAllocAsync(ctypes.byref(address), size, library.stream) == 0
        self.address = address.value
        self.changes = changes
        self.says_stream = says_stream

    @property
    def __cuda_array_interface__(self):
        stream = self.library.stream.value if self.says_stream else None
        known = {
            "shape": (N,),
            "typestr": "<i4",
            "data": (self.address, False),
            "version": 3,
            "stream": stream,
        }
        return {**known, **self.changes}


@pytest.fixture
def library(variables):
    kp.ndarray(kp.f32, 1)
    return Library(variables["KEYPRINT_CUDA_DRIVER"])


Whole = kp.types.NDArray[kp.i32, 1]


@kp.kernel
def copy(x: Whole, y: Whole):
    for i in x:
        y[i] = x[i]


@kp.kernel
def increase(x: Whole):
    for i in x:
        x[i] += 1


def values(array):
    out = np.zeros(N, np.int32)
    array.library.wait()
    array.library.driver.cuMemcpyDtoHAsync_v2(
        out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(array.address), ctypes.c_size_t(4 * N), None
    )
    array.library.driver.cuStreamSynchronize(None)
    return out.tolist()


def test_a_launch_is_put_between_what_the_library_does(library):
    x = Foreign(library)
    library.fill(x, 0)
    increase(x)
    increase(x)
    assert values(x) == [2] * N


def test_without_the_stream_it_would_be_too_early(library):
    # The same, for an array that does not say where it is used: the stand-in runs what was put there late.
    x = Foreign(library, says_stream=False)
    library.fill(x, 0)
    increase(x)
    assert values(x) != [2] * N


def test_arrays_of_our_own_wait_for_the_stream_and_it_for_them(library):
    x, own = Foreign(library), kp.ndarray(kp.i32, N)
    library.fill(x, 0)
    own.fill(5)
    increase(own)
    copy(own, x)
    increase(x)
    copy(x, own)
    increase(own)
    assert own.to_numpy().tolist() == [8] * N
    assert values(x) == [7] * N


def test_an_array_that_is_dropped_is_there_until_the_launch_is_done(library):
    x, own = Foreign(library), kp.ndarray(kp.i32, N)
    own.fill(3)
    copy(own, x)
    del own
    rubbish = kp.ndarray(kp.i32, N)
    rubbish.fill(-1)
    assert values(x) == [3] * N


def test_what_an_array_says_of_itself_counts(library):
    x = Foreign(library)
    library.fill(x, 0)
    increase(x)
    compiled = increase.observations.compiled
    increase(Foreign(library))
    assert increase.observations.compiled == compiled
    strided = Foreign(library, shape=(N // 2,), strides=(8,))
    library.fill(strided, 0)
    increase(strided)
    assert increase.observations.compiled == compiled + 1
    assert values(strided) == [1, 0] * (N // 2)
    with pytest.raises(kp.KernelTypeError, match="f32"):
        increase(Foreign(library, typestr="<f4"))
    with pytest.raises(kp.KernelError):
        increase(Foreign(library, data=(x.address, True)))
    with pytest.raises(TypeError, match="mask"):
        increase(Foreign(library, mask=x))


def test_dlpack_orders_the_stream_that_takes_an_array(library):
    own = kp.ndarray(kp.i32, N)
    x = Foreign(library)
    own.fill(9)
    own.__dlpack__(stream=library.stream.value)
    library.driver.cuMemcpyDtoDAsync_v2(
        ctypes.c_uint64(x.address), ctypes.c_uint64(own.address), ctypes.c_size_t(4 * N), library.stream
    )
    assert values(x) == [9] * N


def test_arrays_of_two_streams_wait_for_each_other(variables, library):
    other = Library(variables["KEYPRINT_CUDA_DRIVER"])
    x, y = Foreign(library), Foreign(other)
    library.fill(x, 0)
    other.fill(y, 1)
    copy(y, x)
    other.fill(y, 0)
    assert values(x) == [0x01010101] * N
    unordered = Foreign(library, says_stream=False)
    library.fill(x, 2)
    copy(x, unordered)
    library.fill(x, 0)
    assert values(unordered) == [0x02020202] * N


def test_an_array_without_elements_is_on_any_device(library):
    x = Foreign(library, shape=(0,), data=(0, False))
    y = kp.ndarray(kp.i32, N, device="cuda:1")
    copy(x, y)
    increase(x)


def test_elements_that_are_not_aligned_are_refused(library):
    x = Foreign(library)
    with pytest.raises(kp.KernelError, match="not aligned"):
        increase(Foreign(library, shape=(4,), data=(x.address + 2, False)))


def test_the_device_that_a_thread_uses_is_left_alone(library):
    """Other libraries go by the context that is current: launches and copies put it back."""
    driver, other, current = library.driver, ctypes.c_void_p(), ctypes.c_void_p()
    own = kp.ndarray(kp.i32, N, device="cuda:0")
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1) == 0
    assert driver.cuCtxSetCurrent(other) == 0
    try:
        increase(own)
        assert own[0] == 1
        own.fill(3)
        kp.sync()
        driver.cuCtxGetCurrent(ctypes.byref(current))
        assert current.value == other.value
    finally:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(other), 0)
        driver.cuCtxSetCurrent(other)


def test_alignment_and_fields_of_structs_count(library):
    compiled = []

    def made(**options):
        @kp.jit(compile=lambda specialization: compiled.append(1) or (lambda x: None), **options)
        def kernel(x):
            return x

        return kernel

    x, kernel = Foreign(library), made(align={"x": 16})
    kernel(x)
    kernel(Foreign(library, shape=(4,), data=(x.address + 4, False)))
    assert len(compiled) == 2
    kernel = made()
    for field in ("a", "b", "a"):
        kernel(Foreign(library, typestr="|V4", descr=[(field, "<i4")]))
    assert len(compiled) == 4
