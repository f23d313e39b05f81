"""The C compiler: which one, what it is, and what it is told."""

from __future__ import annotations

import os

from ..._native import _compile_c, _find_compiler, _identify_compiler, _processor, fingerprint
from ...lazy import AWAY
from ...store.keys import Key
from ..errors import CompilerError
from ..types.dtypes import defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...store.stores import Store
    from ..settings import Settings

__all__ = ["compile_c", "target"]

#: What every kernel is compiled with: see the documentation of the language for what each is for.
_FLAGS: Final = (
    *("-std=gnu11", "-O3", "-fPIC", "-shared", "-nostdlib", "-fvisibility=hidden", "-w"),
    *("-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math"),
    # Halves are rounded where the program says so.
    "-fexcess-precision=standard",
)

_TOOL: Final = ("keyprint-toolchain", "1")


def _variables() -> dict[str, str]:
    return {name: os.environ[name] for name in ("KEYPRINT_CC", "CC") if name in os.environ}


def find() -> tuple[str, list[str]] | None:
    """Return the path of the compiler, and the arguments that come first."""
    return _find_compiler(_variables(), os.environ.get("PATH", os.defpath))


def target(settings: Settings, store: Store | None) -> tuple[Any, ...]:
    """Return everything that compiled code depends on besides its source: compiler, processor, settings.

    A store remembers what compilers are.
    """
    flags = [*_FLAGS, f"-march={settings.march}"]
    if settings.fast_math:
        # Its opposite is not said: that would take back what is said above of `errno` and of traps.
        flags.append("-ffast-math")
    flags.append(f"-ffp-contract={'fast' if settings.contract or settings.fast_math else 'off'}")
    processor = fingerprint(_processor()).short if settings.march == "native" else settings.march
    options = (defaults.int.name, defaults.float.name, settings.debug)
    return "cpu", processor, _identity(store), tuple(flags), options


#: Where the compiler of an identity was found: what a key names is what compiles.
_found: dict[tuple[Any, ...], tuple[str, list[str]]] = {}


def _identity(kept_in: Store | None) -> tuple[Any, ...]:
    identity, compiler = _identify(kept_in)
    if compiler is not None:
        _found[identity] = compiler
    return identity


def _stamps(path: str, arguments: list[str]) -> list[Any]:
    """Return what changes with a compiler: of the program, and of one that is an argument of it (`ccache gcc`)."""
    import shutil

    stamps = []
    for program in (path, *arguments):
        file = program if program is path else shutil.which(program)
        if file is not None:
            status = os.stat(file)
            stamps.append((file, status.st_size, status.st_mtime_ns))
    return stamps


def _identify(kept_in: Store | None) -> tuple[tuple[Any, ...], tuple[str, list[str]] | None]:
    """Return version and machine of the compiler; of the last one that was used, if there is none."""
    compiler = find()
    last = Key(".compiler used last", {"machine": os.uname().machine}, tool=_TOOL)
    if compiler is None:
        entry = None if kept_in is None else kept_in.get(last)
        # Without any, everything misses, and says what is missing.
        return (("none",) if entry is None else _as_identity(entry.metadata)), None
    path, arguments = compiler
    stamps = (
        _stamps(path, arguments) if arguments else [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns)]
    )
    key = Key(".identity of a compiler", {"files": stamps, "arguments": arguments}, tool=_TOOL)
    entry = None if kept_in is None else kept_in.get(key)
    if entry is not None:
        return _as_identity(entry.metadata), compiler
    try:
        version, machine = _identify_compiler(path, arguments)
    except OSError as error:
        raise CompilerError(
            str(error), code="compiler-failed", hint="set `KEYPRINT_CC` to a C compiler: `gcc` or `clang`"
        ) from None
    known = {"version": version, "machine": machine, "arguments": arguments}
    if kept_in is not None:
        kept_in.put(key, b"", known)
        kept_in.put(last, b"", known)
    return _as_identity(known), compiler


def _as_identity(known: dict[str, Any]) -> tuple[Any, ...]:
    return known["version"], known["machine"], tuple(known["arguments"])


def compile_c(text: str, identity: tuple[Any, ...], flags: tuple[str, ...]) -> bytes:
    """Compile C to a shared object, with the compiler of an identity."""
    compiler = _found.get(identity)
    if compiler is None:
        given = next((name for name in ("KEYPRINT_CC", "CC") if os.environ.get(name)), None)
        what = (
            f"`{given}` names `{os.environ[given]}`, which cannot be found"
            if given
            else "there is no C compiler"
        )
        raise CompilerError(
            f"{what}, and this kernel was not compiled before",
            code="no-compiler",
            hint="install one (`apt install gcc`, `dnf install gcc`, `conda install c-compiler`), or set `KEYPRINT_CC`",
        )
    path, arguments = compiler
    try:
        with AWAY:
            return _compile_c(path, arguments, list(flags), text)
    except OSError as error:
        raise CompilerError(
            str(error),
            code="compiler-failed",
            hint="this may be a defect of keyprint: `KEYPRINT_DUMP=directory` keeps what was generated",
        ) from None
