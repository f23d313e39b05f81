"""The canonical encoding, written a second time from ``docs/encoding.md`` alone.

Plain and recursive, so that it is easy to believe. It makes the golden vectors, and the native
engine is compared with it on random values.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

from blake3 import blake3

DOMAIN = b"keyprint fingerprint encoding 2"
KEY = blake3(DOMAIN).digest()
LIMIT = 4096


@dataclasses.dataclass(frozen=True)
class F32:
    """A 32-bit float, by its bits."""

    bits: int


@dataclasses.dataclass(frozen=True)
class Record:
    """The fields of a class."""

    cls: str
    fields: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Digest:
    """A fingerprint as a value."""

    digest: bytes


@dataclasses.dataclass(frozen=True)
class Reference:
    """A class, function or module by name."""

    kind: int
    module: str
    qualname: str


def digest(item: bytes) -> bytes:
    return blake3(item, key=KEY).digest()


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def name(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


def bits(value: float) -> bytes:
    return bytes.fromhex("000000000000f87f") if value != value else struct.pack("<d", value)


def shape(kind: str, module: str, qualname: str, names: list[str]) -> bytes:
    head = b"\x30" + name(kind) + name(module) + name(qualname)
    return digest(head + varint(len(names)) + b"".join(map(name, names)))


def inline(item: bytes) -> bytes:
    """How an item stands in its parent."""
    return item if len(item) <= LIMIT else b"\x00" + digest(item)


def encode(value: Any, open_items: tuple[int, ...] = ()) -> bytes:
    """The whole item of a value."""
    kind = type(value)
    if value is None:
        return b"\x01"
    if kind is bool:
        return b"\x03" if value else b"\x02"
    if kind is int:
        tag, magnitude = (b"\x04", value) if value >= 0 else (b"\x05", -1 - value)
        data = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "little")
        return tag + varint(len(data)) + data
    if kind is float:
        return b"\x06" + bits(value)
    if kind is complex:
        return b"\x07" + bits(value.real) + bits(value.imag)
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
        return b"\x08" + varint(len(data)) + data
    if kind is bytes:
        return b"\x09" + varint(len(value)) + value
    if kind is F32:
        return b"\x0e" + name("f4") + varint(4) + struct.pack("<I", value.bits)
    if kind is Digest:
        return b"\x0b" + value.digest
    if kind is Reference:
        return b"\x0d" + bytes([value.kind]) + name(value.module) + name(value.qualname)
    if id(value) in open_items:
        return b"\x0c" + varint(len(open_items) - open_items.index(id(value)))
    inner = (*open_items, id(value))
    if kind in (list, tuple):
        tag = b"\x10" if kind is list else b"\x11"
        return tag + varint(len(value)) + b"".join(inline(encode(item, inner)) for item in value)
    if kind in (set, frozenset):
        tag = b"\x12" if kind is set else b"\x13"
        return tag + varint(len(value)) + b"".join(sorted(inline(encode(item, inner)) for item in value))
    if kind is dict:
        pairs = (inline(encode(k, inner)) + inline(encode(v, inner)) for k, v in value.items())
        return b"\x14" + varint(len(value)) + b"".join(sorted(pairs))
    if kind is Record:
        module, _, qualname = value.cls.partition(":")
        head = b"\x20" + shape("fields", module, qualname, [field for field, _ in value.fields])
        return head + b"".join(inline(encode(item, inner)) for _, item in value.fields)
    raise TypeError(f"not a plain value: {kind}")


def fingerprint(value: Any) -> str:
    return digest(encode(value)).hex()
