"""Modules that are loaded when they are first needed, without harm to processes that are forked meanwhile.

A child that is forked while another thread imports a module would wait for that import for ever: the
thread is not there to finish it. So forks wait for imports that are made through here, and for a while for
threads that are in the middle of something that imports what it needs (:class:`Busy`).
"""

from __future__ import annotations

import os
import time
from _thread import RLock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_lock = RLock()

#: Threads that may be importing something, and how often they said so.
_busy: dict[int, int] = {}

#: How long a fork waits for them, in seconds: they may wait for the thread that forks.
_MOST_WAIT = 2.0


class Busy:
    """What a thread does that may import something: ``with BUSY: ...``. Forks wait a while for its end."""

    __slots__ = ()

    def __enter__(self) -> None:
        here = get_ident()
        _busy[here] = _busy.get(here, 0) + 1

    def __exit__(self, *_: object) -> None:
        here = get_ident()
        if _busy.get(here, 0) > 1:
            _busy[here] -= 1
        else:
            _busy.pop(here, None)


class Away:
    """What a thread does in between that imports nothing, and may take long: ``with AWAY: ...``."""

    __slots__ = ("_depths",)

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def __enter__(self) -> None:
        here = get_ident()
        depth = _busy.pop(here, 0)
        if depth:
            self._depths[here] = depth

    def __exit__(self, *_: object) -> None:
        here = get_ident()
        depth = self._depths.pop(here, 0)
        if depth:
            _busy[here] = depth


BUSY, AWAY = Busy(), Away()


def _before() -> None:
    here = get_ident()
    end = time.monotonic() + _MOST_WAIT
    while any(thread != here for thread in list(_busy)) and time.monotonic() < end:
        time.sleep(0.0005)
    _lock.acquire()


def load(module: str, name: str) -> object:
    """Return a name of a module of this package."""
    with _lock:
        # What `importlib` would do, without loading it.
        return getattr(__import__(f"{__package__}.{module}", fromlist=[name]), name)


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls one of this package, and loads that when it is first called.

    For the hooks that a lower layer offers: the one on top of all fills them, and loads nothing for it.
    """

    function: Any = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal function
        if function is None:
            function = load(module, name)
        return function(*arguments, **named)

    return call


def _restart() -> None:
    """Forget the lock of the parent: it is held by the thread that forked, which goes on there."""
    global _lock
    _lock = RLock()
    here = get_ident()
    for thread in list(_busy):
        if thread != here:
            del _busy[thread]


os.register_at_fork(before=_before, after_in_parent=lambda: _lock.release(), after_in_child=_restart)
