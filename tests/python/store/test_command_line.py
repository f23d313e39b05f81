"""The program that is installed with the package; its output in detail is tested with the crate."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import keyprint as kp


@pytest.fixture
def store(tmp_path: Path) -> kp.Store:
    store = kp.Store(tmp_path / "store")
    for tile in (64, 128):
        store.get_or_build(kp.Key("lower", {"tile": tile}), lambda: b"artifact")
    store.flush()
    return store


def run(*arguments: str, store: kp.Store, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "KEYPRINT_CACHE_DIR": str(store.path)}
    program = Path(sys.executable).parent / "keyprint"
    command = [str(program)] if program.exists() else [sys.executable, "-m", "keyprint"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == code, done
    return done


def test_every_command_runs_and_speaks_json(store: kp.Store, tmp_path: Path) -> None:
    listed = json.loads(run("ls", "--json", store=store).stdout)
    assert sorted(entry["key"] for entry in listed) == sorted(entry["key"] for entry in store)
    prefix = listed[0]["key"][:10]
    assert json.loads(run("show", prefix, "--json", store=store).stdout)["key"] == listed[0]["key"]
    why = json.loads(run("why", "--last", "--json", store=store).stdout)
    assert why[0]["nearest"]["changes"][0]["place"] == "tile"
    assert json.loads(run("stats", "--json", store=store).stdout)["counters"]["builds"] == 2
    assert json.loads(run("verify", "--json", store=store).stdout)["whole"] == 2
    assert json.loads(run("path", "--json", store=store).stdout) == {"path": str(store.path)}
    assert {finding["grade"] for finding in json.loads(run("doctor", "--json", store=store).stdout)} <= {
        "good",
        "poor",
    }
    export = tmp_path / "warm.kpx"
    assert json.loads(run("export", str(export), "--json", store=store).stdout)["entries"] == 2
    assert json.loads(run("gc", "--size", "0", "--json", store=store).stdout)["removed"] == 2
    assert json.loads(run("import", str(export), "--json", store=store).stdout)["entries"] == 2
    assert json.loads(run("clear", "--json", store=store).stdout)["removed"] == 2
    assert "complete" in run("completions", "bash", store=store).stdout


def test_exit_codes(store: kp.Store) -> None:
    assert "no hexadecimal digit" in run("show", "xyz", store=store, code=1).stderr
    assert "unrecognized subcommand" in run("shwo", store=store, code=2).stderr
    assert store.path is not None
    entry = next(store.path.glob("v1/entries/*/*.kpe"))
    entry.write_bytes(entry.read_bytes()[:-1])
    assert "damaged, put aside" in run("verify", store=store, code=1).stdout
    run("verify", store=store)


def test_colours_only_on_a_terminal(store: kp.Store) -> None:
    assert "\x1b" not in run("ls", store=store).stdout
    assert "\x1b" in run("ls", "--color", "always", store=store).stdout
    env = {**os.environ, "KEYPRINT_CACHE_DIR": str(store.path), "TERM": "xterm"}
    env.pop("NO_COLOR", None)
    for extra, coloured in ({}, True), ({"NO_COLOR": "1"}, False):
        outer, inner = pty.openpty()
        subprocess.run(
            [sys.executable, "-m", "keyprint", "ls"], stdout=inner, env={**env, **extra}, check=True
        )
        os.close(inner)
        assert (b"\x1b" in os.read(outer, 10_000)) == coloured
        os.close(outer)


def test_a_closed_pipe_is_no_error(store: kp.Store) -> None:
    env = {**os.environ, "KEYPRINT_CACHE_DIR": str(store.path)}
    command = f"{sys.executable} -m keyprint completions bash | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, env=env, check=True)
    assert len(done.stdout) == 10 and done.stderr == b""
