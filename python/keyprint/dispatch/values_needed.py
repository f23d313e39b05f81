"""Values that a compiler asked for: they count from then on, in this process and in others."""

from __future__ import annotations

from .._native import fingerprint
from ..store.keys import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .options import KernelOptions
    from .specialization import ValuesNeeded

__all__ = ["NeededValues"]


class NeededValues:
    """Paths of numbers that count by value, as the compilers of all processes said."""

    __slots__ = ("_options", "_recalled")

    def __init__(self, options: KernelOptions) -> None:
        self._options = options
        #: Functions for which it is known what other processes needed.
        self._recalled: set[bytes] = set()

    def recall(self, context: Context) -> None:
        """Find out, once for each function, which values its compiler needed in other processes."""
        place = bytes(context.resolution.fingerprint)
        store = self._options.store
        if store is None or place in self._recalled:
            return
        self._recalled.add(place)
        if context.resolution.is_process_local:
            return
        entry = store.get(self._key(context))
        if entry is not None and isinstance(entry.metadata, list):
            self._options.arguments.needed |= {str(path) for path in entry.metadata}

    def add(self, context: Context, needed: ValuesNeeded) -> bool:
        """Have values count, and tell other processes; return whether that is new.

        A process that is not told finds out for itself.
        """
        known = self._options.arguments.needed
        if known.issuperset(needed.paths):
            return False
        known |= set(needed.paths)
        store = self._options.store
        if store is not None and not context.resolution.is_process_local:
            store.put(self._key(context), b"", sorted(known))
        return True

    def _key(self, context: Context) -> Key:
        identity = fingerprint((bytes(context.resolution.fingerprint), self._options.identity()))
        return Key(f".values needed by {self._options.name}", {"function": identity}, tool=self._options.tool)
