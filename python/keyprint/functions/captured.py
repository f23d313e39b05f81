"""What can be told of values that a function captures: where they come from, whether they can change, and how."""

from __future__ import annotations

import sys
import types
from _weakref import ref

from ..fingerprints.kinds import is_a, module_of_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = [
    "PLAIN",
    "can_change",
    "classes_in",
    "has_parts",
    "in_order",
    "is_behaviour",
    "is_enum",
    "is_made",
    "is_same_by_nature",
    "is_same_dict",
    "only_adds",
    "table_behind",
    "weakly",
]

#: More classes than this are not looked for in one annotation.
_MOST_CLASSES: Final = 256


#: Types of values without parts.
PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))

#: Methods of builtin containers that look at nothing of what is there.
_ADDERS: Final[dict[type, frozenset[str]]] = {
    list: frozenset({"append", "clear", "extend", "insert", "reverse"}),
    set: frozenset({"add", "clear", "discard", "update"}),
    dict: frozenset({"clear", "setdefault", "update"}),
    bytearray: frozenset({"append", "clear", "extend"}),
}


#: The flag of classes that are made at run time: `Py_TPFLAGS_HEAPTYPE`.
_HEAP_TYPE: Final = 1 << 9


def is_made(cls: type) -> bool:
    """Whether a class was made by code, and is not what its name leads to."""
    reached: Any = sys.modules.get(module_of_class(cls))
    for name in cls.__qualname__.split("."):
        reached = getattr(reached, name, None)
    # Classes that are written in C are not all to be found (`function`), and nobody makes them.
    is_static = not cls.__flags__ & _HEAP_TYPE
    return reached is not cls and not is_static and ("__dict__" in vars(cls) or "__weakref__" in vars(cls))


def is_same_dict(get: Callable[[], Any], known: dict[str, Any]) -> Callable[[], bool]:
    """Return something that tells whether the attributes of a function are the same objects as before."""

    def check() -> bool:
        function = get()
        attributes = {} if function is None else vars(function)
        return len(attributes) == len(known) and all(
            attributes.get(name) is value for name, value in known.items()
        )

    return check


def classes_in(annotation: Any, names: dict[str, Any]) -> list[type]:
    """Return the classes that an annotation names, also as text or inside of generic types."""
    classes: list[type] = []
    pending = [annotation]
    while pending and len(classes) < _MOST_CLASSES:
        part = pending.pop()
        if is_a(part, str):
            import re

            for path in re.findall(r"[A-Za-z_][\w.]*", part):
                first, *rest = path.split(".")
                reached = names.get(first)
                for name in rest:
                    reached = getattr(reached, name, None)
                pending += [reached] if isinstance(reached, type) else []
        elif is_a(part, type) and not is_a(part, types.GenericAlias):
            classes.append(part)
        else:
            pending += getattr(part, "__args__", None) or ()
            forward = getattr(part, "__forward_arg__", None)
            pending += [forward] if isinstance(forward, str) else []
    return classes


def in_order(classes: list[type]) -> list[type]:
    """Return classes in an order that is the same in every process."""
    return sorted(classes, key=lambda cls: (module_of_class(cls), cls.__qualname__))


def weakly(value: Any) -> Callable[[], Any]:
    """Return something that returns a value, if possible without keeping it alive."""
    try:
        return ref(value)
    except TypeError:
        return lambda: value


def can_change(array: Any) -> bool:
    """Whether the elements of an array may change without the array being told."""
    while array is not None:
        flags = getattr(array, "flags", None)
        if flags is None or not hasattr(flags, "writeable"):
            # Memory of something else: only `bytes` are known to stay as they are.
            return not is_a(array, bytes)
        if flags.writeable:
            return True
        array = array.base
    return False


def is_behaviour(value: Any) -> bool:
    """Whether a member of a class is followed as a function, and needs no watching of its own."""
    if is_a(value, (staticmethod, classmethod)):
        return isinstance(value.__func__, types.FunctionType)
    if is_a(value, property):
        accessors = (value.fget, value.fset, value.fdel)
        return all(is_a(accessor, (types.FunctionType, type(None))) for accessor in accessors)
    return is_a(value, types.FunctionType)


def table_behind(dispatcher: types.FunctionType) -> Any:
    """Return the table that `functools.singledispatch` looks functions up in."""
    dispatch = vars(dispatcher).get("dispatch")
    if isinstance(dispatch, types.FunctionType) and "registry" in dispatch.__code__.co_freevars:
        at = dispatch.__code__.co_freevars.index("registry")
        registry = (dispatch.__closure__ or ())[at].cell_contents
        return registry if type(registry) is dict else None
    return None


def only_adds(owner: Any, method: str) -> bool:
    """Whether a method of a container adds to it whatever is there."""
    kind = type(owner)
    if kind.__module__ == "collections":
        names = {
            "Counter": ("update", "clear"),
            "deque": ("append", "appendleft", "extend", "extendleft", "clear"),
        }
        if method not in names.get(kind.__name__, ()):
            return False
    elif method not in _ADDERS.get(kind, frozenset()):
        return False
    # Keys are compared with those that are there, by code of their classes.
    return kind in (list, bytearray) or kind.__name__ == "deque" or all(type(item) in PLAIN for item in owner)


def is_enum(cls: type) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(cls, enum.EnumMeta)


def is_same_by_nature(value: Any) -> bool:
    """Whether there is one of a value for all: constants, small numbers, short texts."""
    if type(value) is int:
        return -5 <= value <= 256
    return (
        value is None
        or type(value) in (bool, type(Ellipsis))
        or (type(value) in (str, bytes) and len(value) < 2)
    )


def has_parts(value: Any) -> bool:
    """Whether a value says more if what is in it is told."""
    plain = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
    return type(value) not in PLAIN and not is_a(value, plain)
