"""Types that higher layers tell this one of: how their instances count where functions reach them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = ["COUNTED_BY", "PROCESS_LOCAL", "count_by", "count_in_this_process"]

#: How instances of a class are described, by class.
COUNTED_BY: Final[dict[type, Callable[[Any], Any]]] = {}

#: What tells instances of a class apart in this process, by class: what reaches one is good for this process only.
PROCESS_LOCAL: Final[dict[type, Callable[[Any], Any]]] = {}


def count_by(cls: type, rule: Callable[[Any], Any]) -> None:
    """Have instances of a class count as a rule describes them (:mod:`keyprint.rule`)."""
    COUNTED_BY[cls] = rule


def count_in_this_process(cls: type, token: Callable[[Any], Any]) -> None:
    """Have instances of a class count by a token that means something in this process only."""
    PROCESS_LOCAL[cls] = token
