"""Argument flows: what a function hands on to another."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ArgumentFlow"]


class ArgumentFlow:
    """Something that is handed to a function: both are access paths."""

    __slots__ = ("call", "callee", "callee_path", "line", "path", "root", "slot")

    def __init__(
        self,
        root: tuple[str, Any],
        path: tuple[str, ...],
        callee: tuple[str, Any],
        callee_path: tuple[str, ...],
        slot: int | str,
        line: int,
        call: int,
    ) -> None:
        #: The argument.
        self.root = root
        self.path = path
        #: The function.
        self.callee = callee
        self.callee_path = callee_path
        #: Which argument it is, by position or by name.
        self.slot = slot
        #: Where it is handed over.
        self.line = line
        #: The number of the call: arguments of one call have the same.
        self.call = call

    @property
    def is_of_parameter(self) -> bool:
        """Whether what is handed over is a parameter, or a member of one."""
        return self.root[0] == "parameter"

    @property
    def is_to_parameter(self) -> bool:
        """Whether it is handed to a parameter, or a member of one: only a call tells which function that is."""
        return self.callee[0] == "parameter"

    def _parts(self) -> tuple[object, ...]:
        target = (self.callee, self.callee_path, self.slot)
        return self.root, self.path, target, self.line, self.call

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArgumentFlow) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())
