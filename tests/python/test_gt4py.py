"""`keyprint.gt4py`: code written against GT4Py's fingerprinting module."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import pickle
import types
import unittest.mock
from typing import Any

import numpy as np
import pytest

import keyprint as kp
import sample_types as st
from keyprint import gt4py as fingerprinting
from keyprint.gt4py import Deconstruction, EmptyDeconstruction, OrderInsensitiveDeconstruction, catabolize

strict = fingerprinting.strict_fingerprinter
lenient = fingerprinting.lenient_fingerprinter


def depth_deconstructor(obj: Any) -> Deconstruction[Any]:
    if isinstance(obj, (list, tuple)):
        return Deconstruction.from_pieces(*obj)
    return EmptyDeconstruction(obj)


def depth(deconstruction: Deconstruction[Any]) -> int:
    return 0 if isinstance(deconstruction, EmptyDeconstruction) else 1 + max(deconstruction.pieces, default=0)


def test_catabolize_with_any_result() -> None:
    assert catabolize([[1, [2]], 3], deconstructor=depth_deconstructor, aggregator=depth) == 3
    assert catabolize((), deconstructor=depth_deconstructor, aggregator=depth) == 1


def test_catabolize_sorts_results_without_order() -> None:
    def deconstructor(obj: Any) -> Deconstruction[Any]:
        if isinstance(obj, list):
            return Deconstruction.from_pieces(*obj, ordered=False)
        return EmptyDeconstruction(obj)

    def text(deconstruction: Deconstruction[Any]) -> str:
        if isinstance(deconstruction, EmptyDeconstruction):
            return str(deconstruction.state)
        assert isinstance(deconstruction, OrderInsensitiveDeconstruction)
        return "{" + " ".join(deconstruction) + "}"

    assert catabolize([3, [2, 1]], deconstructor=deconstructor, aggregator=text) == "{3 {1 2}}"


def test_catabolize_remembers_and_handles_cycles() -> None:
    calls: list[Any] = []

    def counting(obj: Any) -> Deconstruction[Any]:
        calls.append(obj)
        return depth_deconstructor(obj)

    value: Any = [1]
    for _ in range(30):
        value = [value, value]
    assert catabolize(value, deconstructor=counting, aggregator=depth) == 31
    assert len(calls) == 32
    loop: list[Any] = []
    loop.append([loop])
    with pytest.raises(ValueError, match="contains itself"):
        catabolize(loop, deconstructor=depth_deconstructor, aggregator=depth)
    states = []

    def aggregator(deconstruction: Deconstruction[Any]) -> int:
        states.append(deconstruction.state)
        return depth(deconstruction)

    assert catabolize(loop, deconstructor=depth_deconstructor, aggregator=aggregator, allow_cycles=True) == 2
    assert states[0] == b"cycle\x002"


def test_catabolize_is_not_recursive() -> None:
    value: Any = []
    for _ in range(50_000):
        value = [value]
    assert catabolize(value, deconstructor=depth_deconstructor, aggregator=depth) == 50_001


def test_deconstructions_are_collections() -> None:
    pieces = Deconstruction.from_pieces(1, 2, state=b"s")
    assert (len(pieces), list(pieces), 2 in pieces, 3 in pieces) == (2, [1, 2], True, False)
    assert pieces == Deconstruction(b"s", (1, 2))
    assert EmptyDeconstruction(b"x").pieces == ()
    assert isinstance(Deconstruction.from_pieces(ordered=False), OrderInsensitiveDeconstruction)
    with pytest.raises(TypeError, match="cannot be named"):
        Deconstruction.from_reference(lambda: 1)
    assert Deconstruction.from_reference(lambda: 1, strict=False).state.startswith(b"ref")
    assert Deconstruction.from_reference(st.Point) == Deconstruction.from_reference(st.Point)
    assert Deconstruction.from_id(pieces) == Deconstruction.from_id(pieces)
    assert Deconstruction.from_typed_value(int, b"1") != Deconstruction.from_typed_value(str, b"1")


def test_fingerprinters_are_native_and_give_text() -> None:
    value = {"a": [1, {2, 3}], "p": st.Point(1, 2.0)}
    assert strict(value) == kp.fingerprint(value).hex() == lenient(value)
    assert strict(value) == catabolize(
        value,
        deconstructor=fingerprinting.strict_fingerprint_deconstructor,
        aggregator=fingerprinting.fingerprint_aggregator,
        allow_cycles=True,
    )


def test_strict_and_lenient() -> None:
    with pytest.raises(TypeError):
        strict([lambda: 1])
    assert lenient([lambda: 1]) == lenient([lambda: 1])
    assert lenient([lambda: 1]) != lenient([lambda: 2])
    mock = unittest.mock.Mock()
    assert lenient({"backend": mock}) == lenient({"backend": mock})


def test_metadata_opts_out_under_both_names() -> None:
    @dataclasses.dataclass
    class Program:
        source: str
        backend: Any = dataclasses.field(
            default=None, metadata=fingerprinting.gt4py_metadata(fingerprint=False)
        )
        cache: Any = dataclasses.field(default=None, metadata=kp.no_fingerprint())
        kept: Any = dataclasses.field(default=None, metadata=fingerprinting.gt4py_metadata(fingerprint=True))

    assert lenient(Program("a", backend=1)) == lenient(Program("a", backend=2, cache=3))
    assert lenient(Program("a", kept=1)) != lenient(Program("a", kept=2))


@dataclasses.dataclass
class Location:
    line: int


@dataclasses.dataclass
class Expr:
    value: Any
    location: Location | None = None
    type: Any = None


@dataclasses.dataclass
class SubExpr(Expr):
    pass


def test_skipping_fields_of_nodes() -> None:
    node = fingerprinting.skipping_fields_node_deconstructor("location", "type")
    assert node is fingerprinting.skipping_fields_node_deconstructor("location", "type")
    semantic = fingerprinting.make_fingerprinter(
        deconstructor=fingerprinting.make_lenient_data_deconstructor({Expr: node})
    )
    expr = Expr([SubExpr(1, Location(1), "f32")], Location(2))
    other = Expr([SubExpr(1, Location(7), "f64")], None)
    assert semantic(expr) == semantic(other)
    assert lenient(expr) != lenient(other)
    assert semantic(Expr(1)) != semantic(SubExpr(1))
    assert node(expr) == Deconstruction.from_pieces(("value", expr.value), state=node(expr).state)


def test_custom_overrides_run_in_python() -> None:
    def by_source(func: types.FunctionType) -> Deconstruction[Any]:
        return Deconstruction.from_pieces(func.__code__.co_code, func.__defaults__, state=b"definition")

    custom = fingerprinting.make_fingerprinter(
        deconstructor=fingerprinting.make_lenient_data_deconstructor({types.FunctionType: by_source})
    )
    assert custom([st.function]) == custom([st.other_function])
    assert lenient(st.function) != lenient(st.other_function)

    def unordered(value: st.Plain) -> Deconstruction[Any]:
        return Deconstruction.from_pieces(*value.parts, state=b"bag", ordered=False)

    bag = fingerprinting.make_fingerprinter(
        deconstructor=fingerprinting.make_strict_data_deconstructor({st.Plain: unordered})
    )
    assert bag(st.Plain(parts=[1, 2])) == bag(st.Plain(parts=[2, 1])) != bag(st.Plain(parts=[1, 1]))


def test_custom_aggregators_and_fallbacks() -> None:
    def size(deconstruction: Deconstruction[int]) -> int:
        return 1 + sum(deconstruction.pieces)

    counted = fingerprinting.make_fingerprinter(aggregator=size)  # type: ignore[arg-type]
    assert counted([1, [2]]) == 4
    opaque = fingerprinting.make_deconstructor(fallback=lambda obj: EmptyDeconstruction(b"opaque"))
    digest = functools.partial(
        catabolize, deconstructor=opaque, aggregator=fingerprinting.fingerprint_aggregator, allow_cycles=True
    )
    assert digest([st.Plain(a=1), 2]) == digest([st.Plain(a=2), 2]) != digest([st.Plain(a=1), 3])
    assert digest({1: 2, "a": 3}) == digest({"a": 3, 1: 2})
    values = [1, True, 1.0, "1", b"1", (1,), [1], {1}, None, st.Color.RED, st.Device.CPU, 0]
    assert len({digest(value) for value in values}) == len(values)


def test_deconstructors_take_one_level_apart() -> None:
    take = fingerprinting.strict_fingerprint_deconstructor
    assert take([1, 2]).pieces == (1, 2)
    assert isinstance(take({1}), OrderInsensitiveDeconstruction)
    assert isinstance(take({1: 2}), OrderInsensitiveDeconstruction)
    assert not isinstance(take(collections.OrderedDict()), OrderInsensitiveDeconstruction)
    assert take(st.Point(1, 2)).pieces == (("x", 1), ("y", 2))
    assert take(st.Device.CPU).pieces == ("CPU", 0)
    assert take(st.Color).pieces == (("RED", 1), ("GREEN", 2))
    assert take(3) == take(3) != take(3.0)
    assert take(st.Plain(a=1)).pieces == (("a", 1),)
    assert take(st.MyList([1])).state != take([1]).state
    with pytest.raises(TypeError):
        take(lambda: 1)


NAMED = fingerprinting.make_strict_data_deconstructor(name="NAMED")


def test_named_deconstructors_pickle_by_reference() -> None:
    assert pickle.loads(pickle.dumps(NAMED)) is NAMED
    again = pickle.loads(pickle.dumps(strict))
    assert again([1]) == strict([1])
    with pytest.raises(TypeError, match="without a `name`"):
        pickle.dumps(fingerprinting.make_strict_data_deconstructor())


def test_states_are_bytes_or_text() -> None:
    aggregate = fingerprinting.fingerprint_aggregator
    digests = {aggregate(EmptyDeconstruction(state)) for state in (b"", "", None, b"a", "a")}
    assert len(digests) == 5
    with pytest.raises(TypeError, match="bytes, str or None"):
        aggregate(EmptyDeconstruction(3))
    assert aggregate(Deconstruction(b"", ("ab", "c"))) != aggregate(Deconstruction(b"", ("a", "bc")))


def test_the_real_gt4py_if_it_is_here() -> None:
    pytest.importorskip("gt4py.next", reason="GT4Py is not installed")
    from gt4py.eve import concepts
    from gt4py.next.iterator.ir_utils import ir_makers as im

    semantic = fingerprinting.make_fingerprinter(
        deconstructor=fingerprinting.make_lenient_data_deconstructor(
            {concepts.Node: fingerprinting.skipping_fields_node_deconstructor("location", "type")}
        )
    )
    assert semantic(im.plus("a", im.literal("1.0", "float64"))) == semantic(
        im.plus("a", im.literal("1.0", "float64"))
    )
    assert strict(im.literal("1.0", "float32")) != strict(im.literal("1.0", "float64"))


PROGRAM = """
import sys
import keyprint.gt4py

