"""In which way a graph was launched on a device, and why."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["GraphLaunch"]

#: What ways are, in words.
_WORDS: Final = {
    "block": "one kernel of one block",
    "grid": "one kernel of many blocks",
    "nodes": "a CUDA graph",
    "host": "task by task, with loops on the host",
}


class GraphLaunch:
    """A launch of a graph on a device.

    ``way`` is ``"block"`` or ``"grid"`` (one kernel for all tasks: of one block of threads, of many), ``"nodes"`` (a CUDA
    graph) or ``"host"`` (task by task, with loops on the host); ``why`` says why it was that one. ``expected`` has the
    microseconds that each way is expected to take, if loops take 16 turns each. ``blocks`` and ``threads`` are those of
    the one kernel, otherwise ``None``.
    """

    __slots__ = ("blocks", "expected", "threads", "way", "why")

    way: str
    why: str
    blocks: int | None
    threads: int | None
    expected: dict[str, float]

    def __init__(self, way: str, why: str, grid: tuple[int, int], expected: list[float | None]) -> None:
        self.way = way
        self.why = why
        is_fused = way in ("block", "grid")
        self.blocks, self.threads = grid if is_fused else (None, None)
        self.expected = {
            name: round(time / 1e3, 2)
            for name, time in zip(_WORDS, expected, strict=True)
            if time is not None
        }

    @property
    def title(self) -> str:
        """The way, and why, in words."""
        size = f", {self.blocks} of {self.threads} threads" if self.way == "grid" else ""
        size = f" of {self.threads} threads" if self.way == "block" else size
        return f"launched as {_WORDS[self.way]}{size}: {self.why}"

    @property
    def details(self) -> str:
        """What each way is expected to take."""
        times = ", ".join(f"{name} {time:.3g} us" for name, time in self.expected.items())
        return f"expected, with 16 turns of each loop: {times}"

    def __repr__(self) -> str:
        return f"<{self.title}>"
