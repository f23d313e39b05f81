"""NVRTC: which one, what it is, what it is told; and what kernels for a device are compiled for."""

from __future__ import annotations

import os
import sys

from ..._native import _cuda_capability, _graph_conditions, _nvrtc_compile, _nvrtc_find, _nvrtc_version
from ...dispatch.specialization import Target
from ...lazy import AWAY
from ...store.keys import Key
from ..errors import CompilerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...store.stores import Store

__all__ = ["compile_conditions", "compile_cuda", "device_target", "disassembled", "find"]

_TOOL: Final = ("keyprint-nvrtc", "1")

#: What says where NVRTC is.
_VARIABLES: Final = ("KEYPRINT_NVRTC", "CUDA_HOME", "CUDA_PATH")


def find() -> str | None:
    """Return the path of NVRTC; nothing if there is none."""
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return _nvrtc_find(variables, [place for place in sys.path if place])


def device_target(target: tuple[Any, ...], store: Store | None, device: int) -> Target:
    """Return everything that code for a device depends on besides its source, and the device: set as another target is."""
    major, minor = _cuda_capability(device)
    return Target(identity(target, store, f"sm_{major}{minor}"), device)


def identity(target: tuple[Any, ...], store: Store | None, architecture: str) -> tuple[Any, ...]:
    """Return everything that code for an architecture depends on besides its source: NVRTC, and what `init` said.

    The latter is taken from another target, so that what was said together stays together.
    """
    _, _, _, given, options = target
    is_fast = "-ffast-math" in given or "--use_fast_math" in given
    is_contracted = is_fast or "-ffp-contract=fast" in given or "--fmad=true" in given
    nvrtc = _nvrtc_identity(store)
    flags = [f"--gpu-architecture={architecture}", "--minimal"]
    if is_fast:
        flags.append("--use_fast_math")
    flags.append(f"--fmad={'true' if is_contracted else 'false'}")
    if _has_cache(nvrtc):
        flags.append("--no-cache")
    return "cuda", architecture, nvrtc, tuple(flags), options


def _has_cache(nvrtc: tuple[Any, ...]) -> bool:
    """Whether NVRTC keeps code of its own, on machines with a driver: from 12.9 on.

    With 13.0, what was compiled without `--use_fast_math` is what is returned with it: it must not be asked.
    """
    version = tuple(int(part) for part in nvrtc[0].split(".") if part.isdigit())
    return version >= (12, 9)


#: Where the NVRTC of an identity was found: what a key names is what compiles.
_found: dict[tuple[Any, ...], str] = {}

#: What was found out about libraries in this process.
_known: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def _nvrtc_identity(kept_in: Store | None) -> tuple[Any, ...]:
    """Return the version of NVRTC; of the one that was used last, if there is none. A store remembers what they are."""
    path = find()
    last = Key(".nvrtc used last", {"machine": os.uname().machine}, tool=_TOOL)
    if path is None:
        entry = None if kept_in is None else kept_in.get(last)
        # Without any, everything misses, and says what is missing.
        return ("none",) if entry is None else (entry.metadata["version"],)
    status = os.stat(path)
    stamp = (path, status.st_size, status.st_mtime_ns)
    known = _known.get(stamp)
    if known is None:
        key = Key(".identity of nvrtc", {"file": stamp}, tool=_TOOL)
        entry = None if kept_in is None else kept_in.get(key)
        if entry is not None:
            known = (entry.metadata["version"],)
        else:
            major, minor = _nvrtc_version(path)
            known = (f"{major}.{minor}",)
            if kept_in is not None:
                kept_in.put(key, b"", {"version": known[0]})
        entry = None if kept_in is None else kept_in.get(last)
        if kept_in is not None and (entry is None or entry.metadata["version"] != known[0]):
            kept_in.put(last, b"", {"version": known[0]})
        _known[stamp] = known
    _found[known] = path
    return known


def compile_cuda(text: str, nvrtc: tuple[Any, ...], flags: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Compile CUDA C++, with the NVRTC of an identity; return the code, and the PTX that it was made of."""
    path = _found.get(nvrtc)
    if path is None:
        given = os.environ.get("KEYPRINT_NVRTC")
        what = f"`KEYPRINT_NVRTC` names `{given}`, which cannot be found" if given else "there is no NVRTC"
        raise CompilerError(
            f"{what}, and this kernel was not compiled before",
            code="no-compiler",
            hint="install it (`pip install nvidia-cuda-nvrtc`), or set `KEYPRINT_NVRTC` to the path of `libnvrtc.so`",
        )
    with AWAY:
        return _nvrtc_compile(path, text, list(flags))


#: That code, by what it was compiled with: it is the same for all kernels.
_conditions: dict[tuple[Any, ...], bytes] = {}


def compile_conditions(nvrtc: tuple[Any, ...], flags: tuple[str, ...]) -> bytes:
    """Return code that decides about loops of graphs."""
    known = _conditions.get((nvrtc, flags))
    if known is None:
        known, _ = compile_cuda(_graph_conditions(), nvrtc, flags)
        _conditions[nvrtc, flags] = known
    return known


def disassembled(cubin: bytes) -> bytes:
    """Return the instructions of a kernel for people to read; nothing if no toolkit is there that can show them."""
    import shutil
    import subprocess
    import tempfile

    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [os.path.join(home, "bin") for home in (*homes, "/usr/local/cuda")]
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *places])
    tool = shutil.which("nvdisasm", path=path)
    if tool is None:
        return b""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, "-c", file.name], capture_output=True, check=False).stdout
