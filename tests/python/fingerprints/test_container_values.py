"""F3, F4: containers, and subclasses of builtins."""

from __future__ import annotations

import collections
import types
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint


def test_order_counts_in_sequences_only() -> None:
    assert fp([1, 2]) != fp([2, 1])
    assert fp((1, 2)) != fp((2, 1))
    assert fp({1: 2, 3: 4}) == fp({3: 4, 1: 2})
    assert fp({"a", "b", "c"}) == fp({"c", "b", "a"})
    assert fp({1: 2}) != fp({2: 1})


def test_keys_need_not_be_orderable_or_hash_stable() -> None:
    keys: list[Any] = [1, "1", (1, "x"), None, 2.5, st.Color.RED, frozenset({"a", 1}), int, b"k"]
    forwards = {key: i for i, key in enumerate(keys)}
    backwards = {key: i for i, key in reversed(list(enumerate(keys)))}
    assert fp(forwards) == fp(backwards)
    assert fp(set(keys)) == fp({*reversed(keys)})


def test_nesting_does_not_leak() -> None:
    assert fp([[1], [2]]) != fp([[1, 2]])
    assert fp([[1, 2], []]) != fp([[1], [2]])
    assert fp({1: {2: 3}}) != fp({1: 2, 3: 3})
    assert fp([("a", "b")]) != fp([("ab", "")])
    assert fp(["ab", "c"]) != fp(["a", "bc"])


def test_dicts_whose_items_share_long_prefixes() -> None:
    items = {("prefix" * 10, "x" * i): i for i in range(300)}
    turned = dict(reversed(list(items.items())))
    assert fp(items) == fp(turned)
    turned["prefix" * 10, "x" * 7] = 8
    assert fp(items) != fp(turned)


def test_large_items_in_unordered_containers() -> None:
    items = {f"key{i}" * 100: "value" * i for i in range(200)}
    assert fp(items) == fp(dict(reversed(list(items.items()))))
    assert fp(frozenset("e" * i for i in range(2000))) == fp(
        frozenset("e" * i for i in reversed(range(2000)))
    )


def test_ordered_dict_is_ordered() -> None:
    ordered = collections.OrderedDict([(1, 2), (3, 4)])
    other = collections.OrderedDict([(3, 4), (1, 2)])
    assert fp(ordered) != fp(other)
    assert fp(ordered) != fp(dict(ordered))
    other.move_to_end(3)
    assert fp(ordered) == fp(other)
    assert fp(st.MyOrderedDict(ordered)) != fp(ordered)


def test_default_dict_adds_its_factory() -> None:
    mapping = collections.defaultdict(list, {1: [2]})
    other = collections.defaultdict(int, {1: [2]})
    assert fp(mapping) != fp(other)
    assert fp(mapping) != fp({1: [2]})
    assert fp(mapping) == fp(collections.defaultdict(list, {1: [2]}))
    assert fp(collections.defaultdict(list, {1: 1, 2: 2})) == fp(collections.defaultdict(list, {2: 2, 1: 1}))
    assert fp(st.MyDefaultDict(list)) != fp(collections.defaultdict(list))
    with pytest.raises(TypeError, match=r"\$\.default_factory"):
        fp(collections.defaultdict(lambda: 3))


def test_other_standard_containers() -> None:
    values: list[Any] = [
        collections.deque([1, 2]),
        collections.deque([1, 2], maxlen=5),
        collections.deque([2, 1]),
        collections.Counter("aab"),
        collections.ChainMap({1: 2}, {3: 4}),
        collections.UserDict({1: 2}),
        types.MappingProxyType({1: 2}),
        {1: 2},
        collections.UserList([1, 2]),
    ]
    assert len({fp(value) for value in values}) == len(values)
    assert fp(types.MappingProxyType({1: 2, 3: 4})) == fp(types.MappingProxyType({3: 4, 1: 2}))


SUBCLASSES: list[tuple[type, Any, Any]] = [
    (st.MyDict, {1: 2}, {1: 3}),
    (st.MyList, [1], [2]),
    (st.MyTuple, (1,), (2,)),
    (st.MySet, {1}, {2}),
    (st.MyFrozenSet, frozenset({1}), frozenset({2})),
    (st.MyStr, "a", "b"),
    (st.MyInt, 1, 2),
    (st.MyFloat, 1.0, 2.0),
    (st.MyComplex, 1j, 2j),
    (st.MyBytes, b"a", b"b"),
    (st.MyByteArray, bytearray(b"a"), bytearray(b"b")),
    (st.MyOrderedDict, {1: 2}, {1: 3}),
]


@pytest.mark.parametrize(
    ("cls", "content", "other"), SUBCLASSES, ids=lambda value: getattr(value, "__name__", "")
)
def test_subclasses_contribute_class_content_and_state(cls: type, content: Any, other: Any) -> None:
    assert fp(cls(content)) == fp(cls(content))
    assert fp(cls(content)) != fp(content)
    assert fp(cls(content)) != fp(cls(other))
    stateful = cls(content)
    stateful.tile = 64
    assert fp(stateful) != fp(cls(content))
    again = cls(content)
    again.tile = 64
    assert fp(stateful) == fp(again)
    again.tile = 128
    assert fp(stateful) != fp(again)
    del again.tile
    assert fp(again) == fp(cls(content))


def test_state_in_slots_counts() -> None:
    slotted, other = st.SlotDict({1: 2}), st.SlotDict({1: 2})
    assert fp(slotted) == fp(other)
    slotted.extra = 3
    assert fp(slotted) != fp(other)
    other.extra = 3
    assert fp(slotted) == fp(other)


def test_a_dataclass_that_is_a_list_counts_both() -> None:
    def make(items: list[int], x: int) -> st.DataList:
        value = st.DataList(x)
        value.extend(items)
        return value

    assert fp(make([1], 1)) == fp(make([1], 1))
    assert fp(make([1], 1)) != fp(make([2], 1))
    assert fp(make([1], 1)) != fp(make([1], 2))


def test_builtin_content_is_read_past_overridden_methods() -> None:
    class Liar(st.MyList):
        def __iter__(self) -> Any:
            return iter([9, 9, 9])

        def __len__(self) -> int:
            return 0

        def __getitem__(self, index: Any) -> Any:
            return 9

    assert fp(Liar([1]), mode="lenient") != fp(Liar([2]), mode="lenient")


def test_cached_properties_do_not_count() -> None:
    for make in (
        lambda: st.Memoised(1),
        lambda: st.MemoisedData(1),
        lambda: st.MemoisedState(1),
        st.MemoisedDict,
    ):
        value = make()
        before = fp(value)
        _ = value.expensive
        assert "expensive" in value.__dict__
        assert fp(value) == before == fp(make())


def test_ordered_where_declared() -> None:
    ordered = kp.Fingerprinter(overrides={dict: kp.rule.ordered_items()})
    assert ordered({1: 2, 3: 4}) != ordered({3: 4, 1: 2})
    assert ordered({1: 2, 3: 4}) == ordered({1: 2, 3: 4})
    assert ordered([{1: 2, 3: 4}]) != ordered([{3: 4, 1: 2}])
