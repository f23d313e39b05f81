"""Why something was compiled again, in words: for every kind of component, in memory and in a store."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import keyprint as kp

PROGRAM = """
import dataclasses
N = 1
CFG = {"sizes": [1, 2], "deep": {"k": (1, 2)}}
class Options:
    def __init__(self):
        self.level, self.names = 1, ["a"]
OPTIONS = Options()
class Shape:
    factor = 1
    def __init__(self, n):
        self.n = n
    def area(self):
        return self.n * self.factor + N
def helper(x):
    return x + N
def make(k):
    def inner(x):
        return x + k
    return inner
inner = make(1)
def number(x):
    return helper(x)
def container(x):
    return CFG["sizes"]
def instance(x):
    return repr(OPTIONS)
def closure(x):
    return inner(x)
def whole(x):
    return x
def method(x):
    return x.area()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "reasons.py").write_text(PROGRAM)
    importlib.invalidate_caches()
    sys.modules.pop("reasons", None)
    return importlib.import_module("reasons")


class Stream:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __cache_signature__(self) -> Any:
        return ("stream", self.kind)


@dataclasses.dataclass
class Grid:
    n: int
    sizes: tuple[int, ...] = (1, 2)


def change(owner: Any, name: str, value: Any) -> Any:
    return lambda program: setattr(owner(program), name, value)


#: Function, options, first argument, what changes, second argument, words.
CASES: dict[str, tuple[str, dict[str, Any], Any, Any, Any, str]] = {
    "number": ("number", {}, 1, lambda p: setattr(p, "N", 2), 1, "`global reasons.N`: 1 -> 2"),
    "inside of a container": (
        "container",
        {},
        1,
        lambda p: p.CFG["sizes"].append(3),
        1,
        "`global reasons.CFG['sizes'][2]`: new, 3",
    ),
    "deep inside of a container": (
        "container",
        {},
        1,
        lambda p: p.CFG["deep"].update(k=(1, 3)),
        1,
        "`global reasons.CFG['deep']['k'][1]`: 2 -> 3",
    ),
    "instance": (
        "instance",
        {},
        1,
        lambda p: p.OPTIONS.names.append("b"),
        1,
        "`global reasons.OPTIONS.names[1]`: new, 'b'",
    ),
    "function": (
        "number",
        {},
        1,
        lambda p: setattr(p, "helper", lambda x: x),
        1,
        "`global reasons.helper`: function reasons.helper -> function test_why.<lambda>",
    ),
    "closure": (
        "closure",
        {},
        1,
        lambda p: setattr(p, "inner", p.make(2)),
        1,
        "`closure reasons.make.<locals>.inner:k`: 1 -> 2",
    ),
    "class of an argument": (
        "method",
        {},
        "shape",
        lambda p: setattr(p.Shape, "factor", 3),
        "shape",
        "1 -> 3",
    ),
    "what a method reads": (
        "method",
        {},
        "shape",
        lambda p: setattr(p, "N", 5),
        "shape",
        "`method x.area (reasons.Shape.area)[global reasons.N]`: 1 -> 5",
    ),
    "type of an argument": ("whole", {}, 1, None, 1.0, "`argument x`: int -> float"),
    "value of an argument": ("whole", {"static": ["x"]}, 3, None, 4, "`argument x`: 3 -> 4"),
    "member of an argument": ("whole", {}, Grid(1), None, Grid(2), "`argument x`: Grid(n: 1, "),
    "signature of an argument": (
        "whole",
        {},
        Stream("a"),
        None,
        Stream("b"),
        "`argument x`: test_why.Stream ('stream', 'a') -> test_why.Stream ('stream', 'b')",
    ),
}

#: Nobody can read a digest, and what was changed is not what it was.
_DIGEST = re.compile(r"\b[0-9a-f]{10,}\b|both times|different content|a fingerprint")


