"""Kernels: calls as Python makes them, compiled once, found again."""

from __future__ import annotations

import copy
import ctypes
import functools
import gc
import inspect
import itertools
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyprint as kp


def echo(specialization: kp.Specialization) -> Any:
    """Compile to something that returns its arguments."""
    return lambda *arguments, **keywords: (arguments, keywords)


def refuse(specialization: kp.Specialization) -> Any:
    raise AssertionError(f"compiled {specialization}")


# -- Binding -------------------------------------------------------------------------------------


def f0() -> None: ...
def f1(a: Any) -> None: ...
def f2(a: Any, b: Any = 2) -> None: ...
def f3(a: Any, /, b: Any, *, c: Any = 3) -> None: ...
def f4(a: Any = 1, b: Any = 2, *, c: Any, d: Any = 4) -> None: ...
def f5(a: Any, b: Any, /) -> None: ...
def f6(*, a: Any, b: Any) -> None: ...


MANY: Any = {}
exec(f"def f40({', '.join(f'a{i}={i}' for i in range(40))}): ...", MANY)


def _bound(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    bound = inspect.signature(function).bind(*arguments, **keywords)
    bound.apply_defaults()
    return bound.args, bound.kwargs


@pytest.mark.parametrize("function", [f0, f1, f2, f3, f4, f5, f6], ids=lambda f: f.__name__)
def test_arguments_are_bound_as_python_does(function: Any) -> None:
    kernel = kp.jit(function, compile=echo)
    names = ["a", "b", "c", "d", "nonsense"]
    for count in range(4):
        for given in itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(4)):
            arguments = tuple(range(10, 10 + count))
            keywords = {name: f"by name {name}" for name in given}
            try:
                function(*arguments, **keywords)
            except TypeError as expected:
                with pytest.raises(TypeError) as caught:
                    kernel(*arguments, **keywords)
                assert str(caught.value) == str(expected)
            else:
                assert kernel(*arguments, **keywords) == _bound(function, arguments, keywords)


def test_many_parameters() -> None:
    kernel = kp.jit(MANY["f40"], compile=echo)
    assert kernel() == (tuple(range(40)), {})
    assert kernel(*range(40)) == (tuple(range(40)), {})
    assert kernel(a39=-1)[0][-1] == -1
    with pytest.raises(TypeError, match="takes from 0 to 40 positional arguments but 41 were given"):
        kernel(*range(41))


def test_names_that_are_not_interned() -> None:
    kernel = kp.jit(f2, compile=echo)
    assert kernel(**{"".join(["a"]): 1, "".join(["b", ""]): 5}) == ((1, 5), {})


def test_calls_through_other_ways() -> None:
    kernel = kp.jit(f2, compile=echo)
    assert kernel.__call__(1) == ((1, 2), {})
    assert functools.partial(kernel, 1)(b=3) == ((1, 3), {})
    assert list(map(kernel, [1])) == [((1, 2), {})]


def test_variadic_functions_are_refused() -> None:
    for function in (lambda *a: 1, lambda **k: 1):
        with pytest.raises(kp.FunctionKeyError, match="of which nobody knows how many") as caught:
            kp.jit(function, compile=echo)
        assert caught.value.code == "variadic"


# -- Being a function ----------------------------------------------------------------------------


@kp.jit(compile=echo)
def documented(a: int, b: float = 2.0) -> float:
    """Say something."""
    return a * b


class Owner:
    def __init__(self, n: int) -> None:
        self.n = n

    @kp.jit(compile=lambda spec: lambda self, x: (self.n, x))
    def method(self, x: Any) -> Any:
        return self.n * x

    @kp.jit(compile=lambda spec: lambda x: ("static", x))
    @staticmethod
    def static(x: Any) -> Any:
        return x

    @kp.jit(compile=lambda spec: lambda cls, x: (cls.__name__, x))
    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x


def test_metadata() -> None:
    assert documented.__name__ == "documented"
    assert documented.__qualname__ == "documented"
    assert documented.__module__ == __name__
    assert documented.__doc__ == "Say something."
    assert str(inspect.signature(documented)) == "(a: 'int', b: 'float' = 2.0) -> 'float'"
    assert documented.__wrapped__(2, 3.0) == 6.0
    assert repr(documented) == f"<Kernel {__name__}.documented>"
    assert isinstance(documented, kp.Kernel)
    documented.note = 1
    assert documented.note == 1


