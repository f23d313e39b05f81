"""A function that was reached, and what it reads."""

from __future__ import annotations

import os
import types
from _weakref import ref

from .argument_flow import ArgumentFlow
from .sources import parameters_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .sources import Source

    #: A place in a program: function, file, line.
    Where = tuple[str, str, int]

__all__ = ["LONGEST_PATH", "FunctionEntry", "module_of", "place_of"]

#: Paths of members that grow longer (a function that calls itself with a member of its argument) end here.
LONGEST_PATH: Final = 24


class FunctionEntry:
    """A function that was reached, and what it reads."""

    __slots__ = ("_function", "argument_flows", "file", "name", "parameters", "source", "uses")

    def __init__(self, function: types.FunctionType, name: str, source: Source) -> None:
        #: Not kept alive: what is known of a function must not outlive it.
        self._function: ref[types.FunctionType] = ref(function)
        self.file = function.__code__.co_filename
        self.name = name
        self.source = source
        parsed = source.function
        if parsed is not None:
            self.parameters = parsed.parameters
            self.argument_flows = [ArgumentFlow(*flow) for flow in parsed.argument_flows]
        else:
            self.parameters = _parameters_of(function.__code__)
            self.argument_flows = []
        #: What is read of each parameter: path and how, and where.
        self.uses: list[dict[tuple[tuple[str, ...], str], Where]] = [{} for _ in self.parameters]

    @property
    def origin(self) -> str:
        """What the function counts by: its source or its byte code."""
        return "source" if self.source.function is not None else "code"

    @property
    def function(self) -> Any:
        function = self._function()
        assert function is not None, "whoever asks has the function"
        return function

    def where(self, line: int) -> Where:
        return self.name, self.file, line

    def slot(self, slot: int | str, offset: int) -> int | None:
        """Return the parameter that takes an argument; nothing if that cannot be told."""
        for at, (name, kind) in enumerate(self.parameters):
            if slot == name and kind in (1, 3):
                return at
        if isinstance(slot, int):
            ordinary = [at for at, (_, kind) in enumerate(self.parameters) if kind in (0, 1)]
            if slot + offset < len(ordinary):
                return ordinary[slot + offset]
        return None

    def read(self, parameter: int, path: tuple[str, ...], how: str, where: Where) -> bool:
        """Take note of a use of a parameter; return whether it is new."""
        if len(path) > LONGEST_PATH:
            path, how = path[:LONGEST_PATH], "whole"
        if how == "super" and not path:
            # `super()` itself: anything may be asked of it.
            how = "super whole"
        known = self.uses[parameter]
        if (path, how) in known:
            return False
        known[path, how] = where
        return True


def _parameters_of(code: types.CodeType) -> list[tuple[str, int]]:
    ordinary, by_position = code.co_argcount, code.co_posonlyargcount
    kinds = [0] * by_position + [1] * (ordinary - by_position)
    kinds += [2] * bool(code.co_flags & 4) + [3] * code.co_kwonlyargcount + [4] * bool(code.co_flags & 8)
    return list(zip(parameters_of(code), kinds, strict=True))


def place_of(entry: FunctionEntry) -> str:
    """Return where a function is, without the line: that does not count."""
    file = os.path.basename(entry.file)
    return f"in {file}" if entry.origin == "source" else f"byte code of {file}"


def module_of(function: types.FunctionType) -> str:
    name = function.__globals__.get("__name__")
    return name if isinstance(name, str) else "?"
