"""Pictures without any library: arrays of numbers as PNG files."""

from __future__ import annotations

import struct
import zlib

import numpy as np

#: A few colours from dark to light, between which others lie.
COLOURS = np.array([[13, 8, 60], [84, 2, 163], [182, 48, 139], [244, 136, 73], [252, 253, 191]], float)


def coloured(values: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    """Return numbers as colours."""
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    at = np.clip((values - low) / max(high - low, 1e-12), 0, 1) * (len(COLOURS) - 1)
    first = np.minimum(at.astype(int), len(COLOURS) - 2)
    rest = (at - first)[..., None]
    return (COLOURS[first] * (1 - rest) + COLOURS[first + 1] * rest).astype(np.uint8)


def points(at: np.ndarray, size: int, colour: np.ndarray | None = None) -> np.ndarray:
    """Return points in the unit square as a picture; those at one place make it lighter."""
    image = np.zeros((size, size))
    pixel = np.clip((at * size).astype(int), 0, size - 1)
    np.add.at(image, (size - 1 - pixel[:, 1], pixel[:, 0]), 1.0 if colour is None else colour)
    return coloured(np.log1p(image))


def write(path: str, image: np.ndarray) -> None:
    """Write a picture: height x width x 3 bytes."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + image[row].tobytes() for row in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b"")
        )
