"""Programs with edits that must, or must not, change the key of a function; run in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# A case: the program (module `program`, function `f`, other modules beside it), and edits of it. An edit
# replaces a text in `program`, or whole modules. `same` edits must not change the key, `other` ones must.
Edit = dict[str, str] | tuple[str, str]


class Case:
    def __init__(
        self,
        program: str,
        *,
        same: list[Edit] = (),
        other: list[Edit] = (),
        modules: dict[str, str] | None = None,
    ) -> None:
        self.files = {"program": program, **(modules or {})}
        self.same = list(same)
        self.other = list(other)

    def edited(self, edit: Edit) -> dict[str, str]:
        if isinstance(edit, dict):
            return {**self.files, **edit}
        before, after = edit
        files = {name: text.replace(before, after) for name, text in self.files.items()}
        assert files != self.files, f"{before!r} is not in the program"
        return files


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")


def run(root: Path, seed: str) -> dict[str, str]:
    runner = Path(__file__).with_name("function_key_runner.py")
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(runner), str(root)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def keys_of(cases: dict[str, Case], here: Path, there: Path) -> dict[str, str]:
    """Return the keys of all programs: as they are from one place with one hash seed, edited from another."""
    for name, case in cases.items():
        write(here / name, case.files)
        if name != "location":
            write(there / f"{name} again", case.files)
        for kind, edits in (("same", case.same), ("other", case.other)):
            for at, edit in enumerate(edits):
                write((here if name == "location" else there) / f"{name} {kind} {at}", case.edited(edit))
    return {**run(here, "1"), **run(there, "2")}


def check(name: str, case: Case, keys: dict[str, str]) -> None:
    """Judge the keys of a program and its edits."""
    key = keys[name]
    assert not key.startswith("error"), key
    if name != "location":
        assert keys[f"{name} again"] == key, "the same program from another place"
    for at, edit in enumerate(case.same):
        assert keys[f"{name} same {at}"] == key, f"must not count: {edit}"
    for at, edit in enumerate(case.other):
        assert keys[f"{name} other {at}"] != key, f"must count: {edit}"
