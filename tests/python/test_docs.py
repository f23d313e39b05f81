"""The Python examples in the documentation run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1):
            found.append((f"{page.name}-{number}", block))
    return found


def test_there_are_examples() -> None:
    assert len(blocks()) >= 8


@pytest.mark.parametrize(("name", "block"), blocks(), ids=[name for name, _ in blocks()])
def test_examples_run(name: str, block: str, tmp_path: Path) -> None:
    example = tmp_path / "example.py"
    example.write_text(block)
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_examples_in_docstrings_run() -> None:
    import doctest

    from keyprint import cached_step, function_key, specialization

    for module in (cached_step, function_key, specialization):
        done = doctest.testmod(module)
        assert done.attempted > 0 and done.failed == 0


def test_the_demo_runs() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    demo = ROOT / "examples" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(demo)], capture_output=True, text=True, timeout=60, env=env, check=True
    )
    digests = re.findall(r"PYTHONHASHSEED=\d  ([0-9a-f]{64})", done.stdout)
    assert len(digests) == 2 and len(set(digests)) == 1
    hows = re.findall(r"tile +\d+: (compiled|loaded from disk)", done.stdout)
    assert hows == ["compiled", "loaded from disk", "compiled", "loaded from disk"]
    assert done.stdout.count("result -4.0 1.0") == 4
    assert "`program.tiles['x']`: 64 -> 128" in done.stdout


def test_every_error_code_is_in_the_guides() -> None:
    from keyprint.errors import FINGERPRINT_CODES, FUNCTION_CODES, STORE_CODES

    guide = (ROOT / "docs" / "fingerprints.md").read_text()
    assert [code for code in FINGERPRINT_CODES if f"`{code}`" not in guide] == []
    guide = (ROOT / "docs" / "store.md").read_text()
    assert [code for code, text in STORE_CODES.items() if f"| `{code}` | {text} |" not in guide] == []
    guide = (ROOT / "docs" / "kernels.md").read_text()
    assert [code for code, text in FUNCTION_CODES.items() if f"| `{code}` | {text} |" not in guide] == []
