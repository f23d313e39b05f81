"""Locks that survive forks: a child has none of the threads that its parent's locks may be held by."""

from __future__ import annotations

import os
from _thread import RLock, allocate_lock

__all__ = ["ProcessLock"]

#: Held by whoever renews a lock after a fork.
_renewing = allocate_lock()


class ProcessLock:
    """A lock that one thread can take several times, and that a forked child has anew."""

    __slots__ = ("_lock", "_process")

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = RLock()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            with _renewing:
                if self._process != os.getpid():
                    self._lock = RLock()
                    self._process = os.getpid()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _after_fork() -> None:
    global _renewing
    _renewing = allocate_lock()


os.register_at_fork(after_in_child=_after_fork)
