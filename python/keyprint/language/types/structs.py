"""Types of structs: named members that are numbers, vectors, matrices or structs."""

from __future__ import annotations

from types import MappingProxyType

from ..._native import NdArray
from ...fingerprints import rule
from .dtypes import DType, TensorType, constructors, scalar_of
from .postponed import evaluate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Struct", "StructType", "dataclass", "struct"]


class StructType:
    """A type of structs. Called, it builds one: in kernels, and outside."""

    __slots__ = ("__weakref__", "members", "methods", "name")
    __keyprint_constant__ = True

    name: str
    members: Mapping[str, Any]
    methods: Mapping[str, Any]

    def __init__(self, name: str, members: dict[str, Any], methods: dict[str, Any]) -> None:
        checked = {member: _member(name, member, kind) for member, kind in members.items()}
        for slot, value in (
            ("name", name),
            ("members", MappingProxyType(checked)),
            ("methods", MappingProxyType(dict(methods))),
        ):
            object.__setattr__(self, slot, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the struct type `{self.name}` cannot be changed")

    def __call__(self, *values: Any, **named: Any) -> Struct:
        if len(values) > len(self.members):
            raise TypeError(f"`{self.name}` has {len(self.members)} members, found {len(values)}")
        given = dict(zip(self.members, values, strict=False))
        for name, value in named.items():
            if name not in self.members:
                raise TypeError(f"`{self.name}` has no member `{name}`")
            given[name] = value
        return Struct(self, {name: _value(kind, given.get(name)) for name, kind in self.members.items()})

    def __copy__(self) -> StructType:
        return self

    def __deepcopy__(self, memo: object) -> StructType:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return StructType, (self.name, dict(self.members), dict(self.methods))

    def field(self, shape: Any = (), **options: Any) -> Any:
        """Return a field of such structs."""
        return constructors.field(self, shape, **options)

    def __repr__(self) -> str:
        return f"struct {self.name}({', '.join(f'{name}: {kind}' for name, kind in self.members.items())})"

    def __fingerprint__(self) -> Any:
        return rule.ordered(
            self.name, list(self.members.items()), dict(self.methods), tag="keyprint struct type"
        )


class Struct:
    """A struct, outside of kernels."""

    __slots__ = ("_home", "_kind", "_values")

    #: Kernels are compiled for the numbers in it, and for what its type defines.
    __keyprint_by_value__ = "_kind"

    def __init__(self, kind: StructType, values: dict[str, Any], home: Any = None) -> None:
        #: Where it comes from, if it is an element of a field: setting a member sets it there, too.
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(f"`{object.__getattribute__(self, '_kind').name}` has no member {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise AttributeError(f"`{self._kind.name}` has no member {name!r}")
        value = _value(self._kind.members[name], value)
        if self._home is None:
            self._values[name] = value
        else:
            self._values[name] = self._home(name, value)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the members by name."""
        return dict(self._values)

    def __reduce__(self) -> tuple[object, ...]:
        return Struct, (self._kind, self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self._kind is other._kind and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self._kind.name}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __fingerprint__(self) -> Any:
        members = [(name, str(kind)) for name, kind in self._kind.members.items()]
        return rule.ordered(self._kind.name, members, list(self._values.items()), tag="keyprint struct")


def _member(struct: str, name: str, kind: Any) -> Any:
    if isinstance(kind, (StructType, TensorType)):
        return kind
    scalar = scalar_of(kind)
    if scalar is None:
        what = "an array" if isinstance(kind, NdArray) else repr(kind)
        raise TypeError(
            f"the member `{name}` of the struct `{struct}` is {what}: expected a type of numbers, vectors, matrices or structs\n"
            "hint: arrays and fields go into a dataclass, or a class with `@data_oriented`"
        )
    return scalar


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        if isinstance(kind, TensorType):
            return kind(0)
        return kind(0) if isinstance(kind, DType) else kind()
    if isinstance(kind, StructType):
        return value
    return kind(*value) if isinstance(kind, TensorType) and hasattr(value, "__len__") else kind(value)


def struct(**members: Any) -> StructType:
    """Return a type of structs: ``kp.types.struct(mass=kp.f32, at=vec3)``."""
    methods = members.pop("__struct_methods", {})
    return StructType("struct", members, methods)


def dataclass(cls: Any) -> StructType:
    """Make a type of structs of a class: its annotations are the members, its functions can be called in kernels."""
    members = {
        name: evaluate(annotation, cls) for name, annotation in vars(cls).get("__annotations__", {}).items()
    }
    methods = {
        name: attribute
        for name, attribute in vars(cls).items()
        if hasattr(attribute, "__keyprint_function__")
    }
    return StructType(cls.__name__, members, methods)
