"""The programs under `examples/` say the same on a device as on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def said(directory, variables, name, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"-?\d+\.\d+", "#", done.stdout), [
        float(number) for number in re.findall(r"-?\d+\.\d+", done.stdout)
    ]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wave", ("48", "30")),
        ("nbody", ("60", "5")),
        ("ray_marcher", ("48",)),
        ("poisson", ("24",)),
        ("splash", ("600", "20")),
    ],
)
def test_examples(tmp_path, variables, name, arguments):
    text, numbers = said(tmp_path, variables, name, *arguments)
    on_device, there = said(tmp_path, variables, name, *arguments, "--cuda")
    assert on_device == text
    assert there == pytest.approx(numbers, rel=1e-3, abs=2e-3)
