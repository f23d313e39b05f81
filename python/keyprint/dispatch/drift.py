"""Drift: something that a kernel was compiled for has changed since."""

from __future__ import annotations

from ..errors import DriftError
from ..functions.key import describe_changes
from . import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..functions.resolution import Resolution

__all__ = ["Drift"]


class Drift:
    """Decides what a change means: an error, or another key."""

    __slots__ = ("changes_itself", "follows", "kernel")

    def __init__(self, kernel: str, on_drift: str) -> None:
        self.kernel = kernel
        self.follows = on_drift == "rekey"
        #: Whether something that counts changed while it was compiled last.
        self.changes_itself = False

    def check(self, name: str, known: Resolution, current: Resolution) -> None:
        """Raise because of what has changed, or say that the key does."""
        lines = describe_changes(known, current)
        news = [
            label for label, digest in known.components.items() if digest != current.components.get(label)
        ]
        # What was not there before could not be compiled in.
        if all(known.texts.get(label) == "not defined" for label in news):
            return
        if self.follows:
            log.log("debug", f"`{self.kernel}` follows a change: {'; '.join(lines)}")
            return
        what = "\n".join(f"  {line}" for line in lines)
        if self.changes_itself:
            raise DriftError(
                f"`{name}` changed while it was compiled:\n{what}",
                code="drift",
                hint="the function or its compiler changes what the function reads (looking up a missing key of a "
                "`defaultdict` adds it, an iterator moves on): read it without changing it, or pass it as an argument",
            )
        raise DriftError(
            f"`{name}` was compiled for something that has changed since:\n{what}",
            code="drift",
            hint="pass what changes as an argument; or make the kernel with on_drift='rekey', which compiles "
            "again; or call `kernel.forget()` if the change is meant",
        )
