"""Modules from text, for tests of kernels."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads modules from text, the same name again and again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def make(text: str, name: str = "corner", **others: str) -> Any:
        for each, content in {**others, name: text}.items():
            (tmp_path / f"{each}.py").write_text(textwrap.dedent(content))
            sys.modules.pop(each, None)
            names.add(each)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)
