"""F12: rules compose."""

from __future__ import annotations

import abc
import collections.abc
from typing import Any

import pytest

import keyprint as kp
import sample_types as st

fp = kp.fingerprint


def test_a_rule_applies_to_the_whole_hierarchy() -> None:
    skipping = kp.Fingerprinter(overrides={st.Node: kp.rule.by_fields(skip=("location",))})
    for cls in (st.Node, st.ChildNode):
        assert skipping(cls(1, "here")) == skipping(cls(1, "there"))
        assert skipping(cls(1)) != skipping(cls(2))
        assert fp(cls(1, "here")) != fp(cls(1, "there"))
    assert skipping(st.Node(1)) != skipping(st.ChildNode(1))


def test_the_nearest_class_wins() -> None:
    nearest = kp.Fingerprinter(overrides={st.Node: kp.rule.leaf("base"), st.ChildNode: kp.rule.by_fields()})
    assert nearest(st.Node(1)) == nearest(st.Node(2))
    assert nearest(st.ChildNode(1)) != nearest(st.ChildNode(2))


def test_skipped_fields_for_one_call_site_and_not_another() -> None:
    skipping = kp.Fingerprinter(skip_fields=("location", "y"))
    assert skipping([st.Node(1, "a")]) == skipping([st.Node(1, "b")])
    assert skipping(st.Point(1, 2)) == skipping(st.Point(1, 3))
    assert skipping(st.AttrsPoint(1, 2)) == skipping(st.AttrsPoint(1, 3))
    assert skipping(st.Named(1, 2)) == skipping(st.Named(1, 3))
    assert skipping({"y": 1}) != skipping({"y": 2})
    assert skipping(st.Point(1, 2)) != skipping(st.Point(2, 2))


def test_types_are_content_unless_skipped() -> None:
    class Literal(st.Plain):
        pass

    lenient = kp.Fingerprinter(mode="lenient")
    skipping = kp.Fingerprinter(mode="lenient", skip_fields=("type",))
    literal, other = Literal(value="1.0", type="float32"), Literal(value="1.0", type="float64")
    assert lenient(literal) != lenient(other)
    assert skipping(literal) == skipping(other)


def test_callable_rules() -> None:
    calls = []

    def rule(node: st.Node) -> Any:
        calls.append(node)
        return kp.rule.ordered(node.value, tag="node")

    custom = kp.Fingerprinter(overrides={st.Node: rule})
    assert custom([st.Node([1], "a"), st.ChildNode([1], "b")]) == custom([st.Node([1]), st.Node([1])])
    assert len(calls) == 4


def test_leaf_ordered_and_unordered_are_kept_apart() -> None:
    forms = [
        kp.rule.leaf("a"),
        kp.rule.leaf(b"a"),
        kp.rule.ordered("a"),
        kp.rule.ordered("a", "b"),
        kp.rule.ordered("b", "a"),
        kp.rule.ordered(("a", "b")),
        kp.rule.unordered("a", "b"),
        kp.rule.unordered("a", "b", "b"),
        kp.rule.ordered("a", "b", tag="t"),
        kp.rule.ordered("a", "b", tag=b"u"),
    ]
    digests = [kp.Fingerprinter(overrides={st.Node: form})(st.Node(0)) for form in forms]
    assert len(set(digests)) == len(forms)
    swapped = kp.Fingerprinter(overrides={st.Node: kp.rule.unordered("b", "a")})
    assert swapped(st.Node(0)) == digests[6]


def test_not_implemented_leaves_the_default() -> None:
    undecided = kp.Fingerprinter(
        overrides={st.Node: lambda node: NotImplemented, int: lambda value: NotImplemented}
    )
    for value in (st.Node(1, [2]), 5, [1, 2, {3: 4}], True):
        assert undecided(value) == fp(value)


def test_builtins_can_be_overridden() -> None:
    rounded = kp.Fingerprinter(overrides={float: lambda value: kp.rule.leaf(round(value, 3))})
    assert rounded([0.1 + 0.2]) == rounded([0.3])
    assert rounded({"a": (0.1 + 0.2, 1)}) == rounded({"a": (0.3, 1)})
    assert fp([0.1 + 0.2]) != fp([0.3])


