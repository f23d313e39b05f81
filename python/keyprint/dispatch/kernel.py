"""The dispatcher: a function that is compiled for the arguments it is called with, when it must be.

:func:`jit` makes a kernel of a function, a compiler and a loader. Calling the kernel finds the executable
for the arguments at hand: in memory, in a store, or by compiling. What counts is not up to the compiler:
the function's source and helpers, globals, closures, the environment, the target and the arguments it
really reads are all part of the key, and are looked at in every call.
"""

from __future__ import annotations

import os
import types
from _thread import RLock, _local, allocate_lock
from _weakref import ref

from .._native import (
    Fingerprint,
    Guards,
    _add_entry,
    _add_world,
    _forget_worlds,
    _has_world,
    _kernel_stats,
    _kernel_type,
    _make_kernel,
    _resume,
    fingerprint,
)
from ..errors import DriftError, FingerprintError, FunctionKeyError
from ..fingerprints import rule
from ..fingerprints.shown import Shown, ShownParts
from ..functions.key import FunctionKey, describe_changes, unwrap
from ..functions.memo import Memo
from ..functions.packages import Packages
from ..functions.registered import count_by
from ..functions.resolution import Resolution, Rules, resolve
from ..functions.sources import Sources
from ..lazy import BUSY
from ..store.keys import KEYPRINT, Key
from . import log as explain
from .parameters import builders_of, defaults_of, parameters_of, twin_of
from .signature import Options, Signature, make_one, make_signature
from .specialization import Artifact, LiveTarget, NativeCode, Specialization, Target, ValuesNeeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final

    from .._native import Entry
    from ..store.keys import Tool
    from ..store.stores import Store

__all__ = ["Kernel", "Observations", "jit"]

#: Contexts beyond this are made again when they come back.
_MOST_CONTEXTS = 16

#: Executables beyond this are loaded again when they come back.
_MOST_LOADED = 1024

#: How deep a thread is in compilers.
_compiling = _local()

#: Entering every key: read with the environment of each call.
_SALT = "KEYPRINT_CACHE_VERSION"


class Observations:
    """What a kernel did so far, counted.

    ``launches``: calls. ``key_made``: keys that were made, one for each new signature. ``validated``: artifacts
    that were found in the store, and verified. ``compiled``: calls of the compiler. ``stored``: artifacts that
    were published. ``loaded``: executables that were loaded. ``refreshed``: looks at everything that the
    function depends on. ``files_parsed``: source files that no table was kept of.
    """

    __slots__ = (
        *("compiled", "files_parsed", "key_made", "launches", "loaded", "refreshed", "stored", "validated"),
    )

    def __init__(self, **counts: int) -> None:
        for name in self.__slots__:
            setattr(self, name, counts.get(name, 0))

    def __repr__(self) -> str:
        return f"Observations({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


class _KernelMethods:
    """What kernels can do besides being called."""

    __slots__ = ()

    def why(self) -> str:
        """Say why the last call had to compile, or where it found its executable."""
        brain = self._brain
        if brain.last is None:
            return "never called"
        _, hits, _ = _kernel_stats(self)
        return "hit: in memory" if hits else brain.last

    @property
    def observations(self) -> Observations:
        """What the kernel did so far."""
        brain = self._brain
        launches, _, _ = _kernel_stats(self)
        return Observations(launches=launches, files_parsed=brain.rules.sources.parsed, **brain.counts)

    @property
    def function_key(self) -> FunctionKey:
        """The key of the function as it is now."""
        return self._brain.function_key()

    def forget(self) -> None:
        """Forget what was loaded, and what the function depended on: the next call looks at everything anew."""
        self._brain.forget()
        _forget_worlds(self)

    def resume(self, /, *arguments: Any, from_checkpoint: Any, **named: Any) -> Any:
        """Call the kernel, beginning at a checkpoint: what is before it is not run."""
        return _resume(self, from_checkpoint, arguments, named)

    @property
    def _brain(self) -> _Brain:
        return self.__dict__["_brain"]  # type: ignore[no-any-return]

    def __keyprint_function__(self) -> types.FunctionType:
        return self._brain.function

    def __keyprint_options__(self) -> object:
        return self._brain.identity()

    def __reduce__(self) -> str:
        # By reference: as functions are.
        return str(self.__dict__["__qualname__"])

    def __repr__(self) -> str:
        return f"<Kernel {self.__dict__['__module__']}.{self.__dict__['__qualname__']}>"


