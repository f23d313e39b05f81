"""F10, F11: depth, sharing, cycles."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint
fingerprinter = kp.Fingerprinter()


def deep(wrap: Any, depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS: list[Any] = [
    lambda value: [value],
    lambda value: (value,),
    lambda value: {"k": value},
    lambda value: {("t", 1): value},
    lambda value: frozenset({(value,)}),
    st.Point,
    st.SlotPoint,
    st.AttrsPoint,
    st.Named,
    lambda value: st.Plain(next=value),
    lambda value: st.MyList([value]),
    st.Reduced,
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_deep_chains(wrap: Any) -> None:
    depth = 30_000
    if isinstance(wrap(None), frozenset):
        depth = 1_000  # hashing a nested frozenset recurses inside Python itself
    assert fp(deep(wrap, depth)) == fp(deep(wrap, depth))
    assert fp(deep(wrap, depth)) != fp(deep(wrap, depth + 1))


def test_a_million_deep() -> None:
    chain = deep(lambda value: [value], 1_000_000)
    assert fp(chain) != fp(chain[0])
    nodes = deep(lambda value: st.Point(value, 1), 1_000_000)
    assert fp(nodes) == fp(deep(lambda value: st.Point(value, 1), 1_000_000))
    while nodes is not None:  # dismantled from the top: deallocation must not recurse either
        nodes = nodes.x


def test_shared_objects_are_visited_once() -> None:
    value: Any = [1, [2]]
    for _ in range(60):
        value = [value, value]
    inspection = fingerprinter.inspect(value)
    assert inspection.opened == 62
    assert inspection.reused == 60


def test_sharing_does_not_show() -> None:
    shared = [1, {2: (3, "x" * 2000)}]
    assert fp([shared, shared]) == fp([shared, [1, {2: (3, "x" * 2000)}]])
    point = st.Point([1], [2])
    assert fp({"a": point, "b": (point, point)}) == fp(
        {"a": st.Point([1], [2]), "b": (st.Point([1], [2]), st.Point([1], [2]))}
    )


def test_unshared_objects_are_all_visited() -> None:
    assert fingerprinter.inspect([[[1]], [[1]], [[1]]]).opened == 7


def loop(length: int) -> list[Any]:
    first: list[Any] = []
    last = first
    for _ in range(length - 1):
        last.append([])
        last = last[0]
    last.append(first)
    return first


def test_cycles_by_relative_depth() -> None:
    assert fp(loop(1)) == fp(loop(1))
    assert len({fp(loop(length)) for length in range(1, 6)}) == 5
    assert fp(loop(1)) != fp([[]])
    assert fp([loop(2)]) == fp([loop(2)])


@pytest.mark.parametrize("make", [dict, st.Plain, lambda: st.Point(1), lambda: st.MyList(), st.Plain])
def test_every_container_can_contain_itself(make: Any) -> None:
    def tied() -> Any:
        value = make()
        if isinstance(value, dict):
            value["me"] = value
        elif isinstance(value, list):
            value.append(value)
        elif isinstance(value, st.Point):
            value.y = value
        else:
            value.me = value
        return value

    assert fp(tied()) == fp(tied())
    assert fp([tied(), 1]) == fp([tied(), 1])


def test_a_result_inside_a_cycle_is_only_reused_where_it_holds() -> None:
    def shared() -> list[Any]:
        root: list[Any] = []
        x = [root]
        root.extend([x, [x]])
        return root

    def copied() -> list[Any]:
        root: list[Any] = []
        root.extend([[root], [[root]]])
        return root

    assert fp(shared()) == fp(copied())


def test_the_way_into_a_cycle_does_not_matter_to_its_neighbours() -> None:
    def pair() -> tuple[list[Any], list[Any]]:
        a: list[Any] = ["a"]
        b: list[Any] = ["b", a]
        a.append(b)
        return a, b

    a, b = pair()
    other_a, _ = pair()
    _, other_b = pair()
    assert fp((a, b)) == fp((other_a, other_b))
    assert fp((b, a)) == fp((other_b, other_a))
    assert fp(a) != fp(b)


def test_a_dag_whose_leaves_point_at_its_root() -> None:
    def make(levels: int) -> list[Any]:
        root: list[Any] = []
        value: Any = [root]
        for _ in range(levels):
            value = [value, value]
        root.append(value)
        return root

    inspection = fingerprinter.inspect(make(60))
    assert inspection.opened == 62
    assert inspection.fingerprint == fp(make(60))


def test_parent_pointers() -> None:
    @dataclasses.dataclass
    class Tree:
        parent: Any
        children: list[Any]

    def grow(parent: Any, depth: int) -> Tree:
        tree = Tree(parent, [])
        if depth:
            tree.children = [grow(tree, depth - 1) for _ in range(2)]
        return tree

    lenient = kp.Fingerprinter(mode="lenient")
    assert lenient(grow(None, 10)) == lenient(grow(None, 10))
    assert lenient(grow(None, 10)) != lenient(grow(None, 9))


def test_entangled_graphs_are_refused_not_endless() -> None:
    nodes: list[list[Any]] = [[i] for i in range(24)]
    for node in nodes:
        node.extend(nodes)
    with pytest.raises(kp.FingerprintError) as caught:
        fp(nodes)
    assert caught.value.code == "entangled"


def test_cycles_can_be_refused() -> None:
    refusing = kp.Fingerprinter(cycles=False)
    value: dict[str, Any] = {"steps": [1]}
    value["steps"].append(value)
    with pytest.raises(kp.CycleError) as caught:
        refusing(value)
    assert caught.value.path == "$['steps'][1]"
    assert isinstance(caught.value, ValueError)
    shared = [1]
    assert refusing([shared, shared]) == refusing([[1], [1]])


class Weakly:
    """Refers to its parent in a way that reference counts do not show."""

    def __init__(self, parent: Any) -> None:
        self.parent = weakref.ref(parent)

    def __reduce__(self) -> Any:
        return Weakly, (self.parent(),)


def test_references_that_python_code_makes_up() -> None:
    def make() -> list[Any]:
        parent = st.Plain()
        parent.child = Weakly(parent)
        return [parent]

    parents, other = make(), make()
    held = other[0]  # one more reference must not matter
    assert fp(parents) == fp(other)
    assert fp(parents[0]) == fp(held)


def test_reference_counts_are_left_as_they_were() -> None:
    import sys

    shared = st.Point([1], {"k": (1, 2)})
    value = [shared, shared, {"x": shared}, loop(3), {1: shared}]
    objects = [shared, shared.x, shared.y, value, st.Point, "k"]
    before = [sys.getrefcount(thing) for thing in objects]
    for _ in range(50):
        fp(value)
        fingerprinter.explain(value)
        fingerprinter.diff(value, [shared])
    assert [sys.getrefcount(thing) for thing in objects] == before


def test_many_references_to_one_object() -> None:
    """The item is far longer than the value: it is hashed as it goes, with the same result."""
    import reference_encoder as reference

    shared = ("x" * 3000, [1])
    for value in (
        [shared] * 3000,
        tuple([shared] * 3000),
        [[shared] * 2000, [shared] * 2000],
        {"k": [shared] * 3000},
    ):
        assert fp(value).hex() == reference.fingerprint(value)
        assert fingerprinter.explain(value).fingerprint == fp(value)
    assert fp([shared] * 1_000_000) != fp([shared] * 1_000_001)
