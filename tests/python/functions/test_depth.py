"""Values, rules and chains of calls that are deeper than Python's stack."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import keyprint as kp

TUPLE: object = ()
LIST: list[object] = []
DICT: dict[str, object] = {}
for _ in range(3000):
    TUPLE, LIST, DICT = (TUPLE, 1), [LIST], {"a": DICT}


@pytest.mark.parametrize("value", [TUPLE, LIST, DICT], ids=["tuple", "list", "dict"])
def test_captured_values(value: object) -> None:
    def function() -> object:
        return value

    assert kp.FunctionKey(function).fingerprint == kp.FunctionKey(function).fingerprint


@kp.kernel
def reads(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] = TUPLE[0][0][0][1] + len(TUPLE)


@kp.kernel
def reads_what_is_not_there(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] = TUPLE[0][0][5]


def test_kernels_read_deep_tuples(tmp_path: Path) -> None:
    kp.init(offline_cache_file_path=str(tmp_path))
    try:
        x = np.zeros(2, np.float32)
        reads(x)
        assert x.tolist() == [3, 3]
        with pytest.raises(kp.KernelTypeError, match="index 5 of a tuple of 2"):
            reads_what_is_not_there(x)
    finally:
        kp.reset()


class Nested:
    def __init__(self, depth: int) -> None:
        self.depth = depth

    def __fingerprint__(self) -> object:
        return kp.rule.ordered(Nested(self.depth - 1)) if self.depth else kp.rule.leaf(0)


class Endless:
    def __fingerprint__(self) -> object:
        return kp.rule.ordered(Endless())


def test_rules_inside_each_other() -> None:
    assert kp.fingerprint(Nested(10_001)) == kp.fingerprint(Nested(10_001))
    assert kp.fingerprint(Nested(10_001)) != kp.fingerprint(Nested(10_002))
    with pytest.raises(kp.FingerprintError, match="without end"):
        kp.fingerprint(Endless())


def test_a_chain_of_helpers_is_looked_at_once_each(tmp_path: Path) -> None:
    many = 1000
    lines = ["import keyprint as kp", "K = 3", "def h0(x):", "    return x.value + K"]
    for at in range(1, many):
        lines += [f"def h{at}(x):", f"    return h{at - 1}(x) + 1"]
    lines += [
        "@kp.kernel",
        "def k(x: kp.types.NDArray[kp.f32, 1]):",
        "    for i in x:",
        f"        x[i] = h{many - 1}(x)",
    ]
    (tmp_path / "chain_of_helpers.py").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import chain_of_helpers as chain  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    from keyprint.functions.flows import Flows

    passes = []
    before = Flows.pass_on
    try:
        Flows.pass_on = lambda self: (passes.append(1), before(self))[1]  # type: ignore[method-assign]
        key = kp.FunctionKey(chain.h999)
    finally:
        Flows.pass_on = before  # type: ignore[method-assign]
    # What the last one reads of its parameter goes all the way up at once.
    assert len(passes) <= 4
    chain.K = 4
    assert kp.FunctionKey(chain.h999).fingerprint != key.fingerprint
    with pytest.raises(kp.KernelError):
        chain.k(np.zeros(2, np.float32))
