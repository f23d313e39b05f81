"""What an object is and what it stores, found out without running code of its class."""

from __future__ import annotations

import sys
import types

from ..._native import Guards
from ...fingerprints.kinds import is_a
from ...functions.access_paths import function_of, is_slot, keeps_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: What arrays have.
_ARRAYS: Final = ("__cuda_array_interface__", "__dlpack__", "__array_interface__")

#: Builtin types whose values are plain.
SCALARS: Final = (bool, int, float, complex)
BY_VALUE: Final = (str, bytes, type(None), type(Ellipsis))

#: Containers with more than this are not looked through.
_MOST_ITEMS: Final = 4096


def stored(value: Any, name: str) -> tuple[()] | tuple[Any]:
    """Return a member that is stored in an instance."""
    member = Guards().member(value, name)
    return member or ()


def is_instance(value: Any) -> bool:
    """Whether something is an instance of a class written in Python, whose members are just stored."""
    kinds = (type, types.ModuleType, list, dict, set, tuple, str, int, float)
    if type(value) is types.SimpleNamespace:
        return True
    return keeps_members(type(value)) and not is_a(value, kinds)


def is_array(value: Any) -> bool:
    kind = type(value)
    return any(hasattr(kind, name) for name in _ARRAYS)


def is_plain(value: Any) -> bool:
    """Whether there are only numbers, texts and the like in a value."""
    pending, seen = [value], 0
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind in (list, tuple):
            pending += item
        elif kind is dict:
            pending += [*item, *item.values()]
        elif kind not in SCALARS and kind not in BY_VALUE:
            return False
        seen += 1
        if seen > _MOST_ITEMS:
            return False
    return True


def slot_names(cls: type) -> list[str]:
    """Return the names of the slots that instances of a class keep members in."""
    kind = types.MemberDescriptorType
    return sorted(
        {name for base in cls.__mro__ for name, attribute in vars(base).items() if is_a(attribute, kind)}
        - {"__dict__", "__weakref__"}
    )


def is_number(value: Any) -> bool:
    """Whether something is a scalar of NumPy; those of structured types can be written to."""
    numpy = sys.modules.get("numpy")
    return is_a(value, getattr(numpy, "generic", ())) and not is_a(value, getattr(numpy, "void", ()))


def is_constant(value: Any) -> bool:
    """Whether something cannot change: members of enums, data types."""
    enum, numpy, torch = (sys.modules.get(name) for name in ("enum", "numpy", "torch"))
    kinds = (getattr(enum, "Enum", None), getattr(numpy, "dtype", None), getattr(torch, "dtype", None))
    return is_a(value, tuple(kind for kind in kinds if kind is not None))


def is_computed(attribute: Any) -> bool:
    """Whether code decides what an attribute of a class is for an instance: properties and the like."""
    plain = (types.FunctionType, staticmethod, classmethod)
    return (
        hasattr(type(attribute), "__get__")
        and not is_slot(attribute)
        and not is_a(attribute, plain)
        and function_of(attribute) is None
    )


def accessors(attribute: Any) -> list[types.FunctionType]:
    candidates = [getattr(attribute, name, None) for name in ("fget", "fset", "fdel", "func")]
    return [function for function in candidates if is_a(function, types.FunctionType)]


def order_of(value: Any) -> list[str]:
    """Return the names of members in the order in which they were set."""
    return [str(name) for name in getattr(value, "__dict__", {})]


def stored_names(value: Any) -> list[str]:
    """Return the names of the members that an instance has of its own, slots aside."""
    return sorted(getattr(value, "__dict__", {}))


def fields_of(cls: type) -> list[str] | None:
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None:
        return None
    return [name for name, field in fields.items() if field._field_type.name == "_FIELD"]


def with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} `{name}`"
