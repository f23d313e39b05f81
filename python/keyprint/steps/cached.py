"""Cached steps: a callable whose results are kept, under keys that say what they depend on."""

from __future__ import annotations

import collections
import collections.abc
import functools
import inspect
import io
import types
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, overload

from .._native import Entry, Fingerprint, Flights, fingerprint
from ..errors import StoreError
from ..fingerprints import rule
from ..fingerprints.shown import Shown
from ..functions.interpreter import INTERPRETER
from ..functions.key import FunctionKey
from ..functions.packages import Packages
from ..store import serializers
from ..store.keys import KEYPRINT, Key, Tool
from ..store.serializers import Serializer
from ..store.stores import Store
from .code import step_fingerprint
from .identity import (
    ChainIdentity,
    InputIdentity,
    Mode,
    StepIdentity,
    identity_of,
    register_decorator,
    register_step,
)

__all__ = ["CachedStep", "Chain", "cached"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_Next = TypeVar("_Next")
_P = ParamSpec("_P")

_PART: Final = "value"


class _Made(type):
    """The type of classes whose instances do not change any more once they are made."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        instance = super().__call__(*arguments, **named)
        instance.__dict__["_is_made"] = True
        return instance


class Chainable(Generic[_In, _Out], metaclass=_Made):
    """A step that others can follow, and that does not change after it was made."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not self.__dict__.get("_is_made"):
            self.__dict__[name] = value
            return
        raise AttributeError(
            f"a step does not change after it was made: `{name}` cannot be set\n"
            "hint: make another; `step.replace(...)` makes one like a cached step"
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

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

    def __call__(self, value: _In) -> _Out:
        result: Any = value
        for step in self.steps:
            result = step(result)
        return result  # type: ignore[no-any-return]

    def __fingerprint__(self) -> Any:
        return rule.ordered(*self.steps, _own_state(self, {"steps", "_is_made"}), tag="keyprint chain")

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.steps))})"


