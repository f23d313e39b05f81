"""Which modules count by source, and which by version."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy
import pytest

import keyprint as kp
from keyprint.functions.interpreter import INTERPRETER


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A directory that packages are installed in."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    directory = tmp_path / "site-packages"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    loaded = []

    def install(
        name: str, version: str, files: dict[str, str], *, url: object = None, record: bool = True
    ) -> Path:
        info = directory / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        if record:
            (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        else:
            (info / "top_level.txt").write_text(
                "\n".join({file.split("/")[0].removesuffix(".py") for file in files})
            )
        if url is not None:
            (info / "direct_url.json").write_text(json.dumps(url))
        for file, text in files.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text)
            loaded.append(file.split("/")[0].removesuffix(".py"))
        importlib.invalidate_caches()
        return info

    yield install
    for name in list(sys.modules):
        if name.partition(".")[0] in loaded:
            del sys.modules[name]


def test_the_standard_library_and_builtins() -> None:
    packages = kp.Packages()
    for name in ("math", "json", "json.decoder", "builtins", "sys", "os", "posix", "zipimport"):
        importlib.import_module(name)
        assert packages.version_of(name) == INTERPRETER, name
    assert packages.version_of("numpy") == ("numpy", numpy.__version__)
    assert packages.version_of("numpy.linalg") == ("numpy", numpy.__version__)
    assert packages.version_of("keyprint.store.keys") == ("keyprint", kp.__version__)
    assert packages.version_of(__name__) is None
    assert packages.version_of("__main__") is None
    assert packages.version_of("no.such.module") is None


def test_installed_packages(site: Any) -> None:
    site(
        "Some_Thing",
        "1.2",
        {"something/__init__.py": "", "something/deep/__init__.py": "", "something/deep/m.py": ""},
    )
    site("single", "3.0", {"single_module.py": ""})
    site("older", "0.1", {"older/__init__.py": ""}, record=False)
    site("edited", "9.9", {"edited/__init__.py": ""}, url={"url": "x", "dir_info": {"editable": True}})
    site("local", "9.9", {"local/__init__.py": ""}, url={"dir_info": {}, "url": "file:///x"})
    commit = {"vcs_info": {"vcs": "git", "commit_id": "abc123"}, "url": "https://x"}
    site("cloned", "2.0", {"cloned/__init__.py": ""}, url=commit)
    site("ns-a", "1.0", {"ns/a/__init__.py": ""})
    site("ns-b", "2.0", {"ns/b/__init__.py": ""})
    packages = kp.Packages()
    for name, expected in (
        ("something", ("some_thing", "1.2")),
        ("something.deep.m", ("some_thing", "1.2")),
        ("something.deep", ("some_thing", "1.2")),
        ("single_module", ("single", "3.0")),
        ("older", ("older", "0.1")),
        ("edited", None),
        ("local", None),
        ("cloned", ("cloned", "2.0+abc123")),
        ("ns.a", ("ns_a", "1.0")),
        ("ns.b", ("ns_b", "2.0")),
    ):
        importlib.import_module(name)
        assert packages.version_of(name) == expected, name


def test_what_nobody_installed_counts_by_source(site: Any, tmp_path: Path) -> None:
    site("something", "1.2", {"something/__init__.py": ""})
    (tmp_path / "site-packages" / "vendored.py").write_text("")
    importlib.import_module("vendored")
    assert kp.Packages().version_of("vendored") is None


def test_overrides() -> None:
    packages = kp.Packages(inside=["numpy", "json"], outside={"json.decoder": "7", __name__: "1"})
    assert packages.version_of("numpy.linalg") is None
    assert packages.version_of("json") is None
    assert packages.version_of("json.decoder") == ("json.decoder", "7")
    assert packages.version_of(__name__) == (__name__, "1")
    assert "json.decoder" in repr(packages)
    with pytest.raises(TypeError, match="`inside` is a list of names"):
        kp.Packages(inside="numpy")


def test_versions_count(site: Any, tmp_path: Path) -> None:
    info = site("lib", "1.0", {"lib/__init__.py": "def g(x):\n    return x\nN = 1\n"})
    (tmp_path / "site-packages" / "using.py").write_text(
        "import lib, math\ndef f(x):\n    return lib.g(x) + math.sin(x)\n"
    )
    using = importlib.import_module("using")
    key = kp.FunctionKey(using.f)
    assert {"package lib", "interpreter", "global lib.g", "global math.sin"} <= set(key.components)
    assert "function lib.g" not in key.components
    source = tmp_path / "site-packages" / "lib" / "__init__.py"
    source.write_text("def g(x):\n    return -x\nN = 1\n")
    importlib.reload(sys.modules["lib"])
    assert kp.FunctionKey(using.f) == key, "an installed package counts by its version"
    assert kp.FunctionKey(using.f, packages=kp.Packages(inside=["lib"])) != key
    info.rename(info.with_name("lib-1.1.dist-info"))
    assert kp.FunctionKey(using.f) != key


def test_values_of_installed_packages_count_by_value(site: Any, tmp_path: Path) -> None:
    site("lib", "1.0", {"lib/__init__.py": "N = 1\n"})
    (tmp_path / "site-packages" / "using_values.py").write_text("import lib\ndef f(x):\n    return lib.N\n")
    using = importlib.import_module("using_values")
    key = kp.FunctionKey(using.f)
    sys.modules["lib"].N = 2  # type: ignore[attr-defined]
    assert kp.FunctionKey(using.f) != key


def test_patched_functions_of_installed_packages_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__name__": "made", "math": math}
    exec("def f(x): return math.sin(x)", scope)
    key = kp.FunctionKey(scope["f"])
    monkeypatch.setattr(math, "sin", math.cos)
    assert kp.FunctionKey(scope["f"]) != key
    monkeypatch.setattr(math, "sin", lambda x: x)
    patched = kp.FunctionKey(scope["f"])
    assert patched != key
    assert any(name.endswith("<lambda>") for name in patched.functions)


NATIVE = """
#include <Python.h>
static PyObject *g(PyObject *self, PyObject *x) { return PyLong_FromLong(%s); }
static PyMethodDef methods[] = {{"g", g, METH_O, 0}, {0}};
static PyType_Slot slots[] = {{0, 0}};
static PyType_Spec spec = {"native_made.T", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_made", 0, -1, methods};
PyMODINIT_FUNC PyInit_native_made(void) {
    PyObject *made = PyModule_Create(&module);
    PyModule_AddObject(made, "T", PyType_FromSpec(&spec));
    return made;
}
"""


def test_compiled_modules_of_the_program_count_by_their_file(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    include = sysconfig.get_paths()["include"]
    if compiler is None or not Path(include, "Python.h").exists():
        pytest.skip("nothing to compile an extension with")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import using_native, keyprint as kp\n"
        "print(kp.FunctionKey(using_native.f).fingerprint.hex(), kp.FunctionKey(using_native.t).fingerprint.hex())\n"
    )
    keys = []
    for at, value in enumerate(("1", "1", "2")):
        directory = tmp_path / str(at)
        directory.mkdir()
        (directory / "native.c").write_text(NATIVE % value)
        (directory / "using_native.py").write_text(
            "import native_made\ndef f(x): return native_made.g(x)\ndef t(x): return native_made.T\n"
        )
        built = directory / "native_made.so"
        flags = ["-shared", "-fPIC", f"-I{include}", "-Wl,--build-id=none"]
        subprocess.run([compiler, *flags, "-o", built, "native.c"], check=True, cwd=directory)
        done = subprocess.run(
            [sys.executable, "-c", script, str(directory)], check=True, capture_output=True, text=True
        )
        keys.append(done.stdout.split())
    assert keys[0] == keys[1]
    assert keys[0][0] != keys[2][0]
    assert keys[0][1] != keys[2][1]
