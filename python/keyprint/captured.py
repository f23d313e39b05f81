"""What can be told of values that a function captures: where they come from, and whether they can change."""

from __future__ import annotations

import sys
import types
from _weakref import ref

from .kinds import is_a, module_of_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = ["can_change", "classes_in", "in_order", "is_made", "is_same_dict", "weakly"]

#: More classes than this are not looked for in one annotation.
_MOST_CLASSES: Final = 256


def is_made(cls: type) -> bool:
    """Whether a class was made by code, and is not what its name leads to."""
    found: Any = sys.modules.get(module_of_class(cls))
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    # Classes that are written in C are not all to be found, and nobody makes them.
    return found is not cls and ("__dict__" in vars(cls) or "__weakref__" in vars(cls))


def is_same_dict(get: Callable[[], Any], known: dict[str, Any]) -> Callable[[], bool]:
    """Return something that tells whether the attributes of a function are the same objects as before."""

    def check() -> bool:
        function = get()
        found = {} if function is None else vars(function)
        return len(found) == len(known) and all(found.get(name) is value for name, value in known.items())

    return check


def classes_in(annotation: Any, names: dict[str, Any]) -> list[type]:
    """Return the classes that an annotation names, also as text or inside of generic types."""
    found: list[type] = []
    pending = [annotation]
    while pending and len(found) < _MOST_CLASSES:
        one = pending.pop()
        if is_a(one, str):
            import re

            for chain in re.findall(r"[A-Za-z_][\w.]*", one):
                first, *rest = chain.split(".")
                reached = names.get(first)
                for name in rest:
                    reached = getattr(reached, name, None)
                pending += [reached] if isinstance(reached, type) else []
        elif is_a(one, type) and not is_a(one, types.GenericAlias):
            found.append(one)
        else:
            pending += getattr(one, "__args__", None) or ()
            forward = getattr(one, "__forward_arg__", None)
            pending += [forward] if isinstance(forward, str) else []
    return found


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
