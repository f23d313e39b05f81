"""What a kernel depends on besides its arguments: what the function reaches, the environment, the target."""

from __future__ import annotations

import os

from .._native import Guards, _short_text, fingerprint
from ..errors import FingerprintError, FunctionKeyError
from .specialization import LiveTarget, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .._native import Fingerprint
    from ..functions.resolution import Resolution
    from .options import KernelOptions

__all__ = ["Context", "read_context"]

#: Entering every key: read with the environment of each call.
_SALT: Final = "KEYPRINT_CACHE_VERSION"


class Context:
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

    def aimed_at(self, target: Any, shown: Any) -> Context:
        """Return the same with another target."""
        other = object.__new__(Context)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.target = target
        identity, other.device = target if isinstance(target, Target) else (target, None)
        other.components = {**self.components, "target": fingerprint(identity)}
        other.texts = {**self.texts, "target": _short_text(identity)}
        other.shown = {**self.shown, "target": identity if shown is None else shown}
        return other

    def place(self) -> tuple[object, ...]:
        """Return what tells contexts apart: the same guards speak for all that is equal here."""
        env = (self.salt, *self.env.values())
        return self.resolution, env, bytes(self.components["target"]), self.device


def read_context(options: KernelOptions, resolution: Resolution, asked: tuple[Any, ...]) -> Context:
    """Return everything that counts but the arguments; ``asked`` holds what the target function said, if there is one."""
    context = Context(resolution)
    context.guards = [
        resolution.guards,
        _read_environment(context, options.env),
        _read_target(context, options, asked),
    ]
    return context


def _read_environment(context: Context, names: tuple[str, ...]) -> Guards:
    """Take note of environment variables; return what tells whether they change."""
    variables, guards = _variables((_SALT, *names))
    while not guards.check():
        variables, guards = _variables((_SALT, *names))
    context.salt = variables[_SALT]
    context.env = {name: variables[name] for name in names}
    for name, value in context.env.items():
        context.components[f"environment {name}"] = fingerprint(value)
        context.texts[f"environment {name}"] = "not set" if value is None else repr(value)
    return guards


def _variables(names: tuple[str, ...]) -> tuple[dict[str, str | None], Guards]:
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
    variables = {name: environ.get(name) for name in names}
    guards.set_recheck(lambda: {name: os.environ.get(name) for name in names} == variables)
    return variables, guards


def _read_target(context: Context, options: KernelOptions, asked: tuple[Any, ...]) -> Guards:
    """Take note of the target; return what tells whether one that is given once and for all changes."""
    guards = Guards()
    context.target = asked[0] if asked else options.target
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
            f"the target of `{options.name}` cannot be identified: {error}",
            code="unidentified",
            hint="describe it by plain values: architecture, features, versions",
        ) from error
    if not watched:
        guards.set_recheck(lambda: fingerprint(identity) == digest)
    context.texts["target"] = _short_text(identity)
    context.shown.setdefault("target", identity)
    return guards
