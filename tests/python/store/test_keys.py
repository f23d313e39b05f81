"""Keys: every input counts, and nothing else does."""

from __future__ import annotations

import dataclasses
import gc
import json
import weakref
from typing import Any, NamedTuple

import pytest

import keyprint as kp
from keyprint.store import keys
from processes import outputs


def key(**changes: Any) -> kp.Key:
    settings: dict[str, Any] = {"name": "k", "components": {"a": 1, "b": [2]}, "secrets": {"c": "x"}}
    settings |= {"tool": ("lang", "1"), **changes}
    return kp.Key(settings.pop("name"), settings.pop("components"), **settings)


@pytest.mark.parametrize(
    "change",
    [
        {"components": {"a": 2, "b": [2]}},
        {"components": {"a": True, "b": [2]}},
        {"components": {"a": 1, "b": (2,)}},
        {"components": {"a": 1, "B": [2]}},
        {"components": {"a": 1}},
        {"components": {"a": 1, "b": [2], "d": None}},
        {"components": {"a": [2], "b": 1}},
        {"secrets": {"c": "y"}},
        {"secrets": {}},
        {"tool": ("lang", "2")},
        {"tool": ("gnal", "1")},
        {"name": "another name"},
    ],
)
def test_what_counts(change: dict[str, Any]) -> None:
    assert key(**change) != key()
    assert key().compare(key(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"components": {"b": [2], "a": 1}},
        {"components": {"a": kp.fingerprint(1), "b": [2]}},
        {"components": {"a": 1, "b": [2], "c": "x"}, "secrets": {}},
        {"shown": {"a": "something else"}},
    ],
)
def test_what_does_not_count(change: dict[str, Any]) -> None:
    assert key(**change) == key() and hash(key(**change)) == hash(key())
    assert key().compare(key(**change)) == []


def test_the_salt_counts_on_top_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = key()
    monkeypatch.setenv("KEYPRINT_CACHE_VERSION", "2")
    salted = key()
    assert salted != plain
    assert plain.compare(salted) == ["`salt`: none -> 2"]
    assert key(tool=("lang", "2")) != salted, "never instead of the tool"
    monkeypatch.setenv("KEYPRINT_CACHE_VERSION", "")
    assert key() == plain


def test_a_salt_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    salted = set()
    for salt in ("\udcff", "\udcfe", "ÿ", ""):
        monkeypatch.setenv("KEYPRINT_CACHE_VERSION", salt)
        salted.add(key())
    assert len(salted) == 4


def test_keyprint_itself_asks_unless_told_otherwise() -> None:
    assert kp.Key("k", {}) == kp.Key("k", {}, tool=("keyprint", kp.__version__))
    assert kp.Key("k", {}) != kp.Key("k", {}, tool=("keyprint", "0.0.0"))
    assert ("keyprint", kp.__version__) == keys.KEYPRINT


def test_every_key_names_its_format() -> None:
    names = [component["name"] for component in json.loads(kp.Key("k", {}).manifest())["components"]]
    assert names == ["format", "salt", "tool", "name"]
    for taken in names:
        with pytest.raises(ValueError, match=f"a second `{taken}`"):
            kp.Key("k", {taken: 1})


