"""Where statements of compiled kernels are: in the source as it is now, which may have moved since."""

from __future__ import annotations

from ..errors import KernelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["place_of"]


def place_of(function: str, statement: int, dispatcher: Any) -> list[tuple[Any, ...]]:
    """Return function, file, line, column, width and text of a statement; nothing if it cannot be found."""
    try:
        entries = dispatcher.functions()
    except KernelError:
        return []
    for entry in entries:
        if (
            entry.function.__qualname__.replace("<locals>.", "") == function
            and entry.source.function is not None
        ):
            lines = entry.source.function.statements
            if statement < len(lines):
                import linecache

                line = lines[statement]
                text = linecache.getline(entry.file, line).rstrip("\n")
                column = len(text) - len(text.lstrip())
                return [(function, entry.file, line, column, len(text) - column, text)]
    return []
