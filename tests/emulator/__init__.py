"""A CUDA driver and an NVRTC for machines without a GPU: kernels run on the host, and everything else is the real thing.

The two libraries are built once for each state of their source, and kept in the directory for temporary files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_SOURCES = ("device.h", "driver.cpp", "nvrtc.cpp")


def build() -> dict[str, str]:
    """Build the libraries, and return the environment variables that have them used."""
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _SOURCES)).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"keyprint-emulator-{os.getuid()}-{digest}"
    if not (directory / "libnvrtc.so.12").exists():
        staged = Path(tempfile.mkdtemp(prefix="keyprint-emulator-"))
        for name in _SOURCES:
            shutil.copy(HERE / name, staged)
        for source, library in (("driver.cpp", "libcuda.so.1"), ("nvrtc.cpp", "libnvrtc.so.12")):
            subprocess.run(
                ["g++", "-std=c++17", "-O1", "-g", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"],
                cwd=staged,
                check=True,
            )
        try:
            staged.rename(directory)
        except OSError:
            # Another process was first.
            shutil.rmtree(staged)
    return {
        "KEYPRINT_CUDA_DRIVER": str(directory / "libcuda.so.1"),
        "KEYPRINT_NVRTC": str(directory / "libnvrtc.so.12"),
    }
