"""What a launch of a graph with checkpoints returns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["GraphStatus"]


class GraphStatus:
    """How a launch of a graph with checkpoints ended.

    ``yielded`` says whether a checkpoint ended it; ``checkpoint`` is the label of that one, as the kernel has it: an
    int or a member of an ``IntEnum``. Pass it to ``kernel.resume(..., from_checkpoint=...)`` to go on there.
    """

    __slots__ = ("checkpoint", "yielded")

    yielded: bool
    checkpoint: Any

    def __init__(self, yielded: bool, checkpoint: Any = None) -> None:
        object.__setattr__(self, "yielded", yielded)
        object.__setattr__(self, "checkpoint", checkpoint)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a status does not change: `{name}` cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a status does not change: `{name}` cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphStatus):
            return NotImplemented
        return (self.yielded, self.checkpoint) == (other.yielded, other.checkpoint)

    def __hash__(self) -> int:
        return hash((self.yielded, self.checkpoint))

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphStatus, (self.yielded, self.checkpoint)

    def __repr__(self) -> str:
        inside = f"True, checkpoint={self.checkpoint!r}" if self.yielded else "False"
        return f"GraphStatus(yielded={inside})"