def test_methods() -> None:
    owner = Owner(3)
    assert owner.method(1) == (3, 1)
    assert Owner.method(owner, 1) == (3, 1)
    bound = owner.method
    assert bound(2) == (3, 2)
    assert bound.__self__ is owner
    assert owner.static(1) == Owner.static(1) == ("static", 1)
    assert owner.of_class(1) == Owner.of_class(1) == ("Owner", 1)
    with pytest.raises(TypeError, match=r"Owner\.method\(\) missing 1 required positional argument: 'x'"):
        owner.method()


def test_pickled_by_reference() -> None:
    assert pickle.loads(pickle.dumps(documented)) is documented
    assert copy.copy(documented) is documented
    assert copy.deepcopy(documented) is documented
    local = kp.jit(lambda x: x, compile=echo)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)


def test_kernels_are_collected() -> None:
    class Local:
        @kp.jit(compile=echo)
        def method(self, x: Any) -> Any:
            return x

    instance = Local()
    instance.method(1)
    dead = [weakref.ref(Local), weakref.ref(Local.method), weakref.ref(instance)]
    del Local, instance
    gc.collect()
    assert [ref() for ref in dead] == [None, None, None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compile": 3}, "`compile` is a function, found 3"),
        ({"compile": echo, "load": 3}, "`load` is a function, found 3"),
        ({"compile": echo, "static": "a"}, "`static` is a list of names, found one string"),
        ({"compile": echo, "static": ["q"]}, "`static` names `q`, and `f2` has no such parameter"),
        ({"compile": echo, "align": {"a": 0}}, "`align` gives a positive int for `a`, found 0"),
        ({"compile": echo, "divisible": {"a": 1.5}}, "`divisible` gives a positive int for `a`, found 1.5"),
        ({"compile": echo, "members": "x"}, "`members` is 'value' or 'type', found 'x'"),
        ({"compile": echo, "on_drift": "x"}, "`on_drift` is 'raise' or 'rekey', found 'x'"),
        ({"compile": echo, "env": "HOME"}, "`env` is a list of names, found one string"),
        ({"compile": echo, "env": [1]}, "`env` is a list of names, found 1 in it"),
        ({"compile": echo, "store": kp.Store(memory=0)}, "`store` keeps bytes, and nothing says how to load"),
        ({"compile": echo, "packages": kp.Packages, "nonsense": 1}, "unexpected keyword argument"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        kp.jit(f2, **options)
    assert words in str(caught.value)


def test_what_is_no_function() -> None:
    for wrong in (3, "f", len, int, functools.partial(f1, 1)):
        with pytest.raises(kp.FunctionKeyError, match="expected a function, found") as caught:
            kp.jit(wrong, compile=echo)
        assert caught.value.code == "no-function"
    with pytest.raises(kp.FunctionKeyError, match="is a kernel already"):
        kp.jit(documented, compile=echo)


# -- Compilers and loaders that fail -------------------------------------------------------------


def test_what_compile_raises_is_raised_each_time() -> None:
    calls = []

    def fail(specialization: kp.Specialization) -> Any:
        calls.append(1)
        raise ValueError("no such instruction")

    kernel = kp.jit(f1, compile=fail)
    for _ in range(3):
        with pytest.raises(ValueError, match="no such instruction"):
            kernel(1)
    assert len(calls) == 3


def test_what_load_raises() -> None:
    def fail(artifact: kp.Artifact) -> Any:
        raise OSError("cannot load")

    kernel = kp.jit(f1, compile=lambda s: b"", load=fail)
    with pytest.raises(OSError, match="cannot load"):
        kernel(1)


def test_what_is_loaded_must_be_callable() -> None:
    with pytest.raises(TypeError, match="`load` returned 3, expected something callable"):
        kp.jit(f1, compile=lambda s: b"", load=lambda a: 3)(1)
    with pytest.raises(TypeError, match="`compile` returned b'', expected something callable"):
        kp.jit(f1, compile=lambda s: b"")(1)
    with pytest.raises(TypeError, match="an artifact is bytes"):
        kp.jit(f1, compile=lambda s: 3, load=lambda a: a)(1)


def test_what_the_executable_raises() -> None:
    kernel = kp.jit(f1, compile=lambda s: lambda x: 1 / x)
    assert kernel(2) == 0.5
    with pytest.raises(ZeroDivisionError):
        kernel(0)
    assert kernel(4) == 0.25


def test_a_kernel_that_calls_itself_while_it_is_compiled() -> None:
    depth = []

    def compile(specialization: kp.Specialization) -> Any:
        depth.append(1)
        if len(depth) < 3:
            kernel(len(depth) * 1.0 if len(depth) == 1 else "x")
        return lambda x: len(depth)

    kernel = kp.jit(f1, compile=compile)
    assert kernel(1) == 3


# -- Threads -------------------------------------------------------------------------------------


def test_concurrent_first_calls_compile_once() -> None:
    compiled = []
    gate = threading.Event()

    def compile(specialization: kp.Specialization) -> Any:
        compiled.append(1)
        gate.wait(0.2)
        return lambda x: x

    kernel = kp.jit(f1, compile=compile)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(kernel(7))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [7] * 16
    assert len(compiled) == 1


def test_threads_with_different_arguments() -> None:
    kernel = kp.jit(
        f1, compile=lambda s: lambda x, own=str(s.arguments["x" if "x" in s.arguments else "a"]): own
    )
    values = [1, 1.5, "a", "b", None, np.zeros(2), np.zeros(2, "f4"), (1, 2), np.zeros((2, 2))]
    expected = [kernel(value) for value in values]
    wrong = []

    def work(offset: int) -> None:
        for round in range(300):
            at = (round * 7 + offset) % len(values)
            if kernel(values[at]) != expected[at]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- Stores --------------------------------------------------------------------------------------


def test_memory_disk_compile(tmp_path: Path) -> None:
    def load(artifact: kp.Artifact) -> Any:
        assert artifact.specialization is not None
        return lambda a: (artifact.data, artifact.metadata, artifact["more"])

    def compile(specialization: kp.Specialization) -> kp.Artifact:
        return kp.Artifact({"data": b"code", "more": b"m"}, {"n": [1, 2]})

    # With a tool that says which version it is, compilers go by their names.
    compile.__qualname__, compile.__module__ = refuse.__qualname__, refuse.__module__
    kernel = kp.jit(f1, compile=compile, load=load, store=kp.Store(tmp_path), tool=("t", "1"))
    expected = (b"code", {"n": [1, 2]}, b"m")
    assert kernel(1) == expected
    assert kernel.why() == "miss: first compile" or kernel.why().startswith("miss: ")
    again = kp.jit(f1, compile=refuse, load=load, store=kp.Store(tmp_path), tool=("t", "1"))
    assert again(1) == expected
    assert again.why() == "hit: disk"
    seen = again.observations
    assert (seen.compiled, seen.validated, seen.loaded, seen.stored, seen.key_made) == (0, 1, 1, 0, 1)
    assert seen.files_parsed == 0
    seen = kernel.observations
    assert (seen.compiled, seen.validated, seen.loaded, seen.stored, seen.files_parsed) == (1, 0, 1, 1, 1)
    assert (seen.launches, again.observations.launches) == (1, 1)


def test_a_damaged_entry_is_compiled_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"compile": lambda s: b"code", "load": lambda a: lambda x: a.data}
    kp.jit(f1, store=kp.Store(tmp_path), **options)(1)
    for entry in tmp_path.rglob("*"):
        if entry.is_file() and entry.stat().st_size > 200:
            data = bytearray(entry.read_bytes())
            data[-1] ^= 1
            entry.chmod(0o600)
            entry.write_bytes(data)
    with pytest.warns(kp.StoreWarning, match="damaged"):
        kernel = kp.jit(f1, store=kp.Store(tmp_path), **options)
        assert kernel(1) == b"code"
    assert kernel.observations.compiled == 1


PROGRAM = """
import json, sys
import keyprint as kp
{prelude}
TILE = {tile}
def helper(x):
    return x + {constant}
def compile(spec):
    print("compiled", spec.name, file=sys.stderr)
    return b"code"
def load(artifact):
    return lambda x: artifact.data.decode()
@kp.jit(compile=compile, load=load, store=kp.Store({store!r}), env=["MYDSL_OPT"])
def f(x):
    return helper(x) * TILE
print(json.dumps([f({argument}), f.why(), f.observations.compiled, f.observations.files_parsed]))
"""


def _run(tmp_path: Path, directory: str = "a", **changes: Any) -> tuple[list[Any], str]:
    values = {
        "tile": 64,
        "constant": 1,
        "argument": 1,
        "prelude": "",
        "store": str(tmp_path / "store"),
        **changes,
    }
    env = values.pop("env", {})
    script = tmp_path / directory / "program.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(PROGRAM.format(**values))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_second_process_compiles_and_parses_nothing(tmp_path: Path) -> None:
    assert _run(tmp_path)[0] == ["code", "miss: first compile", 1, 1]
    assert _run(tmp_path)[0] == ["code", "hit: disk", 0, 0]
    outcome, _ = _run(tmp_path, "b", prelude="# another checkout\n\n")
    assert outcome[:3] == ["code", "hit: disk", 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tile": 128}, "`global __main__.TILE`: 64 -> 128"),
        ({"constant": 2}, "`function __main__.helper`: changed (in program.py)"),
        ({"argument": 1.5}, "`argument x`: int -> float"),
        ({"env": {"MYDSL_OPT": "3"}}, "`environment MYDSL_OPT`: not set -> '3'"),
        ({"env": {"KEYPRINT_CACHE_VERSION": "2"}}, "`salt`: none -> 2"),
    ],
)
def test_why_in_a_later_process(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    _run(tmp_path)
    outcome, _ = _run(tmp_path, **change)
    assert outcome[1].startswith("miss: ")
    assert words in outcome[1]
    # The command line says the same.
    done = subprocess.run(
        [sys.executable, "-m", "keyprint", "--dir", str(tmp_path / "store"), "why", "--last"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert words in done.stdout


def test_explaining_misses(tmp_path: Path) -> None:
    _, errors = _run(tmp_path, env={"KEYPRINT_EXPLAIN": "1"})
    assert "keyprint: compiling `__main__.f`: first compile" in errors
    _, errors = _run(tmp_path, tile=65, env={"KEYPRINT_LOG": "info"})
    assert "keyprint: INFO: compiling `__main__.f`: `global __main__.TILE`: 64 -> 65" in errors
    _, errors = _run(tmp_path, env={"KEYPRINT_EXPLAIN": "1", "KEYPRINT_LOG": "debug"})
    assert errors == ""
    _, errors = _run(tmp_path, tile=66, env={"KEYPRINT_LOG": "loud"})
    assert "`KEYPRINT_LOG` is `loud`, expected `debug`, `info` or `warning`" in errors


def test_the_standard_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="keyprint"):
        kp.jit(f1, compile=echo)(1)
    assert [record.getMessage() for record in caplog.records] == [f"compiling `{__name__}.f1`: first compile"]


def test_why_in_process() -> None:
    kernel = kp.jit(f1, compile=echo)
    assert kernel.why() == "never called"
    kernel(np.zeros(3))
    assert kernel.why() == "miss: first compile"
    kernel(np.zeros(3))
    assert kernel.why() == "hit: in memory"
    kernel(np.zeros(3, "f4"))
    assert kernel.why() == "miss: `argument a`: float64[:] -> float32[:]"
    kernel(np.zeros(3))
    assert kernel.why() == "hit: in memory"


def test_processes_share_one_compile(tmp_path: Path) -> None:
    script = tmp_path / "shared.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, time
            import keyprint as kp
            def compile(spec):
                with open({str(tmp_path / "log")!r}, "a") as log:
                    log.write("x")
                time.sleep(0.3)
                return b"code"
            @kp.jit(compile=compile, load=lambda a: lambda x: a.data, store=kp.Store({str(tmp_path / "store")!r}))
            def f(x):
                return x
            assert f(1) == b"code"
            """
        )
    )
    running = [subprocess.Popen([sys.executable, str(script)]) for _ in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    assert (tmp_path / "log").read_text() == "x"


# -- Native code ---------------------------------------------------------------------------------

NATIVE = """
#include <stdint.h>
int32_t scale(uint64_t *w) {
    double *x = (double *)w[0];
    for (int64_t i = 0; i < (int64_t)w[1]; i++) x[i] *= *(double *)&w[2];
    return 0;
}
int32_t add(uint64_t *w) { w[2] = w[0] + w[1]; return 0; }
int32_t half(uint64_t *w) { *(double *)&w[1] = 0.5 * *(double *)&w[0]; return 0; }
int32_t single(uint64_t *w) { *(double *)&w[1] = *(float *)&w[0]; return 0; }
int32_t fail(uint64_t *w) { return 42; }
int32_t strides(uint64_t *w) { w[2] = w[0] * 1000 + w[1]; return 0; }
int32_t count(uint64_t *w) { uint64_t n = 0; for (int i = 0; i < 100; i++) n += *(double *)w[i]; w[100] = n; return 0; }
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which(sysconfig.get_config_var("CC").split()[0]) or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    directory = tmp_path_factory.mktemp("native")
    (directory / "native.c").write_text(NATIVE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(directory / "native.so"), str(directory / "native.c")],
        check=True,
    )
    return ctypes.CDLL(str(directory / "native.so"))


def _address(native: Any, name: str) -> int:
    return ctypes.cast(getattr(native, name), ctypes.c_void_p).value or 0


def _native_kernel(function: Any, native: Any, name: str, *slots: str, **options: Any) -> Any:
    result = options.pop("result", None)
    code = kp.NativeCode(_address(native, name), slots or None, result=result, keep=native)
    return kp.jit(function, compile=lambda s: b"", load=lambda a: code, **options)


def test_native_code(native: Any) -> None:
    def function(x: Any, factor: Any = 2.0) -> Any:
        return x * factor

    kernel = _native_kernel(function, native, "scale", "x", "x.shape[0]", "factor")
    x = np.arange(4.0)
    assert kernel(x) is None
    assert x.tolist() == [0, 2, 4, 6]
    kernel(x, factor=0.5)
    assert x.tolist() == [0, 1, 2, 3]
    kernel(x[:2], 10.0)
    assert x.tolist() == [0, 10, 2, 3]


def test_native_results(native: Any) -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b

    def half(a: Any) -> Any:
        return a

    kernel = _native_kernel(add, native, "add", result="i64")
    assert kernel(2, 3) == 5
    assert kernel(-2, 1) == -1
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        kernel(1 << 64, 1)
    assert _native_kernel(half, native, "half", result="f64")(5.0) == 2.5
    assert _native_kernel(half, native, "single", "a:f32", result="f64")(1.5) == 1.5
    assert _native_kernel(half, native, "half", "a:f64", result="f64")(3) == 1.5


def test_native_status(native: Any) -> None:
    with pytest.raises(RuntimeError, match="returned the status 42"):
        _native_kernel(f1, native, "fail")(1)


class Grid:
    def __init__(self) -> None:
        self.data = np.zeros((3, 5))
        self.n = 7


def test_native_members(native: Any) -> None:
    def function(grid: Any) -> Any:
        return grid.data[0] * grid.n

    kernel = _native_kernel(
        function, native, "strides", "grid.data.strides[0]", "grid.data.shape[1]", result="i64"
    )
    grid = Grid()
    assert kernel(grid) == 40 * 1000 + 5
    grid.data = np.zeros((3, 6))
    assert kernel(grid) == 48 * 1000 + 6


def test_many_words(native: Any) -> None:
    names = [f"a{at}" for at in range(100)]
    scope: dict[str, Any] = {}
    exec(f"def function({', '.join(names)}): return {' + '.join(names)}", scope)
    kernel = _native_kernel(scope["function"], native, "count", result="i64")
    assert kernel(*[np.full(1, 2.0) for _ in names]) == 200


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        (["y"], "names nothing that the kernel reads\nhint: it reads `x`, `n`, `s`"),
        (["x.shape[5]"], "names a dimension that an array of 1 has not"),
        (["x:f32"], "is a `numpy.ndarray`, expected an array or a number"),
        (["x.nothing"], "names nothing that the kernel reads"),
        (["n.shape[0]"], "is a `int`, expected an array or a number"),
        ([3], "found 3 in it"),
        (["n:i7"], "ends in `i7`, expected one of"),
        (["s"], "is a `str`, expected an array or a number"),
    ],
)
def test_wrong_slots(native: Any, slots: list[str], text: str) -> None:
    def function(x: Any, n: Any, s: Any) -> Any:
        return x, n, s

    with pytest.raises((ValueError, TypeError)) as caught:
        _native_kernel(function, native, "fail", *slots)(np.zeros(3), 1, "s")
    assert text in str(caught.value)


