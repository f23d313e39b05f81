"""Imported by programs that tests start: with the argument ``warm``, a process that would compile anything ends."""

from __future__ import annotations

import sys

import keyprint.language.kernel as kernel
import keyprint.language.toolchain as toolchain
import keyprint.sources
from keyprint._native import SourceTable


def refuse(*_):
    raise SystemExit("a warm process compiles")


class Refuse:
    """A table of sources that can be read and not made."""

    parse = staticmethod(refuse)
    from_bytes = staticmethod(SourceTable.from_bytes)


if "warm" in sys.argv:
    kernel._lower = refuse
    kernel.compile_c = toolchain._compile_c = toolchain._identify_compiler = refuse
    keyprint.sources.SourceTable = Refuse
