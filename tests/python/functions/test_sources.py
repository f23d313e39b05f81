"""Where the meaning of a function comes from: files, cells, archives, or byte code if nothing else is left."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
import textwrap
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

import keyprint as kp


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = []

    def make(text: str | bytes, name: str = "sourced") -> Any:
        names.append(name)
        data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        (tmp_path / f"{name}.py").write_bytes(data)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


def _exec(text: str, filename: str = "<made>", **names: Any) -> Any:
    scope = {"__name__": "made", **names}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"]


def test_a_file_that_was_edited_after_it_was_loaded(load: Any, tmp_path: Path) -> None:
    module = load("def f(x):\n    return x + 1\n")
    before = kp.FunctionKey(module.f)
    assert before.functions == {"sourced.f": "source"}
    (tmp_path / "sourced.py").write_text("def f(x):\n    return x + 2\n")
    edited = kp.FunctionKey(module.f)
    assert edited.functions == {"sourced.f": "code"}
    assert edited != before, "what is on disk is not what runs"
    assert edited.source is None
    again = kp.FunctionKey(importlib.reload(module).f)
    assert again.functions == {"sourced.f": "source"}
    assert len({before, edited, again}) == 3
    (tmp_path / "sourced.py").write_text("# moved\n\ndef f(x):\n    return x + 2\n")
    moved = kp.FunctionKey(module.f)
    assert moved.functions == {"sourced.f": "code"}, "the line is another one"
    assert kp.FunctionKey(importlib.reload(module).f) == again


def test_code_that_is_not_what_the_file_says(load: Any) -> None:
    module = load("def f(x):\n    return x + 1\n")
    before = kp.FunctionKey(module.f)
    module.f.__code__ = module.f.__code__.replace(co_consts=(None, 2))
    changed = kp.FunctionKey(module.f)
    assert changed.functions == {"sourced.f": "code"}
    assert changed != before


def test_functions_without_source() -> None:
    f = _exec("def f(x):\n    return x + N", N=1)
    key = kp.FunctionKey(f)
    assert key.functions == {"made.f": "code"}
    assert set(key.components) == {"function made.f", "global made.N"}
    assert kp.FunctionKey(_exec("def f(x):\n    return x + N", "<other>", N=1)) == key
    assert kp.FunctionKey(_exec("\n\ndef f(x): # that\n    return (x + N)", N=1)) == key
    assert kp.FunctionKey(_exec("def f(x):\n    return x - N", N=1)) != key
    assert kp.FunctionKey(_exec("def f(x):\n    return x + N", N=2)) != key


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("def f(x): return m.deep.N", {"global made.m.deep.N"}),
        ("def f(x): return [y + N for y in x]", {"global made.N"}),
        ("def f(x):\n  def g(): return N + x\n  return g()", {"global made.N"}),
        ("def f(x):\n  class C:\n    y = N\n  return C", {"global made.N"}),
        (
            "def make():\n  v = N\n  def f(x): return v + x\n  return f\nf = make()",
            {"closure made.make.<locals>.f:v"},
        ),
        ("def f(x):\n  def g():\n    return m.deep.N\n  return g", {"global made.m.deep.N"}),
        ("def f(x): return (lambda: N)()", {"global made.N"}),
    ],
)
def test_what_byte_code_reads(text: str, read: set[str]) -> None:
    names = {"m": types.SimpleNamespace(), "N": 1}
    names["m"] = types.ModuleType("m_made")
    names["m"].deep = types.ModuleType("deep_made")  # type: ignore[attr-defined]
    names["m"].deep.N = 1  # type: ignore[attr-defined]
    components = set(kp.FunctionKey(_exec(text, **names)).components)
    renamed = {label.replace("made.m.deep.N", "deep_made.N") for label in read}
    assert renamed <= components, components


def test_byte_code_that_passes_things_on() -> None:
    text = "def g(c): return c.n\ndef f(x): return g(OBJ) + g(x)"

    class Local:
        n = 1

    Local.__qualname__ = "Local"
    globals()["Local"] = Local
    try:
        key = kp.FunctionKey(_exec(text, OBJ=Local()))
    finally:
        del globals()["Local"]
    assert "function made.g" in key.components
    assert "global made.OBJ" in key.components


def test_cells_of_notebooks() -> None:
    text = "def f(x):\n    return x + 1  # so\n"
    name = "<ipython-input-1-made>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        key = kp.FunctionKey(_exec(text, name))
        assert key.functions == {"made.f": "source"}
        assert key.source == text.strip().partition("  #")[0]
        again = text.replace("  # so", "")
        linecache.cache["<ipython-input-2-made>"] = (len(again), None, again.splitlines(keepends=True), "")
        assert kp.FunctionKey(_exec(again, "<ipython-input-2-made>")) == key
    finally:
        linecache.cache.clear()


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        archive.writestr("zipped.py", "N = 1\ndef f(x):\n    return x + N\n")
    monkeypatch.syspath_prepend(str(tmp_path / "made.zip"))
    import zipped  # type: ignore[import-not-found]

    key = kp.FunctionKey(zipped.f)
    assert key.functions == {"zipped.f": "source"}


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfN = 'x'\ndef f(x):\n    return N + '\xc3\xa4'\n",
        b"# -*- coding: latin-1 -*-\ndef f(x):\n    return '\xe4'\n",
        b"def f(x):\r\n    return 1\r\n",
        b"def f(x):\r    return 1\r",
        "def f(größe):\n    return größe + 'ä' * 2\n".encode(),
        b"\x0cdef f(x):\n    return 1\n",
    ],
)
def test_odd_files(load: Any, data: bytes) -> None:
    module = load(data)
    key = kp.FunctionKey(module.f)
    assert key.functions == {"sourced.f": "source"}
    assert key.source is not None
    assert key.source.startswith("def f(")


def test_positions(load: Any) -> None:
    module = load(
        """
        def f(x):
            'Doc.'
            y = 1
            for i in x:
                y += i

            return y
        """
    )
    key = kp.FunctionKey(module.f)
    assert [key.line_of(at) for at in range(5)] == [4, 5, 6, 8, None]
    assert [key.statement_at(line) for line in (1, 4, 5, 6, 7, 8, 99)] == [None, 0, 1, 2, 2, 3, 3]
    moved = load("# a\n# b\ndef f(x):\n    y = 1\n    for i in x:\n        y += i\n    return y\n", "moved")
    assert [kp.FunctionKey(moved.f).line_of(at) for at in range(4)] == [4, 5, 6, 7]


def test_tables_are_kept(load: Any, tmp_path: Path) -> None:
    module = load("def g(x):\n    return x\ndef f(x):\n    return g(x)\n")
    store = kp.Store(tmp_path / "store")
    kernel = kp.jit(module.f, compile=lambda s: b"", load=lambda a: lambda x: 1, tool=("t", "1"), store=store)
    kernel(1)
    assert kernel.observations.files_parsed == 1
    warm = kp.jit(
        module.f,
        compile=lambda s: b"",
        load=lambda a: lambda x: 1,
        tool=("t", "1"),
        store=kp.Store(tmp_path / "store"),
    )
    warm(1)
    assert warm.observations.files_parsed == 0
    names = [entry["name"] for entry in store.entries()]
    assert names.count(".source table") == 1


def test_a_warm_process_does_not_even_load_the_parsing_half(tmp_path: Path) -> None:
    """Neither `ast` nor `inspect` nor `dis` nor anything that compiles is needed for a hit."""
    script = tmp_path / "warm.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            import keyprint as kp
            def g(x): return x
            @kp.jit(compile=lambda s: b"", load=lambda a: lambda x: x, store=kp.Store({str(tmp_path / "store")!r}))
            def f(x): return g(x)
            import builtins
            compile = builtins.compile
            if sys.argv[1:] == ["warm"]:
                def compile(*arguments): raise AssertionError("compiled")
            builtins.compile = compile
            before = set(sys.modules)
            f(1)
            heavy = {{"ast", "inspect", "dis", "tokenize", "linecache", "typing", "dataclasses", "json", "logging", "re"}}
            if sys.argv[1:] == ["warm"]:
                assert not heavy & (set(sys.modules) - before), heavy & set(sys.modules)
                assert f.observations.files_parsed == 0
            """
        )
    )
    for mode in ([], ["warm"]):
        subprocess.run([sys.executable, str(script), *mode], check=True)


def test_recursion_is_no_trouble(load: Any) -> None:
    deep = load("def f(x):\n    return " + " + ".join(["x"] * 2000) + "\n")
    assert kp.FunctionKey(deep.f).functions == {"sourced.f": "source"}
    chain = "".join(f"def g{at}(x):\n    return g{at + 1}(x)\n" for at in range(2000))
    long = load(chain + "def g2000(x):\n    return x\ndef f(x):\n    return g0(x)\n", "chained")
    assert len(kp.FunctionKey(long.f).functions) == 2002
