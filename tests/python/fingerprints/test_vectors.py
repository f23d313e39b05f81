"""F14: the golden vectors, and the reference encoder."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import keyprint as kp
import reference_encoder as reference
import vector_values

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "encoding-v2.json").read_text())


def native(value: Any) -> Any:
    """The Python value for what the reference encoder has types of its own for."""
    match value:
        case reference.F32(bits):
            return np.array([bits], dtype="u4").view("f4")[0]
        case reference.Record(cls, fields):
            return instance(cls, dict(fields))
        case reference.Reference(_, module, qualname):
            target: Any = __import__(module, fromlist=["x"])
            for part in qualname.split(".") if qualname else ():
                target = getattr(target, part)
            return target
        case list() | tuple() | set() | frozenset():
            return type(value)(map(native, value))
        case dict():
            return {native(key): native(item) for key, item in value.items()}
    return value


def instance(cls: str, fields: dict[str, Any]) -> Any:
    """A dataclass instance whose class can be found under a name."""
    import dataclasses

    name, _, qualname = cls.partition(":")
    data_class = dataclasses.make_dataclass(qualname.rpartition(".")[2], list(fields))
    data_class.__module__, data_class.__qualname__ = name, qualname
    module = sys.modules.setdefault(name, types.ModuleType(name))
    owner: Any = module
    *outer, last = qualname.split(".")
    for part in outer:
        if not hasattr(owner, part):
            setattr(owner, part, types.SimpleNamespace())
        owner = getattr(owner, part)
    value = data_class(**{field: native(item) for field, item in fields.items()})
    setattr(owner, last, data_class)
    return value


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_golden_vectors(vector: Any) -> None:
    value = native(vector_values.build(vector["value"]))
    assert kp.fingerprint(value).hex() == vector["fingerprint"]
    assert kp.fingerprint(value, mode="lenient").hex() == vector["fingerprint"]


def test_the_version_is_the_vectors_version() -> None:
    assert VECTORS["version"] == kp.ENCODING_VERSION


keys = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=True)
    | some.text(alphabet=some.characters(exclude_categories=()))
    | some.binary(max_size=40),
    lambda inner: some.tuples(inner, inner) | some.frozensets(inner, max_size=4),
    max_leaves=6,
)
plain = some.recursive(
    keys
    | some.text(min_size=1000, max_size=1100)
    | some.integers(4080, 4100).map(lambda n: "x" * n)
    | some.complex_numbers(allow_nan=True),
    lambda inner: (
        some.lists(inner, max_size=5)
        | some.dictionaries(keys, inner, max_size=5)
        | some.tuples(inner)
        | some.sets(keys, max_size=5)
    ),
    max_leaves=30,
)


@settings(max_examples=400, deadline=None)
@given(plain)
def test_the_native_walk_agrees_with_the_reference(value: Any) -> None:
    assert kp.fingerprint(value).hex() == reference.fingerprint(value)
    assert kp.Fingerprinter().explain(value).fingerprint == kp.fingerprint(value)


@settings(max_examples=400, deadline=None)
@given(plain, plain)
def test_different_values_differ(value: Any, other: Any) -> None:
    same = reference.encode(value) == reference.encode(other)
    assert (kp.fingerprint(value) == kp.fingerprint(other)) == same


@settings(max_examples=300, deadline=None)
@given(some.data())
def test_random_graphs_agree_with_the_reference(data: some.DataObject) -> None:
    """Shared and cyclic structures: the reference follows every path, the native walk remembers."""
    count = data.draw(some.integers(1, 6))
    nodes: list[Any] = [data.draw(some.sampled_from(([], {}))).copy() for _ in range(count)]
    for node in nodes:
        children = data.draw(some.lists(some.integers(0, count - 1), max_size=3))
        label = data.draw(some.integers(0, 1))
        if isinstance(node, list):
            node.append(label)
            node.extend(nodes[child] for child in children)
        else:
            node.update({f"k{i}": nodes[child] for i, child in enumerate(children)}, label=label)
    for root in nodes:
        assert kp.fingerprint(root).hex() == reference.fingerprint(root)
    whole = [nodes, tuple(nodes), dict(enumerate(nodes))]
    assert kp.fingerprint(whole).hex() == reference.fingerprint(whole)


@settings(max_examples=200, deadline=None)
@given(plain)
def test_copies_agree_and_explanations_find_no_difference(value: Any) -> None:
    import copy

    fingerprinter = kp.Fingerprinter()
    twin = copy.deepcopy(value)
    assert fingerprinter([value, value]) == fingerprinter([value, twin])
    assert fingerprinter.diff(value, twin) == []


@settings(max_examples=300, deadline=None)
@given(plain, plain)
def test_diff_finds_something_exactly_when_fingerprints_differ(value: Any, other: Any) -> None:
    fingerprinter = kp.Fingerprinter()
    assert bool(fingerprinter.diff(value, other)) == (fingerprinter(value) != fingerprinter(other))
