"""F15: explanations and differences."""

from __future__ import annotations

from typing import Any

import numpy as np

import keyprint as kp
import sample_types as st

fingerprinter = kp.Fingerprinter()


def test_the_tree_has_labels_texts_and_fingerprints() -> None:
    value = {"steps": [st.Point(1, {"k"}), "text"], 3: (None,)}
    root = fingerprinter.explain(value)
    assert root.fingerprint == kp.fingerprint(value)
    assert root.path == "$"
    by_path = {}
    pending = [root]
    while pending:
        node = pending.pop()
        by_path[node.path] = node
        pending.extend(node.children)
    assert set(by_path) == {
        "$",
        "$['steps']",
        "$['steps'][0]",
        "$['steps'][0].x",
        "$['steps'][0].y",
        "$['steps'][0].y{'k'}",
        "$['steps'][1]",
        "$[3]",
        "$[3][0]",
    }
    assert by_path["$['steps'][0]"].fingerprint == kp.fingerprint(st.Point(1, {"k"}))
    assert by_path["$['steps'][1]"].fingerprint == kp.fingerprint("text")
    assert by_path["$['steps'][1]"].text == "'text'"
    assert "$['steps']" not in str(root).splitlines()[0]
    assert len(str(root).splitlines()) == 9


def test_attributes_of_plain_objects_are_labelled_by_name() -> None:
    root = fingerprinter.explain(st.Plain(a=1, b=st.Stateful(2)))
    assert sorted(child.label for child in root.children) == [".a", ".b"]


def test_shared_parts_are_shown_once() -> None:
    shared = [1, 2]
    root = fingerprinter.explain([shared, shared])
    assert [child.shared for child in root.children] == [False, True]
    assert root.children[1].fingerprint == root.children[0].fingerprint
    assert "(shared)" in str(root)


def test_long_and_deep_values_are_cut() -> None:
    wide = fingerprinter.explain(list(range(10_000)))
    assert len(str(wide).splitlines()) == 201
    assert "more" in str(wide)
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    assert "…" in str(fingerprinter.explain(deep))
    assert len(fingerprinter.explain("x" * 10_000).text) < 100
    assert len(fingerprinter.explain(1 << 100_000).text) < 100


def lines(left: Any, right: Any) -> list[str]:
    return [str(difference) for difference in fingerprinter.diff(left, right)]


def test_differences_have_paths_and_both_sides() -> None:
    left = {"steps": [st.Point(1, 64), st.Point(2, 8)], "name": "lap", "old": 1}
    right = {"steps": [st.Point(1, 128), st.Point(2, 8)], "name": "lap", "new": [1]}
    assert sorted(lines(left, right)) == [
        "$['new']: <list of 1> only on the right",
        "$['old']: 1 only on the left",
        "$['steps'][0].y: 64 != 128",
    ]
    (difference,) = fingerprinter.diff([1, 2], [1, 3])
    assert (difference.path, difference.left, difference.right) == ("$[1]", "2", "3")


def test_kinds_lengths_and_sets() -> None:
    assert lines([1], (1,)) == ["$: <list of 1> != <tuple of 1>"]
    assert lines([1, 2], [1]) == ["$[1]: 2 only on the left"]
    assert sorted(lines({1, 2}, {1, 3})) == ["${2}: 2 only on the left", "${3}: 3 only on the right"]
    assert lines(1, 1.0) == ["$: 1 != 1.0"]
    assert lines(st.Point(1), st.OtherPoint(1)) == ["$: <Point> != <OtherPoint>"]
    assert lines([], [1]) == ["$: <list of 0> != <list of 1>"]


def test_same_text_but_different_content() -> None:
    (difference,) = lines([np.zeros(3)], [np.ones(3)])
    assert difference.startswith("$[0]: <ndarray> on both sides")


def test_differences_inside_shared_parts_are_found_once() -> None:
    def make(leaf: int) -> Any:
        shared = [leaf]
        for _ in range(40):
            shared = [shared, shared]
        return shared

    assert len(fingerprinter.diff(make(1), make(2))) == 1


def test_the_first_differences_only() -> None:
    assert len(fingerprinter.diff(list(range(100)), list(range(1, 101)), limit=5)) == 5
    assert fingerprinter.diff([1], [1]) == []


def test_skipped_fields_do_not_show() -> None:
    skipping = kp.Fingerprinter(skip_fields=("location",))
    assert skipping.diff(st.Node(1, "a"), st.Node(1, "b")) == []
    assert "location" not in str(skipping.explain(st.Node(1, "a")))


def test_readable_representations() -> None:
    assert "Explanation of" in repr(fingerprinter.explain([1]))
    assert "1 != 2" in repr(fingerprinter.diff(1, 2)[0])
    assert "strict" in repr(fingerprinter)
    assert "opened" in repr(fingerprinter.inspect([1]))
