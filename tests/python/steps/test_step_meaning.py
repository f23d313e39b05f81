"""Cached steps count by what they do: helpers, globals, classes, packages; and so do their inputs."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyprint as kp


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs a program in a fresh process, beside a store that stays; returns what it printed, as JSON."""

    def start(files: dict[str, str], *, path: list[Path] = ()) -> Any:  # type: ignore[assignment]
        directory = tmp_path / "program"
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            (directory / f"{name}.py").write_text(textwrap.dedent(text))
        env = {**os.environ, "KEYPRINT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        env["PYTHONPATH"] = os.pathsep.join(map(str, path))
        done = subprocess.run(
            [sys.executable, "main.py"], cwd=directory, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return start


MAIN = """
import json
import keyprint as kp
from lib import *
import lib
CALLS = []
@kp.cached(store=kp.Store())
def step(x{parameters}):
    CALLS.append(x)
    return {body}
print(json.dumps([{calls}, len(CALLS)]))
"""


def program(body: str, calls: str, parameters: str = "") -> str:
    return MAIN.format(body=body, calls=calls, parameters=parameters)


def test_an_edited_helper_is_seen(run: Any) -> None:
    main = program("helper(x)", "step(2)")
    lib = "TILE = 1\ndef deep(x): return x * TILE\ndef helper(x): return deep(x)\n"
    assert run({"main": main, "lib": lib}) == [2, 1]
    assert run({"lib": lib}) == [2, 0], "found by another process, though the step counts its calls"
    assert run({"lib": lib + "\nUNRELATED = 3\n"}) == [2, 0]
    assert run({"lib": lib.replace("x * TILE", "x * TILE + 1")}) == [3, 1]
    assert run({"lib": lib.replace("TILE = 1", "TILE = 5")}) == [10, 1]
    assert run({"lib": lib}) == [2, 0]


@pytest.mark.parametrize(
    ("calls", "lib", "edit"),
    [
        ("step(1, g)", "def g(x): return x + 1\n", ("x + 1", "x + 2")),
        ("step(1, [g])", "def g(x): return x + 1\n", ("x + 1", "x + 2")),
        ("step(1, C())", "class C:\n    def __call__(self, x): return x + 1\n", ("x + 1", "x + 2")),
        ("step(1, C)", "class C:\n    K = 1\n", ("K = 1", "K = 2")),
        ("step(1, g)", "N = 1\ndef g(x): return x + N\n", ("N = 1", "N = 2")),
    ],
)
def test_functions_and_classes_among_inputs_count_by_meaning(
    run: Any, calls: str, lib: str, edit: Any
) -> None:
    main = program("len(CALLS)", calls, ", thing")
    assert run({"main": main, "lib": lib})[1] == 1
    assert run({"lib": lib})[1] == 0
    assert run({"lib": lib.replace(*edit)})[1] == 1
    assert run({"lib": lib + "# a comment\n"})[1] == 0


def test_an_upgraded_package_is_seen(run: Any, tmp_path: Path) -> None:
    def install(version: str) -> Path:
        root = tmp_path / "site-packages"
        for name in [*root.glob("*.dist-info")]:
            for file in name.iterdir():
                file.unlink()
            name.rmdir()
        info = root / f"pack-{version}.dist-info"
        info.mkdir(parents=True)
        (root / "pack.py").write_text("def tool(x): return x\nclass Data:\n    pass\n")
        (info / "METADATA").write_text(f"Name: pack\nVersion: {version}\n")
        (info / "RECORD").write_text(f"pack.py,,\npack-{version}.dist-info/METADATA,,\n")
        return root

    lib = "import pack\nfrom pack import tool, Data\n"
    main = "import json, keyprint as kp, lib\nN = []\ndef call(x):\n    N.append(1)\n    return lib.tool(x)\n"
    main += "step = kp.CachedStep(call, input_key=kp.fingerprint, store=kp.Store())\nstep(1)\nprint(json.dumps(len(N)))\n"
    assert run({"main": main, "lib": lib}, path=[install("1.0")]) == 1
    assert run({}, path=[install("1.0")]) == 0
    assert run({}, path=[install("1.1")]) == 1
    # Of a step that is in the package itself, and of an input that is.
    own = "import json, keyprint as kp, pack\nstep = kp.CachedStep(pack.tool, input_key=kp.fingerprint, store=kp.Store())\n"
    own += "print(json.dumps(step.key({}).hex()))\n"
    for given in ("1", "pack.Data()"):
        keys = [run({"main": own.format(given)}, path=[install(tag)]) for tag in ("1.0", "1.0", "1.1")]
        assert keys[0] == keys[1] != keys[2]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(text: str, name: str = "stepping") -> Any:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return make


@pytest.mark.parametrize("options", [{}, {"step_key": kp.FunctionKey}])
def test_a_change_in_the_same_process_is_seen(module: Any, options: Any) -> None:
    m = module("N = 1\nD = {'k': 1}\ndef helper(x): return x + N + D['k']\ndef f(x): return helper(x)\n")
    step = kp.cached(**options)(m.f)
    assert step(1) == 3
    m.N = 2
    assert step(1) == 4
    m.D["k"] = 5
    assert step(1) == 8
    m.helper = lambda x: 0
    assert step(1) == 0
    m.N, m.D["k"] = 1, 1
    m.helper = module("def helper(x): return 7\n", "another").helper
    assert step(1) == 7


def test_arrays_that_a_step_reads_count_by_content(module: Any, tmp_path: Path) -> None:
    m = module("import numpy as np\nA = np.arange(3.0)\ndef f(x): return float(A.sum()) + x\n")
    step = kp.cached(store=kp.Store(tmp_path / "store"))(m.f)
    assert step(1) == 4
    m.A[0] = 10
    assert step(1) == 14


def test_what_a_step_only_adds_to_does_not_count(module: Any) -> None:
    m = module(
        """
        LOG, SEEN, COUNT, TOTAL = [], set(), {"n": 0}, 0
        class Metrics:
            calls = 0
            def hit(self):
                self.calls += 1
        METRICS = Metrics()
        def f(x):
            global TOTAL
            LOG.append(x)
            SEEN.add(x)
            COUNT["n"] += 1
            METRICS.hit()
            TOTAL += 1
            return x + 1
        def reads(x):
            LOG.append(x)
            return len(LOG)
        """
    )
    step = kp.cached(m.f)
    assert [step(1), step(1), step(2), step(1)] == [2, 2, 3, 2]
    assert (m.LOG, m.COUNT, m.METRICS.calls, m.TOTAL) == ([1, 2], {"n": 2}, 2, 2)
    reads = kp.cached(m.reads)
    assert [reads(1), reads(1)] == [3, 4], "what is read counts"


def test_a_step_that_cannot_be_followed_is_refused_with_ways_out(module: Any, tmp_path: Path) -> None:
    m = module("import os\ndef f(x): return os.environ.get('X', x)\n")
    with pytest.raises(kp.FunctionKeyError) as caught:
        kp.cached(store=kp.Store(tmp_path / "store"))(m.f)
    assert caught.value.code == "dynamic-names"
    assert "step_key='code'" in str(caught.value)
    step = kp.cached(store=kp.Store(tmp_path / "store"), step_key="code")(m.f)
    assert step(3) == 3
    other = kp.CachedStep(
        m.f, input_key=kp.fingerprint, step_key=lambda step: "mine", store=kp.Store(tmp_path / "store")
    )
    assert other(3) == 3


def test_a_step_does_not_change_after_it_was_made() -> None:
    step = kp.CachedStep(len, input_key=kp.fingerprint)
    for name in ("step", "store", "input_key", "cache", "more"):
        with pytest.raises(AttributeError, match="does not change"):
            setattr(step, name, str)
    with pytest.raises(AttributeError, match="does not change"):
        del step.step
    other = step.replace(step=str)
    assert other([1]) == "[1]"
    assert step([1]) == 1
    with pytest.raises(AttributeError, match="does not change"):
        (step >> str).steps = ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: map(str, [1]),
        lambda: zip([1], [2], strict=True),
        lambda: iter([1]),
        lambda: reversed([1]),
        lambda: io.StringIO("x"),
        lambda: [1, iter([2])],
        lambda: {"k": (1, filter(None, [1]))},
        lambda: (x for x in [1]),
        lambda: open(os.devnull),  # noqa: SIM115
    ],
)
def test_results_that_can_be_used_once_are_refused(make: Any) -> None:
    step = kp.CachedStep(lambda x: make(), input_key=kp.fingerprint, step_key="code")
    with pytest.raises(TypeError, match="can be used once only"):
        step(1)