class CachedStep(Chainable[_In, _Out]):
    """A step whose results are kept.

    A result is found again under ``H(salt, step, input_key(input))``: ``input_key`` says what of the
    input counts, and must say it all; with :func:`keyprint.fingerprint`, functions and classes of the program
    among the inputs count by what they do. The step counts by its function key (:class:`~keyprint.FunctionKey`):
    its configuration, what its functions and methods do, and everything that they reach. That is looked at again
    in each call.

    With a ``store``, results outlive the process: then whatever has no identity across processes (a
    lambda, a local function, a lock) is refused, and results go through a ``serializer``. Without
    one, results stay in memory as they are, in ``cache`` (anything with ``[key]`` and ``[key] = result``) if one
    is given. ``step_key`` may say what of the step counts, in place of all of it: a function of the step, or
    ``"code"`` for the code of the step's own functions and methods, helpers not followed. A ``secret`` input counts,
    and is written down nowhere. A step does not change after it was made; ``step.replace(...)`` makes another.

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
        step_key: Callable[[Any], Any] | Literal["code"] | None = None,
        cache: MutableMapping[str, _Out] | None = None,
        packages: Packages | None = None,
        secret: bool = False,
    ) -> None:
        _check_callable(step)
        if not callable(input_key):
            raise TypeError(
                f"`input_key` is a function from inputs to keys, found `{type(input_key).__name__}`"
            )
        if store is not None and cache is not None:
            raise TypeError("a step has a `store` or a `cache`, not both")
        if step_key is not None and step_key != "code" and not callable(step_key):
            raise TypeError(f"`step_key` is a function of the step or `'code'`, found {step_key!r}")
        mode: Mode = "lenient" if store is None else "strict"
        # The key of the function is what counts in any case, and it is not looked at once only.
        is_followed = step_key is None or step_key is FunctionKey
        attributes = {
            "step": step,
            "input_key": input_key,
            "store": store,
            "serializer": serializers.find(serializer),
            "name": name or _name_of(step),
            "tool": KEYPRINT if tool is None else tool,
            "step_key": step_key,
            "cache": {} if cache is None else cache,
            "packages": packages,
            "secret": secret,
            "_flights": Flights(),
            "_identity": identity_of(step, mode=mode, packages=packages) if is_followed else None,
            "_inputs": InputIdentity(mode="strict", packages=packages),
            "_given": None,
        }
        self.__dict__.update(attributes)
        if not is_followed:
            self.__dict__["_given"] = self._given_fingerprint(mode)
        elif store is not None:
            # What cannot be stored is refused here, not at the first call.
            self.step_fingerprint  # noqa: B018

    step: Callable[[_In], _Out]
    input_key: Callable[[_In], Any]
    store: Store | None
    serializer: Serializer
    name: str
    tool: Tool
    step_key: Callable[[Any], Any] | Literal["code"] | None
    cache: MutableMapping[str, _Out]
    packages: Packages | None
    secret: bool
    _flights: Flights
    _identity: StepIdentity | ChainIdentity | None
    _inputs: InputIdentity
    _given: Fingerprint | None

    def replace(self, **changes: Any) -> CachedStep[Any, Any]:
        """Return a step like this one, but for what is given."""
        names = ("step", "input_key", "store", "serializer", "name", "tool", "step_key", "packages", "secret")
        known = {name: getattr(self, name) for name in names}
        if "step" in changes:
            del known["name"]
        if self.store is None and changes.get("store") is None:
            known["cache"] = self.cache
        return type(self)(**{**known, **changes})

    def _given_fingerprint(self, mode: Mode) -> Fingerprint:
        """Return the fingerprint of the step as `step_key` has it."""
        if self.step_key == "code":
            return step_fingerprint(self.step, mode=mode)
        assert callable(self.step_key)
        key = self.step_key(self.step)
        return key if isinstance(key, Fingerprint) else fingerprint(key)

    @property
    def step_fingerprint(self) -> Fingerprint:
        """The fingerprint of the step, as it is now."""
        if self._identity is None:
            assert self._given is not None
            return self._given
        return self._identity.parts().fingerprint

    def key(self, value: _In) -> Key:
        """Return the key of the result for an input."""
        components: dict[str, Any] = {"interpreter": INTERPRETER[1]}
        secrets, shown = self._secrets(value), dict[str, Any]()
        (secrets if self.secret else components)["input"] = self._input(value)
        if self._identity is None:
            components["step"] = self._given
            shown["step"] = Shown("as `step_key` has it")
        else:
            parts = self._identity.parts()
            components.update(parts.components)
            shown.update({label: Shown(text) for label, text in parts.texts.items()})
            shown.update(parts.parts)
        if self.store is not None:
            components["serializer"] = self.serializer.name
        for item in [] if self.secret else self._shown(value):
            shown["input"] = item
        return Key(self.name, components, shown=shown, tool=self.tool, secrets=secrets)

    def _input(self, value: _In) -> Any:
        """Return what counts of an input."""
        return self._inputs.fingerprint(value) if self.input_key is fingerprint else self.input_key(value)

    def _secrets(self, value: _In) -> dict[str, Any]:
        """Return what counts of an input and is written down nowhere."""
        return {}

    def _shown(self, value: _In) -> list[Any]:
        """Return what manifests describe an input by: only what counts, for the rest may be secret."""
        return [value] if self.input_key is fingerprint else []

    def __call__(self, value: _In) -> _Out:
        key = self.key(value)
        if self.store is None:
            build = functools.partial(self._checked, value)
            return self._flights.get_or_build(self.cache, key.hex(), build)  # type: ignore[no-any-return]
        return self._call_stored(self.store, key, value)

    def _checked(self, value: _In) -> _Out:
        return check_result(self.step(value))

    def _call_stored(self, store: Store, key: Key, value: _In) -> _Out:
        built: list[_Out] = []

        def build() -> dict[str, bytes]:
            # A step may change its input; what is shown is what it was.
            key._settle()
            result = check_result(self.step(value))
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
        # Serializers of others get bytes; ours read what is in memory already.
        is_ours = self.serializer in (serializers.plain, serializers.pickle)
        data: Any = entry.view(_PART) if is_ours else entry[_PART]
        return self.serializer.loads(data)  # type: ignore[no-any-return]

    def why(self, value: _In) -> list[str]:
        """Return what changed since the nearest earlier result of this step; empty if there is none."""
        return [] if self.store is None else self.store.why(self.key(value))

    def __fingerprint__(self) -> Any:
        # A cache does not change what a step does.
        step = self.step if self._given is None else bytes(self._given)
        return rule.ordered(step, _own_state(self, _RUNTIME), tag="keyprint cached step")

    def __repr__(self) -> str:
        where = "in memory" if self.store is None else f"in {self.store!r}"
        return f"<CachedStep {self.name} {where}>"


@overload
def cached(function: Callable[_P, _Out], /) -> Callable[_P, _Out]: ...
@overload
def cached(
    *,
    store: Store | None = None,
    serializer: Serializer | str = serializers.plain,
    input_key: Callable[[dict[str, Any]], Any] = fingerprint,
    ignore: Sequence[str] = (),
    secrets: Sequence[str] = (),
    name: str | None = None,
    tool: Tool | None = None,
    step_key: Callable[[Any], Any] | Literal["code"] | None = None,
    packages: Packages | None = None,
) -> Callable[[Callable[_P, _Out]], Callable[_P, _Out]]: ...
def cached(function: Any = None, /, **options: Any) -> Any:
    """Keep the results of a function: the decorator form of :class:`CachedStep`.

    The input is the dict of arguments by name, defaults included, without those in ``ignore``;
    ``input_key`` (by default :func:`keyprint.fingerprint`, strict) says what of it counts. Arguments in
    ``secrets`` count, and are written down nowhere::

        @kp.cached(store=kp.Store(), ignore=("verbose",))
        def compile(source: str, flags: list[str], verbose: bool = False) -> bytes: ...
    """
    return functools.partial(_cached, **options) if function is None else _cached(function, **options)


def _cached(
    function: Callable[..., Any],
    *,
    input_key: Callable[[dict[str, Any]], Any] = fingerprint,
    ignore: Sequence[str] = (),
    secrets: Sequence[str] = (),
    **options: Any,
) -> Any:
    signature = inspect.signature(function)
    for what, names in (("ignore", ignore), ("secrets", secrets)):
        if isinstance(names, str):
            raise TypeError(
                f'`{what}` is a sequence of names, found `{names}`\nhint: write it as ("{names}",)'
            )
        unknown = [name for name in names if name not in signature.parameters]
        if unknown:
            raise TypeError(f"`{what}` names `{unknown[0]}`, which `{_name_of(function)}` does not take")
    both = sorted({*ignore} & {*secrets})
    if both:
        raise TypeError(f"`{both[0]}` is in `ignore` and in `secrets`: it counts, or it does not")

    step = _CachedFunction(function, input_key, frozenset(ignore), frozenset(secrets), **options)

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
        secrets: frozenset[str] = frozenset(),
        **options: Any,
    ) -> None:
        qualname = getattr(function, "__qualname__", "")
        attributes = {
            "_ignore": ignore,
            "_secret": secrets,
            "_arguments_key": input_key,
            # A function that is written in a class is a method: what it does, it does through `self`.
            "_is_method": isinstance(function, types.FunctionType)
            and "." in qualname.rpartition("<locals>.")[2],
        }
        self.__dict__.update(attributes)
        options["name"] = options.get("name") or _name_of(function)
        super().__init__(_Applied(function), input_key=self._key_of, **options)

    _ignore: frozenset[str]
    _secret: frozenset[str]
    _arguments_key: Callable[[dict[str, Any]], Any]
    _is_method: bool

    def replace(self, **changes: Any) -> CachedStep[Any, Any]:
        raise TypeError("a cached function is made of its parameters: decorate another")

    def _key_of(self, bound: inspect.BoundArguments) -> Any:
        counted = self._counted(bound)
        if self._arguments_key is fingerprint:
            return self._inputs.fingerprint(counted)
        key = self._arguments_key(counted)
        if not self._is_method or not bound.args:
            return key
        # What counts of `self` may leave out what its class does.
        first = bound.args[0]
        owner = self._inputs.of_class(first if isinstance(first, type) else type(first))
        key = key if isinstance(key, Fingerprint) else fingerprint(key)
        both = fingerprint(("keyprint method", bytes(owner), bytes(key)))
        return Fingerprint(bytes(both), durable=key.durable)

    def _shown(self, value: inspect.BoundArguments) -> list[Any]:
        return [self._counted(value)] if self._arguments_key is fingerprint else []

    def _counted(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments that count; the order of further keywords does, for a function sees it."""
        left_out = self._ignore | self._secret
        counted = {name: item for name, item in bound.arguments.items() if name not in left_out}
        for name, parameter in bound.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD and name in counted:
                counted[name] = collections.OrderedDict(counted[name])
        return counted

    def _secrets(self, value: inspect.BoundArguments) -> dict[str, Any]:
        return {
            f"input[{name!r}]": self._inputs.fingerprint(value.arguments[name])
            for name in sorted(self._secret)
            if name in value.arguments
        }


