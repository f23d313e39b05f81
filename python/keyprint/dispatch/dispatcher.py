"""The dispatcher of a kernel: what the launcher asks when a call needs something that it does not have.

It holds state and delegates: :mod:`.context` reads what counts besides the arguments, :mod:`.signatures` what counts
of them, :mod:`.drift` decides what a change means, :mod:`.compilation` compiles and loads.
"""

from __future__ import annotations

from .._native import (
    ArgumentGuard,
    Check,
    Source,
    _add_context,
    _add_entry,
    _forget_contexts,
    _has_context,
    fingerprint,
)
from ..fingerprints.shown import Shown
from ..functions.key import FunctionKey
from ..functions.memo import Memo
from ..functions.resolution import resolve
from ..lazy import BUSY
from ..locks import ProcessLock
from ..store.keys import Key
from .compilation import ChangedMeanwhile, Compilation
from .context import Context, read_context
from .drift import Drift
from .parameters import defaults_of, signature_stub
from .signatures.signature import make_one, make_signature
from .specialization import LiveTarget, NativeCode, ValuesNeeded
from .values_needed import NeededValues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from ..functions.resolution import Resolution
    from .options import KernelOptions
    from .signatures.signature import Signature

__all__ = ["Dispatcher"]

#: Contexts beyond this are made again when they come back.
_MOST_CONTEXTS: Final = 16


