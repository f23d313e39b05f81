"""F13: arrays."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
from typing import Any

import numpy as np
import pytest

import keyprint as kp

fp = kp.fingerprint
spec = kp.Fingerprinter(arrays="spec")
identity = kp.Fingerprinter(arrays="identity")

DTYPES = [
    "?",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    "g",
    "c8",
    "c16",
    "G",
    "S5",
    "U3",
    "M8[ns]",
    "M8[us]",
    "m8[s]",
    "V3",
]


def sample(dtype: str, shape: tuple[int, ...] = (3, 4)) -> Any:
    count = int(np.prod(shape))
    kind = np.dtype(dtype).kind
    if kind == "V":
        return np.arange(count * 3, dtype="u1").view("V3").reshape(shape)
    if kind in "SU":
        return np.array([f"a{i}" for i in range(count)], dtype=dtype).reshape(shape)
    if kind in "Mm":
        return np.arange(count, dtype="i8").astype(dtype).reshape(shape)
    return (np.arange(count) % 2 if kind == "b" else np.arange(count)).astype(dtype).reshape(shape)


def layouts(value: Any) -> list[Any]:
    rows, columns = value.shape
    big = np.empty((2 * rows, 3 * columns), dtype=value.dtype)
    big[::2, ::3] = value
    backwards = np.ascontiguousarray(value[::-1, ::-1])
    return [
        value.copy(),
        np.asfortranarray(value),
        np.ascontiguousarray(value.T).T,
        big[::2, ::3],
        backwards[::-1, ::-1],
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_arrays_agree_whatever_their_layout(dtype: str) -> None:
    value = sample(dtype)
    digest = fp(value)
    for same in layouts(value):
        assert fp(same) == digest
    changed = value.copy()
    changed[2, 3] = changed[0, 0]
    assert fp(changed) != digest


def test_dtype_shape_and_elements_count() -> None:
    values = [sample(dtype) for dtype in DTYPES]
    values += [sample("f8", shape) for shape in ((12,), (4, 3), (12, 1), (1, 12), (2, 2, 3), ())]
    values += [np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(0, dtype="f4"), [0.0], b"", 0.0]
    assert len({fp(value) for value in values}) == len(values)


def test_elements_count_bit_for_bit() -> None:
    assert fp(np.array([0.0])) != fp(np.array([-0.0]))
    payload = np.array([0x7FF8000000000001], dtype="u8").view("f8")
    assert fp(payload) != fp(np.array([np.nan]))
    assert fp(np.array([np.nan])) == fp(np.array([np.nan]))


def test_one_changed_element_of_a_large_array() -> None:
    value = np.zeros(1_000_000)
    before = fp(value)
    value[654_321] = 1e-300
    assert fp(value) != before


def test_arrays_at_the_inline_edge() -> None:
    digests = set()
    for count in range(495, 525):
        value = np.arange(count, dtype="f8")
        assert fp(value) == fp(np.repeat(value, 2)[::2])
        digests.add(fp([value]))
    assert len(digests) == 30


def test_extended_floats_ignore_their_padding() -> None:
    value = np.arange(4, dtype="g")
    noisy = np.arange(4, dtype="g")
    if value.dtype.itemsize == 16 and np.finfo("g").nmant == 63:
        noisy.view("u1").reshape(4, 16)[:, 10:] = 255
    assert fp(value) == fp(noisy)


@pytest.mark.parametrize("arrays", ["content", "spec"])
def test_byte_order_and_offsets_count(arrays: str) -> None:
    digest = kp.Fingerprinter(arrays=arrays)
    assert digest(np.array([1], "<i4")) != digest(np.array([1], ">i4"))
    assert digest(np.array([1], "i1")) == digest(np.array([1], np.dtype("i1").newbyteorder(">")))
    packed, padded = (np.dtype([("a", "i1"), ("b", "i4")], align=align) for align in (False, True))
    assert digest(np.zeros(2, packed)) != digest(np.zeros(2, padded))
    moved = np.dtype({"names": ["a", "b"], "formats": ["i1", "i4"], "offsets": [4, 0], "itemsize": 8})
    assert digest(np.zeros(2, moved)) != digest(np.zeros(2, padded))


def test_structured_arrays_ignore_what_padding_holds() -> None:
    padded = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2", (2,))], align=True)

    def make(dtype: Any, noise: int) -> Any:
        raw = np.full(5 * dtype.itemsize, noise, dtype="u1").view(dtype)
        raw["a"], raw["b"], raw["c"] = 1, np.arange(5), 7
        return raw

    digest = fp(make(padded, 0))
    assert fp(make(padded, 255)) == digest
    renamed = make(padded, 0).astype(np.dtype([("a", "i1"), ("z", "f8"), ("c", "i2", (2,))], align=True))
    assert fp(renamed) != digest


def test_object_and_string_arrays() -> None:
    objects = np.array([1, "a", None, [2]], dtype=object).reshape(2, 2)
    assert fp(objects) == fp(np.asfortranarray(objects))
    assert fp(objects) != fp(np.array([1, "a", None, [3]], dtype=object).reshape(2, 2))
    assert fp(objects) != fp(objects.reshape(4))
    if hasattr(np.dtypes, "StringDType"):
        texts = np.array(["a", "bb" * 50], dtype=np.dtypes.StringDType())
        assert fp(texts) == fp(texts.copy())
        assert fp(texts) != fp(texts[::-1])
    with pytest.raises(kp.FingerprintError, match="Python objects"):
        fp(np.zeros(2, dtype=[("a", "O")]))


def test_scalars_and_dtypes() -> None:
    values = [
        np.float64(1),
        np.float32(1),
        np.float16(1),
        np.int64(1),
        np.int32(1),
        np.bool_(True),
        np.str_("1"),
        1.0,
        1,
    ]
    values += [
        np.complex64(1),
        np.datetime64(1, "ns"),
        np.datetime64(1, "us"),
        np.longdouble(1),
        np.array(1.0),
    ]
    values += [np.dtype("f4"), np.dtype(">f4"), np.dtype("f8"), np.dtype([("a", "f4")]), np.float32]
    assert len({fp(value) for value in values}) == len(values)
    for scalar in (np.float16, np.float32, np.float64, np.longdouble):
        assert fp(scalar("nan")) == fp(-scalar("nan"))
    payload = np.array([0x7FC00123], dtype="u4").view("f4")[0]
    assert fp(payload) == fp(np.float32("nan"))
    void = np.zeros(1, dtype=[("a", "i4")])[0]
    assert fp(void) != fp(np.zeros((), dtype=[("a", "i4")]))


def test_subclasses() -> None:
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    assert fp(masked) == fp(np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    assert fp(masked) != fp(np.ma.array([1, 2, 3], mask=[0, 0, 1]))
    assert fp(np.matrix([[1, 2]])) != fp(np.array([[1, 2]]))
    assert fp(np.rec.array([(1, 2.0)])) == fp(np.rec.array([(1, 2.0)]))


def test_memory_maps_by_content(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "one", dtype="f8", mode="w+", shape=(3,))
    other = np.memmap(tmp_path / "other", dtype="f8", mode="w+", shape=(3,))
    assert fp(mapped) == fp(other) == fp(np.zeros(3))


def test_other_buffers() -> None:
    values = [
        array.array("d", [1.0]),
        array.array("f", [1.0]),
        array.array("b", [1]),
        memoryview(b"\1"),
        (ctypes.c_int * 2)(1, 2),
        (ctypes.c_double * 2)(1, 2),
        b"\1",
        bytearray(b"\1"),
    ]
    assert len({fp(value) for value in values}) == len(values)
    strided = memoryview(b"a-b-c-")[::2]
    assert fp(strided) == fp(memoryview(b"abc"))
    with mmap.mmap(-1, 16) as mapped:
        assert fp(mapped) == fp(mapped)


@pytest.mark.parametrize("make", [lambda: (ctypes.c_void_p * 2)(), lambda: (ctypes.c_char_p * 1)(b"x")])
def test_buffers_with_pointers_are_refused(make: Any) -> None:
    with pytest.raises(kp.FingerprintError, match="pointers"):
        fp(make())


def test_by_specification() -> None:
    value = np.arange(12.0).reshape(3, 4)
    assert spec(value) == spec(value + 1) == spec(np.zeros((5, 7)))
    others = [
        value.astype("f4"),
        value.reshape(12),
        np.asfortranarray(value),
        np.zeros((6, 4))[::2],
        np.zeros((3, 4), dtype=object),
    ]
    digests = {spec(value), *(spec(other) for other in others)}
    assert len(digests) == len(others) + 1
    assert spec([value]).durable
    assert spec(value) != fp(value)


def test_by_identity() -> None:
    value = np.zeros(3)
    assert identity(value) == identity(value)
    assert not identity([value]).durable
    assert identity(value) != identity(value.copy())
    value[0] = 1
    assert identity({"a": value}) == identity({"a": value})
    seen = set()
    for _ in range(2000):
        seen.add(identity(np.zeros(3)))
    gc.collect()
    assert len(seen) == 2000


class Tensor:
    """An array of another library, by DLPack."""

    def __init__(self, data: Any, device: int = 1, grad: bool = False) -> None:
        self.data, self.device, self.requires_grad = data, device, grad
        self.dtype, self.shape = str(data.dtype), data.shape
        self.copies = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.copies += 1
        return self.data.__dlpack__()

    def is_contiguous(self) -> bool:
        return bool(self.data.flags.c_contiguous)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise AssertionError("a tensor must not be pickled for its fingerprint")


class CudaArray:
    @property
    def __cuda_array_interface__(self) -> Any:
        raise AssertionError("not to be touched")


def test_foreign_arrays_by_content() -> None:
    value = np.arange(12.0).reshape(3, 4)
    assert fp(Tensor(value)) == fp(Tensor(value.copy(order="F")))
    assert fp(Tensor(value)) != fp(Tensor(value + 1))
    assert fp(Tensor(value)) != fp(value)
    assert fp(Tensor(value)) != fp(Tensor(value.astype("f4")))


@pytest.mark.parametrize("value", [Tensor(np.zeros(3), device=2), CudaArray()], ids=["dlpack", "cuda"])
def test_device_arrays_are_not_copied(value: Any) -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp([value])
    assert caught.value.code == "device-array"
    assert 'arrays="spec"' in str(caught.value) and 'arrays="identity"' in str(caught.value)
    assert identity(value) == identity(value)
    assert getattr(value, "copies", 0) == 0


def test_foreign_arrays_by_specification() -> None:
    on_device = Tensor(np.zeros((3, 4)), device=2)
    assert spec(on_device) == spec(Tensor(np.ones((5, 6)), device=2))
    assert spec(on_device) != spec(Tensor(np.zeros(3), device=2))
    assert spec(on_device) != spec(Tensor(np.zeros((3, 4), dtype="f4"), device=2))
    assert spec(on_device) != spec(Tensor(np.zeros((3, 4)), device=2, grad=True))
    assert on_device.copies == 0


def test_importing_keyprint_does_not_import_numpy() -> None:
    from processes import outputs

    code = "import sys, keyprint; keyprint.fingerprint([1]); print('numpy' in sys.modules)"
    assert outputs(code, seeds=("0",)) == ["False\n"]
