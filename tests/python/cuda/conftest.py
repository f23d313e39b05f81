"""Tests of what only devices have. They run on the emulated driver, or on a real one with ``TEST_BACKEND=cuda``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

import emulator
import keyprint as kp

IS_REAL = os.environ.get("TEST_BACKEND") == "cuda"


@pytest.fixture(scope="session")
def variables():
    """What has a process use the emulated driver; nothing where there is a real one."""
    return {} if IS_REAL else emulator.build()


@pytest.fixture(autouse=True)
def on_a_device(variables, tmp_path, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", str(tmp_path / "store"))
    kp.init(arch=kp.cuda)
    yield
    kp.reset()


@pytest.fixture
def run(tmp_path):
    """Runs a program in a process of its own, always on the emulated driver."""

    def start(program, **environment):
        (tmp_path / "program.py").write_text(program)
        known = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KEYPRINT", "KPE_", "CUDA_"))
        }
        own = {"KEYPRINT_CACHE_DIR": str(tmp_path / "store"), **emulator.build(), **environment}
        return subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={name: value for name, value in {**known, **own}.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return start


def pytest_configure(config):
    config.addinivalue_line("markers", "emulated: needs what only the emulated driver can be told")


def pytest_collection_modifyitems(items):
    if not IS_REAL:
        return
    for item in items:
        if item.get_closest_marker("emulated"):
            item.add_marker(pytest.mark.skip(reason="needs the emulated driver"))
