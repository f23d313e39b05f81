"""Annotations that are written as texts, or postponed: what they mean where they stand."""

from __future__ import annotations

import sys

from ...version import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["annotations_of", "evaluate", "levels_to_caller", "names_of_caller"]


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


def levels_to_caller() -> int:
    """Return how far up the stack whoever called into this package is, as `warnings.warn` counts it for our caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


def names_of_caller() -> dict[str, Any]:
    """Return the names of whoever called into this package: of the function in which another is defined."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return dict(frame.f_locals)


def annotations_of(function: Any, local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of a function by parameter; ``return`` is among them."""
    return {name: evaluate(one, function, local) for name, one in function.__annotations__.items()}
