"""The store: artifacts that survive their process."""

from __future__ import annotations

import atexit

# Half of `weakref`, without the half that takes long to load.
from _weakref import ref

from .._native import Store as NativeStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Store"]

#: The stores of this process, by address, as long as they are alive.
_open: dict[int, ref[Store]] = {}


@atexit.register
def _flush() -> None:
    """Write down what was counted; a process that ends otherwise loses at most its last counts."""
    for reference in list(_open.values()):
        store = reference()
        if store is not None:
            store.flush()


class Store(NativeStore):
    """Artifacts under keys: in memory, on disk, and in shared directories.

    ``path`` is the directory (by default ``KEYPRINT_CACHE_DIR``, or ``keyprint`` in the platform's
    cache directory), ``size`` its limit (bytes or words such as ``"2 GiB"``; by default
    ``KEYPRINT_CACHE_SIZE``, or 10 GiB), ``memory`` the limit of what is kept in memory, ``wait`` the
    seconds to wait for another process's build. ``readonly`` never writes, ``sync=False`` does not
    wait for the disk. ``shared`` are read-only directories of other stores, asked after this one;
    one that others can write is used only if it is named in ``trusted`` instead.

    Trouble with the store never fails a build: it is said once, as a
    :class:`~keyprint.StoreWarning`, and the build goes on without.
    """

    def __init__(self, *_args: Any, **_options: Any) -> None:
        place = id(self)
        _open[place] = ref(self, lambda _: _open.pop(place, None))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.entries())

    def __len__(self) -> int:
        return self._count()

    def __bool__(self) -> bool:
        return True
