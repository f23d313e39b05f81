"""Short texts for what a function reaches, for people."""

from __future__ import annotations

import types

from .._native import _short_text
from ..fingerprints.kinds import is_a, module_of_class
from .entry import module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["name_of_label", "phrase_of_label", "short_text"]


def name_of_label(label: str) -> str:
    """Return what a label names."""
    return f"`{label.partition(' ')[2]}`"


def phrase_of_label(label: str) -> str:
    """Return a label as part of a sentence."""
    kind, _, name = label.partition(" ")
    return f"{kind} `{name}`"


def short_text(value: Any) -> str:
    """Return a short text for a value."""
    if is_a(value, types.FunctionType):
        return f"function {module_of(value)}.{value.__qualname__}"
    if is_a(value, type):
        return f"class {module_of_class(value)}.{value.__qualname__}"
    if is_a(value, types.ModuleType):
        return f"module {value.__name__}"
    if type(value) in (list, tuple, dict, set, frozenset) and len(value) <= 16:
        from ..fingerprints import summary

        return summary.text_of(value)
    return _short_text(value)
