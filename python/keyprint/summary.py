"""Texts for people: what a value is, and what is in it, as manifests keep it.

Bounded whatever the value is: the values are looked at level by level until there are enough parts.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from collections.abc import Mapping
from typing import Any, Final

from ._native import Fingerprint, _short_text, fingerprint
from .errors import KeyprintError

__all__ = ["describe"]

#: As many parts as a manifest keeps.
_MOST_PARTS: Final = 64
#: Longer containers are not taken apart.
_MOST_ITEMS: Final = 64
#: Longer texts of containers are not shown.
_MOST_TEXT: Final = 80

_SCALARS: Final = (type(None), bool, int, float, complex, str, bytes)


def describe(value: Any) -> tuple[str, list[tuple[str, Fingerprint, str]]]:
    """Return a text for a value, and path, fingerprint and text of what is in it."""
    parts: list[tuple[str, Fingerprint, str]] = []
    pending = collections.deque([("", value)])
    while pending and len(parts) < _MOST_PARTS:
        path, owner = pending.popleft()
        for label, child in _children(owner):
            try:
                digest = fingerprint(child, mode="lenient")
            except (KeyprintError, RecursionError):
                continue
            parts.append((path + label, digest, text_of(child)))
            pending.append((path + label, child))
            if len(parts) == _MOST_PARTS:
                break
    return text_of(value), parts


def text_of(value: Any) -> str:
    """Return a short text for a value, without running code of its class."""
    kind = type(value)
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


def _counts(field: dataclasses.Field[Any]) -> bool:
    """Whether a field did not opt out, under whatever name."""
    options = [option for option in field.metadata.values() if isinstance(option, Mapping)]
    return all(option.get("fingerprint") is not False for option in options)


def _children(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    if kind is dict and len(value) <= _MOST_ITEMS:
        found = [(f"[{text_of(key)}]", item) for key, item in value.items()]
        # Keys that look alike name no place.
        looks = collections.Counter(label for label, _ in found)
        return [(label, item) for label, item in found if looks[label] == 1]
    if kind in (list, tuple) and len(value) <= _MOST_ITEMS:
        return [(f"[{at}]", item) for at, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        attributes = getattr(value, "__dict__", {})
        names = [field.name for field in dataclasses.fields(value) if _counts(field)]
        return [(f".{name}", attributes[name]) for name in names if name in attributes]
    return []
