"""Signatures of arrays of other libraries: interfaces of devices, DLPack, and its table of functions."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from recorder import Recorder

import keyprint as kp


def takes(x: Any) -> Any:
    return x


# -- Arrays of other libraries -------------------------------------------------------------------


class Cuda:
    """Stands in for an array on a device."""

    def __init__(
        self, typestr: str = "<f4", shape: Any = (3, 4), strides: Any = None, readonly: bool = False
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "strides": strides, "data": (0, readonly), "version": 3
        }  # fmt: skip


class CudaArray(Cuda):
    __cuda_array_interface__: Any = None


class Dlpack:
    """Has nothing but DLPack, with NumPy behind it."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Described(Dlpack):
    """Says the same by attributes, as most libraries do."""

    shape = property(lambda self: self.array.shape)
    strides = property(lambda self: self.array.strides)
    dtype = property(lambda self: self.array.dtype)

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("no round trip is needed")


def test_cuda_arrays() -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    arrays = [
        *(CudaArray(), CudaArray(shape=(5, 6)), CudaArray(typestr="<f8"), CudaArray(shape=(3,))),
        *(CudaArray(strides=(4, 12)), CudaArray(strides=(100, 4)), CudaArray(readonly=True)),
    ]
    assert [kernel(array) for array in arrays] == [1, 1, 2, 3, 4, 5, 6]
    assert [kernel(array) for array in arrays] == [1, 1, 2, 3, 4, 5, 6]
    assert compile.made[3].arguments["x"].layout == "F"


@pytest.mark.parametrize("wrap", [Dlpack, Described])
def test_dlpack_arrays(wrap: Any) -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile)
    arrays = [
        *(np.zeros((3, 4), "f4"), np.zeros((5, 6), "f4"), np.zeros((3, 4)), np.zeros(3, "f4")),
        *(np.zeros((3, 4), "f4", order="F"), np.zeros((6, 8), "f4")[::2, ::2], np.zeros((3, 4), "i4")),
    ]
    assert [kernel(wrap(array)) for array in arrays] == [1, 1, 2, 3, 4, 5, 6]
    assert [kernel(wrap(array)) for array in arrays] == [1, 1, 2, 3, 4, 5, 6]
    specs = compile.made
    assert (specs[0].arguments["x"].dtype, specs[0].arguments["x"].ndim) == ("float32", 2)
    assert [spec.arguments["x"].layout for spec in specs] == ["C", "C", "C", "F", "S", "C"]


# -- Types that offer DLPack's table of functions, as torch's do -----------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


FROM_OBJECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))


class Table(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("tensor_from", FROM_OBJECT),
    )


@FROM_OBJECT
def _tensor_from(tensor: Any, out: Any) -> int:
    array = tensor.array
    out[0].data, out[0].device_type, out[0].ndim = array.ctypes.data, 1, array.ndim
    out[0].code, out[0].bits, out[0].lanes = {"f": 2, "i": 0}[array.dtype.kind], array.itemsize * 8, 1
    out[0].shape, out[0].strides = tensor.shape, tensor.strides
    return 0


TABLE = Table(1, 3, None, None, None, None, _tensor_from)
# The capsule keeps the address of its name.
NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    __dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(TABLE), NAME, None)

    def __init__(self, array: Any, requires_grad: bool = False) -> None:
        self.array = array
        self.requires_grad = requires_grad
        self.shape = (ctypes.c_int64 * 8)(*array.shape)
        self.strides = (ctypes.c_int64 * 8)(*[stride // array.itemsize for stride in array.strides])


def test_tensors() -> None:
    compile = Recorder()
    kernel = kp.jit(takes, compile=compile, align={"x": 64})
    memory = np.zeros(64)
    start = (-memory.ctypes.data % 64) // 8
    aligned = memory[start : start + 12].reshape(3, 4)
    tensors = [
        *(Tensor(aligned), Tensor(aligned[:2]), Tensor(memory[start + 1 : start + 13].reshape(3, 4))),
        *(Tensor(aligned.T), Tensor(aligned[:, ::2]), Tensor(aligned[0]), Tensor(aligned.view("i8"))),
        Tensor(aligned, requires_grad=True),
    ]
    assert [kernel(tensor) for tensor in tensors] == [1, 1, 2, 3, 4, 5, 6, 7]
    assert [kernel(tensor) for tensor in tensors] == [1, 1, 2, 3, 4, 5, 6, 7]
    arguments = [spec.arguments["x"] for spec in compile.made]
    assert [argument.layout for argument in arguments] == ["C", "C", "F", "S", "C", "C", "C"]
    assert [argument.dtype for argument in arguments][:6] == ["float64"] * 5 + ["int64"]
    assert arguments[-1].needs_grad is True


def test_tensors_for_native_code() -> None:
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))
    def record(slots: Any) -> int:
        seen.append([slots[at] for at in range(3)])
        return 0

    address = ctypes.cast(record, ctypes.c_void_p).value or 0
    code = kp.NativeCode(address, ["x", "x.shape[1]", "x.strides[0]"], keep=record)
    kernel = kp.jit(takes, compile=lambda s: b"", load=lambda a: code)
    array = np.zeros((3, 4))
    kernel(Tensor(array))
    kernel(Tensor(array))
    # Strides are in bytes, whatever library an array is of.
    assert seen == [[array.ctypes.data, 4, 32]] * 2


def test_misaligned_arrays_have_signatures_of_their_own() -> None:
    aligned = np.zeros(4, np.float32)
    misaligned = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)
    met = []

    def compile(specialization: kp.Specialization) -> Any:
        met.append(specialization.arguments["x"])
        return lambda x: len(met)

    kernel = kp.jit(lambda x: x[0], compile=compile)
    assert [kernel(aligned), kernel(misaligned), kernel(aligned + 1)] == [1, 2, 2]
    assert [(argument.is_misaligned, argument.device) for argument in met] == [(None, None), (True, None)]
