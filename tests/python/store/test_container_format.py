"""The container format agrees with its specification, both ways, and with the golden file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keyprint as kp
import reference_container as reference

GOLDEN = Path(__file__).parents[2] / "vectors" / "container-v1.kpe"

#: Changes only with the version of the format.
GOLDEN_SHA256 = "618bc029b85eb71eefb352bd10c64fc482eec6912b9c971bd95e62f93ca6e3ba"


def place(store: Path, key: bytes) -> Path:
    return store / "v1" / "entries" / key.hex()[:2] / f"{key.hex()[2:]}.kpe"


def digests(manifest: dict[str, Any]) -> dict[str, bytes]:
    return {component["name"]: bytes.fromhex(component["digest"]) for component in manifest["components"]}


names = st.text(alphabet="abcÄß/.-_ ", min_size=1, max_size=12).filter(
    lambda name: all(part not in ("", ".", "..") for part in name.split("/"))
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(names, st.binary(max_size=200), max_size=4).filter(
        # A part cannot be a file and a directory.
        lambda parts: not any(other.startswith(f"{name}/") for name in parts for other in parts)
    ),
    st.text(),
    st.lists(st.integers()),
)
def test_what_is_written_is_what_the_specification_says(
    tmp_path: Path, parts: dict[str, bytes], name: str, metadata: list[int]
) -> None:
    store = kp.Store(tmp_path / "store", memory=0)
    key = kp.Key(name, {"parts": parts}, secrets={"s": 1}, tool=("t", "1"))
    store.put(key, parts, metadata)
    data = place(tmp_path / "store", bytes(key)).read_bytes()
    container = reference.read(data)
    assert (container.key, container.parts) == (bytes(key), parts)
    assert container.manifest == json.loads(key.manifest())
    assert json.loads(container.metadata)["value"] == metadata
    assert reference.key_of(digests(container.manifest)) == bytes(key)
    assert reference.write(container) == data


def golden() -> bytes:
    components = {
        "format": kp.fingerprint(1),
        "salt": kp.fingerprint(""),
        "tool": kp.fingerprint(("lang", "1.2")),
        "name": kp.fingerprint("lower"),
        "source": kp.fingerprint("def f(): ..."),
        "env TOKEN": kp.fingerprint("hunter2"),
    }
    shown = {"format": "1", "salt": "", "tool": "lang 1.2", "name": "lower", "source": "'def f(): …'"}
    described = [
        {"name": name, "digest": digest.hex()}
        | ({"summary": shown[name]} if name in shown else {"secret": True})
        for name, digest in components.items()
    ]
    return reference.write(
        reference.Container(
            key=reference.key_of({name: bytes(digest) for name, digest in components.items()}),
            info={"created_ms": 1_800_000_000_000, "build_ns": 1_500_000_000, "writer": "keyprint 0.1.0"},
            manifest={"manifest": 1, "name": "lower", "components": described},
            metadata=b'{"plain":1,"value":{"levels":[],"pair":{"$tuple":[1,2]}}}',
            parts={"kernel.so": bytes(range(256)), "lib/notes.txt": "ä".encode(), "empty": b""},
        )
    )


def test_the_golden_file_is_pinned() -> None:
    assert GOLDEN.read_bytes() == golden()
    assert hashlib.sha256(GOLDEN.read_bytes()).hexdigest() == GOLDEN_SHA256


def test_the_golden_file_is_read(tmp_path: Path) -> None:
    data = GOLDEN.read_bytes()
    key = kp.Key("lower", {"source": "def f(): ..."}, secrets={"env TOKEN": "hunter2"}, tool=("lang", "1.2"))
    assert bytes(key) == reference.read(data).key
    path = place(tmp_path, bytes(key))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    entry = kp.Store(tmp_path).get(key)
    assert entry is not None
    assert entry.parts == {"kernel.so": bytes(range(256)), "lib/notes.txt": "ä".encode(), "empty": b""}
    assert entry.metadata == {"levels": [], "pair": (1, 2)}
    assert (entry.build_seconds, entry.name) == (1.5, "lower")


@pytest.mark.parametrize("change", ["table", "kind", "overlap", "twice", "missing", "version"])
def test_tables_that_lie_under_a_good_digest_are_refused(tmp_path: Path, change: str) -> None:
    """Somebody who can compute digests still cannot make a reader read beyond the file."""
    import struct

    from blake3 import blake3

    data = bytearray(GOLDEN.read_bytes())
    key = bytes(data[16:48])
    if change == "table":
        struct.pack_into("<Q", data, 56, 1 << 62)
    elif change == "kind":
        data[96] = 9
    elif change == "overlap":
        struct.pack_into("<Q", data, 96 + 4, 1 << 63)
    elif change == "twice":
        data[96 + 44] = 1
    elif change == "missing":
        struct.pack_into("<I", data, 12, 2)
    elif change == "version":
        struct.pack_into("<I", data, 8, 2)
    length = struct.unpack_from("<Q", data, 56)[0]
    data[64:96] = blake3(
        bytes(data[:64]) + bytes(data[96 : 96 + min(length, len(data))]),
        derive_key_context=reference.CONTAINER,
    ).digest()
    path = place(tmp_path, key)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.warns(kp.StoreWarning, match="was damaged"):
        assert kp.Store(tmp_path).get(key.hex()) is None
