"""Fields: arrays that are part of the program.

A kernel reads a field by its name, as it reads a global, and its memory is where it is for as long as the
field lives. So code that was compiled for a field is good for that field, in this process: kernels that
touch fields are not kept in the store.
"""

from __future__ import annotations

import itertools

from ..._native import NdArray
from ...functions.registered import count_in_this_process
from .arrays import element_of, shape_of
from .devices import device_number
from .dtypes import BY_NAME
from .structs import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Field", "StructField", "field"]

_tokens = itertools.count(1)


class Field:
    """An array that is part of the program."""

    __slots__ = ("__weakref__", "_array", "_name", "_token")

    def __init__(
        self,
        dtype: Any,
        shape: Any = (),
        *,
        name: str = "",
        needs_grad: bool = False,
        device: Any = None,
    ) -> None:
        scalar, element, kind = element_of(dtype)
        number = device_number(device)
        self._array = NdArray(scalar.name, shape_of(shape), element, kind, needs_grad, number)
        self._token = next(_tokens)
        self._name = name

    def __keyprint_process_local__(self) -> int:
        return self._token

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self._array.shape

    @property
    def dtype(self) -> Any:
        """The type of its numbers."""
        return BY_NAME[self._array.scalar]

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._array.ndim

    @property
    def n(self) -> int:
        """How many numbers, or rows, an element has."""
        return (*self._array.element_shape, 1)[0]

    @property
    def m(self) -> int:
        """How many columns an element has."""
        return (*self._array.element_shape, 1, 1)[1]

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[index] = value

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("fields are looped over in kernels; use `to_numpy()` outside")

    def fill(self, value: Any) -> None:
        """Set all elements."""
        self._array.fill(value)

    def to_numpy(self) -> Any:
        """Return a copy as a NumPy array."""
        return self._array.to_numpy()

    def from_numpy(self, array: Any) -> None:
        """Copy a NumPy array into the field."""
        self._array.from_numpy(array)

    def to_torch(self, device: Any = None) -> Any:
        """Return a copy as a torch tensor."""
        import torch  # type: ignore[import-not-found]

        tensor = torch.from_numpy(self.to_numpy())
        return tensor.to(device, torch.bfloat16 if self._array.scalar == "bf16" else tensor.dtype)

    from_torch = from_numpy

    def copy_from(self, other: Any) -> None:
        """Copy another field or array of the same shape."""
        self._array.from_numpy(other._array if isinstance(other, Field) else other)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        return f"<field {self._array.dtype} {self.shape}>"


count_in_this_process(Field, Field.__keyprint_process_local__)


class StructField:
    """A field of structs: a field for each member."""

    __slots__ = ("__dict__", "_kind", "_members")

    def __init__(self, kind: Any, shape: Any) -> None:
        self._kind = kind
        self._members: dict[str, Any] = {
            name: StructField(member, shape)
            if hasattr(member, "members")
            else Field(member, shape, name=name)
            for name, member in kind.members.items()
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        sizes: tuple[int, ...] = next(iter(self._members.values())).shape
        return sizes

    def __keyprint_type__(self) -> Any:
        return self._kind

    def __keyprint_process_local__(self) -> tuple[Any, ...]:
        return tuple(member.__keyprint_process_local__() for member in self._members.values())

    def __getattr__(self, name: str) -> Any:
        members = object.__getattribute__(self, "_members")
        if name in members:
            return members[name]
        raise AttributeError(f"the struct has no member {name!r}")

    def __getitem__(self, index: Any) -> Any:
        def store(name: str, value: Any) -> Any:
            member = self._members[name]
            member[index] = value
            return member[index]

        return Struct(self._kind, {name: member[index] for name, member in self._members.items()}, store)

    def __setitem__(self, index: Any, value: Any) -> None:
        for name, member in self._members.items():
            member[index] = value[name] if isinstance(value, dict) else getattr(value, name)

    def fill(self, value: Any) -> None:
        """Set all numbers."""
        for member in self._members.values():
            member.fill(value)

    def to_numpy(self) -> dict[str, Any]:
        """Return a copy of each member as a NumPy array."""
        return {name: member.to_numpy() for name, member in self._members.items()}

    def from_numpy(self, arrays: Any) -> None:
        """Copy NumPy arrays into the members."""
        for name, member in self._members.items():
            member.from_numpy(arrays[name])


def field(
    dtype: Any, shape: Any = (), *, name: str = "", needs_grad: bool = False, order: str | None = None
) -> Any:
    """Return a field of zeros: an array that kernels read by its name.

    ``dtype`` is a type of numbers, vectors, matrices, or structs. ``order`` is accepted, and the last dimension is
    the fastest whatever it says.
    """
    if hasattr(dtype, "members"):
        return StructField(dtype, shape)
    return Field(dtype, () if shape is None else shape, name=name, needs_grad=needs_grad)
