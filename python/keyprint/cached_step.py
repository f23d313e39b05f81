"""Cached steps: a callable whose results are kept, under keys that say what they depend on."""

from __future__ import annotations

import collections
import functools
import inspect
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from . import rule, serializers
from ._native import Entry, Fingerprint, fingerprint
from .errors import StoreError
from .keys import KEYPRINT, Key, Tool
from .serializers import Serializer
from .step_identity import Mode, class_fingerprint, step_fingerprint
from .store import Store

__all__ = ["CachedStep", "Chain", "cached"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_Next = TypeVar("_Next")
_P = ParamSpec("_P")

#: Byte code belongs to an interpreter, so the interpreter is part of every step's key.
_INTERPRETER: Final = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"

_PART: Final = "value"

#: Seconds to wait for another thread's call before making it here too.
_WAIT: Final = 300.0


class Chainable(Generic[_In, _Out]):
    """A step that others can follow."""

    def __call__(self, value: _In) -> _Out:
        raise NotImplementedError

    def chain(self, following: Callable[[_Out], _Next]) -> Chain[_In, _Next]:
        """Return a step that does this one and then another."""
        return Chain(self, following)

    def __rshift__(self, following: Callable[[_Out], _Next]) -> Chain[_In, _Next]:
        return self.chain(following)


class Chain(Chainable[_In, _Out]):
    """Steps one after the other."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.steps: tuple[Callable[[Any], Any], ...] = ()
        for step in steps:
            _check_callable(step)
            # A subclass may do something else than its steps.
            self.steps += step.steps if type(step) is Chain else (step,)
        self._digests: dict[str, Fingerprint] = {}

    def __call__(self, value: _In) -> _Out:
        result: Any = value
        for step in self.steps:
            result = step(result)
        return result  # type: ignore[no-any-return]

    def _fingerprint(self, mode: Mode) -> Fingerprint:
        """Return the fingerprint, of parts that are computed once each."""
        if mode not in self._digests:
            parts = [_digest(step, mode) for step in self.steps]
            durable = all(part.durable for part in parts)
            digest = fingerprint(("keyprint chain", [bytes(part) for part in parts]))
            self._digests[mode] = Fingerprint(bytes(digest), durable=durable)
        return self._digests[mode]

    def __fingerprint__(self) -> Any:
        return rule.ordered(*self.steps, _own_state(self, {"steps", "_digests"}), tag="keyprint chain")

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.steps))})"


class CachedStep(Chainable[_In, _Out]):
    """A step whose results are kept.

    A result is found again under ``H(salt, step, input_key(input))``: ``input_key`` says what of the
    input counts, and must say it all. The step counts by its configuration and by the code of its
    functions and methods; its digest is computed once per instance.

    With a ``store``, results outlive the process: then whatever has no identity across processes (a
    lambda, a local function, a lock) is refused, and results go through a ``serializer``. Without
    one, results stay in memory as they are, in ``cache`` (any mapping from strings) if one is given.
    ``step_key`` may say what of the step counts, in place of all of it.

    >>> import keyprint as kp
    >>> def double(x: int) -> int:
    ...     return 2 * x
    >>> step = CachedStep(double, input_key=kp.fingerprint)
    >>> step(21)
    42
    """

    def __init__(
        self,
        step: Callable[[_In], _Out],
        *,
        input_key: Callable[[_In], Any],
        store: Store | None = None,
        serializer: Serializer | str = serializers.plain,
        name: str | None = None,
        tool: Tool | None = None,
        step_key: Callable[[Any], Any] | None = None,
        cache: MutableMapping[str, _Out] | None = None,
    ) -> None:
        _check_callable(step)
        if not callable(input_key):
            raise TypeError(
                f"`input_key` is a function from inputs to keys, found `{type(input_key).__name__}`"
            )
        if store is not None and cache is not None:
            raise TypeError("a step has a `store` or a `cache`, not both")
        self.step = step
        self.input_key = input_key
        self.store = store
        self.serializer = serializers.find(serializer)
        self.name = name or _name_of(step)
        self.tool = KEYPRINT if tool is None else tool
        self.step_key = step_key
        self.cache: MutableMapping[str, _Out] = {} if cache is None else cache
        self._flights = _Flights()
        if store is not None:
            # What cannot be stored is refused here, not at the first call.
            self.step_fingerprint  # noqa: B018

    @functools.cached_property
    def step_fingerprint(self) -> Fingerprint:
        """The fingerprint of the step, computed once."""
        if self.step_key is not None:
            found = self.step_key(self.step)
            return found if isinstance(found, Fingerprint) else fingerprint(found)
        return _digest(self.step, self._mode)

    @property
    def _mode(self) -> Mode:
        return "lenient" if self.store is None else "strict"

    def key(self, value: _In) -> Key:
        """Return the key of the result for an input."""
        components: dict[str, Any] = {
            "step": self.step_fingerprint,
            "input": self.input_key(value),
            "interpreter": _INTERPRETER,
        }
        if self.store is not None:
            components["serializer"] = self.serializer.name
        shown: dict[str, Any] = {} if self.step_key is not None else {"step": self.step}
        for item in self._shown(value):
            shown["input"] = item
        return Key(self.name, components, shown=shown, tool=self.tool)

    def _shown(self, value: _In) -> list[Any]:
        """Return what manifests describe an input by: only what counts, for the rest may be secret."""
        return [value] if self.input_key is fingerprint else []

    def __call__(self, value: _In) -> _Out:
        key = self.key(value)
        if self.store is None:
            return self._flights.get_or_build(self.cache, key.hex(), lambda: _finished(self.step(value)))
        return self._call_stored(self.store, key, value)

    def _call_stored(self, store: Store, key: Key, value: _In) -> _Out:
        built: list[_Out] = []

        def build() -> dict[str, bytes]:
            result = _finished(self.step(value))
            built.append(result)
            return {_PART: self.serializer.dumps(result)}

        entry = store.get_or_build(key, build)
        if built:
            return built[0]
        try:
            return self._read(entry)
        except StoreError as error:
            if error.code == "untrusted":
                raise
        except Exception:
            # What was written can no longer be read (a class has moved, say); it can be made again.
            pass
        artifact = build()
        store.put(key, artifact)
        return built[0]

    def _read(self, entry: Entry) -> _Out:
        if self.serializer.runs_code:
            entry._check_trust()
        return self.serializer.loads(entry[_PART])  # type: ignore[no-any-return]

    def why(self, value: _In) -> list[str]:
        """Return what changed since the nearest earlier result of this step; empty if there is none."""
        return [] if self.store is None else self.store.why(self.key(value))

    def __fingerprint__(self) -> Any:
        # A cache does not change what a step does.
        step = self.step if self.step_key is None else self.step_key(self.step)
        return rule.ordered(step, _own_state(self, _RUNTIME), tag="keyprint cached step")

    def __repr__(self) -> str:
        where = "in memory" if self.store is None else f"in {self.store!r}"
        return f"<CachedStep {self.name} {where}>"


class _Flights:
    """One call per key, however many threads ask."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[str, tuple[threading.Event, int]] = {}

    def get_or_build(self, cache: MutableMapping[str, _Out], key: str, build: Callable[[], _Out]) -> _Out:
        if self._process != os.getpid():
            # A forked child has none of the threads that its parent waits for.
            self._start()
        deadline = time.monotonic() + _WAIT
        while True:
            try:
                return cache[key]
            except KeyError:
                pass
            mine = threading.Event()
            try:
                with self._lock:
                    # Somebody may have landed since the look into the cache.
                    if key in cache:
                        continue
                    landed, leader = self._open.setdefault(key, (mine, threading.get_ident()))
                # Nobody waits for themselves, nor for ever: two builds may wait for each other.
                waits = landed is not mine and leader != threading.get_ident()
                if waits and landed.wait(max(0.0, deadline - time.monotonic())):
                    continue
                result = build()
                cache[key] = result
                return result
            finally:
                with self._lock:
                    if self._open.get(key, (None, 0))[0] is mine:
                        del self._open[key]
                mine.set()


@overload
def cached(function: Callable[_P, _Out], /) -> Callable[_P, _Out]: ...
@overload
def cached(
    *,
    store: Store | None = None,
    serializer: Serializer | str = serializers.plain,
    input_key: Callable[[dict[str, Any]], Any] = fingerprint,
    ignore: Sequence[str] = (),
    name: str | None = None,
    tool: Tool | None = None,
) -> Callable[[Callable[_P, _Out]], Callable[_P, _Out]]: ...
def cached(function: Any = None, /, **options: Any) -> Any:
    """Keep the results of a function: the decorator form of :class:`CachedStep`.

    The input is the dict of arguments by name, defaults included, without those in ``ignore``;
    ``input_key`` (by default :func:`keyprint.fingerprint`, strict) says what of it counts::

        @kp.cached(store=kp.Store(), ignore=("verbose",))
        def compile(source: str, flags: list[str], verbose: bool = False) -> bytes: ...
    """
    return functools.partial(_cached, **options) if function is None else _cached(function, **options)


def _cached(
    function: Callable[..., Any],
    *,
    input_key: Callable[[dict[str, Any]], Any] = fingerprint,
    ignore: Sequence[str] = (),
    **options: Any,
) -> Any:
    if isinstance(ignore, str):
        raise TypeError(f'`ignore` is a sequence of names, found `{ignore}`\nhint: write it as ("{ignore}",)')
    signature = inspect.signature(function)
    unknown = [name for name in ignore if name not in signature.parameters]
    if unknown:
        raise TypeError(f"`ignore` names `{unknown[0]}`, which `{_name_of(function)}` does not take")

    step = _CachedFunction(function, input_key, frozenset(ignore), **options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return step(bound)

    call.step = step  # type: ignore[attr-defined]
    return call


class _CachedFunction(CachedStep[inspect.BoundArguments, Any]):
    """A cached step whose inputs are bound arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        input_key: Callable[[dict[str, Any]], Any],
        ignore: frozenset[str],
        **options: Any,
    ) -> None:
        self._ignore = ignore
        self._arguments_key = input_key
        self._classes: weakref.WeakKeyDictionary[type, Fingerprint] = weakref.WeakKeyDictionary()
        # A function that is written in a class is a method: what it does, it does through `self`.
        qualname = getattr(function, "__qualname__", "")
        self._is_method = (
            isinstance(function, types.FunctionType) and "." in qualname.rpartition("<locals>.")[2]
        )
        options["name"] = options.get("name") or _name_of(function)
        super().__init__(_Applied(function), input_key=self._key_of, **options)

    def _key_of(self, bound: inspect.BoundArguments) -> Any:
        key = self._arguments_key(self._counted(bound))
        owner = self._owner(bound) if self._is_method and bound.args else None
        if owner is None:
            return key
        key = key if isinstance(key, Fingerprint) else fingerprint(key)
        both = fingerprint(("keyprint method", bytes(owner), bytes(key)))
        return Fingerprint(bytes(both), durable=owner.durable and key.durable)

    def _shown(self, value: inspect.BoundArguments) -> list[Any]:
        return [self._counted(value)] if self._arguments_key is fingerprint else []

    def _counted(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments that count; the order of further keywords does, for a function sees it."""
        counted = {name: item for name, item in bound.arguments.items() if name not in self._ignore}
        for name, parameter in bound.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD and name in counted:
                counted[name] = collections.OrderedDict(counted[name])
        return counted

    def _owner(self, bound: inspect.BoundArguments) -> Fingerprint:
        """Return what the class of the first argument defines; computed once for each class."""
        first = bound.args[0]
        cls = first if isinstance(first, type) else type(first)
        if cls not in self._classes:
            self._classes[cls] = class_fingerprint(cls, mode=self._mode)
        return self._classes[cls]


class _Applied:
    """A function of bound arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, bound: inspect.BoundArguments) -> Any:
        return self.function(*bound.args, **bound.kwargs)

    def __fingerprint__(self) -> Any:
        return rule.ordered(self.function, tag="keyprint applied")

    def __keyprint_function__(self) -> Any:
        # For those who say that a step counts by its function key.
        return self.function


#: What a cached step needs at run time; the step itself is counted apart.
_RUNTIME: Final = {
    *("step", "input_key", "store", "serializer", "name", "tool", "step_key", "cache"),
    *("_flights", "step_fingerprint", "_ignore", "_arguments_key", "_classes", "_is_method"),
}


def _own_state(step: Any, runtime: set[str]) -> dict[str, Any]:
    """Return what a subclass keeps in a step besides what its base does."""
    return {name: value for name, value in vars(step).items() if name not in runtime}


def _digest(step: Any, mode: Mode) -> Fingerprint:
    # A subclass may do something else than its base: then it counts like any other object.
    is_own = type(step).__module__ in (__name__, f"{__package__}.gt4py")
    if is_own and isinstance(step, Chain):
        return step._fingerprint(mode)
    if is_own and isinstance(step, CachedStep):
        # One without a store was looked at leniently, and may hold what strict mode refuses.
        known = mode == "lenient" or step.store is not None or step.step_key is not None
        return step.step_fingerprint if known else _digest(step.step, mode)
    return step_fingerprint(step, mode=mode)


#: What can be consumed once only.
_ONCE: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def _finished(result: _Out) -> _Out:
    """Return a result that can be kept."""
    if isinstance(result, _ONCE):
        raise TypeError(
            f"a `{type(result).__name__}` can be used once only, so it cannot be kept\n"
            "hint: let the step return a list, or the awaited result"
        )
    return result


def _check_callable(step: Any) -> None:
    if not callable(step):
        raise TypeError(f"a step is a callable of one input, found `{type(step).__name__}`")


def _name_of(step: Any) -> str:
    named = step if isinstance(getattr(step, "__qualname__", None), str) else type(step)
    module = getattr(named, "__module__", None) or getattr(named, "__objclass__", type(step)).__module__
    return f"{module}.{named.__qualname__}"
