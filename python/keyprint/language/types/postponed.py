"""Annotations that are written as texts, or postponed: what they mean where they stand."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["annotations_of", "evaluate"]


def evaluate(annotation: Any, owner: Any, local: Mapping[str, Any] | None = None) -> Any:
    """Return what an annotation is, if it is written as a text, or postponed."""
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(getattr(owner, "__module__", "") or "")
    names: dict[str, Any] = dict(vars(module)) if module is not None else {}
    names.update(getattr(owner, "__globals__", {}))
    closure = getattr(owner, "__closure__", None)
    if closure:
        for name, cell in zip(owner.__code__.co_freevars, closure, strict=True):
            try:
                names[name] = cell.cell_contents
            except ValueError:
                continue
    return eval(annotation, names, local)


def annotations_of(function: Any, local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of a function by parameter; ``return`` is among them."""
    return {
        name: evaluate(annotation, function, local) for name, annotation in function.__annotations__.items()
    }