@pytest.mark.parametrize("address", [0, -1, "x", None, True])
def test_wrong_addresses(address: Any) -> None:
    with pytest.raises(TypeError, match="`address` is the address of a function"):
        kp.NativeCode(address)


def test_slots_by_their_older_name(native: Any) -> None:
    address = _address(native, "fail")
    with pytest.warns(DeprecationWarning, match="`words` is an older name of `slots`"):
        assert kp.NativeCode(address, words=["x"]).slots == ("x",)
    with pytest.raises(TypeError, match="give one of them"):
        kp.NativeCode(address, ["x"], words=["x"])


def test_native_code_is_guarded(native: Any) -> None:
    """What native code is given is what was checked, whatever a signature does meanwhile."""
    grid = Grid()

    class Meddler:
        def __cache_signature__(self) -> Any:
            grid.data = np.zeros((3, 5), "f4") if meddle else np.zeros((3, 5))
            return 1

    def function(grid: Any, m: Any) -> Any:
        return grid.data * m

    meddle = False
    compiled = []

    def compile(specialization: kp.Specialization) -> Any:
        compiled.append(str(specialization.arguments["grid"]))
        return b""

    code = kp.NativeCode(
        _address(native, "strides"), ["grid.data.strides[0]", "grid.data.shape[1]"], result="i64", keep=native
    )
    kernel = kp.jit(function, compile=compile, load=lambda a: code)
    assert kernel(grid, Meddler()) == 40 * 1000 + 5
    meddle = True
    assert kernel(grid, Meddler()) == 20 * 1000 + 5
    assert compiled == ["Grid(data: float64[:, :])", "Grid(data: float32[:, :])"]