# What people see if they forget an argument.
_KernelMethods.resume.__qualname__ = "Kernel.resume"

#: The type of kernels.
Kernel: Any = _kernel_type(_KernelMethods)

# Where another function reaches a kernel.
count_by(
    Kernel,
    lambda kernel: rule.ordered(
        kernel.__wrapped__, type(kernel).__keyprint_options__(kernel), tag="keyprint kernel"
    ),
)


def jit(
    function: Any = None,
    *,
    compile: Callable[[Specialization], Any],
    load: Callable[[Artifact], Any] | None = None,
    store: Store | Callable[[], Store | None] | None = None,
    env: Iterable[str] = (),
    target: Any = None,
    static: Iterable[str] = (),
    align: Mapping[str, int] | None = None,
    divisible: Mapping[str, int] | None = None,
    members: str = "value",
    on_drift: str = "raise",
    tool: Tool | None = None,
    packages: Packages | None = None,
    ignore: Iterable[str] = (),
    compiled_by: Iterable[object] = (),
    scalars: Mapping[str, str] | None = None,
    open_members: Iterable[str] = (),
    templates: Iterable[str] = (),
    on_opaque: Callable[[str, Any], None] | None = None,
    absent_members: bool = False,
    variant: object = None,
) -> Any:
    """Make a kernel of a function; without one, return a decorator.

    ``compile(specialization)`` is called on a true miss, and returns an artifact: bytes, a dict of bytes by
    name, or an :class:`~keyprint.Artifact` with metadata. ``load(artifact)`` makes it executable: it returns
    something to be called with the arguments, or :class:`~keyprint.NativeCode`. Without ``load``, what
    ``compile`` returns is executable itself, and stays in memory. ``store`` keeps artifacts: a store, or a
    function that returns one.

    ``env`` names environment variables that count. ``target`` is what to compile for: a value, or a function
    without parameters, which is called at *each* launch and should be quick. ``static`` names parameters that
    count by value. ``align`` (``{"x": 16}``) specialises on whether the first element of an array lies at a
    multiple, ``divisible`` on whether an int is 1, a multiple, or neither. ``members="type"`` has numbers in
    objects count by type, for compilers that pass them at run time; ``open_members`` names parameters of which
    that holds. ``templates`` names parameters that count by value if they are plain values, and as usual if they
    are arrays or objects. ``scalars`` (``{"n": "f32"}``) names parameters that are numbers of a type, whatever Python number
    is given. A compiler that needs to know the value of a member, or of a parameter, raises
    :class:`~keyprint.ValuesNeeded`: from then on it counts by value, in this process and in others.
    ``on_opaque(path, value)`` is told of arguments of which nothing says what counts, which are refused without it:
    the compiler says what it reads of them (``value`` of such an argument is the object and a
    recorder), and what it makes stays in memory. Members that are read and not there are refused; with
    ``absent_members`` the compiler is told of them instead, and refuses them itself. ``variant`` is whatever else
    tells what the compiler makes of the function: a plain value, which is part of the key.

    When a global or anything else that the function reads changes after it was compiled, the next call raises
    :class:`~keyprint.DriftError`; with ``on_drift="rekey"`` it compiles again, or finds what it had before.

    The rest is as for :class:`~keyprint.Key` (``tool``) and :class:`~keyprint.FunctionKey`.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "function"}

    def make(function: Any) -> Any:
        return _make(function, options)

    return make if function is None else make(function)


def _make(function: Any, options: dict[str, Any]) -> Any:
    wrap = type(function) if isinstance(function, (staticmethod, classmethod)) else None
    if isinstance(function, Kernel):
        raise FunctionKeyError(
            f"{function!r} is a kernel already", code="no-function", hint="pass the function itself"
        )
    if isinstance(function, types.MethodType):
        raise FunctionKeyError(
            f"`{function.__qualname__}` is bound to an object, which would not be an argument any more",
            code="no-function",
            hint="decorate the method in its class, or pass the function and give it the object",
        )
    brain = _Brain(unwrap(function), options)
    code = brain.function.__code__
    kernel = _make_kernel(
        *(brain, brain.names, code.co_posonlyargcount, code.co_argcount),
        brain.target if callable(brain.target) else None,
    )
    brain.kernel = ref(kernel)
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        kernel.__dict__[name] = getattr(brain.function, name)
    kernel.__dict__["__wrapped__"] = brain.function
    kernel.__dict__["_brain"] = brain
    return kernel if wrap is None else wrap(kernel)


class _ChangedMeanwhile(Exception):
    """Something that counts changed while it was compiled."""


class _Flight:
    """A compile in progress, and how many threads are there for it."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = RLock()
        self.waiting = 0


