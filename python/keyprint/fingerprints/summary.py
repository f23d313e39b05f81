"""Texts for people: what a value is, and what is in it, as manifests keep it.

Bounded whatever the value is: the values are looked at level by level until there are enough parts. Nothing is
imported for it: a value of a kind that no loaded module has cannot exist.
"""

from __future__ import annotations

import sys
import types

from .._native import Fingerprint, _short_text, fingerprint
from ..errors import KeyprintError
from .kinds import is_a, module_of_class
from .metadata import has_opted_out
from .shown import Shown, ShownParts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

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
    if type(value) is ShownParts:
        return value.text, value.parts, value.is_cut
    parts: list[tuple[str, Fingerprint, str]] = []
    pending = [("", value)]
    seen: set[int] = set()
    cut = False
    while pending:
        path, owner = pending.pop(0)
        if id(owner) in seen:
            # Told where it was met first.
            continue
        seen.add(id(owner))
        children, is_all = _children(owner)
        if len(parts) + len(children) > _MOST_PARTS:
            children, is_all = [], False
        cut = cut or not is_all
        for label, child in children:
            try:
                digest = _digest(child)
            except (KeyprintError, RecursionError):
                cut = True
                continue
            parts.append((path + label, digest, text_of(child)))
            pending.append((path + label, child))
    return text_of(value), parts, cut


def _digest(value: Any) -> Fingerprint:
    if type(value) is ShownParts:
        return fingerprint([value.text, *(bytes(digest) for _, digest, _ in value.parts)])
    if is_a(value, types.FunctionType):
        # The text tells functions apart; what they do is a component of its own.
        return fingerprint(text_of(value))
    return fingerprint(value, mode="lenient")


def text_of(value: Any) -> str:
    """Return a short text for a value, without running code of its class."""
    kind = type(value)
    if kind is Shown:
        return str(value)
    if kind is ShownParts:
        return str(value.text)
    if is_a(value, Fingerprint):
        return "a fingerprint"
    if issubclass(kind, getattr(sys.modules.get("enum"), "Enum", ())):
        return f"{kind.__name__}.{value._name_}"
    if issubclass(kind, type):
        return f"class {module_of_class(value)}.{value.__qualname__}"
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return f"function {value.__module__}.{value.__qualname__}"
    if kind is types.ModuleType:
        return f"module {value.__name__}"
    if kind in (list, tuple, set, frozenset, dict) and len(value) <= 8:
        items = [*value, *value.values()] if kind is dict else list(value)
        if all(type(item) in _SCALARS for item in items):
            # Sets hand out their elements in an order of their own.
            text = _of_set(value) if kind in (set, frozenset) else repr(value)
            if len(text) <= _MOST_TEXT:
                return text
    if (dtype := _array_attribute(value, "dtype")) and (shape := _array_attribute(value, "shape")):
        return f"{kind.__name__} {dtype} {shape}"
    return _short_text(value)


def _of_set(value: Any) -> str:
    inside = ", ".join(sorted(map(repr, value)))
    text = f"{{{inside}}}" if inside else ""
    return text or "set()" if type(value) is set else f"frozenset({text})"


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
    if hasattr(kind, "__fingerprint__") or kind is types.FunctionType:
        # What counts of it is its own business.
        return [], True
    if kind in (Shown, ShownParts):
        return [], True
    if issubclass(kind, (dict, list, tuple)) and len(value) > _MOST_ITEMS:
        return [], False
    if issubclass(kind, dict):
        items = [(f"[{text_of(key)}]", item) for key, item in dict.items(value)]
        # Keys that look alike name no place.
        labels = [label for label, _ in items]
        told = [(label, item) for label, item in items if labels.count(label) == 1]
        return [*told, *_attributes(value)], len(told) == len(items)
    names = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(names, tuple):
        return [(f".{name}", item) for name, item in zip(names, value, strict=False)], True
    if issubclass(kind, (list, tuple)):
        return [*((f"[{at}]", item) for at, item in enumerate(value)), *_attributes(value)], True
    fields = getattr(kind, "__dataclass_fields__", None)
    if isinstance(fields, dict):
        counted = [name for name, field in fields.items() if not has_opted_out(field.metadata)]
        return [(f".{name}", item) for name in counted for item in _attribute(value, name)], True
    attributes = _attributes(value)
    return (attributes, True) if len(attributes) <= _MOST_ITEMS else ([], False)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Return what is stored in an instance of a class that is written in Python."""
    kind = type(value)
    if kind.__module__ == "builtins" or issubclass(kind, (type, types.ModuleType)):
        return []
    held = _instance_dict(value)
    names = list(held)
    for base in kind.__mro__:
        is_slot = types.MemberDescriptorType
        names += [
            name
            for name, attribute in vars(base).items()
            if isinstance(attribute, is_slot) and not name.startswith("__")
        ]
    return [(f".{name}", item) for name in dict.fromkeys(names) for item in _attribute(value, name)]


def _instance_dict(value: Any) -> dict[Any, Any]:
    """Return the attributes of an instance, without running code of its class."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return held if type(held) is dict else {}


def _attribute(value: Any, name: Any) -> list[Any]:
    """Return an attribute that is stored in an object, without running code of its class."""
    if name in (attributes := _instance_dict(value)):
        return [attributes[name]]
    slot = getattr(type(value), name, None) if isinstance(name, str) else None
    if isinstance(slot, types.MemberDescriptorType):
        try:
            return [slot.__get__(value)]
        except AttributeError:
            pass
    return []
