"""Every error code has a test, and exceptions survive pickling."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path

import pytest

import keyprint as kp
from keyprint.errors import FINGERPRINT_CODES, FUNCTION_CODES

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "crates" / "python" / "src"


@pytest.mark.skipif(not NATIVE.exists(), reason="the sources are not here")
def test_the_codes_are_those_that_are_used() -> None:
    used = set()
    for path in NATIVE.rglob("*.rs"):
        used |= set(re.findall(r'refuse\(\s*"([a-z-]+)"', path.read_text()))
        used |= set(re.findall(r'code: "([a-z-]+)"', path.read_text()))
    assert used == set(FINGERPRINT_CODES)


def test_every_code_is_tested() -> None:
    tests = "".join(path.read_text() for path in HERE.rglob("test_*.py") if path.name != "test_errors.py")
    messages = {
        "cycle": "kp.CycleError",
        "array-format": "pointers",
        "not-durable": "not durable",
        "no-identity": "cannot count by identity",
    }
    for code in FINGERPRINT_CODES:
        if code in ("raised", "no-identity"):
            continue
        assert f'"{code}"' in tests or messages.get(code, "\0") in tests, code


def test_the_codes_of_functions_are_those_that_are_used_and_tested() -> None:
    package = HERE.parent.parent / "python" / "keyprint"
    folders = ("functions", "dispatch")
    used = "".join(file.read_text() for folder in folders for file in (package / folder).rglob("*.py"))
    codes = set(re.findall(r'code="([a-z-]+)"', used))
    assert codes - set(FINGERPRINT_CODES) == set(FUNCTION_CODES) - set(FINGERPRINT_CODES)
    tests = "".join(path.read_text() for path in HERE.rglob("test_*.py") if path.name != "test_errors.py")
    for code in FUNCTION_CODES:
        assert f'"{code}"' in tests, code


class Raising:
    def __get__(self, obj: object, owner: object = None) -> object:
        if obj is None:
            return 0
        raise OSError("disk")

    def __set__(self, obj: object, value: object) -> None:
        pass


@dataclasses.dataclass
class OnDisk:
    x: object = Raising()


def test_what_user_code_raises_is_the_cause() -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        kp.fingerprint({"k": OnDisk()})
    assert caught.value.code == "raised"
    assert caught.value.path == "$['k'].x"
    assert isinstance(caught.value.__cause__, OSError)


def test_objects_that_cannot_be_told_apart() -> None:
    with pytest.raises(kp.FingerprintError, match="cannot count by identity") as caught:
        kp.Fingerprinter(overrides={int: kp.rule.by_identity()})([1])
    assert caught.value.code == "no-identity"


def test_exceptions_survive_pickling() -> None:
    refused = kp.Fingerprinter(cycles=False)
    value: list[object] = []
    value.append(value)
    for cause in (lambda: kp.fingerprint(lambda: 1), lambda: refused(value)):
        with pytest.raises(kp.KeyprintError) as caught:
            cause()
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert (again.code, again.path, again.hint) == (
            caught.value.code,
            caught.value.path,
            caught.value.hint,
        )