class Dispatcher:
    """What a kernel knows, and how it gets to know it."""

    def __init__(self, options: KernelOptions) -> None:
        self.options = options
        self.kernel: Callable[[], Any] = lambda: None
        self.counts = dict.fromkeys(("compiled", "key_made", "loaded", "refreshed", "stored", "validated"), 0)
        self.compilation = Compilation(options, self.counts)
        self._drift = Drift(options.name, options.on_drift)
        self._memo = Memo(self._drift.check)
        self._needed = NeededValues(options)
        #: Held while what the kernel depends on is replaced.
        self._lock = ProcessLock()
        #: What the function reached when it was last looked at.
        self._baseline: Resolution | None = None
        self._contexts: dict[tuple[object, ...], Context] = {}

    @property
    def function(self) -> Any:
        """The function that is compiled."""
        return self.options.function

    @property
    def name(self) -> str:
        """What people know the kernel as."""
        return self.options.name

    def function_key(self) -> FunctionKey:
        """Return the key of the function as it is now."""
        rules = self.options.rules
        return FunctionKey(
            self.function,
            packages=rules.packages,
            ignore=rules.ignore,
            compiled_by=rules.compiled_by,
            store=self.options.store,
        )

    def functions(self) -> list[Any]:
        """Return the functions that the kernel consists of: those it reaches, and methods of its arguments."""
        met = [entry for resolution in self._memo.resolutions() for entry in resolution.entries]
        return [*self.function_key()._resolution.entries, *met]

    def forget(self) -> None:
        """Forget what was loaded, and what the function depended on."""
        with self._lock:
            self._baseline = None
            self._contexts.clear()
            self._memo.forget()
            self.compilation.forget()

    # -- Called by the launcher --------------------------------------------------------------------

    def refresh(self, target: tuple[Any, ...]) -> Context:
        """Look at everything but the arguments, and tell the kernel.

        ``target`` holds what the target function said, if there is one.
        """
        known = self._baseline
        # Nothing is locked meanwhile: following imports may wait for other threads.
        resolution = known
        with BUSY:
            if known is None or not known.guards.check():
                resolution = resolve(self.function, self.options.rules)
            assert resolution is not None
            context = read_context(self.options, resolution, target)
        with self._lock:
            self.counts["refreshed"] += 1
            if resolution is not known:
                self._replace_baseline(resolution, is_first=known is None)
            # A target that is made anew for each call may be one that was seen before.
            known_context = self._contexts.setdefault(context.place(), context)
            while len(self._contexts) > _MOST_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
        kernel = self.kernel()
        if known_context is context or not _has_context(kernel, known_context):
            # What is known of the context is known anew.
            known_context.guards = context.guards
            telling = [guards for guards in context.guards if len(guards)]
            _add_context(kernel, known_context, telling, target, defaults_of(self.function))
        return known_context

    def _replace_baseline(self, resolution: Resolution, *, is_first: bool) -> None:
        baseline = self._baseline
        if baseline is not None and resolution.fingerprint != baseline.fingerprint:
            self._drift.check(self.name, baseline, resolution)
        self._baseline = resolution
        if not is_first:
            # What was captured before is not kept for a time when it may come back: its key is enough.
            self._contexts.clear()
            _forget_contexts(self.kernel())

    def miss(self, context: Context, arguments: tuple[Any, ...]) -> bool:
        """Find or make the executable for arguments, and tell the kernel.

        Return whether the context is still what it was.
        """
        by_name = dict(zip(self.options.names, arguments, strict=True))
        self._needed.recall(context)
        while True:
            with BUSY:
                signature = make_signature(
                    by_name, context.resolution, self.options.rules, self.options.arguments, self._memo
                )
                aimed = self._aimed(context, signature)
                key = self._key(aimed, signature)
            try:
                loaded = self.compilation.executable(aimed, signature, key)
                break
            except ChangedMeanwhile:
                self._drift.changes_itself = True
                return False
            except ValuesNeeded as needed:
                if not self._needed.add(context, needed):
                    raise
        self._drift.changes_itself = False
        self._add_entry(context, signature, arguments, loaded, self._builders(by_name))
        return True

    def mismatch(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Raise what Python raises for arguments that do not fit."""
        signature_stub(self.function)(*arguments, **keywords)

    def _aimed(self, context: Context, signature: Signature) -> Context:
        """Return the context with the target that the arguments of a call decide."""
        live = self.options.target
        if not isinstance(live, LiveTarget) or live.choose is None:
            return context
        target = live.choose(context.target, signature.arguments)
        if target is context.target:
            return context
        return context.aimed_at(target, None if live.show is None else live.show(target))

    # -- Keys, and what recognises arguments --------------------------------------------------------

    def _key(self, context: Context, signature: Signature) -> Key:
        self.counts["key_made"] += 1
        components = {**context.components, **signature.components}
        components["options"] = fingerprint(self.options.identity())
        texts = {**context.texts, **signature.texts}
        shown: dict[str, Any] = {name: Shown(text) for name, text in texts.items()}
        shown.update(context.shown)
        shown.update(signature.shown)
        shown["options"] = self.options.shown()
        return Key(self.name, components, shown=shown, tool=self.options.tool)

    def _add_entry(
        self,
        context: Context,
        signature: Signature,
        arguments: tuple[Any, ...],
        loaded: Any,
        builders: Mapping[int, Any],
    ) -> None:
        """Tell the kernel what runs for arguments such as these."""
        kernel = self.kernel()
        if builders:
            # What the annotations built is what is handed on.
            executable: Any = _building(kernel if isinstance(loaded, NativeCode) else loaded, builders)
        else:
            executable = loaded.as_call(signature.arguments) if isinstance(loaded, NativeCode) else loaded
        try:
            _add_entry(kernel, context, arguments, signature.argument_guards, signature.guards, executable)
        except ValueError:
            if isinstance(loaded, NativeCode):
                raise
            # Something cannot be compared without Python: the whole signature is made at each call.
            slow = self._slow_guards(context, arguments)
            _add_entry(kernel, context, arguments, slow, signature.guards, executable)

    def _builders(self, arguments: Mapping[str, Any]) -> dict[int, Any]:
        """Return the classes that build arguments of a call from raw values, by position."""
        known = self.options.arguments.builders
        return {
            at: known[name].cls
            for at, (name, value) in enumerate(arguments.items())
            if name in known and not known[name].takes(value)
        }

    def _slow_guards(self, context: Context, arguments: tuple[Any, ...]) -> list[ArgumentGuard]:
        """Return guards that make the signature of each argument anew."""
        import functools

        def digest(name: str, value: Any) -> bytes:
            rules, options = self.options.rules, self.options.arguments
            return make_one(name, value, context.resolution, rules, options, self._memo)

        return [
            ArgumentGuard(
                Source.argument(at),
                Check.signature(functools.partial(digest, name), digest(name, arguments[at])),
            )
            for at, name in enumerate(self.options.names)
        ]


def _building(call: Callable[..., Any], builders: Mapping[int, Any]) -> Callable[..., Any]:
    """Return something that builds arguments from raw values, and calls with them."""

    def build(*arguments: Any) -> Any:
        return call(
            *(builders[at](argument) if at in builders else argument for at, argument in enumerate(arguments))
        )

    return build
