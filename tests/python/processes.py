"""Running the same code in other processes, with other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def outputs(code: str, *, seeds: tuple[str, ...] = ("0", "1", "4242")) -> list[str]:
    """What a program prints, once per hash seed."""
    printed = []
    for seed in seeds:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    return printed
