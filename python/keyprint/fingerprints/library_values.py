"""Values of other libraries, described by what they hold and not by how they keep it.

Tables and columns of pandas, pyarrow and polars hold the same data in different blocks and chunks, and their
reductions show which. The rules here read columns in order, without copies where the memory allows it. They are
looked up by the native half when it first meets a class of these libraries; nothing is imported for them.
"""

from __future__ import annotations

import itertools
import sys

from . import rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["rule_for"]


def rule_for(cls: type) -> Any:
    """Return how instances of a class are described; nothing if they are left to themselves."""
    for (module, name), given in _RULES.items():
        base = getattr(sys.modules.get(module), name, None)
        if isinstance(base, type) and issubclass(cls, base):
            return given
    return None


# -- pandas --------------------------------------------------------------------------------------------


def _frame(frame: Any) -> Any:
    columns = [_values(frame.iloc[:, at]) for at in range(frame.shape[1])]
    parts = (frame.columns, frame.index, columns, frame.attrs, _state(frame))
    return rule.ordered(type(frame), *parts, tag="pandas frame")


def _series(series: Any) -> Any:
    parts = (series.name, series.index, _values(series), series.attrs, _state(series))
    return rule.ordered(type(series), *parts, tag="pandas series")


def _values(column: Any) -> Any:
    """Return the values of a column as an array: of NumPy, or of the library that extends pandas."""
    return column.array if hasattr(column.dtype, "construct_array_type") else column.to_numpy()


def _state(value: Any) -> dict[str, Any]:
    """Return what a subclass keeps beside the data."""
    return {name: getattr(value, name, None) for name in getattr(value, "_metadata", ()) if name != "name"}


# -- pyarrow -------------------------------------------------------------------------------------------


def _table(table: Any) -> Any:
    schema = table.schema
    fields = [(field.name, str(field.type), field.nullable, field.metadata) for field in schema]
    return rule.ordered(
        type(table), fields, schema.metadata, table.num_rows, list(table.columns), tag="arrow table"
    )


def _chunked(array: Any) -> Any:
    if array.num_chunks == 1:
        return _array(array.chunk(0))
    whole = array.combine_chunks()
    if hasattr(whole, "num_chunks"):
        # Too long for one array.
        return rule.ordered(str(array.type), array.to_pylist(), tag="arrow values")
    return _array(whole)


def _array(array: Any) -> Any:
    kind, length = str(array.type), len(array)
    if not length:
        return rule.ordered(kind, 0, tag="arrow array")
    nulls = array.is_null().to_pylist() if array.null_count else None
    buffers = array.buffers()
    width = _width(array.type)
    if width is not None and nulls is None and len(buffers) == 2 and buffers[1] is not None:
        data = memoryview(buffers[1])[array.offset * width : (array.offset + length) * width]
        return rule.ordered(kind, length, data, tag="arrow array")
    if kind in ("string", "binary") and len(buffers) == 3 and buffers[1] is not None:
        places = memoryview(buffers[1]).cast("i")[array.offset : array.offset + length + 1]
        first, last = places[0], places[-1]
        lengths = [after - before for before, after in itertools.pairwise(places)]
        data = memoryview(buffers[2] or b"")[first:last]
        return rule.ordered(kind, lengths, nulls, data, tag="arrow texts")
    # Bits, nested values, dictionaries: as Python has them.
    return rule.ordered(kind, array.to_pylist(), tag="arrow values")


def _width(kind: Any) -> int | None:
    """Return how many bytes an element has; nothing if elements are no whole bytes, or refer to something else."""
    try:
        bits = kind.bit_width
    except ValueError:
        return None
    is_plain = not hasattr(kind, "value_type") and bits % 8 == 0
    return int(bits) // 8 if is_plain else None


# -- polars --------------------------------------------------------------------------------------------


def _polars_frame(frame: Any) -> Any:
    return rule.ordered(
        type(frame), list(frame.columns), frame.height, list(frame.get_columns()), tag="polars frame"
    )


def _polars_series(series: Any) -> Any:
    try:
        held = series.to_arrow()
    except ModuleNotFoundError:
        return NotImplemented
    return rule.ordered(type(series), series.name, str(series.dtype), held, tag="polars series")


_RULES: Final[dict[tuple[str, str], Any]] = {
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pyarrow", "Table"): _table,
    ("pyarrow", "RecordBatch"): _table,
    ("pyarrow", "ChunkedArray"): _chunked,
    ("pyarrow", "Array"): _array,
    ("polars", "DataFrame"): _polars_frame,
    ("polars", "Series"): _polars_series,
}