class _Threads:
    """What the threads of one process exclude each other by. A forked child has none of its parent's threads."""

    __slots__ = ("flights", "lock", "process", "world")

    def __init__(self) -> None:
        self.process = os.getpid()
        #: Guards resolution: one thread looks at the world at a time.
        self.world = RLock()
        self.flights: dict[tuple[str, Any], _Flight] = {}
        self.lock = allocate_lock()


#: How long a thread waits for another that compiles the same, in seconds: then it compiles by itself.
_MOST_WAIT: Final = 600.0

#: Held by whoever begins anew after a fork.
_forked = allocate_lock()


def _after_fork() -> None:
    global _forked
    _forked = allocate_lock()


os.register_at_fork(after_in_child=_after_fork)


class _Context:
    """Everything that counts but the arguments, at one moment."""

    __slots__ = ("components", "device", "env", "guards", "resolution", "salt", "shown", "target", "texts")

    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution
        self.components: dict[str, Fingerprint] = dict(resolution.components)
        self.texts: dict[str, str] = dict(resolution.texts)
        #: What is shown of components, where that is more than a text.
        self.shown: dict[str, Any] = dict(resolution.parts)
        self.guards: list[Guards] = []
        self.env: dict[str, str | None] = {}
        self.salt: str | None = None
        self.target: Any = None
        self.device: Any = None

    def place(self) -> tuple[object, ...]:
        """Return what tells contexts apart: the same guards speak for all that is equal here."""
        env = (self.salt, *self.env.values())
        return self.resolution, env, bytes(self.components["target"]), self.device