def test_abstract_classes() -> None:
    class Sized(abc.ABC):  # noqa: B024
        pass

    class Other(abc.ABC):  # noqa: B024
        pass

    Sized.register(st.Plain)
    by_sized = kp.Fingerprinter(overrides={Sized: kp.rule.leaf("sized")})
    assert by_sized(st.Plain(a=1)) == by_sized(st.Plain(a=2))
    assert by_sized(st.Node(1)) == fp(st.Node(1))
    Other.register(st.Plain)
    both = {Sized: kp.rule.leaf("sized"), Other: kp.rule.leaf("other")}
    with pytest.raises(kp.FingerprintError, match="matches the rules for both `Sized` and `Other`") as caught:
        kp.Fingerprinter(overrides=both)([st.Plain(a=1)])
    assert caught.value.code == "ambiguous-rule"
    decided = kp.Fingerprinter(overrides={**both, st.Plain: kp.rule.leaf("plain")})
    assert decided(st.Plain(a=1)) == decided(st.Plain(a=2))


def test_a_more_special_abstract_class_wins() -> None:
    special = kp.Fingerprinter(
        overrides={
            collections.abc.Collection: kp.rule.leaf("collection"),
            collections.abc.Sequence: kp.rule.leaf("sequence"),
        }
    )
    general = kp.Fingerprinter(overrides={collections.abc.Sequence: kp.rule.leaf("sequence")})
    assert special([1]) == general([1])
    assert special({1}) == special({2})


def test_a_class_can_describe_itself() -> None:
    assert fp(st.Handle("a", 1)) == fp(st.Handle("a", 2))
    assert fp(st.Handle("a", 1)) != fp(st.Handle("b", 1))
    assert fp(st.ConstantRule(1, "here")) == fp(st.ConstantRule(1, "there"))
    assert fp(st.ConstantRule(1, "here")) != fp(st.ConstantRule(2, "here"))
    overridden = kp.Fingerprinter(overrides={st.Handle: kp.rule.by_fields()})
    assert overridden(st.Handle("a", 1)) != overridden(st.Handle("a", 2))


def test_a_subclass_can_take_its_description_back() -> None:
    class Full(st.Handle):
        __fingerprint__ = None  # type: ignore[assignment]

    lenient = kp.Fingerprinter(mode="lenient")
    assert lenient(Full("a", 1)) != lenient(Full("a", 2))


def test_by_reference() -> None:
    instance = st.Handle.__fingerprint__
    referring = kp.Fingerprinter(overrides={type(instance): kp.rule.by_reference()})
    assert referring(st.function) != referring(st.other_function)
    with pytest.raises(kp.FingerprintError, match="cannot be named"):
        kp.Fingerprinter(overrides={st.Node: kp.rule.by_reference()})(st.Node(1))


def test_by_identity_is_not_durable_and_not_fooled_by_addresses() -> None:
    by_identity = kp.Fingerprinter(overrides={st.Node: kp.rule.by_identity()})
    node = st.Node(1)
    assert by_identity(node) == by_identity(node)
    assert not by_identity(node).durable
    seen = {by_identity(st.Node(1)) for _ in range(3000)}
    assert len(seen) == 3000


@pytest.mark.parametrize("bad", [None, 3, "text", [1]])
def test_a_rule_that_returns_something_else_is_refused(bad: Any) -> None:
    with pytest.raises(kp.FingerprintError) as caught:
        kp.Fingerprinter(overrides={st.Node: lambda node: bad})({"n": st.Node(1)})
    assert caught.value.code == "bad-rule"
    assert caught.value.path == "$['n']"


def test_a_rule_that_raises_is_named() -> None:
    def failing(node: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(kp.FingerprintError) as caught:
        kp.Fingerprinter(overrides={st.Node: failing})([st.Node(1)])
    assert caught.value.code == "rule-failed"
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_leaf_takes_scalars_only() -> None:
    with pytest.raises(kp.FingerprintError, match="takes a scalar"):
        kp.Fingerprinter(overrides={st.Node: kp.rule.leaf([1])})(st.Node(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a tag is"):
        kp.rule.leaf(1, tag=3)  # type: ignore[arg-type]


def test_descriptions_show_themselves() -> None:
    assert repr(kp.rule.by_fields(skip=("a",))) == 'rule.by_fields(skip=["a"])'
    assert repr(kp.rule.leaf("x")) == "rule.leaf('x')"
