"""What a compiler has read of an object without a cache signature, to tell whether it would read the same."""

from __future__ import annotations

from itertools import count

from ..._native import CompileTimeValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = ["Observed", "Seen", "opaque_numbers"]

#: No two such objects share a key.
opaque_numbers: Final = count()


class Observed:
    """What a compiler has read of an object: equal to an object of which it would read the same."""

    __slots__ = ("_reads",)

    def __init__(self) -> None:
        self._reads: list[tuple[Callable[[Any], Any], Any]] = []

    def note(self, how: Callable[[Any], Any], answer: Any) -> None:
        """Remember what was found, and how to look again."""
        self._reads.append((how, answer))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen):
            return NotImplemented
        try:
            return all(_is_same(how(other.value), known) for how, known in self._reads)
        except Exception:
            return False

    __hash__ = None  # type: ignore[assignment]


class Seen:
    """An object that is compared with what was observed: it is not asked itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_same(answer: Any, known: Any) -> bool:
    """Whether two answers are the same, to the type and the last bit."""
    if type(answer) is not type(known):
        return False
    if type(answer) is CompileTimeValue:
        return answer.is_same(known)
    if type(answer) in (tuple, list):
        return len(answer) == len(known) and all(map(_is_same, answer, known))
    if type(answer) is float:
        return bool(answer.hex() == known.hex())
    return answer is known or (type(answer) in (str, int, bool, bytes) and bool(answer == known))
