"""The container format, written a second time from ``docs/container.md`` alone."""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any

from blake3 import blake3

import reference_encoder

MAGIC = b"\x89KPE\r\n\x1a\n"
CONTAINER = "keyprint container format 1"
KEY = "keyprint key format 1"


@dataclasses.dataclass(frozen=True)
class Container:
    key: bytes
    info: dict[str, Any]
    manifest: dict[str, Any]
    metadata: bytes
    parts: dict[str, bytes]


def key_of(components: dict[str, bytes]) -> bytes:
    """The root over digests by name."""
    items: list[Any] = []
    for name in sorted(components, key=str.encode):
        items += [name, reference_encoder.Digest(components[name])]
    return blake3(bytes.fromhex(reference_encoder.fingerprint(items)), derive_key_context=KEY).digest()


def write(container: Container) -> bytes:
    sections = [
        (1, "", json.dumps(container.info, separators=(",", ":")).encode()),
        (2, "", json.dumps(container.manifest, separators=(",", ":"), ensure_ascii=False).encode()),
        (3, "", container.metadata),
        *((4, name, content) for name, content in container.parts.items()),
    ]
    table = b"".join(
        struct.pack("<BBHQ", kind, 0, len(name.encode()), len(content))
        + blake3(content).digest()
        + name.encode()
        for kind, name, content in sections
    )
    contents = b"".join(content for _, _, content in sections)
    length = 96 + len(table) + len(contents)
    head = (
        MAGIC + struct.pack("<II", 1, len(sections)) + container.key + struct.pack("<QQ", length, len(table))
    )
    return head + blake3(head + table, derive_key_context=CONTAINER).digest() + table + contents


def read(data: bytes) -> Container:
    assert data[:8] == MAGIC
    version, count = struct.unpack_from("<II", data, 8)
    length, table_length = struct.unpack_from("<QQ", data, 48)
    assert version == 1 and length == len(data)
    table = data[96 : 96 + table_length]
    assert blake3(data[:64] + table, derive_key_context=CONTAINER).digest() == data[64:96]
    at, place = 0, 96 + table_length
    notes: dict[int, bytes] = {}
    parts: dict[str, bytes] = {}
    for _ in range(count):
        kind, zero, name_length, content_length = struct.unpack_from("<BBHQ", table, at)
        digest = table[at + 12 : at + 44]
        name = table[at + 44 : at + 44 + name_length].decode()
        content = data[place : place + content_length]
        assert zero == 0 and blake3(content).digest() == digest
        if kind == 4:
            assert name not in parts
            parts[name] = content
        else:
            assert kind not in notes and name == ""
            notes[kind] = content
        at += 44 + name_length
        place += content_length
    assert at == table_length and place == length and sorted(notes) == [1, 2, 3]
    return Container(data[16:48], json.loads(notes[1]), json.loads(notes[2]), notes[3], parts)
