"""Arrays on a device: what they hold, and what they hand out."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp

SCALARS = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]


def numpy_name(scalar):
    # NumPy has no such numbers, and gets wider ones.
    if scalar == "bf16":
        return "float32"
    return scalar if scalar == "bool" else {"i": "int", "u": "uint", "f": "float"}[scalar[0]] + scalar[1:]


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 4), (0,)])
def test_round_trips(scalar, shape):
    array = kp.ndarray(getattr(kp, scalar), shape)
    assert not array.to_numpy().any()
    values = np.random.default_rng(0).integers(0, 2, shape).astype(numpy_name(scalar))
    array.from_numpy(values)
    assert np.array_equal(array.to_numpy(), values)
    assert np.asarray(array).dtype == values.dtype
    array.fill(1)
    assert (array.to_numpy() == 1).all()


def test_elements():
    array = kp.ndarray(kp.i32, (2, 3))
    array[1, 2] = 5
    assert array[1, 2] == 5
    assert array[-1, -1] == 5
    with pytest.raises(IndexError):
        array[2, 0]
    vectors = kp.ndarray(kp.types.vector(3, kp.f32), 4)
    vectors.fill([1, 2, 3])
    assert vectors.to_numpy().tolist() == [[1, 2, 3]] * 4
    vectors[2] = [4, 5, 6]
    assert vectors[2].to_list() == [4, 5, 6]


def test_copies_between_places():
    here, there = kp.ndarray(kp.f32, 5, device="cpu"), kp.ndarray(kp.f32, 5, device="cuda")
    here.from_numpy(np.arange(5, dtype=np.float32))
    there.copy_from(here)
    assert there.to_numpy().tolist() == [0, 1, 2, 3, 4]
    there.fill(7)
    here.copy_from(there)
    assert here.to_numpy().tolist() == [7] * 5
    other = kp.ndarray(kp.f32, 5, device="cuda")
    other.copy_from(there)
    assert other[4] == 7
    with pytest.raises(ValueError, match="shape"):
        other.copy_from(kp.ndarray(kp.f32, 6))


def test_what_others_are_told():
    array = kp.ndarray(kp.f32, (2, 3))
    interface = array.__cuda_array_interface__
    assert interface["shape"] == (2, 3)
    assert interface["typestr"] == "<f4"
    assert interface["data"] == (array.address, False)
    assert array.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match="to_numpy"):
        memoryview(array)
    host = kp.ndarray(kp.f32, 3, device="cpu")
    assert not hasattr(host, "__cuda_array_interface__")
    assert host.__dlpack_device__() == (1, 0)


def test_there_is_no_room():
    with pytest.raises(
        kp.DeviceMemoryError, match=r"out of memory: 4\.0 TiB were asked for, .* are free"
    ) as raised:
        kp.ndarray(kp.f32, 1 << 40)
    assert isinstance(raised.value, MemoryError)
    assert raised.value.code == "out-of-memory"
    assert kp.ndarray(kp.f32, 3)[2] == 0


def test_memory_comes_back():
    for _ in range(50):
        array = kp.ndarray(kp.f32, 30_000_000)
        array[0] = 1
    assert array[0] == 1
