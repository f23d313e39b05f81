"""From a key to an executable: the compiler and the loader of a kernel, called when the native half asks for them."""

from __future__ import annotations

import itertools
import time

from .._native import Entry, Jit, _short_text
from . import log
from .specialization import Artifact, NativeCode, Specialization, ValuesNeeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from ..store.keys import Key
    from .context import Context
    from .options import KernelOptions
    from .signatures.signature import Signature

__all__ = ["ChangedMeanwhile", "Compilation"]

#: Executables beyond this are loaded again when they come back.
_MOST_LOADED: Final = 1024

#: Keys beyond this are not compared with to say what changed.
_MOST_KEYS: Final = 16


class ChangedMeanwhile(Exception):
    """Something that counts changed while it was compiled."""


class Compilation:
    """Compiles and loads what a kernel needs; what is loaded, stored and waited for is up to the native half."""

    def __init__(self, options: KernelOptions, counts: dict[str, int]) -> None:
        self._options = options
        self._counts = counts
        self._jit = Jit(_MOST_LOADED)
        #: A number for each device that was met, which no other has.
        self._devices: dict[Any, int] = {}
        self._numbers = itertools.count()
        #: Keys of this process, to say what changed where no store does.
        self._keys: list[Key] = []
        self._last: str | Callable[[], str] | None = None

    @property
    def last(self) -> str | None:
        """Why the last call had to compile, or where it found its executable."""
        return self._last() if callable(self._last) else self._last

    def executable(self, context: Context, signature: Signature, key: Key) -> Any:
        """Return what runs for a key: it is loaded already, found in the store, or compiled."""
        specialization = self._specialization(context, signature, key)
        is_local = context.resolution.is_process_local or signature.is_process_local
        store = None if is_local else self._options.store
        compiled = False

        def compile() -> Any:
            nonlocal compiled
            output = self._compile(specialization, key, context, signature, is_kept=store is not None)
            compiled = True
            return output

        def load(output: Any) -> Any:
            if isinstance(output, Entry):
                self._counts["stored" if compiled else "validated"] += 1
                if not compiled:
                    self._last = f"hit: {output.how}"
            return self._load(output, specialization)

        # Two threads that meet devices at the same time must not give them the same number.
        device = self._devices.setdefault(context.device, next(self._numbers))
        executable, was_loaded = self._jit.get(key, device, store, compile, load)
        if was_loaded:
            self._last = "hit: in memory"
        return executable

    def keep(self, context: Context, signature: Signature, key: Key, jit: Jit) -> None:
        """Compile for a key and publish it, unless it is in the store; nothing is loaded."""
        specialization = self._specialization(context, signature, key)

        def compile() -> Any:
            return self._compile(specialization, key, context, signature, is_kept=True)

        jit.get(key, 0, self._options.store, compile, lambda output: output)

    def _specialization(self, context: Context, signature: Signature, key: Key) -> Specialization:
        return Specialization(
            self._options.function,
            self._options.name,
            key,
            signature.arguments,
            context.env,
            context.target,
            lambda: self._text(context),
        )

    def _compile(
        self,
        specialization: Specialization,
        key: Key,
        context: Context,
        signature: Signature,
        *,
        is_kept: bool,
    ) -> Any:
        # What is shown of a key is what it was made of, not what that has become.
        key._settle()
        reasons = self._reasons(key, is_kept)
        self._last = lambda: "miss: " + "; ".join(reasons())
        log.miss(self._options.name, reasons)
        self._counts["compiled"] += 1
        try:
            output = self._options.compile(specialization)
        except ValuesNeeded:
            self._counts["compiled"] -= 1
            raise
        finally:
            signature.release()
        # What the compiler has seen may not be what the key says.
        if not all(guards.check() for guards in (*context.guards, *signature.guards)):
            raise ChangedMeanwhile
        self._keys.append(key)
        del self._keys[:-_MOST_KEYS]
        if is_kept and isinstance(output, Artifact):
            return dict(output.parts), output.metadata
        return output

    def _load(self, output: Any, specialization: Specialization) -> Any:
        """Make an entry of the store executable, or what the compiler returned."""
        by = "compile"
        if self._options.load is not None:
            by = "load"
            if isinstance(output, Entry):
                artifact = Artifact({}, output.metadata, _entry=output)
            else:
                artifact = output if isinstance(output, Artifact) else Artifact(output)
            artifact.specialization = specialization
            output = self._options.load(artifact)
        if not isinstance(output, NativeCode) and not callable(output):
            raise TypeError(
                f"`{by}` returned {_short_text(output)}, expected something callable or `keyprint.NativeCode`"
            )
        self._counts["loaded"] += 1
        return output

    def _reasons(self, key: Key, is_kept: bool) -> Callable[[], list[str]]:
        """Return what says why there is nothing for a key: what differs from the nearest that there is.

        Finding the nearest takes longer than looking a key up, so it is done when somebody asks.
        """
        store = self._options.store if is_kept else None
        known, now = tuple(self._keys), time.time()

        changes: list[str] = []

        def reasons() -> list[str]:
            if not changes and store is not None:
                changes[:] = store.why(key, before=now) or ["first compile"]
            elif not changes:
                compared = [other.compare(key) for other in known]
                nearest = min(compared, key=len) if compared else ["first compile"]
                changes[:] = nearest
            return changes

        return reasons

    def _text(self, context: Context) -> str | None:
        root = context.resolution.root
        assert root is not None
        return self._options.rules.sources.text(root.source, root.function.__globals__)

    def forget(self) -> None:
        """Forget what is loaded, and what it was loaded for."""
        self._jit.clear()
        self._keys.clear()
        self._last = None

    def __len__(self) -> int:
        return len(self._jit)
