"""A launch runs where its arrays are; arrays of the host are taken along."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp

V = kp.types.NDArray[kp.f32, 1]


@kp.kernel
def add(x: V, y: V):
    for i in x:
        y[i] += x[i]


@kp.kernel
def total(x: V) -> kp.f32:
    s = 0.0
    for i in x:
        s += x[i]
    return s


@kp.kernel
def nothing_at_all() -> kp.i32:
    return 42


def pair(device):
    x, y = kp.ndarray(kp.f32, 100, device=device), kp.ndarray(kp.f32, 100, device=device)
    x.from_numpy(np.arange(100, dtype=np.float32))
    y.fill(1)
    return x, y


@pytest.mark.parametrize("arch", ["cpu", "cuda"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_arrays_decide(arch, device):
    kp.init(arch=arch)
    x, y = pair(device)
    assert x.device == ("cpu" if device == "cpu" else "cuda:0")
    add(x, y)
    assert np.array_equal(y.to_numpy(), np.arange(100) + 1)
    assert total(x) == 4950


def test_init_decides_without_arrays():
    assert kp.ndarray(kp.f32, 3).device == "cuda:0"
    assert kp.field(kp.f32, 3)._array.device == "cuda:0"
    assert nothing_at_all() == 42
    kp.init()
    assert kp.ndarray(kp.f32, 3).device == "cpu"
    assert nothing_at_all() == 42


def test_mixing_names_both():
    (x, _), (_, y) = pair("cuda"), pair("cpu")
    with pytest.raises(kp.KernelTypeError, match="`x` is on `cuda:0`, and `y` on the CPU") as raised:
        add(x, y)
    assert raised.value.code == "devices"
    with pytest.raises(kp.KernelTypeError, match="`x` is on the CPU, and `y` on `cuda:0`"):
        add(np.zeros(100, np.float32), x)


@pytest.mark.emulated
def test_another_device():
    (x, _), (a, b) = pair("cuda:0"), pair("cuda:1")
    add(a, b)
    assert b.device == "cuda:1"
    assert b[99] == 100
    with pytest.raises(kp.KernelTypeError, match="`x` is on `cuda:0`, and `y` on `cuda:1`"):
        add(x, b)
    copy = kp.asarray(b, device="cuda:0")
    assert copy.device == "cuda:0"
    add(x, copy)
    assert copy[99] == 199
    assert kp.asarray(copy, device="cuda:0") is copy


@pytest.mark.emulated
def test_code_is_compiled_once_for_equal_devices():
    add(*pair("cuda:0"))
    compiled = add.observations.compiled
    add(*pair("cuda:1"))
    assert add.observations.compiled == compiled


def test_arrays_of_the_host_are_taken_along():
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    add(x, y)
    assert np.array_equal(y, np.arange(100) + 1)


def test_one_array_by_two_names_is_one_on_the_device():
    x = np.ones(10, np.float32)
    add(x, x)
    assert x.tolist() == [2.0] * 10


@kp.kernel
def shift(x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for _ in range(1):
        for i in range(y.shape[0]):
            y[i] = x[i] + 1


def test_arrays_that_overlap_are_one_on_the_device():
    memory, expected = np.zeros(11, np.float32), np.zeros(11, np.float32)
    shift(memory[:-1], memory[1:])
    for i in range(10):
        expected[i + 1] = expected[i] + 1
    assert memory.tolist() == expected.tolist()


def test_strides_go_either_way():
    whole = np.zeros((6, 8), np.float32)
    x, y = np.arange(12, dtype=np.float32)[::3], whole[1:5, 6][::-1]
    add(x, y)
    assert y.tolist() == [0, 3, 6, 9]
    assert whole.sum() == 18
    assert whole[4, 6] == 0
    assert whole[1, 6] == 9


def test_what_cannot_be_written_is_not():
    x = np.ones(10, np.float32)
    x.flags.writeable = False
    y = np.zeros(10, np.float32)
    add(x, y)
    assert y.tolist() == [1.0] * 10
    with pytest.raises(kp.KernelError, match="read-only"):
        add(y, x)


def test_no_elements():
    empty = np.zeros(0, np.float32)
    add(empty, empty)
    assert total(kp.ndarray(kp.f32, 0)) == 0


def test_fields_are_used_where_they_are():
    here = kp.field(kp.f32, 4)

    @kp.kernel
    def fill():
        for i in here:
            here[i] = i * 2

    fill()
    assert here.to_numpy().tolist() == [0, 2, 4, 6]
    kp.init()
    with pytest.raises(
        kp.KernelTypeError, match="the field `here` is on `cuda:0`, and this launch runs on the CPU"
    ):
        fill()


def test_no_such_place():
    with pytest.raises(ValueError, match="kernels run on the CPU and on CUDA devices"):
        kp.ndarray(kp.f32, 3, device="tpu")
    with pytest.raises(kp.DeviceError, match="there is no device `cuda:77`"):
        kp.ndarray(kp.f32, 3, device="cuda:77")
    with pytest.raises(ValueError, match="found 'vulkan'"):
        kp.init(arch="vulkan")
