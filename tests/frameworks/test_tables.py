"""Tables and columns: the data count, the blocks and chunks that hold them do not."""

from __future__ import annotations

from typing import Any

import pytest

import keyprint as kp

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
fp = kp.fingerprint


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_texts_in_pandas(mode: Any) -> None:
    def frame(last: str) -> Any:
        return pd.DataFrame({"a": [1, 2], "b": ["x", last]}, index=["p", "q"])

    assert fp(frame("y"), mode=mode) == fp(frame("y"), mode=mode) != fp(frame("z"), mode=mode)


SAME = {
    "blocks": lambda: (
        pd.DataFrame({"a": [1, 2]}).assign(b=[3, 4]),
        pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
    ),
    "a slice of pyarrow": lambda: (pa.array(["z", "a", "b"])[1:], pa.array(["a", "b"])),
    "numbers": lambda: (pa.array([9, 1, 2])[1:], pa.array([1, 2])),
    "chunks": lambda: (pa.chunked_array([["a"], ["b"]]), pa.chunked_array([["a", "b"]])),
    "lists": lambda: (pa.array([[0], [1], [2, 3]])[1:], pa.array([[1], [2, 3]])),
    "nothing": lambda: (pa.array(["a"])[1:], pa.array([], pa.string())),
    "tables": lambda: (
        pa.table({"a": pa.chunked_array([[1], [2]])}),
        pa.table({"a": pa.chunked_array([[1, 2]])}),
    ),
    "polars": lambda: (
        pl.concat([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], rechunk=False),
        pl.DataFrame({"a": [1, 2]}),
    ),
    "chunks behind pandas": lambda: (
        pd.concat([pd.Series(["a"], dtype="str"), pd.Series(["b"], dtype="str")], ignore_index=True),
        pd.Series(["a", "b"], dtype="str"),
    ),
}

OTHER = {
    "a value": lambda: (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
    "a name": lambda: (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
    "an index": lambda: (pd.Series([1, 2]), pd.Series([1, 2], index=[1, 2])),
    "the name of a series": lambda: (pd.Series([1], name="a"), pd.Series([1], name="b")),
    "the order of columns": lambda: (pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [2], "a": [1]})),
    "a type": lambda: (pd.Series([1], dtype="int32"), pd.Series([1], dtype="int64")),
    "a zone": lambda: (
        pd.Series(pd.date_range("2020", periods=2)),
        pd.Series(pd.date_range("2020", periods=2, tz="UTC")),
    ),
    "what is missing": lambda: (pd.Series([1, None], dtype="Int64"), pd.Series([1, 0], dtype="Int64")),
    "attributes": lambda: (pd.Series([1]), _with_attributes(pd.Series([1]))),
    "nulls": lambda: (pa.array(["a", None]), pa.array(["a", ""])),
    "where texts end": lambda: (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
    "a type of pyarrow": lambda: (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
    "bits": lambda: (pa.array([True, False]), pa.array([True, True])),
    "polars texts": lambda: (pl.Series(["x"]), pl.Series(["y"])),
    "polars names": lambda: (pl.Series("a", [1]), pl.Series("b", [1])),
}


def _with_attributes(series: Any) -> Any:
    series.attrs["unit"] = "m"
    return series


@pytest.mark.parametrize("name", SAME)
def test_the_same_data(name: str) -> None:
    data, other = SAME[name]()
    assert fp(data) == fp(other)


@pytest.mark.parametrize("name", OTHER)
def test_other_data(name: str) -> None:
    data, other = OTHER[name]()
    assert fp(data) != fp(other)