def test_bad_components() -> None:
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        kp.Key("k", {"": 1})
    with pytest.raises(TypeError, match="names of components are strings"):
        kp.Key("k", {1: 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="a second `a`"):
        kp.Key("k", {"a": 1}, secrets={"a": 1})
    with pytest.raises(kp.FingerprintError, match="lambda"):
        kp.Key("k", {"f": lambda: 1})
    for tool in (("only a name",), "text", ("name", 1)):
        with pytest.raises(TypeError, match="`tool` is a pair of name and version"):
            kp.Key("k", {}, tool=tool)  # type: ignore[arg-type]


def test_keys_are_collected() -> None:
    class Node:
        key: kp.Key

    node = Node()
    node.key = kp.Key("k", {"v": 1}, shown={"v": node})
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is None


def test_fingerprints_that_are_not_durable_make_keys_that_are_not() -> None:
    process_local = kp.fingerprint(lambda: 1, mode="lenient")
    assert not kp.Key("k", {"f": process_local}).durable
    assert kp.Key("k", {"f": kp.fingerprint(1)}).durable


def test_keys_agree_across_processes() -> None:
    program = "import keyprint as kp; print(kp.Key('k', {'a': {'x', 'y'}, 'b': {1: 2}}, tool=('t', '1')).hex(), end='')"
    here = kp.Key("k", {"a": {"x", "y"}, "b": {1: 2}}, tool=("t", "1")).hex()
    assert set(outputs(program)) == {here}


def test_the_shape_of_a_key() -> None:
    sample = key()
    assert len(sample.hex()) == 64 and sample.hex() == str(sample) == bytes(sample).hex()
    assert sample.hex().startswith(sample.short) and repr(sample) == f"<Key {sample.short} of k>"
    assert sample.components["a"] == kp.fingerprint(1)
    assert sample.name == "k"


def test_secrets_stay_secret() -> None:
    original = kp.Key("k", {"a": 1}, secrets={"password": "hunter2"})
    assert "hunter2" not in original.manifest() and "hunter2" not in repr(original)
    other = kp.Key("k", {"a": 1}, secrets={"password": "hunter3"})
    assert original.compare(other) == ["`password`: changed (the value is not shown)"]


def test_manifests_are_bounded() -> None:
    huge = {f"k{i}": "v" * 10_000 for i in range(2000)}
    nested: Any = list(range(60))
    for _ in range(50):
        nested = [nested] * 50
    text = kp.Key("n" * 100_000, {"huge": huge, "nested": nested, "text": "x" * 10_000_000}).manifest()
    assert len(text) < 100_000


def test_values_that_are_hard_to_describe() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        def __fingerprint__(self) -> Any:
            return kp.rule.leaf("hostile")

    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    shown = {"a": Hostile(), "b": cyclic, "c": "\ud800 \x1b[31m \u202e", "d": 10**5000, "e": {"\ud800": 1}}
    manifest = kp.Key("k", dict.fromkeys(shown, 1), shown=shown).manifest()
    assert "\x1b" not in manifest and "\u202e" not in manifest
    assert len(json.loads(manifest)["components"]) == 9


@dataclasses.dataclass
class Config:
    tile: int
    runtime: float = dataclasses.field(default=0.0, metadata=kp.no_fingerprint())


@dataclasses.dataclass
class Slotted:
    __slots__ = ("tile",)
    tile: int


class Pair(NamedTuple):
    left: int
    right: int


def test_slots_and_named_tuples_are_taken_apart() -> None:
    first, second = (kp.Key("k", {"a": Slotted(tile), "b": Pair(1, tile)}) for tile in (1, 2))
    assert first.compare(second) == ["`a.tile`: 1 -> 2", "`b.right`: 1 -> 2"]


@pytest.mark.parametrize("count", [63, 64, 65, 1000])
def test_nothing_is_said_to_be_gone_that_is_not(count: int) -> None:
    before, after = (kp.Key("k", {"i": list(range(n))}) for n in (count, count + 1))
    told = before.compare(after)
    new = [f"`i[{count}]`: new, {count}"]
    assert told == (new if count < 64 else [f"`i`: <list of {count}> -> <list of {count + 1}>"])
    grown = {"a": 1, "b": list(range(62))}
    told = kp.Key("k", {"i": grown}).compare(kp.Key("k", {"i": {**grown, "c": 3}}))
    assert not any("gone" in line for line in told), told


def test_what_does_not_count_is_not_told() -> None:
    first, second = (kp.Key("k", {"config": Config(tile, runtime=tile)}) for tile in (64, 128))
    assert first.compare(second) == ["`config.tile`: 64 -> 128"]


def test_keys_of_dicts_are_told_apart() -> None:
    def made(center: float) -> kp.Key:
        odd: dict[Any, Any] = {(0, 0): center, (0, 1): 1.0, frozenset({(1, 2)}): 1, frozenset({(3, 4)}): 2}
        return kp.Key("k", {"weights": odd})

    assert made(-4.0).compare(made(4.0)) == ["`weights[(0, 0)]`: -4.0 -> 4.0"]


def test_differences_are_told_by_place() -> None:
    first = kp.Key("k", {"config": {"tile": 64, "deep": {"x": [1, 2, 3]}}})
    second = kp.Key("k", {"config": {"tile": 64, "deep": {"x": [1, 2, 4]}}})
    assert first.compare(second) == ["`config['deep']['x'][2]`: 3 -> 4"]
    long = kp.Key("k", {"config": "x" * 1000 + "y"})
    longer = kp.Key("k", {"config": "x" * 1000 + "z"})
    assert "changed (" in long.compare(longer)[0]
