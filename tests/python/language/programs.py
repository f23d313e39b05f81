"""Programs in processes of their own, with a store of their own."""

from __future__ import annotations

import os
import subprocess
import sys


def start(directory, program, *arguments, **environment):
    """Run a program that is written to a directory, and return what came of it; it can import what lies here."""
    (directory / "program.py").write_text(program)
    known = {name: value for name, value in os.environ.items() if not name.startswith("KEYPRINT")}
    own = {"PYTHONPATH": os.path.dirname(__file__), "KEYPRINT_CACHE_DIR": str(directory / "store")}
    return subprocess.run(
        [sys.executable, "program.py", *arguments],
        cwd=directory,
        env={**known, **own, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
