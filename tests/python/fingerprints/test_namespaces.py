"""F9: namespaces by content."""

from __future__ import annotations

import types
from typing import Any

import keyprint as kp
import sample_types as st

fp = kp.fingerprint


def test_simple_namespace() -> None:
    assert fp(types.SimpleNamespace(a=1, b=2)) == fp(types.SimpleNamespace(b=2, a=1))
    assert fp(types.SimpleNamespace(a=1)) != fp(types.SimpleNamespace(a=2))
    assert fp(types.SimpleNamespace(a=1)) != fp({"a": 1})


def local_namespace(constant: int, **attributes: Any) -> Any:
    class Consts(types.SimpleNamespace):
        PI = constant

        def area(self) -> Any:
            return self.PI

    return Consts(**attributes)


def test_local_subclasses_by_content() -> None:
    assert fp(local_namespace(3, a=1)) == fp(local_namespace(3, a=1))
    assert fp(local_namespace(3, a=1)) != fp(local_namespace(3, a=2))
    assert fp(local_namespace(3, a=1)) != fp(local_namespace(4, a=1))
    assert fp(local_namespace(3, a=1)) != fp(types.SimpleNamespace(a=1))
    assert fp([local_namespace(3)]).durable


def declared(value: Any) -> Any:
    class Config:
        __fingerprint__ = kp.rule.as_namespace()

        def __init__(self) -> None:
            self.value = value

    return Config()


def test_local_classes_that_declare_themselves() -> None:
    assert fp(declared(1)) == fp(declared(1))
    assert fp(declared(1)) != fp(declared(2))


def test_local_classes_by_registration() -> None:
    def make(value: Any) -> Any:
        class Config(st.Plain):
            pass

        return Config(value=value)

    registered = kp.Fingerprinter(overrides={st.Plain: kp.rule.as_namespace()})
    assert registered(make(1)) == registered(make(1))
    assert registered(make(1)) != registered(make(2))
