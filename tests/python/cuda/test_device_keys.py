"""What the key of a kernel for a device depends on, and what not."""

from __future__ import annotations

import runpy

import pytest

PROGRAM = """
import os
import keyprint as kp
kp.init(arch="cuda:" + os.environ.get("ORDINAL", "0"), **eval(os.environ.get("OPTIONS", "{}")))
@kp.kernel
def one(x: kp.types.NDArray[kp.i32, 1]):
    for i in x:
        x[i] += 1
x = kp.ndarray(kp.i32, 3)
one(x)
assert x.to_numpy().tolist() == [1, 1, 1]
print(one.observations.compiled)
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"KPE_CAPABILITY": "80"},
        {"KPE_NVRTC_VERSION": "131"},
        {"OPTIONS": "{'fast_math': True}"},
        {"OPTIONS": "{'contract': True}"},
        {"OPTIONS": "{'debug': True}"},
    ],
)
def test_what_counts(run, changes):
    assert run(PROGRAM).stdout == "1\n"
    if "KPE_NVRTC_VERSION" in changes:
        # What a library is, is remembered by its file.
        changes = {**changes, "KEYPRINT_NVRTC": copied_nvrtc(run)}
    assert run(PROGRAM, **changes).stdout == "1\n"
    assert run(PROGRAM, **changes).stdout == "0\n"
    assert run(PROGRAM).stdout == "0\n"


def copied_nvrtc(run):
    import shutil
    import tempfile
    from pathlib import Path

    import emulator

    original = Path(emulator.build()["KEYPRINT_NVRTC"])
    directory = Path(tempfile.mkdtemp())
    for path in filter(Path.is_file, original.parent.iterdir()):
        shutil.copy(path, directory)
    return str(directory / original.name)


@pytest.mark.parametrize("changes", [{"ORDINAL": "1"}, {"KPE_MEMORY": "100000000"}, {"KPE_VERSION": "13000"}])
def test_what_does_not_count(run, changes):
    assert run(PROGRAM).stdout == "1\n"
    assert run(PROGRAM, **changes).stdout == "0\n"


ROUNDED = """
import keyprint as kp

@kp.kernel
def rounded(x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] = x[i] * x[i] + y[i]

def of(**options):
    kp.init(arch=kp.cuda, offline_cache=False, **options)
    x, y = kp.ndarray(kp.f32, 1), kp.ndarray(kp.f32, 1)
    x[0], y[0] = 1.0 + 2.0**-13, -1.0
    rounded(x, y)
    return y[0]

once, twice = 2.0**-12 + 2.0**-26, 2.0**-12
assert of(contract=True) == once
assert of() == twice
assert of(contract=True) == once
"""


@pytest.mark.parametrize("version", ["120", "129", "131"])
def test_options_count_though_nvrtc_has_a_cache_without_them(run, version):
    done = run(ROUNDED, KPE_NVRTC_VERSION=version)
    assert done.returncode == 0, done.stderr


def test_options_count_on_the_device_at_hand(tmp_path):
    path = tmp_path / "rounded.py"
    path.write_text(ROUNDED)
    runpy.run_path(str(path))


def test_the_cpu_and_a_device_share_nothing(run):
    assert run(PROGRAM).stdout == "1\n"
    on_cpu = PROGRAM.replace('"cuda:" + os.environ.get("ORDINAL", "0")', '"cpu"')
    assert run(on_cpu).stdout == "1\n"
    assert run(on_cpu).stdout == "0\n"
    assert run(PROGRAM).stdout == "0\n"
