"""The Python examples in the documentation run."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[tuple[str, str]]:
    examples = []
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1):
            examples.append((f"{page.name}-{number}", block))
    return examples


def test_there_are_examples() -> None:
    assert len(blocks()) >= 8


@pytest.mark.parametrize(("name", "block"), blocks(), ids=[name for name, _ in blocks()])
def test_examples_run(name: str, block: str, tmp_path: Path) -> None:
    example = tmp_path / "example.py"
    example.write_text(block)
    environment = dict(os.environ)
    if name.startswith("cuda.md"):
        # Devices are emulated.
        import emulator

        environment |= {**emulator.build(), "KEYPRINT_CACHE_DIR": str(tmp_path / "store")}
    done = subprocess.run(
        [sys.executable, str(example)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


def test_examples_in_docstrings_run() -> None:
    import doctest

    package = ROOT / "python"
    for file in sorted(package.rglob("*.py")):
        if ">>> " in file.read_text():
            module = ".".join(file.relative_to(package).with_suffix("").parts)
            done = doctest.testmod(importlib.import_module(module))
            assert done.attempted > 0 and done.failed == 0, module


def test_the_demo_runs(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(demo), "2000", "60"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hows = re.findall(r"(start|step) +(compiled|loaded) +in +[\d.]+ ms", done.stdout)
    cold, warm, edited = hows[:2], hows[2:4], hows[4:]
    assert cold == [("start", "compiled"), ("step", "compiled")]
    assert warm == [("start", "loaded"), ("step", "loaded")]
    assert edited == [("start", "loaded"), ("step", "compiled")]
    assert "why the third compiled: miss: `function splash.Water.step`" in done.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_what_the_code_says() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import tables
    finally:
        sys.path.remove(str(ROOT / "docs"))
    stale = [page.name for page in PAGES if tables.filled(page.read_text()) != page.read_text()]
    assert stale == [], "run `python docs/tables.py`"
    text = "".join(page.read_text() for page in PAGES)
    assert all(f"<!-- table: {name} -->" in text for name in tables.TABLES)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_error_code_is_in_the_guides() -> None:
    from keyprint.errors import FINGERPRINT_CODES, FUNCTION_CODES, STORE_CODES

    guide = (ROOT / "docs" / "fingerprints.md").read_text()
    assert [code for code in FINGERPRINT_CODES if f"`{code}`" not in guide] == []
    guide = (ROOT / "docs" / "store.md").read_text()
    assert [code for code, text in STORE_CODES.items() if f"| `{code}` | {text} |" not in guide] == []
    guide = (ROOT / "docs" / "function-keys.md").read_text()
    assert [code for code, text in FUNCTION_CODES.items() if f"| `{code}` | {text} |" not in guide] == []


TYPED = """
import numpy as np
import keyprint as kp


@kp.func
def twice(x: kp.f32) -> kp.f32:
    return 2 * x


@kp.kernel(graph=True)
def saxpy(a: kp.f32, x: kp.types.NDArray[kp.f32, 1]) -> None:
    for i in x:
        x[i] += twice(a)


saxpy(1.0, np.ones(3, np.float32))
digest: str = kp.fingerprint(saxpy.why()).hex()
root: float = kp.sqrt(kp.f32(2))
store: kp.Store = kp.Store()
"""

#: A line, and what a type checker says about it.
WRONG = [
    ("a: kp.nonsense", "kp.nonsense"),
    ("kp.nonsense()", 'Module has no attribute "nonsense"'),
    ("kp.Packages(nonsense=1)", 'Unexpected keyword argument "nonsense"'),
    ("digest: int = kp.fingerprint(1).hex()", "Incompatible types in assignment"),
    ("kp.kernel(graf=True)", "graf"),
]


def check_types(program: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True,
        text=True,
        cwd=program.parent,
        check=False,
    )
    return done.stdout if done.returncode else ""


def test_programs_can_be_checked_for_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "typed.py"
    program.write_text(TYPED)
    assert check_types(program) == ""
    program.write_text("import keyprint as kp\n\n" + "\n".join(line for line, _ in WRONG))
    said = check_types(program).splitlines()
    for at, (line, what) in enumerate(WRONG):
        assert any(f"typed.py:{at + 3}:" in message and what in message for message in said), (line, said)


def test_the_api_reference_has_every_public_name() -> None:
    import keyprint as kp
    from keyprint.language.names import NAMES

    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    described = {
        path.rpartition(".")[2] for path in re.findall(r"^::: keyprint\.([\w.]+)", pages, re.MULTILINE)
    }
    described |= set(re.findall(r"`kp\.(\w+)`", pages))
    assert {*kp.__all__, *NAMES} - described == {"__version__", "errors"}
    # What a page is made of is there.
    for path in re.findall(r"^::: (keyprint[\w.]+)", pages, re.MULTILINE):
        *before, name = path.split(".")
        owner: object = kp if len(before) == 1 else importlib.import_module(".".join(before))
        assert hasattr(owner, name), path


def test_the_stub_has_every_public_name() -> None:
    """Types of names that are loaded later are in a stub: nothing but this keeps it complete."""
    import keyprint as kp
    from keyprint.language.names import NAMES

    tree = ast.parse((ROOT / "python" / "keyprint" / "__init__.pyi").read_text())
    named = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    named |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    named |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    named |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    assert named - {None} == {*kp.__all__, *NAMES}