sys.modules["gt4py.next.fingerprinting"] = keyprint.gt4py
import numpy as np
import gt4py.next as gtx
from gt4py.next.program_processors.runners import roundtrip

gtx.fingerprinting = keyprint.gt4py
I = gtx.Dimension("I")
Vector = gtx.Field[gtx.Dims[I], gtx.float64]

@gtx.field_operator(backend=roundtrip.default)
def axpy(a: Vector, b: Vector) -> Vector:
    return a + 2.0 * b

if __name__ == "__main__":
    out = gtx.zeros(gtx.domain({I: 3}))
    axpy(gtx.as_field([I], np.arange(3.0)), gtx.as_field([I], np.ones(3)), out=out)
    print(*out.asnumpy())
"""


def test_gt4py_itself_runs_on_this_module(tmp_path: Any) -> None:
    pytest.importorskip("gt4py.next", reason="GT4Py is not installed")
    import subprocess
    import sys

    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.stdout.split() == ["2.0", "3.0", "4.0"], done.stderr


class Level(enum.IntEnum):
    LOW = 1


class Mapped(dict):
    """A dict with a class of its own."""


def _local(content: int) -> Any:
    class Local:
        k = content

    return Local()


#: Values of every kind that the rules know.
VALUES: list[Any] = [
    *(None, True, 1, 1.0, 1j, "a", b"a", (1, 2), [1, [2]], {"a": 1, "b": {2: 3}}, {1, 2}, frozenset([1])),
    *(collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]), collections.Counter("ab")),
    *(Mapped(a=1), types.SimpleNamespace(a=1, b=2), Level.LOW, Level, st.Point(1, 2), st.Plain(a=[1])),
    *(
        np.float64(1),
        np.arange(3),
        np.dtype("f4"),
        len,
        int,
        collections,
        range(3),
        slice(1, 2),
        bytearray(b"x"),
    ),
    *(
        ...,
        "x" * 5000,
        [("y" * 3000, 1)] * 3,
        {"k": ("z" * 4200,)},
        functools.partial(len, [1]),
        ValueError("a"),
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_one_deconstructor_gives_one_digest(value: Any, mode: str) -> None:
    deconstructor = getattr(fingerprinting, f"{mode}_fingerprint_deconstructor")
    expected = getattr(fingerprinting, f"{mode}_fingerprinter")(value)
    calls: list[Any] = []

    def wrapped(deconstruction: Any) -> str:
        calls.append(deconstruction)
        return fingerprinting.fingerprint_aggregator(deconstruction)

    for aggregator in (fingerprinting.fingerprint_aggregator, wrapped):
        for options in itertools.product([True, False], repeat=2):
            digest = fingerprinting.catabolize(
                value,
                deconstructor=deconstructor,
                aggregator=aggregator,
                **dict(zip(("allow_cycles", "memoize"), options, strict=True)),
            )
            assert digest == expected
    assert calls


def test_local_classes_count_by_content() -> None:
    digest, other, again = (fingerprinting.lenient_fingerprinter(_local(number)) for number in (1, 2, 1))
    assert digest == again != other


def test_the_most_specific_rule_wins() -> None:
    def constant(state: bytes) -> Any:
        return lambda obj: fingerprinting.Deconstruction.from_pieces(state=state)

    rules = {
        int: constant(b"int"),
        dict: constant(b"dict"),
        float: constant(b"float"),
        object: constant(b"object"),
    }
    deconstructor = fingerprinting.make_strict_data_deconstructor(rules)
    fp = fingerprinting.make_fingerprinter(deconstructor=deconstructor)
    assert fp(1) == fp(2) and fp({}) == fp({1: 2}) and fp(st.Plain(a=1)) == fp(st.Plain(a=2))
    assert (
        len({fp(value) for value in (1, True, Level.LOW, {}, collections.OrderedDict(), 1.0, np.float64(1))})
        == 7
    )
    assert fp(True) != fp(False) and fp("a") != fp("b")
    for value in (1, True, Level.LOW, [1, True], {"a": 1}, collections.OrderedDict(a=1), np.float64(2)):
        wrapped = fingerprinting.catabolize(
            value,
            deconstructor=deconstructor,
            aggregator=lambda deconstruction: fingerprinting.fingerprint_aggregator(deconstruction),
        )
        assert wrapped == fp(value)


@dataclasses.dataclass
class Located:
    value: Any
    location: str = ""


def test_misspelt_fields_are_refused() -> None:
    for skipped, fine in (("location", True), ("locaton", False)):
        override = fingerprinting.skipping_fields_node_deconstructor(skipped)
        fp = fingerprinting.make_fingerprinter(
            deconstructor=fingerprinting.make_strict_data_deconstructor({Located: override})
        )
        if fine:
            assert fp(Located(1, "a")) == fp(Located(1, "b"))
        else:
            with pytest.raises(
                TypeError, match=r"`locaton` is to be skipped.*\nhint: there are .*`location`"
            ):
                fp(Located(1, "a"))


@dataclasses.dataclass(frozen=True)
class Lowering:
    level: int = 1
    cache: Any = dataclasses.field(default=None, metadata=fingerprinting.gt4py_metadata(fingerprint=False))

    def __call__(self, value: int) -> int:
        return value + self.level


def test_steps_know_fields_that_opted_out_the_way_gt4py_does() -> None:
    def step(**options: Any) -> Any:
        return fingerprinting.CachedStep(Lowering(**options), strict).step_fingerprint

    assert step(cache=[1]) == step(cache=[2])
    assert step(level=1) != step(level=2)
