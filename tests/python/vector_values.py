"""Builds the values that the golden vectors describe."""

from __future__ import annotations

import struct
from typing import Any

import reference_encoder as reference


def double(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def build(described: Any) -> Any:
    """The plain value; records, references and 32-bit floats as the reference encoder's own types."""
    if described is None or isinstance(described, bool):
        return described
    ((kind, body),) = described.items()
    match kind:
        case "int":
            return int(body)
        case "float":
            return double(body)
        case "complex":
            return complex(double(body[0]), double(body[1]))
        case "f32":
            return reference.F32(int(body, 16))
        case "str":
            return "".join(map(chr, body))
        case "repeat":
            return body[0] * body[1]
        case "bytes":
            return bytes.fromhex(body)
        case "list":
            return [build(item) for item in body]
        case "tuple":
            return tuple(build(item) for item in body)
        case "set":
            return {build(item) for item in body}
        case "frozenset":
            return frozenset(build(item) for item in body)
        case "dict":
            return {build(key): build(value) for key, value in body}
        case "record":
            return reference.Record(body[0], tuple((name, build(value)) for name, value in body[1]))
        case "reference":
            return reference.Reference(*body)
    raise ValueError(kind)
