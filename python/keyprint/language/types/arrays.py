"""Arrays: ``kp.ndarray``, and what they exchange with NumPy and others."""

from __future__ import annotations

import operator

from ..._native import NdArray
from .devices import device_number
from .dtypes import DType, TensorType, name_of, numpy_name, scalar_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["asarray", "copy_from", "ndarray", "shape_of"]


def shape_of(shape: Any) -> tuple[int, ...]:
    """Return sizes as a tuple."""
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    return tuple(operator.index(size) for size in sizes)


def element_of(dtype: Any) -> tuple[DType, tuple[int, ...], Any]:
    """Return the type of numbers and the sizes of an element, and the type itself."""
    if isinstance(dtype, TensorType):
        return dtype.dtype, dtype.shape, dtype
    scalar = scalar_of(dtype)
    if scalar is None:
        raise TypeError(
            f"expected the type of the elements, found {dtype!r}\nhint: write `kp.f32`, `kp.types.vector(3, kp.f32)`"
        )
    return scalar, (), scalar


def ndarray(
    dtype: Any, shape: Any = (), *, needs_grad: bool = False, layout: Any = None, device: Any = None
) -> NdArray:
    """Return an array of zeros.

    ``dtype`` is a type of numbers, or of vectors or matrices. ``device`` is ``"cpu"``, ``"cuda"`` or ``"cuda:1"``;
    without it, the array is where ``kp.init`` says. One on the CPU shares its memory with NumPy
    (``numpy.asarray(x)``), and any with everything that speaks DLPack (``torch.from_dlpack(x)``).
    """
    scalar, element, kind = element_of(dtype)
    return NdArray(scalar.name, shape_of(shape), element, kind, needs_grad, device_number(device))


def asarray(array: Any, dtype: Any = None, *, device: Any = None) -> NdArray:
    """Return an array that shares its memory with another: of NumPy, or of anything that speaks DLPack.

    The other must be laid out the usual way, and writable. With a type of vectors or matrices as ``dtype``, the last
    dimensions are those of the elements. With a ``device`` that the other is not on, it is copied there.
    """
    if device is not None:
        return _on_device(array, dtype, device_number(device))
    if isinstance(array, NdArray) and dtype is None:
        return array
    import numpy

    is_foreign = not isinstance(array, numpy.ndarray) and hasattr(array, "__dlpack__")
    try:
        view = numpy.from_dlpack(array) if is_foreign else numpy.asarray(array)
    except RuntimeError as error:
        raise TypeError(
            f"memory is shared by way of NumPy, which cannot: {error}\nhint: pass the array itself to a kernel"
        ) from error
    name = name_of(view.dtype.name) if view.dtype.isnative else None
    if name is None:
        raise TypeError(f"an array of `{view.dtype}` has elements of which kernels know nothing")
    if not view.flags.c_contiguous or not view.flags.writeable or not view.flags.aligned:
        raise ValueError(
            "memory can be shared if it is contiguous, aligned and writable\nhint: copy it with `from_numpy`"
        )
    scalar, element, kind = element_of(scalar_of(view.dtype) if dtype is None else dtype)
    ndim = view.ndim - len(element)
    if scalar.name != name or ndim < 0 or view.shape[ndim:] != element:
        raise TypeError(f"expected elements `{kind}`, found an array of `{name}` of shape {view.shape}")
    return NdArray.view(name, view.shape[:ndim], element, kind, view.ctypes.data, view)


def _on_device(array: Any, dtype: Any, device: int | None) -> NdArray:
    """Return an array on a device: the same one if it is there, otherwise a copy."""
    if isinstance(array, NdArray) and array.device_id == device and dtype is None:
        return array
    import numpy

    if not isinstance(array, NdArray):
        array = asarray(numpy.ascontiguousarray(array.get() if hasattr(array, "get") else array), dtype)
    copy = NdArray(array.scalar, array.shape, array.element_shape, array.dtype, array.needs_grad, device)
    copy.copy_bytes(array)
    return copy


def copy_from(array: NdArray, other: Any) -> None:
    """Copy elements into an array: from an array, or anything that NumPy makes one of."""
    shape = (*array.shape, *array.element_shape)
    if isinstance(other, NdArray):
        if other.scalar == array.scalar:
            if (*other.shape, *other.element_shape) != shape:
                raise ValueError(
                    f"expected an array of shape {shape}, found {(*other.shape, *other.element_shape)}"
                )
            array.copy_bytes(other)
            return
        import numpy

        other = numpy.asarray(other)
    source = other
    if hasattr(source, "detach") and hasattr(source, "cpu"):
        source = source.detach().cpu()
        # NumPy has no name for it.
        source = (source.float() if str(source.dtype) == "torch.bfloat16" else source).numpy()
    import numpy

    source = numpy.asarray(source)
    if source.shape != shape:
        raise ValueError(f"expected an array of shape {shape}, found {source.shape}")
    if source.dtype.name == "bfloat16":
        source = source.astype("float32")
    casting: Any = "same_kind" if source.dtype.kind in "biuf" else "safe"
    if array.scalar == "bf16":
        doubles = numpy.empty(shape)
        numpy.copyto(doubles, source, casting=casting)
        array.round_from(doubles)
        return
    if array.device_id is not None:
        copy = numpy.empty(shape, numpy_name(array.scalar))
        numpy.copyto(copy, source, casting=casting)
        array.copy_bytes(copy)
        return
    # An array that shares the memory; NumPy converts what is of another type.
    numpy.copyto(numpy.asarray(array), source, casting=casting)
