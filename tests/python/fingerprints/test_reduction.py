"""F8: everything else, by its own reduction."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import fractions
import pathlib
import re
import socket
import threading
import unittest.mock
import uuid
from typing import Any

import numpy as np
import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint

VALUES: list[Any] = [
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
    datetime.timedelta(seconds=3),
    decimal.Decimal("1.0"),
    decimal.Decimal("1.00"),
    fractions.Fraction(1, 2),
    pathlib.PurePosixPath("a/b"),
    re.compile("a+"),
    re.compile("a+", re.IGNORECASE),
    uuid.UUID(int=3),
    range(3),
    range(0, 3, 2),
    slice(1, 2),
    ValueError("x"),
    st.Reduced(1),
    st.Reduced([2]),
    st.Stateful(1),
    st.Stateful(2),
    st.Plain(a=1),
    st.Plain(b=1),
    st.Plain(),
    np.sin,
    np.cos,
    iter([1, 2]),
]


def test_values_differ_and_repeat() -> None:
    digests = [fp(value) for value in VALUES]
    assert digests == [fp(value) for value in VALUES]
    assert len(set(digests)) == len(VALUES)


def test_attributes_have_no_order() -> None:
    assert fp(st.Plain(a=1, b=2)) == fp(st.Plain(b=2, a=1))


def test_slots_count() -> None:
    child, other = st.SlottedChild(), st.SlottedChild()
    assert fp(child) == fp(other)
    child.a, child.c = 1, 2
    assert fp(child) != fp(other)
    other.c, other.a = 2, 1
    assert fp(child) == fp(other)


def test_what_a_state_leaves_out_does_not_count() -> None:
    assert fp(st.Stateful([1])) == fp(st.Stateful([1]))


def test_registered_reducers_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    value = st.Plain(a=1)
    plain = fp(value)
    monkeypatch.setitem(copyreg.dispatch_table, st.Plain, lambda obj: (st.Plain, (), {"a": 9}))
    registered = fp(value)
    assert registered != plain
    assert registered == fp(st.Plain(a=2))
    monkeypatch.delitem(copyreg.dispatch_table, st.Plain)
    assert fp(value) == plain


def generator() -> Any:
    yield 1


UNREDUCIBLE: list[Any] = [
    threading.Lock(),
    generator(),
    open(__file__),  # noqa: SIM115
    socket.socket(),
    unittest.mock.Mock(),
    unittest.mock.MagicMock(spec=st.Point),
]


@pytest.mark.parametrize("value", UNREDUCIBLE, ids=lambda value: type(value).__name__)
def test_what_cannot_be_reduced_is_refused_with_a_way_out(value: Any) -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp(st.Point(0, {"handle": [value]}))
    assert caught.value.code == "not-reducible"
    assert caught.value.path.startswith("$.y['handle'][0]")
    assert "register a rule" in str(caught.value)


def test_a_rule_is_the_way_out() -> None:
    with_rule = kp.Fingerprinter(overrides={type(threading.Lock()): kp.rule.leaf("lock")})
    assert with_rule([threading.Lock()]) == with_rule([threading.Lock()])


def test_mocks_count_as_themselves_in_lenient_mode() -> None:
    lenient = kp.Fingerprinter(mode="lenient")
    mock, other = unittest.mock.Mock(), unittest.mock.Mock()
    assert lenient(mock) == lenient(mock) != lenient(other)
    assert not lenient(mock).durable


class Shaped:
    def __init__(self, reduction: Any) -> None:
        self.reduction = reduction

    def __reduce_ex__(self, protocol: Any) -> Any:
        if isinstance(self.reduction, BaseException):
            raise self.reduction
        return self.reduction() if callable(self.reduction) else self.reduction


@pytest.mark.parametrize("bad", [3, (), (1,), (1,) * 7, None, [st.Plain, ()]])
def test_malformed_reductions_are_refused(bad: Any) -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        fp([Shaped(bad)])
    assert caught.value.code == "malformed-reduction"
    assert caught.value.path == "$[0]"


def test_all_six_parts_count() -> None:
    base = (st.Plain, (), {"a": 1}, None, None, None)
    digests = {
        fp(Shaped(reduction))
        for reduction in (
            base,
            (st.Named, *base[1:]),
            (st.Plain, (1,), *base[2:]),
            (*base[:2], {"a": 2}, *base[3:]),
            (*base[:3], [1], None, None),
            (*base[:4], [(1, 2)], None),
            (*base[:5], st.function),
        )
    }
    assert len(digests) == 7
    assert fp(Shaped(base)) == fp(Shaped(base[:3]))


def test_names() -> None:
    assert fp(Shaped.named) == fp(Shaped.named)  # type: ignore[attr-defined]
    with pytest.raises(kp.FingerprintError, match="does not lead to it"):
        fp(Shaped("no_such_name"))


Shaped.named = Shaped("NAMED")  # type: ignore[attr-defined]
NAMED = Shaped.named  # type: ignore[attr-defined]