# -- What a specialization holds -----------------------------------------------------------------


def test_specializations(tmp_path: Path) -> None:
    seen: list[kp.Specialization] = []

    def compile(specialization: kp.Specialization) -> Any:
        seen.append(specialization)
        return lambda *a, **k: None

    kernel = kp.jit(f4, compile=compile, static=["d"], target="cpu", tool=("mydsl", "1.2"))
    kernel(np.zeros((2, 2), "f4"), c="text")
    (spec,) = seen
    assert spec.function is f4
    assert spec.name == f"{__name__}.f4"
    assert spec.source == inspect.getsource(f4).rstrip("\n")
    assert spec.target == "cpu"
    array = spec.arguments["a"]
    assert (array.kind, array.dtype, array.ndim, array.layout, array.writable) == (
        "array",
        "float32",
        2,
        "C",
        True,
    )
    assert spec.arguments["b"].kind == "scalar"
    assert (spec.arguments["c"].kind, spec.arguments["c"].value) == ("value", "text")
    assert spec.arguments["d"].value == 4
    manifest = json.loads(spec.key.manifest())
    named = {component["name"]: component.get("summary") for component in manifest["components"]}
    assert named["tool"] == "mydsl 1.2"
    assert named["argument a"] == "float32[:, :]"
    assert named["target"] == "'cpu'"
    assert f"function {__name__}.f4" in named


def test_artifacts() -> None:
    artifact = kp.Artifact(b"x")
    assert (artifact.data, artifact["data"], dict(artifact.parts)) == (b"x", b"x", {"data": b"x"})
    with pytest.raises(ValueError, match="has no path"):
        artifact.path()
    with pytest.raises(TypeError, match="an artifact is bytes"):
        kp.Artifact(3)  # type: ignore[arg-type]