def test_results_that_can_be_used_often_are_kept() -> None:
    for result in ([1], range(3), "text", {"k": [1]}, np.arange(3), {1}.__class__):
        step = kp.CachedStep(lambda x, result=result: result, input_key=kp.fingerprint, step_key="code")
        assert step(1) is step(1)


class GetAndSet:
    """A cache that knows nothing but to get, set and delete."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]


def test_a_cache_that_only_gets_and_sets() -> None:
    cache = GetAndSet()
    step = kp.CachedStep(len, input_key=kp.fingerprint, cache=cache)  # type: ignore[arg-type]
    assert [step([1, 2]), step([1, 2])] == [2, 2]
    assert len(cache.data) == 1


def _login(user: str, token: str) -> str:
    return user


def test_secrets_count_and_are_written_down_nowhere(tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store")
    login = kp.cached(store=store, secrets=("token",))(_login)
    keys = [
        login.step.key(bound) for bound in _bound(login, ("a", "hunter2"), ("a", "hunter3"), ("b", "hunter2"))
    ]
    assert len({key.hex() for key in keys}) == 3
    login("a", "hunter2")
    login("a", "hunter3")
    assert "token" in keys[0].manifest() and "hunter" not in keys[0].manifest()
    assert not any("hunter" in line for line in store.why_last(1)[0][2])
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            assert b"hunter" not in path.read_bytes(), path
    with pytest.raises(TypeError, match="`secrets` names `password`"):
        kp.cached(secrets=("password",))(_login)
    with pytest.raises(TypeError, match="in `ignore` and in `secrets`"):
        kp.cached(secrets=("token",), ignore=("token",))(_login)


def test_a_secret_input_counts_and_is_written_down_nowhere(tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store")
    step = kp.CachedStep(len, input_key=kp.fingerprint, store=store, secret=True, step_key="code")
    assert step(["hunter2"]) == 1 and step(["hunter2", "x"]) == 2
    assert step.key(["hunter2"]).hex() != step.key(["hunter3"]).hex()
    # It is the same input for other steps, under another key.
    shown = step.replace(secret=False)
    assert (
        "hunter2" in shown.key(["hunter2"]).manifest() and "hunter2" not in step.key(["hunter2"]).manifest()
    )
    assert step.replace().secret
    assert store.why_last(1)[0][2] and "hunter" not in str(store.why_last(2))
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            assert b"hunter" not in path.read_bytes(), path


def _bound(function: Any, *calls: tuple[Any, ...]) -> list[Any]:
    import inspect

    signature = inspect.signature(function.__wrapped__)
    return [signature.bind(*arguments) for arguments in calls]


def test_why_names_what_a_step_reads(module: Any, tmp_path: Path) -> None:
    m = module("TILE = 1\ndef helper(x): return x * TILE\ndef f(x): return helper(x)\n")
    store = kp.Store(tmp_path / "store")
    step = kp.CachedStep(m.f, input_key=kp.fingerprint, store=store)
    step(1)
    m.TILE = 64
    assert step.why(1) == ["`global stepping.TILE`: 1 -> 64"]


def test_functions_of_packages_and_builtins_are_steps(tmp_path: Path) -> None:
    store = kp.Store(tmp_path / "store")
    assert kp.CachedStep(len, input_key=kp.fingerprint, store=store)([1]) == 1
    assert kp.CachedStep(json.dumps, input_key=kp.fingerprint, store=store)([1]) == "[1]"
    step = kp.CachedStep(np.sum, input_key=kp.fingerprint, store=store)
    assert any(name.startswith("package numpy") for name in step.key([1]).components)


def _made(n: int) -> Any:
    def g() -> int:
        return n

    return g


def test_functions_of_one_name_among_inputs_are_told_apart(module: Any) -> None:
    step = kp.cached(lambda fs: [f() for f in fs])
    low, high = _made(1), _made(2)
    assert [step([low, high]), step([high, low]), step([low, low]), step([_made(1), _made(2)])] == [
        *([1, 2], [2, 1], [1, 1], [1, 2]),
    ]
    m = module("import functools\n@functools.lru_cache\ndef g(): return 1\n", "memoised")
    call = kp.cached(lambda g: g())
    assert call(m.g) == 1
    m = module("import functools\n@functools.lru_cache\ndef g(): return 2\n", "memoised")
    assert call(m.g) == 2