class _Brain:
    """What a kernel knows, and how it gets to know it."""

    def __init__(self, function: types.FunctionType, options: dict[str, Any]) -> None:
        self.function = function
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.names = parameters_of(function)
        self.compile: Callable[[Specialization], Any] = _callable("compile", options["compile"])
        self.load: Callable[[Artifact], Any] | None = options["load"]
        self._store: Any = options["store"]
        if self.load is not None:
            _callable("load", self.load)
        elif self._store is not None:
            raise TypeError(
                "`store` keeps bytes, and nothing says how to load them\nhint: give `load` as well as `store`"
            )
        self.env = _names("env", options["env"])
        for name in self.env:
            if any(character in name for character in "*?[="):
                raise TypeError(
                    f"`env` names `{name}`, which no environment variable can be called\n"
                    "hint: patterns are not expanded; name each variable that counts"
                )
        self.target = options["target"]
        static = frozenset(_names("static", options["static"]))
        align, divisible = dict(options["align"] or {}), dict(options["divisible"] or {})
        for what, given in (("static", static), ("align", align), ("divisible", divisible)):
            for name in given:
                if name not in self.names:
                    raise TypeError(
                        f"`{what}` names `{name}`, and `{function.__qualname__}` has no such parameter"
                    )
        for what, numbers in (("align", align), ("divisible", divisible)):
            for name, number in numbers.items():
                if type(number) is not int or number < 1:
                    raise TypeError(f"`{what}` gives a positive int for `{name}`, found {number!r}")
        if options["members"] not in ("value", "type"):
            raise ValueError(f"`members` is 'value' or 'type', found {options['members']!r}")
        if options["on_drift"] not in ("raise", "rekey"):
            raise ValueError(f"`on_drift` is 'raise' or 'rekey', found {options['on_drift']!r}")
        self.on_drift: str = options["on_drift"]
        self.tool: Tool = options["tool"] or KEYPRINT
        self.variant: object = options["variant"]
        scalars = dict(options["scalars"] or {})
        annotations = {name: one for name, one in builders_of(function).items() if name not in scalars}
        open_members = frozenset(_names("open_members", options["open_members"]))
        self.options = Options(
            *(static, align, divisible, options["members"], annotations, scalars, open_members),
            frozenset(_names("templates", options["templates"])),
        )
        self.options.on_opaque = options["on_opaque"]
        self.options.absent_members = bool(options["absent_members"])
        self.rules = Rules(
            options["packages"] or Packages(),
            Sources(self._store),
            _names("ignore", options["ignore"]),
            (jit, *options["compiled_by"]),
        )
        self.kernel: Callable[[], Any] = lambda: None
        self.counts = dict.fromkeys(("compiled", "key_made", "loaded", "refreshed", "stored", "validated"), 0)
        self.last: str | None = None
        self._memo = Memo(self._drifted)
        self._baseline: Resolution | None = None
        #: Whether something that counts changed while it was compiled last.
        self._changes_itself = False
        self._contexts: dict[tuple[object, ...], _Context] = {}
        self._threads = _Threads()
        #: What is loaded, by key and device.
        self._loaded: dict[tuple[str, Any], Any] = {}
        #: Keys of this process, to say what changed where no store does.
        self._keys: list[Key] = []
        #: Functions for which it is known what other processes needed.
        self._recalled: set[bytes] = set()

    @property
    def store(self) -> Store | None:
        """Where artifacts are kept, now."""
        found: Store | None = self._store() if callable(self._store) else self._store
        return found

    def identity(self) -> tuple[object, ...]:
        """Return the options that change what is compiled."""
        options = self.options
        return (
            *(sorted(options.static), sorted(options.align.items()), sorted(options.divisible.items())),
            *(options.members, sorted(options.scalars.items()), sorted(options.open_members)),
            *(sorted(options.templates), options.absent_members),
            *(tuple(self.tool), self._compiler(), self.variant),
        )

    def _shown_options(self) -> dict[str, Any]:
        """Return the options that change what is compiled, for people."""
        options = self.options
        compilers = {
            what: ShownParts(f"{module}.{name}", [("", fingerprint(digest), "")])
            for what, (module, name, digest) in zip(("compile", "load"), self._compiler(), strict=True)
        }
        known: dict[str, Any] = {
            "static": sorted(options.static),
            "align": dict(options.align),
            "divisible": dict(options.divisible),
            "members": options.members,
            "scalars": dict(options.scalars),
            "open_members": sorted(options.open_members),
            "templates": sorted(options.templates),
            "absent_members": options.absent_members,
            "variant": self.variant,
            **compilers,
        }
        return {name: value for name, value in known.items() if value not in ([], {}, None, False)}

    def _compiler(self) -> tuple[tuple[object, str, bytes | None], ...]:
        """Return what tells compilers apart: names if ``tool`` says which version it is, otherwise their text."""
        found = []
        for one in (self.compile, self.load):
            inner: Any = getattr(one, "__func__", one)
            code = getattr(inner, "__code__", None)
            digest = None
            if isinstance(code, types.CodeType) and self.tool is KEYPRINT:
                source = self.rules.sources.of(code, inner.__globals__)
                digest = bytes(source.code if source.function is None else source.function.digest)
            name = getattr(inner, "__qualname__", type(inner).__qualname__)
            found.append((getattr(inner, "__module__", None), name, digest))
        return tuple(found)

    def function_key(self) -> FunctionKey:
        rules = self.rules
        return FunctionKey(
            self.function,
            packages=rules.packages,
            ignore=rules.ignore,
            compiled_by=rules.compiled_by,
            store=self.store,
        )

    def functions(self) -> list[Any]:
        """Return the functions that the kernel consists of: those it reaches, and methods of its arguments."""
        met = [entry for one in self._memo.resolutions() for entry in one.entries]
        return [*self.function_key()._resolution.entries, *met]

    def forget(self) -> None:
        with self._here().world:
            self._baseline = None
            self._contexts.clear()
            self._memo.forget()
            self._loaded.clear()
            self._keys.clear()
            self.last = None

    # -- What the kernel depends on ----------------------------------------------------------------

    def refresh(self, target: tuple[Any, ...]) -> _Context:
        """Look at everything but the arguments, and tell the kernel; called by it.

        ``target`` holds what the target function said, if there is one.
        """
        known = self._baseline
        # Nothing is locked meanwhile: following imports may wait for other threads.
        resolution = known
        with BUSY:
            if known is None or not known.guards.check():
                resolution = resolve(self.function, self.rules)
            assert resolution is not None
            context = _Context(resolution)
            guards = [resolution.guards, self._environment(context), self._read_target(context, target)]
        context.guards = guards
        with self._here().world:
            self.counts["refreshed"] += 1
            if resolution is not known:
                baseline = self._baseline
                if baseline is not None and resolution.fingerprint != baseline.fingerprint:
                    self._drifted(self.name, baseline, resolution)
                self._baseline = resolution
                if known is not None:
                    # What was captured before is not kept for a time when it may come back: its key is enough.
                    self._contexts.clear()
                    _forget_worlds(self.kernel())
            # A target that is made anew for each call may be one that was seen before.
            found = self._contexts.setdefault(context.place(), context)
            while len(self._contexts) > _MOST_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
        kernel = self.kernel()
        if found is context or not _has_world(kernel, found):
            # What is known of the context is known anew.
            found.guards = guards
            telling = [one for one in guards if len(one)]
            _add_world(kernel, found, telling, target, defaults_of(self.function))
        return found

    def _drifted(self, name: str, known: Resolution, found: Resolution) -> None:
        """Refuse to go on, or say that the key changes."""
        lines = describe_changes(known, found)
        news = [label for label, digest in known.components.items() if digest != found.components.get(label)]
        # What was not there before could not be compiled in.
        if all(known.texts.get(label) == "not defined" for label in news):
            return
        if self.on_drift == "rekey":
            explain.log("debug", f"`{self.name}` follows a change: {'; '.join(lines)}")
            return
        what = "\n".join(f"  {line}" for line in lines)
        if self._changes_itself:
            raise DriftError(
                f"`{name}` changed while it was compiled:\n{what}",
                code="drift",
                hint="the function or its compiler changes what the function reads (looking up a missing key of a "
                "`defaultdict` adds it, an iterator moves on): read it without changing it, or pass it as an argument",
            )
        raise DriftError(
            f"`{name}` was compiled for something that has changed since:\n{what}",
            code="drift",
            hint="pass what changes as an argument; or make the kernel with on_drift='rekey', which compiles "
            "again; or call `kernel.forget()` if the change is meant",
        )

    def _environment(self, context: _Context) -> Guards:
        names = (_SALT, *self.env)
        found, guards = _read_environment(names)
        while not guards.check():
            found, guards = _read_environment(names)
        context.salt = found[_SALT]
        context.env = {name: found[name] for name in self.env}
        for name, value in context.env.items():
            context.components[f"environment {name}"] = fingerprint(value)
            context.texts[f"environment {name}"] = "not set" if value is None else repr(value)
        return guards

    def _read_target(self, context: _Context, asked: tuple[Any, ...]) -> Guards:
        """Take note of the target; return what tells whether one that is given once and for all changes."""
        guards = Guards()
        context.target = asked[0] if asked else self.target
        if isinstance(context.target, LiveTarget):
            live = context.target
            live.fill()
            context.target = guards.name(live.state, "value")[0]
            if live.show is not None:
                context.shown["target"] = live.show(context.target)
        identity = context.target
        if isinstance(identity, Target):
            identity, context.device = identity.identity, identity.device
        watched = bool(asked) or guards.value(identity)
        try:
            digest = context.components["target"] = fingerprint(identity)
        except FingerprintError as error:
            raise FunctionKeyError(
                f"the target of `{self.name}` cannot be identified: {error}",
                code="unidentified",
                hint="describe it by plain values: architecture, features, versions",
            ) from error
        if not watched:
            guards.set_recheck(lambda: fingerprint(identity) == digest)
        context.texts["target"] = _short(identity)
        context.shown.setdefault("target", identity)
        return guards

    # -- A call that needs something new -----------------------------------------------------------

    def miss(self, context: _Context, arguments: tuple[Any, ...]) -> bool:
        """Find or make the executable for arguments, and tell the kernel; called by it.

        Return whether the context is still what it was.
        """
        by_name = dict(zip(self.names, arguments, strict=True))
        self._recall(context)
        while True:
            with BUSY:
                signature = make_signature(by_name, context.resolution, self.rules, self.options, self._memo)
                key = self._key(context, signature)
            try:
                loaded = self._executable(context, signature, key)
                break
            except _ChangedMeanwhile:
                self._changes_itself = True
                return False
            except ValuesNeeded as needed:
                if self.options.needed.issuperset(needed.paths):
                    raise
                self.options.needed |= set(needed.paths)
                self._record(context)
        self._changes_itself = False
        kernel = self.kernel()
        builders = self._builders(by_name)
        if builders:
            # What the annotations built is what is handed on.
            executable: Any = _building(kernel if isinstance(loaded, NativeCode) else loaded, builders)
        else:
            executable = loaded.as_call(signature.arguments) if isinstance(loaded, NativeCode) else loaded
        try:
            _add_entry(kernel, context, arguments, signature.steps, signature.guards, executable)
        except ValueError:
            if isinstance(loaded, NativeCode):
                raise
            # Something cannot be compared without Python: the whole signature is made at each call.
            steps = self._slow_steps(context, arguments)
            _add_entry(kernel, context, arguments, steps, signature.guards, executable)
        return True

    def _builders(self, arguments: Mapping[str, Any]) -> dict[int, Any]:
        """Return the classes that build arguments of a call from raw values, by position."""
        known = self.options.annotations
        return {
            at: known[name].cls
            for at, (name, value) in enumerate(arguments.items())
            if name in known and not known[name].takes(value)
        }

    # -- Values that compilers asked for -----------------------------------------------------------

    def _needs_key(self, context: _Context) -> Key:
        identity = fingerprint((bytes(context.resolution.fingerprint), self.identity()))
        return Key(f"values needed by {self.name}", {"function": identity}, tool=self.tool)

    def _recall(self, context: _Context) -> None:
        """Find out, once for each function, which values its compiler needed in other processes."""
        place = bytes(context.resolution.fingerprint)
        if self.store is None or place in self._recalled:
            return
        self._recalled.add(place)
        if context.resolution.is_fleeting:
            return
        entry = self.store.get(self._needs_key(context))
        if entry is not None and isinstance(entry.metadata, list):
            self.options.needed |= {str(path) for path in entry.metadata}

    def _record(self, context: _Context) -> None:
        """Tell other processes. One that is not told finds out for itself."""
        if self.store is not None and not context.resolution.is_fleeting:
            self.store.put(self._needs_key(context), b"", sorted(self.options.needed))

    def _slow_steps(self, context: _Context, arguments: tuple[Any, ...]) -> list[Any]:
        """Return steps that make the signature of each argument anew."""
        import functools

        def digest(name: str, value: Any) -> bytes:
            return make_one(name, value, context.resolution, self.rules, self.options, self._memo)

        return [
            (("argument", at), ("signature", functools.partial(digest, name), digest(name, arguments[at])))
            for at, name in enumerate(self.names)
        ]

    def _key(self, context: _Context, signature: Signature) -> Key:
        self.counts["key_made"] += 1
        components = {**context.components, **signature.components}
        components["options"] = fingerprint(self.identity())
        texts = {**context.texts, **signature.texts}
        shown: dict[str, Any] = {name: Shown(text) for name, text in texts.items()}
        shown.update(context.shown)
        shown.update(signature.shown)
        shown["options"] = self._shown_options()
        return Key(self.name, components, shown=shown, tool=self.tool)

    def _executable(self, context: _Context, signature: Signature, key: Key) -> Any:
        place = (key.hex(), context.device)
        loaded = self._find(place)
        if loaded is not None:
            return loaded
        # A compiler that launches other kernels must not wait for those who wait for it.
        is_nested = getattr(_compiling, "depth", 0) > 0
        threads = self._here()
        with threads.lock:
            flight = threads.flights.setdefault(place, _Flight())
            flight.waiting += 1
        try:
            # One thread makes it; others wait here and find it.
            if not flight.lock.acquire(False) and (is_nested or not flight.lock.acquire(timeout=_MOST_WAIT)):
                return self._remember(place, self._make(context, signature, key, alone=True))
            try:
                loaded = self._find(place)
                if loaded is None:
                    loaded = self._remember(place, self._make(context, signature, key, alone=is_nested))
                return loaded
            finally:
                flight.lock.release()
        finally:
            with threads.lock:
                flight.waiting -= 1
                if not flight.waiting:
                    threads.flights.pop(place, None)

    def _here(self) -> _Threads:
        """Return what threads of this process exclude each other by."""
        if self._threads.process != os.getpid():
            with _forked:
                if self._threads.process != os.getpid():
                    self._threads = _Threads()
        return self._threads

    def _find(self, place: tuple[str, Any]) -> Any:
        found = self._loaded.pop(place, None)
        if found is not None:
            # The latest is last.
            self._loaded[place] = found
            self.last = "hit: in memory"
        return found

    def _remember(self, place: tuple[str, Any], loaded: Any) -> Any:
        self._loaded[place] = loaded
        while len(self._loaded) > _MOST_LOADED:
            self._loaded.pop(next(iter(self._loaded)), None)
        return loaded

    def _make(self, context: _Context, signature: Signature, key: Key, *, alone: bool) -> Any:
        was_built = False

        def build() -> Any:
            nonlocal was_built
            made = self._compile(specialization, key, context, signature)
            was_built = True
            return made

        specialization = Specialization(
            *(self.function, self.name, key, signature.arguments, context.env, context.target),
            lambda: self._text(context),
        )
        is_fleeting = context.resolution.is_fleeting or signature.is_fleeting
        if self.store is not None and not is_fleeting:
            entry = self._alone(key, build) if alone else self.store.get_or_build(key, build)
            artifact = Artifact({}, entry.metadata, _entry=entry, _specialization=specialization)
            if was_built:
                self.counts["stored"] += 1
            else:
                self.counts["validated"] += 1
                self.last = f"hit: {entry.how}"
        else:
            made = build()
            if self.load is None:
                self.counts["loaded"] += 1
                return _executable(made, "compile")
            artifact = made if isinstance(made, Artifact) else Artifact(made)
            artifact.specialization = specialization
        assert self.load is not None
        executable = _executable(self.load(artifact), "load")
        self.counts["loaded"] += 1
        return executable

    def _alone(self, key: Key, build: Callable[[], Any]) -> Entry:
        """Find or build an entry without waiting for anybody."""
        assert self.store is not None
        entry = self.store.get(key)
        if entry is not None:
            return entry
        made = build()
        artifact, metadata = made if isinstance(made, tuple) else (made, None)
        return self.store.put(key, artifact, metadata)

    def _compile(
        self, specialization: Specialization, key: Key, context: _Context, signature: Signature
    ) -> Any:
        is_fleeting = context.resolution.is_fleeting or signature.is_fleeting
        # What is shown of a key is what it was made of, not what that has become.
        key._settle()
        reasons = self._reasons(key, is_fleeting)
        self.last = "miss: " + "; ".join(reasons)
        explain.miss(self.name, reasons)
        self.counts["compiled"] += 1
        _compiling.depth = getattr(_compiling, "depth", 0) + 1
        try:
            made = self.compile(specialization)
        except ValuesNeeded:
            self.counts["compiled"] -= 1
            raise
        finally:
            _compiling.depth -= 1
            signature.let_go()
        # What the compiler has seen may not be what the key says.
        if not all(guards.check() for guards in (*context.guards, *signature.guards)):
            raise _ChangedMeanwhile
        self._keys.append(key)
        del self._keys[:-16]
        if self.store is not None and not is_fleeting and isinstance(made, Artifact):
            return dict(made.parts), made.metadata
        return made

    def _reasons(self, key: Key, is_fleeting: bool) -> list[str]:
        """Return why there is nothing for a key: what differs from the nearest that there is."""
        if self.store is not None and not is_fleeting:
            return self.store.why(key) or ["first compile"]
        if not self._keys:
            return ["first compile"]
        return min((known.compare(key) for known in self._keys), key=len)

    def _text(self, context: _Context) -> str | None:
        root = context.resolution.root
        assert root is not None
        return self.rules.sources.text(root.source, root.function.__globals__)

    # -- Arguments that do not fit -----------------------------------------------------------------

    def mismatch(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Raise what Python raises for arguments that do not fit; called by the kernel."""
        twin_of(self.function)(*arguments, **keywords)


def _building(call: Callable[..., Any], builders: Mapping[int, Any]) -> Callable[..., Any]:
    """Return something that builds arguments from raw values, and calls with them."""

    def build(*arguments: Any) -> Any:
        return call(*(builders[at](one) if at in builders else one for at, one in enumerate(arguments)))

    return build


def _read_environment(names: tuple[str, ...]) -> tuple[dict[str, str | None], Guards]:
    """Return variables as `os.environ` shows them, and what tells whether they change."""
    guards = Guards()
    environ = guards.name(vars(os), "environ")[0]
    # Where the variables are does not change without `os.environ` being another.
    data = getattr(environ, "_data", None) if type(environ) is os._Environ else None
    if type(data) is dict:
        for name in names:
            guards.name(data, environ.encodekey(name))
        return {name: environ.get(name) for name in names}, guards
    # Somebody put something else in its place.
    found = {name: environ.get(name) for name in names}
    guards.set_recheck(lambda: {name: os.environ.get(name) for name in names} == found)
    return found, guards


def _executable(value: Any, by: str) -> Any:
    if isinstance(value, NativeCode) or callable(value):
        return value
    raise TypeError(f"`{by}` returned {_short(value)}, expected something callable or `keyprint.NativeCode`")


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"`{what}` is a list of names, found one string\nhint: write `{what}=[{given!r}]`")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"`{what}` is a list of names, found {name!r} in it")
    return names


def _callable(what: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"`{what}` is a function, found {_short(value)}")
    return value


def _short(value: Any) -> str:
    from .._native import _short_text

    return _short_text(value)
