"""A CUDA driver and an NVRTC for machines without a GPU: kernels run on the host, and everything else is the real thing.

The two libraries are built once for each state of their source, and kept in the directory for temporary files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_SOURCES = ("device.h", "driver.cpp", "nvrtc.cpp")


#: What texts are compiled for where there is a real NVRTC.
ARCHITECTURES = "sm_75,sm_80,sm_90,sm_100"


def real_nvrtc() -> dict[str, str]:
    """Return the environment variables that have texts compiled by the real NVRTC as well, which is a test requirement."""
    places = [Path(place) / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12" for place in sys.path]
    found = next((str(path) for path in places if path.exists()), None)
    return {} if found is None else {"KPE_NVRTC": found, "KPE_ARCHITECTURES": ARCHITECTURES}


def kept() -> dict[str, str]:
    """Return the environment variables that have compiled code kept for other processes, and for other runs."""
    libraries = build()["KEYPRINT_CUDA_DRIVER"]
    directory = Path(libraries).parent / "kept"
    directory.mkdir(exist_ok=True)
    return {"KPE_KEPT": str(directory)}


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
                [
                    "g++",
                    "-std=c++17",
                    "-O1",
                    "-g",
                    "-shared",
                    "-fPIC",
                    "-o",
                    library,
                    source,
                    "-ldl",
                    "-lpthread",
                ],
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
