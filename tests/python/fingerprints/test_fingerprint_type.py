"""`keyprint.Fingerprint`: text, order, hashing, pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

import keyprint as kp


def test_text_and_bytes_round_trip() -> None:
    fingerprint = kp.fingerprint("x")
    assert len(str(fingerprint)) == 64
    assert fingerprint.hex() == str(fingerprint)
    assert str(fingerprint).startswith(fingerprint.short)
    assert kp.Fingerprint(str(fingerprint)) == fingerprint
    assert kp.Fingerprint(bytes(fingerprint)) == fingerprint
    assert repr(fingerprint) == f"Fingerprint('{fingerprint}')"


def test_hash_order_and_equality() -> None:
    fingerprints = [kp.fingerprint(i) for i in range(50)]
    assert sorted(fingerprints) == sorted(fingerprints, key=bytes)
    assert len(set(fingerprints)) == 50
    assert fingerprints[0] != str(fingerprints[0])
    with pytest.raises(TypeError):
        fingerprints[0] < 1  # noqa: B015


def test_pickle_and_copy_keep_durability() -> None:
    durable = kp.fingerprint(1)
    process_local = kp.fingerprint(lambda: 1, mode="lenient")
    for fingerprint in (durable, process_local):
        for again in (
            pickle.loads(pickle.dumps(fingerprint)),
            copy.copy(fingerprint),
            copy.deepcopy(fingerprint),
        ):
            assert again == fingerprint
            assert again.durable == fingerprint.durable
    assert durable.durable and not process_local.durable


@pytest.mark.parametrize("bad", ["", "0" * 63, "g" * 64, "é" * 32, b"", b"1" * 31])
def test_bad_input_is_refused(bad: str | bytes) -> None:
    with pytest.raises(ValueError, match="a fingerprint has"):
        kp.Fingerprint(bad)


def test_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError):
        kp.Fingerprint(3)  # type: ignore[arg-type]


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="`mode` is `strict` or `lenient`, found `loose`"):
        kp.fingerprint(1, mode="loose")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`arrays` is"):
        kp.Fingerprinter(arrays="shape")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="neither a callable nor a description"):
        kp.Fingerprinter(overrides={int: 3})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="are classes"):
        kp.Fingerprinter(overrides={"int": lambda obj: obj})  # type: ignore[dict-item]
    for bad in ("location", 3, [1]):
        with pytest.raises(TypeError, match="`skip_fields` is a sequence of names"):
            kp.Fingerprinter(skip_fields=bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`skip` is a sequence of names"):
            kp.rule.by_fields(skip=bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is a mapping"):
        kp.Fingerprinter(overrides=3)  # type: ignore[arg-type]
