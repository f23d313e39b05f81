"""What does not count is a closed list, and each line of it has a test: that it does not, and that its neighbour does."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import keyprint as kp
from keyprint.functions.not_counted import EXEMPTIONS


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(text: str, **options: Any) -> kp.Fingerprint:
        (tmp_path / "left_out.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        sys.modules.pop("left_out", None)
        module = importlib.import_module("left_out")
        given = {name: value(module) if callable(value) else value for name, value in options.items()}
        return kp.FunctionKey(module.f, **given).fingerprint

    return of


def check(key: Any, text: str, left_out: tuple[str, str], counted: tuple[str, str], **options: Any) -> None:
    """The first edit must not change the key, the second must."""
    before = key(text, **options)
    for edit in (left_out, counted):
        assert edit[0] in text
    assert key(text.replace(*left_out), **options) == before
    assert key(text.replace(*counted), **options) != before


def test_every_exemption_has_its_test() -> None:
    assert {exemption.test for exemption in EXEMPTIONS} == {
        name for name in globals() if name.startswith("test_") and name != "test_every_exemption_has_its_test"
    }
    assert all(exemption.why and exemption.name for exemption in EXEMPTIONS)


def test_docstrings(key: Any) -> None:
    check(key, "def f():\n    'One.'\n    return 1\n", ("One.", "Two."), ("return 1", "return 2"))
    read = "def f():\n    'One.'\n    return f.__doc__\n"
    assert key(read) != key(read.replace("One.", "Two."))


def test_compiling_decorators(key: Any) -> None:
    text = "def fast(n):\n    return lambda g: g\ndef other(n):\n    return lambda g: g\n@other(1)\n@fast(1)\ndef f():\n    return 1\n"
    check(key, text, ("@fast(1)", "@fast(2)"), ("@other(1)", "@other(2)"), compiled_by=lambda m: [m.fast])


def test_ignored_names(key: Any) -> None:
    text = "A = 1\nB = 1\ndef f():\n    return A + B\n"
    check(key, text, ("A = 1", "A = 2"), ("B = 1", "B = 2"), ignore=["left_out.A"])


def test_fields_that_opted_out(key: Any) -> None:
    text = """
    import dataclasses
    import keyprint as kp
    @dataclasses.dataclass
    class C:
        a: int
        b: int = dataclasses.field(default=0, metadata=kp.no_fingerprint())
    X = [C(1, 2)]
    def f():
        return X
    """
    check(key, text, ("C(1, 2)", "C(1, 3)"), ("C(1, 2)", "C(2, 2)"))


def test_memoised_values(key: Any) -> None:
    text = """
    import functools
    @functools.lru_cache
    def g(n):
        return n
    class C:
        @functools.cached_property
        def v(self):
            return 1
    X = C()
    def f():
        return g(3), [X]
    """
    check(key, text, ("def f", "g(1), X.v\n    def f"), ("return n", "return -n"))


def test_locks(key: Any) -> None:
    text = """
    import threading
    L = threading.Lock()
    E = 1
    def f():
        with L:
            return E
    """
    check(key, text, ("def f", "L.acquire()\n    def f"), ("E = 1", "E = 2"))


def test_log_calls(key: Any) -> None:
    text = """
    import logging
    LOG = logging.getLogger("left_out")
    LOG.setLevel(10)
    def f():
        LOG.info("x")
        return 1
    """
    check(key, text, ("setLevel(10)", "setLevel(40)"), ("return 1", "return 2"))
    asked = text.replace('LOG.info("x")', "LOG.isEnabledFor(20)")
    assert key(asked) != key(asked.replace("setLevel(10)", "setLevel(40)"))


def test_standard_streams(key: Any) -> None:
    text = """
    import io, sys
    OUT = io.StringIO()
    def f():
        sys.stdout.write("x")
        return sys.stderr is None
    """
    check(key, text, ("def f", "sys.stderr.flush()\n    def f"), ("is None", "is not None"))


def test_what_is_only_added_to(key: Any) -> None:
    text = """
    LOG, N, D, S = [], 0, {}, set()
    def f():
        global N
        LOG.append(1)
        N += 1
        D["k"] = 2
        S.add(3)
        return 4
    """
    check(key, text, ("[], 0, {}, set()", "[1, 2], 7, {'a': 1}, {9}"), ("[], 0", "[], 0.5"))
    read = text.replace("return 4", "return len(LOG)")
    assert key(read) != key(read.replace("[], 0", "[1], 0"))


def test_aliases_that_are_never_used(key: Any) -> None:
    text = "A = 1\nB = 1\ndef f():\n    unused = A\n    used = B\n    return used\n"
    check(key, text, ("A = 1", "A = 2"), ("B = 1", "B = 2"))


def test_state_of_installed_modules(key: Any) -> None:
    text = """
    import random, decimal
    random.seed(1)
    P = 3
    def f():
        return random.random() * P
    """
    check(key, text, ("seed(1)", "seed(2)"), ("P = 3", "P = 4"))
