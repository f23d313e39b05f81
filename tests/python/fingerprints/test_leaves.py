"""F2: leaves carry their class."""

from __future__ import annotations

import itertools
import math
import struct
import sys

import pytest

import keyprint as kp
from sample_types import Color, Device

DISTINCT = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**62,
    2**63,
    2**64,
    -(2**63),
    -(2**63) - 1,
    2**4000,
    -(2**4000),
    0.0,
    -0.0,
    1.0,
    math.inf,
    -math.inf,
    math.nan,
    sys.float_info.min,
    complex(0, 0),
    complex(0, -0.0),
    complex(1, 0),
    "",
    "1",
    "a",
    "é",
    "e\u0301",
    "\ud800",
    "\udc00",
    "\U00010000",
    "\ud800\udc00",
    "a\0",
    b"",
    b"1",
    bytearray(b""),
    bytearray(b"1"),
    (),
    [],
    {},
    set(),
    frozenset(),
    (1, 2),
    [1, 2],
    {1, 2},
    frozenset({1, 2}),
    {1: 2},
    ((1, 2),),
    Device.CPU,
    Device.GPU,
    Color.RED,
    int,
    Color,
    ...,
    NotImplemented,
    range(3),
    slice(1, 2),
]


def test_all_differ() -> None:
    digests = [kp.fingerprint(value) for value in DISTINCT]
    for (i, a), (j, b) in itertools.combinations(enumerate(digests), 2):
        assert a != b, (DISTINCT[i], DISTINCT[j])


def test_all_are_stable_and_differ_inside_containers() -> None:
    for value in DISTINCT:
        assert kp.fingerprint(value) == kp.fingerprint(value)
        assert kp.fingerprint([value]) != kp.fingerprint(value)
    assert len({kp.fingerprint([value]) for value in DISTINCT}) == len(DISTINCT)


def test_every_scalar_nan_is_one_value() -> None:
    payload = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
    assert math.isnan(payload)
    assert kp.fingerprint(payload) == kp.fingerprint(math.nan) == kp.fingerprint(-math.nan)
    assert kp.fingerprint(complex(payload, 1)) == kp.fingerprint(complex(math.nan, 1))


@pytest.mark.parametrize("bits", [7, 8, 9, 31, 32, 33, 61, 62, 63, 64, 65, 127, 128, 129, 1023, 1024, 9000])
def test_integers_around_powers_of_two(bits: int) -> None:
    values = [sign * (2**bits) + delta for sign in (1, -1) for delta in (-1, 0, 1)]
    assert len({kp.fingerprint(value) for value in values}) == len(values)


def test_a_gigantic_int() -> None:
    assert kp.fingerprint(1 << 10_000_000) != kp.fingerprint(1 << 10_000_001)


def test_text_by_code_points_not_by_storage() -> None:
    narrow = "ab"
    wide = "ab\U0001f980"[:2]
    assert kp.fingerprint(narrow) == kp.fingerprint(wide)


def test_a_fingerprint_is_a_value() -> None:
    inner = kp.fingerprint([1])
    assert kp.fingerprint(inner) == kp.fingerprint(kp.Fingerprint(str(inner)))
    assert kp.fingerprint(inner) != kp.fingerprint(bytes(inner))
    assert kp.fingerprint(inner) != kp.fingerprint([1])


def test_what_has_identity_and_no_value_is_refused() -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        kp.fingerprint({"missing": [object()]})
    assert caught.value.code == "no-value"
    assert "$['missing'][0]" in str(caught.value)
    assert "enum" in str(caught.value)
    # Leniently it is what it is, in this process.
    assert kp.fingerprint(object(), mode="lenient") is not None
