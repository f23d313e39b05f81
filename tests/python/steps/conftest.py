"""A store for each test, and no calls before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_steps import calls

import keyprint as kp


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@pytest.fixture
def store(tmp_path: Path) -> kp.Store:
    return kp.Store(tmp_path / "store", memory=0)