@pytest.mark.parametrize("where", ["memory", "store"])
@pytest.mark.parametrize("name", CASES)
def test_kernels(program: Any, tmp_path: Path, name: str, where: str) -> None:
    function, options, first, changes, second, words = CASES[name]
    given = (
        {} if where == "memory" else {"store": kp.Store(tmp_path / "store"), "load": lambda artifact: abs_}
    )
    kernel = kp.jit(
        getattr(program, function),
        compile=lambda spec: b"" if given else abs_,
        on_drift="rekey",
        tool=("reasons", "1"),
        **options,
        **given,
    )
    shape = program.Shape(2)
    kernel(shape if first == "shape" else first)
    if changes is not None:
        changes(program)
    kernel(shape if second == "shape" else second)
    reason = kernel.why()
    assert reason.startswith("miss: ")
    assert words in reason
    assert not _DIGEST.search(reason), reason


def abs_(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ({"target": ("sm_90", {"fast": True})}, {"target": ("sm_90", {"fast": False})}),
            "`target[1]['fast']`: True -> False",
        ),
        (({"target": ["a", [1, 2]]}, {"target": ["a", [1, 3]]}), "`target[1][1]`: 2 -> 3"),
        (({"variant": {"unroll": 2}}, {"variant": {"unroll": 4}}), "`options['variant']['unroll']`: 2 -> 4"),
        (({"static": ["x"]}, {}), "`options['static'][0]`: gone, was 'x'"),
        (({"members": "type"}, {"members": "value"}), "`options['members']`: 'type' -> 'value'"),
        (({"tool": ("t", "1")}, {"tool": ("t", "2")}), "`tool`: t 1 -> t 2"),
    ],
)
def test_options_and_targets(program: Any, tmp_path: Path, options: Any, words: str) -> None:
    store = kp.Store(tmp_path / "store")
    for overrides in options:
        given = {"tool": ("reasons", "1"), **overrides}
        kernel = kp.jit(
            program.whole, compile=lambda spec: b"", load=lambda artifact: abs_, store=store, **given
        )
        kernel("text")
    assert words in kernel.why()
    assert not _DIGEST.search(kernel.why()), kernel.why()


def test_the_compiler(program: Any, tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store")
    for text in ("b'one'", "b'two'"):
        (tmp_path / "compilers.py").write_text(f"def compile(spec):\n    return {text}\n")
        importlib.invalidate_caches()
        sys.modules.pop("compilers", None)
        compilers = importlib.import_module("compilers")
        kernel = kp.jit(program.whole, compile=compilers.compile, load=lambda artifact: abs_, store=store)
        kernel("text")
    assert "`options['compile']`: changed (compilers.compile)" in kernel.why()


def test_environment(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kp.jit(program.whole, compile=lambda spec: abs_, env=["REASON"])
    kernel("a")
    monkeypatch.setenv("REASON", "x")
    kernel("a")
    assert kernel.why() == "miss: `environment REASON`: not set -> 'x'"


def test_drift_in_a_container_names_the_path(program: Any) -> None:
    kernel = kp.jit(program.container, compile=lambda spec: abs_)
    kernel(1)
    program.CFG["deep"]["k"] = (1, 9)
    with pytest.raises(kp.DriftError, match=r"global `reasons\.CFG\['deep'\]\['k'\]\[1\]`: 2 -> 9"):
        kernel(1)


def test_source_that_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store = kp.Store(tmp_path / "store")
    for text in ("def f(x):\n    return x\n", "def f(x):\n    return x + 1\n"):
        (tmp_path / "edited.py").write_text(text)
        importlib.invalidate_caches()
        sys.modules.pop("edited", None)
        module = importlib.import_module("edited")
        kernel = kp.jit(
            module.f, compile=lambda spec: b"", load=lambda artifact: abs_, store=store, tool=("t", "1")
        )
        kernel("a")
    assert kernel.why() == "miss: `function edited.f`: changed (in edited.py)"


def test_steps(program: Any, tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store")
    step = kp.CachedStep(program.container, input_key=kp.fingerprint, store=store)
    step(1)
    program.CFG["sizes"][0] = 7
    assert step.why(1) == ["`global reasons.CFG['sizes'][0]`: 1 -> 7"]
    step(1)
    assert step.why([1, {"k": 2}]) == ["`input[0]`: new, 1", "`input[1]['k']`: new, 2"]
