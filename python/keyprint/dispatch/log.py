"""Saying what happens: one line for each miss, and the standard log.

``KEYPRINT_EXPLAIN=1`` prints a line for each miss. Everything goes to the logger ``keyprint`` as well, if the
program uses :mod:`logging`; ``KEYPRINT_LOG=debug`` (or ``info``, ``warning``) shows it without any setup.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["log", "miss"]

_configured = False


def miss(name: str, reasons: Callable[[], list[str]]) -> None:
    """Say that something is compiled, and why, if anybody wants to know."""

    def text() -> str:
        return f"compiling `{name}`: {'; '.join(reasons())}"

    if os.environ.get("KEYPRINT_EXPLAIN", "") not in ("", "0"):
        print(f"keyprint: {text()}", file=sys.stderr, flush=True)
    log("info", text)


def log(level: str, text: str | Callable[[], str]) -> None:
    """Write to the log, if anybody looks at it."""
    wanted = os.environ.get("KEYPRINT_LOG", "")
    # Loading `logging` takes longer than a warm start: only where it is used.
    if not wanted and "logging" not in sys.modules:
        return
    import logging

    logger = logging.getLogger("keyprint")
    if wanted:
        _configure(logger, wanted)
    number = getattr(logging, level.upper())
    if logger.isEnabledFor(number):
        logger.log(number, text() if callable(text) else text)


def _configure(logger: Any, wanted: str) -> None:
    global _configured
    if _configured:
        return
    _configured = True
    import logging

    level = getattr(logging, wanted.upper(), None)
    if not isinstance(level, int):
        print(
            f"keyprint: `KEYPRINT_LOG` is `{wanted}`, expected `debug`, `info` or `warning`", file=sys.stderr
        )
        return
    logger.setLevel(level)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("keyprint: %(levelname)s: %(message)s"))
    logger.addHandler(handler)
