"""Importable classes and functions for the tests."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from typing import Annotated, Any, NamedTuple

import attrs
import pydantic

import keyprint as kp


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class OtherPoint:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True)
class FrozenPoint:
    x: Any
    y: Any = 0


@dataclasses.dataclass(slots=True)
class SlotPoint:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Cached:
    x: Any
    runtime: Any = dataclasses.field(default=None, metadata=kp.no_fingerprint())


@dataclasses.dataclass
class WithInitVar:
    x: int
    scale: dataclasses.InitVar[int] = 1

    def __post_init__(self, scale: int) -> None:
        self.scaled = self.x * scale


class Undecorated(Point):
    def __init__(self, x: Any, extra: Any) -> None:
        super().__init__(x)
        self.extra = extra


@attrs.define
class AttrsPoint:
    x: Any
    y: Any = 0
    runtime: Any = attrs.field(default=None, metadata=kp.no_fingerprint())


@attrs.define(slots=False)
class AttrsDictPoint:
    x: Any
    y: Any = 0


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: Any
    y: Any = 0
    runtime: Annotated[Any, kp.no_fingerprint()] = None
    _private: int = pydantic.PrivateAttr(default=0)


class Named(NamedTuple):
    x: Any
    y: Any = 0


class NamedWithState(Named):
    pass


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("a", "b")


class SlottedChild(Slotted):
    __slots__ = ("c",)


class Memoised:
    def __init__(self, x: int) -> None:
        self.x = x

    @functools.cached_property
    def expensive(self) -> Any:
        return object(), lambda: self.x


@dataclasses.dataclass
class MemoisedData:
    x: int

    @functools.cached_property
    def expensive(self) -> Any:
        return lambda: self.x


class MemoisedState(Memoised):
    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)


class MemoisedDict(dict):  # type: ignore[type-arg]
    @functools.cached_property
    def expensive(self) -> int:
        return 5


class MyDict(dict):  # type: ignore[type-arg]
    pass


class MyList(list):  # type: ignore[type-arg]
    pass


class MyTuple(tuple):  # type: ignore[type-arg]
    pass


class MySet(set):  # type: ignore[type-arg]
    pass


class MyFrozenSet(frozenset):  # type: ignore[type-arg]
    pass


class MyStr(str):
    pass


class BareStr(str):
    __slots__ = ()


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyComplex(complex):
    pass


class MyBytes(bytes):
    pass


class MyByteArray(bytearray):
    pass


class SlotDict(dict):  # type: ignore[type-arg]
    __slots__ = ("extra",)


class MyOrderedDict(collections.OrderedDict):  # type: ignore[type-arg]
    pass


class MyDefaultDict(collections.defaultdict):  # type: ignore[type-arg]
    pass


@dataclasses.dataclass
class DataList(list):  # type: ignore[type-arg]
    x: int = 0


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Shade(enum.Enum):
    RED = 1
    GREEN = 2


class Device(enum.IntEnum):
    CPU = 0
    GPU = 1


class Perm(enum.Flag):
    R = 1
    W = 2


class IntPerm(enum.IntFlag):
    R = 1
    W = 2


class Text(str, enum.Enum):
    A = "a"


class Number(int, enum.Enum):
    ONE = 1


class Reduced:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return Reduced, (self.value,)


class Stateful:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.scratch = object()

    def __getstate__(self) -> Any:
        return {"value": self.value}


class Handle:
    """Describes itself."""

    def __init__(self, name: str, address: int) -> None:
        self.name, self.address = name, address

    def __fingerprint__(self) -> kp.rule.Description:
        return kp.rule.leaf(self.name)


class ConstantRule:
    __fingerprint__ = kp.rule.by_fields(skip=("location",))

    def __init__(self, value: Any, location: Any) -> None:
        self.value, self.location = value, location


class Node:
    def __init__(self, value: Any, location: Any = None) -> None:
        self.value, self.location = value, location


class ChildNode(Node):
    pass


def function(x: int) -> int:
    return x + 1


def other_function(x: int) -> int:
    return x + 1


class Holder:
    class Inner:
        pass

    @staticmethod
    def static() -> None:
        pass

    def method(self) -> None:
        pass

    @classmethod
    def make(cls) -> None:
        pass
