"""What a step is, and what its inputs are: by meaning, not by name.

The identity of a step is its function key: what its functions do, everything that they reach, the configuration
of the objects in it, what their classes define, and the versions of the packages behind it. It is looked at again
in each call, so that a change in the same process is seen.

Values that are inputs count by their fingerprint; functions and classes of the program among them count by
meaning too, and packages by version.
"""

from __future__ import annotations

import functools
import sys
import types
from _weakref import ref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Literal, TypeAlias

from .._native import Fingerprint, Fingerprinter, fingerprint
from ..errors import FingerprintError, FunctionKeyError
from ..fingerprints import rule
from ..fingerprints.kinds import module_of_class
from ..fingerprints.shown import ShownParts
from ..functions import observable
from ..functions.interpreter import INTERPRETER
from ..functions.memo import Memo
from ..functions.packages import Packages
from ..functions.resolution import Resolution, Rules, resolve
from ..functions.sources import Sources
from ..store.keys import KEYPRINT
from .names import check_named

__all__ = ["ChainIdentity", "InputIdentity", "Mode", "StepIdentity", "identity_of"]

#: Strict for what outlives the process.
Mode: TypeAlias = Literal["strict", "lenient"]

#: Namespaces of field metadata under which a field can opt out.
_METADATA: Final = ("keyprint", "GT4PY_META")


class Parts:
    """What a step depends on: components by name, a text for each, what is in them, and the digest over all."""

    __slots__ = ("components", "fingerprint", "parts", "texts")

    def __init__(self) -> None:
        self.components: dict[str, Fingerprint] = {}
        self.texts: dict[str, str] = {}
        self.parts: dict[str, ShownParts] = {}
        self.fingerprint = fingerprint(None)


class StepIdentity:
    """What a step depends on, as it is now."""

    def __init__(self, step: Any, *, mode: Mode, packages: Packages | None = None) -> None:
        if mode == "strict":
            check_named(step, _METADATA)
        self._step = step
        self._rules = rules_for(mode, packages)
        self._resolution: Resolution | None = None

    def parts(self) -> Parts | Resolution:
        """Return everything that the step depends on; looked at anew if something has changed."""
        known = self._resolution
        if known is not None and known.guards.check():
            return known
        try:
            resolution = self._resolution = resolve(self._step, self._rules, label="step")
        except FunctionKeyError as error:
            raise _with_ways_out(error) from error
        return resolution


class ChainIdentity:
    """What steps one after the other depend on: each is looked at once, in however many chains it is."""

    def __init__(self, steps: list[StepIdentity | ChainIdentity]) -> None:
        self._steps = steps
        self._known: tuple[list[Parts | Resolution], Parts] | None = None

    def parts(self) -> Parts | Resolution:
        """Return everything that the steps depend on."""
        by_step = [step.parts() for step in self._steps]
        known = self._known
        if known is not None and all(
            before is other for before, other in zip(known[0], by_step, strict=True)
        ):
            return known[1]
        parts = Parts()
        for at, step_parts in enumerate(by_step):
            for label, digest in step_parts.components.items():
                name = label if parts.components.get(label, digest) == digest else f"{label} (step {at + 1})"
                parts.components[name] = digest
                parts.texts[name] = step_parts.texts.get(label, "")
                if label in step_parts.parts:
                    parts.parts[name] = step_parts.parts[label]
        parts.fingerprint = fingerprint(
            ("keyprint chain", [bytes(step_parts.fingerprint) for step_parts in by_step])
        )
        parts.components["chain"] = parts.fingerprint
        parts.texts["chain"] = f"{len(by_step)} steps"
        self._known = by_step, parts
        return parts


#: What some classes of steps consist of, by class: a list of steps, or the one step that does the work.
_TAKEN_APART: Final[dict[type, Callable[[Any, Packages | None], Any]]] = {}

#: Decorators that do not change what a function does.
_DECORATORS: Final[list[object]] = []


def register_step(cls: type, consists_of: Callable[[Any, Packages | None], Any]) -> None:
    """Say what the steps of a class, and of no subclass, consist of: ``consists_of(step, packages)``."""
    _TAKEN_APART[cls] = consists_of


def register_decorator(decorator: object) -> None:
    """Say that a decorator does not change what a function does."""
    _DECORATORS.append(decorator)


#: Identities of steps that are alive, by address and how they count.
_known: dict[tuple[int, Mode], tuple[Any, StepIdentity]] = {}


def identity_of(step: Any, *, mode: Mode, packages: Packages | None = None) -> StepIdentity | ChainIdentity:
    """Return the identity of a step; the same for all who ask, as long as the step is alive."""
    # A subclass may do something else than its base: then it counts like any other object.
    taken_apart = _TAKEN_APART.get(type(step))
    inner = None if taken_apart is None else taken_apart(step, packages)
    if isinstance(inner, list):
        return ChainIdentity([identity_of(inner_step, mode=mode, packages=packages) for inner_step in inner])
    if inner is not None:
        return identity_of(inner, mode=mode, packages=packages)
    if packages is not None:
        return StepIdentity(step, mode=mode, packages=packages)
    place = (id(step), mode)
    known = _known.get(place)
    if known is not None and known[0]() is step:
        return known[1]
    identity = StepIdentity(step, mode=mode)
    if type(step).__weakrefoffset__:
        # Bound here, because modules are gone when the last steps are.
        forget = functools.partial(_known.pop, place, None)
        _known[place] = ref(step, lambda _: forget() and None), identity
    return identity


