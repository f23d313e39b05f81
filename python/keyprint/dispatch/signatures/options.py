"""How the parameters of a kernel are taken."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["ArgumentOptions"]


class ArgumentOptions:
    """How the parameters of a kernel are taken."""

    __slots__ = (
        *("absent_members", "align", "builders", "divisible", "members", "needed", "on_opaque"),
        *("open_members", "scalars", "static", "takes_any_array", "templates"),
    )

    def __init__(
        self,
        *,
        static: frozenset[str],
        align: Mapping[str, int],
        divisible: Mapping[str, int],
        members: str,
        builders: Mapping[str, Any],
        scalars: Mapping[str, str],
        open_members: frozenset[str],
        templates: frozenset[str],
        on_opaque: Callable[[str, Any], None] | None,
        absent_members: bool,
    ) -> None:
        #: Parameters that count by value.
        self.static = static
        self.align = align
        self.divisible = divisible
        self.members = members
        #: Classes that build arguments from raw values, by parameter.
        self.builders = builders
        #: Parameters that are numbers of a type, whatever number is given.
        self.scalars = scalars
        #: Parameters in whose members numbers count by type, whatever `members` says.
        self.open_members = open_members
        #: Parameters that count by value if they are plain values, and as they usually do if not.
        self.templates = templates
        #: Told of objects that have no cache signature; without it they are refused.
        self.on_opaque = on_opaque
        #: Whether members that are not there are for the compiler to refuse.
        self.absent_members = absent_members
        #: Whether arrays count by what they are, whichever library they are of.
        self.takes_any_array = False
        #: Paths of numbers that count by value, because a compiler asked for them.
        self.needed: set[str] = set()

    def identity(self) -> tuple[object, ...]:
        """Return what changes what is compiled."""
        return (
            *(sorted(self.static), sorted(self.align.items()), sorted(self.divisible.items())),
            *(self.members, sorted(self.scalars.items()), sorted(self.open_members)),
            *(sorted(self.templates), self.absent_members),
        )

    def shown(self) -> dict[str, Any]:
        """Return what changes what is compiled, for people."""
        return {
            "static": sorted(self.static),
            "align": dict(self.align),
            "divisible": dict(self.divisible),
            "members": self.members,
            "scalars": dict(self.scalars),
            "open_members": sorted(self.open_members),
            "templates": sorted(self.templates),
            "absent_members": self.absent_members,
        }
