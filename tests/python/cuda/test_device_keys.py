"""What the key of a kernel for a device depends on, and what not."""

from __future__ import annotations

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
    for path in original.parent.iterdir():
        shutil.copy(path, directory)
    return str(directory / original.name)


@pytest.mark.parametrize("changes", [{"ORDINAL": "1"}, {"KPE_MEMORY": "100000000"}, {"KPE_VERSION": "13000"}])
def test_what_does_not_count(run, changes):
    assert run(PROGRAM).stdout == "1\n"
    assert run(PROGRAM, **changes).stdout == "0\n"


def test_the_cpu_and_a_device_share_nothing(run):
    assert run(PROGRAM).stdout == "1\n"
    on_cpu = PROGRAM.replace('"cuda:" + os.environ.get("ORDINAL", "0")', '"cpu"')
    assert run(on_cpu).stdout == "1\n"
    assert run(on_cpu).stdout == "0\n"
    assert run(PROGRAM).stdout == "0\n"