def rules_for(mode: Mode, packages: Packages | None = None) -> Rules:
    """Return how the functions of steps are followed."""
    return Rules(
        packages or Packages(),
        Sources(),
        compiled_by=tuple(_DECORATORS),
        mode=mode,
        writable_arrays=True,
        metadata_keys=_METADATA,
    )


def _with_ways_out(error: FunctionKeyError) -> FunctionKeyError:
    """Add what else can be done about a step that cannot be followed."""
    ways = (
        "or say what counts: `step_key='code'` takes the code of the step's own functions, `step_key=function` "
        "whatever that returns, together with `tool=(name, version)`"
    )
    hint = ways if error.hint is None else f"{error.hint}; {ways}"
    return FunctionKeyError(str(error.args[0]), code=error.code, hint=hint)


class InputIdentity:
    """What inputs are: values by their fingerprint, functions and classes of the program by meaning."""

    def __init__(self, *, mode: Mode, packages: Packages | None = None) -> None:
        self._rules = rules_for(mode, packages)
        self._memo = Memo(lambda *_: None)
        #: Versions of packages that were met, for each thread that is at work.
        self._versions: dict[int, set[tuple[str, str]]] = {}
        overrides: dict[type, Any] = {
            **observable.rules(),
            types.FunctionType: self._note,
            types.ModuleType: self._note,
            type: self._note,
        }
        enum = sys.modules.get("enum")
        if enum is not None:
            overrides[enum.EnumMeta] = self._note
        self._fingerprinter = Fingerprinter(mode=mode, overrides=overrides, metadata_keys=_METADATA)

    def _note(self, value: Any) -> Any:
        """Describe a function, class or module: by meaning if it is the program's, otherwise by name and version."""
        module = value.__name__ if isinstance(value, types.ModuleType) else _module_of(value)
        version = self._rules.packages.version_of(module) if isinstance(module, str) else None
        called = getattr(value, "__name__", "?")
        name = f"{module}.{getattr(value, '__qualname__', called)} {called}"
        if version is None and module != "builtins":
            return rule.ordered(name, bytes(self._meaning(value).fingerprint), tag="keyprint meaning")
        if version is not None:
            self._versions[get_ident()].add(version)
            if isinstance(value, types.FunctionType) and (value.__closure__ or vars(value)):
                # What the program put into a function of a package: a decorator, or a table of dispatch.
                return rule.ordered(name, bytes(self._meaning(value).fingerprint), tag="keyprint meaning")
        return rule.leaf(name, tag="keyprint name")

    def fingerprint(self, value: Any) -> Fingerprint:
        """Return the fingerprint of an input."""
        thread = get_ident()
        outer = self._versions.get(thread)
        versions: set[tuple[str, str]] = set()
        self._versions[thread] = versions
        try:
            whole, classes, _ = self._fingerprinter._with_classes(value)
        except FingerprintError as error:
            if isinstance(error.__cause__, FunctionKeyError):
                raise error.__cause__ from error
            raise
        finally:
            # What is fingerprinted may fingerprint something itself.
            if outer is None:
                del self._versions[thread]
            else:
                self._versions[thread] = outer
        counted: list[tuple[str, bytes]] = []
        for cls in classes:
            version = self._rules.packages.version_of(module_of_class(cls))
            if version is not None:
                versions.add(version)
            elif module_of_class(cls) != "builtins":
                counted.append((_reference(cls), bytes(self._meaning(cls).fingerprint)))
        # The versions of Keyprint and of the interpreter are components of every key.
        versions -= {KEYPRINT, INTERPRETER}
        if not counted and not versions:
            return whole
        parts = ("keyprint input", bytes(whole), sorted(counted), sorted(versions))
        return Fingerprint(bytes(fingerprint(parts)), durable=whole.durable)

    def of_class(self, cls: type) -> Fingerprint:
        """Return what a class and its bases define."""
        return self._meaning(cls).fingerprint

    def _meaning(self, value: Any) -> Resolution:
        try:
            return self._memo.of(value, self._rules)
        except FunctionKeyError as error:
            raise FunctionKeyError(
                f"{_reference(value)} is among the inputs, and what it does cannot be identified: {error.args[0]}",
                code=error.code,
                hint=f"{error.hint}; or say what counts of the inputs with `input_key=`",
            ) from error


def _module_of(value: Any) -> Any:
    """Return the module that something belongs to; a function to the one that it was written in."""
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__")
    return getattr(value, "__module__", None)


def _reference(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return f"module `{value.__name__}`"
    kind = "class" if isinstance(value, type) else "function"
    return f"{kind} `{module_of_class(value)}.{value.__qualname__}`"
