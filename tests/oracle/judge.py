"""Judges keys by plain Python: whatever makes a program do something else must make another key.

A pair is a program and an edit of it (or a change of it in place). Both are run, from different directories
and with different hash seeds. The verdict:

- ``wrong hit``: they do different things under one key. Always a defect.
- ``unstable``: the same program has two keys.
- ``crash``: an exception that is not Keyprint's own.
- ``refused``: there is no key. Counted: too many are a defect, too.
- ``needless``: two keys, though both do the same. Counted: what a program would do elsewhere may differ.
- ``right``: one key and the same result, or two and another.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .edits import edit
from .programs import generate

HERE = Path(__file__).parent

#: Verdicts that are defects.
DEFECTS = ("wrong hit", "unstable", "crash")


@dataclasses.dataclass
class Pair:
    """A program, and another that it became."""

    files: dict[str, str]
    edited: dict[str, str]
    change: str | None = None


@dataclasses.dataclass
class Verdict:
    kind: str
    detail: str = ""
    answers: tuple[Any, ...] = ()


def pair(seed: int) -> Pair:
    """Return the random pair of a seed."""
    rng = random.Random(seed)
    while True:
        try:
            program = generate(rng)
            break
        except SyntaxError:
            # Quotes inside of quotes, where templates are put together.
            continue
    if rng.random() < 0.35 and program.changes:
        return Pair(program.files, program.files, rng.choice(program.changes))
    return Pair(program.files, edit(program.files, rng))


class Judge:
    """Runs pairs; holds two servers with different hash seeds."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="keyprint-oracle-"))
        self._servers = [self._start(seed) for seed in ("1", "2")]
        self._count = 0

    def _start(self, seed: str) -> subprocess.Popen[str]:
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
        }
        return subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )

    def close(self) -> None:
        for server in self._servers:
            assert server.stdin is not None
            server.stdin.close()
            server.wait()
        shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, server: int, files: dict[str, str], **request: Any) -> Path:
        self._count += 1
        directory = self._root / str(self._count)
        directory.mkdir()
        for name, text in files.items():
            (directory / f"{name}.py").write_text(text)
        stdin = self._servers[server].stdin
        assert stdin is not None
        stdin.write(json.dumps({"directory": str(directory), **request}) + "\n")
        stdin.flush()
        return directory

    def _receive(self, server: int, directory: Path) -> dict[str, Any]:
        stdout = self._servers[server].stdout
        assert stdout is not None
        answer: dict[str, Any] = json.loads(stdout.readline())
        shutil.rmtree(directory)
        return answer

    def __call__(self, pair: Pair) -> Verdict:
        if pair.change is not None:
            return self._in_place(pair)
        if pair.files == pair.edited:
            return Verdict("invalid", "no edit")
        # Both servers work at the same time.
        first = self._send(0, pair.files, kind="edited")
        other = self._send(1, pair.edited, kind="edited")
        before, after = self._receive(0, first), self._receive(1, other)
        for answer in (before, after):
            if "crash" in answer:
                return Verdict("crash", answer["crash"], (before, after))
        if "invalid" in before or "invalid" in after:
            return Verdict("invalid", str((before, after)))
        if "refused" in before or "refused" in after:
            refused = before if "refused" in before else after
            return Verdict("refused", f"{refused['refused']}: {refused['message']}", (before, after))
        same_key, same_result = before["key"] == after["key"], before["result"] == after["result"]
        if same_key and same_result:
            return Verdict("right")
        # A result that depends on the hash seed is nobody's fault; a key that does is ours.
        again = self._receive(1, self._send(1, pair.files, kind="edited"))
        if again.get("key") != before["key"]:
            return Verdict("unstable", f"{before} {again}", (before, again))
        if again.get("result") != before["result"]:
            return Verdict("invalid", "depends on the hash seed")
        if same_key:
            return Verdict("wrong hit", f"{before['result']} -> {after['result']}", (before, after))
        return Verdict("needless" if same_result else "right")

    def _in_place(self, pair: Pair) -> Verdict:
        answer = self._receive(0, self._send(0, pair.files, kind="changed", change=pair.change))
        if "crash" in answer:
            return Verdict("crash", answer["crash"], (answer,))
        if "invalid" in answer or answer.get("refused") == "no-change":
            return Verdict("invalid", str(answer))
        if "refused" in answer:
            kind = "unstable" if answer["refused"] == "unstable" else "refused"
            return Verdict(kind, f"{answer['refused']}: {answer['message']}", (answer,))
        before, after = answer["result"]
        if answer["key"] == "same" and before != after:
            return Verdict("wrong hit", f"{before} -> {after}", (answer,))
        return Verdict("needless" if answer["key"] == "other" and before == after else "right")


def shrink(judge: Judge, failing: Pair) -> Pair:
    """Return a smaller pair with the same verdict: statements are left out as long as it stays."""
    import ast

    kind = judge(failing).kind
    current = failing
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for name in sorted(current.files):
            at = 0
            while True:
                trees = [ast.parse(files[name]) for files in (current.files, current.edited)]
                spots = [_spots(tree) for tree in trees]
                if at >= len(spots[0]) or at >= len(spots[1]):
                    break
                if ast.dump(spots[0][at][0][spots[0][at][1]]) != ast.dump(spots[1][at][0][spots[1][at][1]]):
                    at += 1
                    continue
                for body, place in (spots[0][at], spots[1][at]):
                    body[place] = ast.copy_location(ast.Pass(), body[place])
                texts = [ast.unparse(tree) + "\n" for tree in trees]
                candidate = Pair(
                    {**current.files, name: texts[0]}, {**current.edited, name: texts[1]}, current.change
                )
                if judge(candidate).kind == kind:
                    current, is_smaller = candidate, True
                at += 1
    return Pair(_cleaned(current.files), _cleaned(current.edited), current.change)


def _spots(tree: Any) -> list[tuple[list[Any], int]]:
    """Return the statements of a tree that are more than nothing, as places in bodies."""
    import ast

    spots = []
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                spots += [(body, at) for at, stmt in enumerate(body) if not isinstance(stmt, ast.Pass)]
    return spots


def _cleaned(files: dict[str, str]) -> dict[str, str]:
    return {
        name: "\n".join(line for line in text.split("\n") if line not in ("pass", ""))
        for name, text in files.items()
    }


def report(failing: Pair, verdict: Verdict, seed: int) -> str:
    """Return a failing pair as text."""
    import difflib

    parts = [f"seed {seed}: {verdict.kind}: {verdict.detail}"]
    for name, text in failing.files.items():
        lines = [f"--- {name}.py", text]
        if failing.edited[name] != text:
            difference = difflib.unified_diff(
                text.split("\n"), failing.edited[name].split("\n"), "before", "after", lineterm="", n=1
            )
            lines += ["--- edit", *difference]
        parts += lines
    if failing.change is not None:
        parts.append(f"--- change in place: {failing.change}")
    return "\n".join(parts)
