"""F5: enums."""

from __future__ import annotations

import enum
import sys

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint


def local_enum(**members: object) -> type[enum.Enum]:
    return enum.Enum("Local", members)  # type: ignore[return-value]


def test_members_by_class_name_and_value() -> None:
    members = [
        st.Color.RED,
        st.Color.GREEN,
        st.Shade.RED,
        st.Device.CPU,
        st.Device.GPU,
        st.Perm.R,
        st.IntPerm.R,
    ]
    members += [st.Text.A, st.Number.ONE]
    values = [1, 2, 0, "a"]
    assert len({fp(value) for value in [*members, *values]}) == len(members) + len(values)


def test_flags_combine() -> None:
    assert fp(st.Perm.R | st.Perm.W) == fp(st.Perm.W | st.Perm.R)
    assert fp(st.Perm.R | st.Perm.W) != fp(st.Perm.R)
    assert fp(st.IntPerm.R | st.IntPerm.W) != fp(3)
    assert fp(st.Perm(0)) != fp(st.Perm.R)


def test_classes_by_member_content() -> None:
    assert fp(st.Color) != fp(st.Shade)
    assert fp(local_enum(A=1)) == fp(local_enum(A=1))
    assert fp(local_enum(A=1)) != fp(local_enum(A=2))
    assert fp(local_enum(A=1)) != fp(local_enum(B=1))
    assert fp(local_enum(A=1)) != fp(local_enum(A=1, B=2))
    assert fp(local_enum(A=1, B=1)) != fp(local_enum(A=1))


def test_local_enums_work_in_strict_mode() -> None:
    def make(value: int) -> type[enum.Enum]:
        class Local(enum.Enum):
            A = value
            B = 10

        return Local

    assert fp(make(1).A) == fp(make(1).A)  # type: ignore[attr-defined]
    assert fp(make(1).A) != fp(make(2).A)  # type: ignore[attr-defined]
    assert fp(make(1)) != fp(make(2))
    assert fp([make(1).B]).durable  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="StrEnum is new in 3.11")
def test_str_enum() -> None:
    class Mode(enum.StrEnum):  # type: ignore[name-defined,misc]
        A = "a"

    assert fp(Mode.A) != fp("a")
    assert fp(Mode.A) == fp(Mode.A)


def test_values_may_be_anything_with_a_fingerprint() -> None:
    assert fp(local_enum(A=[1, {2}])) == fp(local_enum(A=[1, {2}]))
    assert fp(local_enum(A=[1, {2}])) != fp(local_enum(A=[1, {3}]))
