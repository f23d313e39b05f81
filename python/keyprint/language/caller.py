"""Whoever called into this package."""

from __future__ import annotations

import sys

from ..version import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

__all__ = ["levels_to_caller", "names_of_caller"]


def levels_to_caller() -> int:
    """Return how far up the stack whoever called into this package is, as `warnings.warn` counts it for our caller."""
    return _frames_of_package()[0]


def names_of_caller() -> dict[str, Any]:
    """Return the names of whoever called into this package: of the function in which another is defined."""
    return dict(_frames_of_package()[1].f_locals)


def _frames_of_package() -> tuple[int, FrameType]:
    """Return how many frames of this package are on top of the stack, that of our caller's caller first, and the next."""
    level, frame = 1, sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    return level, frame
