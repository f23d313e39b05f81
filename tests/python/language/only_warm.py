"""Imported by programs that tests start: with the argument ``warm``, a process that would compile anything ends."""

from __future__ import annotations

import sys

import keyprint.functions.sources as sources
import keyprint.language.artifacts as artifacts
import keyprint.language.compile.toolchain as toolchain
from keyprint._native import SourceTable


def refuse(*_):
    raise SystemExit("a warm process compiles")


class Refuse:
    """A table of sources that can be read and not made."""

    parse = staticmethod(refuse)
    from_bytes = staticmethod(SourceTable.from_bytes)


if "warm" in sys.argv:
    artifacts._lower = refuse
    artifacts.compile_c = toolchain._compile_c = toolchain._identify_compiler = refuse
    sources.SourceTable = Refuse
