"""Writes ``encoding-v2.json`` with the reference encoder: ``python tests/vectors/generate.py``.

The file is pinned by a digest in the tests; a new one needs a new version of the encoding.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python"))

import reference_encoder as reference  # noqa: E402
import vector_values  # noqa: E402


def s(text: str) -> dict[str, Any]:
    return {"str": [ord(point) for point in text]}


def i(value: int) -> dict[str, Any]:
    return {"int": str(value)}


def repeated(text: str, count: int) -> dict[str, Any]:
    return {"repeat": [text, count]}


def record(cls: str, **fields: Any) -> dict[str, Any]:
    return {"record": [cls, [[name, value] for name, value in fields.items()]]}


VECTORS: list[tuple[str, Any]] = [
    ("none", None),
    ("false", False),
    ("true", True),
    *(
        (f"int {value}", i(value))
        for value in (0, 1, -1, 127, 128, 255, 256, -256, -257, 65535, 2**31, -(2**31))
    ),
    *((f"int 2**{p}", i(2**p)) for p in (62, 63, 64, 65, 127, 128, 1000)),
    *((f"int -2**{p}", i(-(2**p))) for p in (63, 64, 127, 128, 1000)),
    *(
        (f"float {title}", {"float": bits})
        for title, bits in (
            ("0.0", "0000000000000000"),
            ("-0.0", "8000000000000000"),
            ("1.0", "3ff0000000000000"),
            ("0.1", "3fb999999999999a"),
            ("inf", "7ff0000000000000"),
            ("-inf", "fff0000000000000"),
            ("nan", "7ff8000000000000"),
            ("nan with payload and sign", "fff8000000000123"),
            ("smallest", "0000000000000001"),
        )
    ),
    ("complex", {"complex": ["3ff0000000000000", "8000000000000000"]}),
    ("complex nan", {"complex": ["7ff8000000000001", "fff8000000000000"]}),
    ("f32 1.0", {"f32": "3f800000"}),
    ("f32 nan", {"f32": "7fc00000"}),
    ("empty text", s("")),
    ("ascii", s("hello")),
    ("latin-1", s("é")),
    ("two-byte", s("жук")),
    ("astral", s("🦀")),
    ("nul inside", s("a\0b")),
    ("lone surrogate", s("\ud800")),
    ("surrogate pair as two points", s("\ud83e\udd80")),
    ("empty bytes", {"bytes": ""}),
    ("bytes", {"bytes": "00ff10"}),
    ("empty list", {"list": []}),
    ("empty tuple", {"tuple": []}),
    ("empty set", {"set": []}),
    ("empty frozenset", {"frozenset": []}),
    ("empty dict", {"dict": []}),
    ("list", {"list": [i(1), i(2)]}),
    ("tuple", {"tuple": [i(1), i(2)]}),
    ("list of list", {"list": [{"list": [i(1)]}, {"list": [i(2)]}]}),
    ("list of one list of two", {"list": [{"list": [i(1), i(2)]}]}),
    ("set", {"set": [i(300), i(2), s("x")]}),
    ("frozenset", {"frozenset": [i(300), i(2), s("x")]}),
    ("dict", {"dict": [[s("b"), i(2)], [s("a"), i(1)], [i(-1), None]]}),
    ("dict of dicts", {"dict": [[s("outer"), {"dict": [[s("inner"), {"list": [None]}]]}]]}),
    ("127 items", {"list": [None] * 127}),
    ("128 items", {"list": [None] * 128}),
    ("record", record("shapes.plane:Point", x=i(1), y={"float": "4000000000000000"})),
    ("record without fields", record("shapes.plane:Empty")),
    ("record in a record", record("a.b:C.D", inner=record("shapes.plane:Point", x=None, y=None))),
    ("class by name", {"reference": [1, "collections", "OrderedDict"]}),
    ("function by name", {"reference": [2, "json", "dumps"]}),
    ("module by name", {"reference": [3, "json", ""]}),
    *((f"text of {n}", repeated("x", n)) for n in (127, 128, 1024, 4092, 4093, 4094, 9000)),
    *((f"list with text of {n}", {"list": [repeated("x", n)]}) for n in (4090, 4091, 4092, 4093, 4094)),
    *((f"two texts of {n}", {"tuple": [repeated("x", n), repeated("y", n)]}) for n in (2043, 2044, 2045)),
    (
        "nested past the edge twice",
        {"list": [{"list": [repeated("x", 4092)]}, {"list": [repeated("y", 9000)]}]},
    ),
    ("dict past the edge", {"dict": [[repeated("k", n), repeated("v", n)] for n in (1, 2000, 1200)]}),
]


def main() -> None:
    entries = []
    for title, described in VECTORS:
        value = vector_values.build(described)
        item = reference.inline(reference.encode(value))
        entries.append(
            {
                "name": title,
                "value": described,
                "item": item.hex(),
                "fingerprint": reference.fingerprint(value),
            }
        )
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    text = f'{{"version": 2, "domain": {json.dumps(reference.DOMAIN.decode())}, "vectors": [\n{lines}\n]}}\n'
    (HERE / "encoding-v2.json").write_text(text)


if __name__ == "__main__":
    main()
