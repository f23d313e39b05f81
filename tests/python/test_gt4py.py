"""`keyprint.gt4py`: code written against GT4Py's fingerprinting module."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle
import types
import unittest.mock
from typing import Any

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
    one = Expr([SubExpr(1, Location(1), "f32")], Location(2))
    other = Expr([SubExpr(1, Location(7), "f64")], None)
    assert semantic(one) == semantic(other)
    assert lenient(one) != lenient(other)
    assert semantic(Expr(1)) != semantic(SubExpr(1))
    assert node(one) == Deconstruction.from_pieces(("value", one.value), state=node(one).state)


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
    assert take(st.Device.CPU).pieces == (st.Device, "CPU", 0)
    assert take(st.Color).pieces == (("RED", 1), ("GREEN", 2))
    assert take(3) == take(3) != take(3.0)
    assert take(st.Plain(a=1)).state == b"reduce"
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
