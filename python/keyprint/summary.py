"""Texts for people: what a value is, and what is in it, as manifests keep it.

Bounded whatever the value is: the values are looked at level by level until there are enough parts.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from typing import Any, Final

from ._native import Fingerprint, _short_text, fingerprint
from .errors import KeyprintError
from .keys import Shown
from .metadata import has_opted_out

__all__ = ["describe", "text_of"]

#: As many parts as a manifest keeps.
_MOST_PARTS: Final = 64
#: Longer containers are not taken apart.
_MOST_ITEMS: Final = 64
#: Longer texts of containers are not shown.
_MOST_TEXT: Final = 80


_SCALARS: Final = (type(None), bool, int, float, complex, str, bytes)


def describe(value: Any) -> tuple[str, list[tuple[str, Fingerprint, str]], bool]:
    """Return a text for a value; path, fingerprint and text of what is in it; whether some of that is left out."""
    parts: list[tuple[str, Fingerprint, str]] = []
    pending = collections.deque([("", value)])
    cut = False
    while pending:
        path, owner = pending.popleft()
        children, is_all = _children(owner)
        if len(parts) + len(children) > _MOST_PARTS:
            children, is_all = [], False
        cut = cut or not is_all
        for label, child in children:
            try:
                digest = fingerprint(child, mode="lenient")
            except (KeyprintError, RecursionError):
                cut = True
                continue
            parts.append((path + label, digest, text_of(child)))
            pending.append((path + label, child))
    return text_of(value), parts, cut


def text_of(value: Any) -> str:
    """Return a short text for a value, without running code of its class."""
    kind = type(value)
    if kind is Shown:
        return str(value)
    if isinstance(value, Fingerprint):
        return f"fingerprint {value.short}"
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value._name_}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return f"function {value.__module__}.{value.__qualname__}"
    if kind is types.ModuleType:
        return f"module {value.__name__}"
    if kind in (list, tuple, set, frozenset, dict) and len(value) <= 8:
        items = [*value, *value.values()] if kind is dict else list(value)
        if all(type(item) in _SCALARS for item in items) and len(text := repr(value)) <= _MOST_TEXT:
            return text
    if (dtype := _array_attribute(value, "dtype")) and (shape := _array_attribute(value, "shape")):
        return f"{kind.__name__} {dtype} {shape}"
    return _short_text(value)


def _array_attribute(value: Any, name: str) -> str | None:
    """Return an attribute of something that is an array by its looks."""
    if not hasattr(type(value), "__array_interface__") and not hasattr(type(value), "__dlpack__"):
        return None
    try:
        return str(getattr(value, name))
    except Exception:
        return None


def _children(value: Any) -> tuple[list[tuple[str, Any]], bool]:
    """Return what is in a value, by place, and whether that is all of it."""
    kind = type(value)
    if hasattr(kind, "__fingerprint__"):
        # What counts of it is its own business.
        return [], True
    if kind in (dict, list, tuple) and len(value) > _MOST_ITEMS:
        return [], False
    if kind is dict:
        found = [(f"[{text_of(key)}]", item) for key, item in value.items()]
        # Keys that look alike name no place.
        looks = collections.Counter(label for label, _ in found)
        return [(label, item) for label, item in found if looks[label] == 1], len(looks) == len(found)
    if kind in (list, tuple):
        return [(f"[{at}]", item) for at, item in enumerate(value)], True
    if isinstance(value, tuple) and isinstance(names := getattr(kind, "_fields", None), tuple):
        return [(f".{name}", item) for name, item in zip(names, value, strict=False)], True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if not has_opted_out(field.metadata)]
        return [(f".{name}", item) for name in fields for item in _attribute(value, name)], True
    return [], True


def _attribute(value: Any, name: str) -> list[Any]:
    """Return an attribute that is stored in an object, without running code of its class."""
    if name in (attributes := getattr(value, "__dict__", {})):
        return [attributes[name]]
    slot = getattr(type(value), name, None)
    if isinstance(slot, types.MemberDescriptorType):
        try:
            return [slot.__get__(value)]
        except AttributeError:
            pass
    return []