def behind_cache(step: CachedStep[Any, Any], packages: Packages | None) -> Any:
    """Return the step that does the work: keeping results does not change what it does."""
    return step.step if step._identity is not None and step.packages is packages else None


register_step(Chain, lambda step, _: list(step.steps))
register_step(CachedStep, behind_cache)
register_step(_CachedFunction, behind_cache)
register_decorator(cached)


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
    *("step", "input_key", "store", "serializer", "name", "tool", "step_key", "cache", "packages", "secret"),
    *("_flights", "_identity", "_inputs", "_given", "_ignore", "_secret", "_arguments_key", "_is_method"),
    "_is_made",
}


def _own_state(step: Any, runtime: set[str]) -> dict[str, Any]:
    """Return what a subclass keeps in a step besides what its base does."""
    return {name: value for name, value in vars(step).items() if name not in runtime}


#: What can be used once only, or belongs to a moment.
_ONCE: Final = (
    *(
        types.CoroutineType,
        types.AsyncGeneratorType,
        collections.abc.Awaitable,
        collections.abc.AsyncIterator,
    ),
    *(collections.abc.Iterator, io.IOBase),
)

#: As many items of containers are looked at.
_MOST_ITEMS: Final = 10_000


def check_result(result: _Out) -> _Out:
    """Return a result that can be kept; refuse one that the first caller would use up."""
    pending: list[Any] = [result]
    seen = 0
    while pending and seen < _MOST_ITEMS:
        item = pending.pop()
        seen += 1
        if isinstance(item, _ONCE):
            where = "" if item is result else ", inside of the result,"
            raise TypeError(
                f"a `{type(item).__name__}`{where} can be used once only, so it cannot be kept\n"
                "hint: let the step return a list, the content of the file, or the awaited result"
            )
        if type(item) in (list, tuple, set, frozenset):
            pending += item
        elif type(item) is dict:
            pending += item.values()
    return result


def _check_callable(step: Any) -> None:
    if not callable(step):
        raise TypeError(f"a step is a callable of one input, found `{type(step).__name__}`")


def _name_of(step: Any) -> str:
    named = step if isinstance(getattr(step, "__qualname__", None), str) else type(step)
    module = getattr(named, "__module__", None) or getattr(named, "__objclass__", type(step)).__module__
    return f"{module}.{named.__qualname__}"
