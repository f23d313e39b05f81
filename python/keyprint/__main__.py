"""``python -m keyprint`` and the program ``keyprint``: the command line, which is native."""

from __future__ import annotations

import signal
import sys

from ._native import main as _main


def main() -> int:
    """Run the command line; return its exit code."""
    # As in any other program: Ctrl-C and a closed pipe end it at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.flush()
    return _main(["keyprint", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
