"""Modules that are loaded when they are first needed, without harm to processes that are forked meanwhile.

A child that is forked while another thread imports a module would wait for that import for ever: the
thread is not there to finish it. So forks wait for imports that are made through here.
"""

from __future__ import annotations

import os
from _thread import RLock

_lock = RLock()


def load(module: str, name: str) -> object:
    """Return a name of a module of this package."""
    with _lock:
        # What `importlib` would do, without loading it.
        return getattr(__import__(f"{__package__}.{module}", fromlist=[name]), name)


def _restart() -> None:
    """Forget the lock of the parent: it is held by the thread that forked, which goes on there."""
    global _lock
    _lock = RLock()


os.register_at_fork(
    before=lambda: _lock.acquire(), after_in_parent=lambda: _lock.release(), after_in_child=_restart
)
