"""Where a program runs: on the CPU, and with ``--cuda`` on a CUDA device. For the others to import."""

from __future__ import annotations

import sys

import keyprint as kp

ARCH = kp.cuda if "--cuda" in sys.argv else None
sys.argv[:] = [argument for argument in sys.argv if argument != "--cuda"]
if ARCH is not None:
    kp.init(arch=ARCH)
