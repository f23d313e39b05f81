"""The public fold, with results of any type."""

from __future__ import annotations

from typing import Any

import pytest

import keyprint as kp


def parts(value: Any) -> tuple[Any, Any]:
    if isinstance(value, (list, tuple)):
        return type(value).__name__, value
    if isinstance(value, dict):
        return "dict", value.values()
    return value, ()


def test_depth_size_and_text() -> None:
    value = [1, [2, (3,)], {"k": [4]}]
    assert kp.fold(value, parts, lambda state, results: 1 + max(results, default=0)) == 4
    assert kp.fold(value, parts, lambda state, results: 1 + sum(results)) == 9
    assert kp.fold(
        value, parts, lambda state, results: f"{state}({','.join(results)})" if results else str(state)
    ) == ("list(1,list(2,tuple(3)),dict(list(4)))")


def test_deep_values() -> None:
    value: Any = []
    for _ in range(200_000):
        value = [value]
    assert kp.fold(value, parts, lambda state, results: 1 + max(results, default=0)) == 200_001


def test_shared_parts_are_folded_once_unless_told_otherwise() -> None:
    calls = []

    def deconstruct(value: Any) -> tuple[Any, Any]:
        calls.append(value)
        return parts(value)

    value: Any = [0]
    for _ in range(10):
        value = [value, value]
    assert kp.fold(value, deconstruct, lambda state, results: 1 + sum(results)) == 2**11 - 1 + 2**10
    assert len(calls) == 12
    calls.clear()
    kp.fold(value, deconstruct, lambda state, results: 1 + sum(results), memoize=False)
    assert len(calls) == 2**11 - 1 + 2**10


def test_cycles() -> None:
    value: list[Any] = [1]
    value.append([value])

    def text(state: Any, results: Any) -> str:
        return f"[{' '.join(results)}]" if results else str(state)

    for memoize in (True, False):
        assert (
            kp.fold(value, parts, text, cycles=lambda distance: f"^{distance}", memoize=memoize) == "[1 [^2]]"
        )
    for refuse in (False, None):
        with pytest.raises(kp.CycleError):
            kp.fold(value, parts, text, cycles=refuse)
    with pytest.raises(TypeError, match="function from a distance"):
        kp.fold(value, parts, text, cycles=True)  # type: ignore[call-overload]


def test_entangled_input_is_refused() -> None:
    nodes: list[list[Any]] = [[] for _ in range(24)]
    for node in nodes:
        node.extend(nodes)
    with pytest.raises(kp.FingerprintError) as caught:
        kp.fold(nodes, parts, lambda state, results: 1, cycles=lambda distance: 0)
    assert caught.value.code == "entangled"


def test_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        kp.fold([1], parts, lambda state, results: 1 // 0)
    with pytest.raises(kp.FingerprintError, match=r"must return \(state, parts\)"):
        kp.fold([1], lambda value: 3, lambda state, results: 1)  # type: ignore[arg-type,return-value]
