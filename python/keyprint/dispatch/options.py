"""What a kernel is made with: checked once, when it is decorated."""

from __future__ import annotations

import types

from .._native import _short_text, fingerprint
from ..fingerprints.shown import ShownParts
from ..functions.packages import Packages
from ..functions.resolution import Rules
from ..functions.sources import Sources
from ..store.keys import KEYPRINT
from .parameters import builders_of, parameters_of
from .signatures.options import ArgumentOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..store.keys import Tool
    from ..store.stores import Store
    from .specialization import Artifact, Specialization

__all__ = ["KernelOptions"]


class KernelOptions:
    """What was said to :func:`keyprint.jit`, of one function."""

    __slots__ = (
        *("_store", "arguments", "compile", "env", "function", "load", "name", "names", "on_drift", "rules"),
        *("target", "tool", "variant"),
    )

    def __init__(self, function: types.FunctionType, options: dict[str, Any], compiled_by: object) -> None:
        self.function: Any = function
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
        if options["on_drift"] not in ("raise", "rekey"):
            raise ValueError(f"`on_drift` is 'raise' or 'rekey', found {options['on_drift']!r}")
        self.on_drift: str = options["on_drift"]
        self.tool: Tool = options["tool"] or KEYPRINT
        self.variant: object = options["variant"]
        self.arguments = self._arguments(options)
        self.rules = Rules(
            options["packages"] or Packages(),
            Sources(self._store),
            _names("ignore", options["ignore"]),
            (compiled_by, *options["compiled_by"]),
        )

    def _arguments(self, options: dict[str, Any]) -> ArgumentOptions:
        """Return how the parameters are taken."""
        static = frozenset(_names("static", options["static"]))
        align, divisible = dict(options["align"] or {}), dict(options["divisible"] or {})
        for what, given in (("static", static), ("align", align), ("divisible", divisible)):
            for name in given:
                if name not in self.names:
                    raise TypeError(
                        f"`{what}` names `{name}`, and `{self.function.__qualname__}` has no such parameter"
                    )
        for what, numbers in (("align", align), ("divisible", divisible)):
            for name, number in numbers.items():
                if type(number) is not int or number < 1:
                    raise TypeError(f"`{what}` gives a positive int for `{name}`, found {number!r}")
        if options["members"] not in ("value", "type"):
            raise ValueError(f"`members` is 'value' or 'type', found {options['members']!r}")
        scalars = dict(options["scalars"] or {})
        builders = builders_of(self.function)
        return ArgumentOptions(
            static=static,
            align=align,
            divisible=divisible,
            members=options["members"],
            builders={name: builder for name, builder in builders.items() if name not in scalars},
            scalars=scalars,
            open_members=frozenset(_names("open_members", options["open_members"])),
            templates=frozenset(_names("templates", options["templates"])),
            on_opaque=options["on_opaque"],
            absent_members=bool(options["absent_members"]),
        )

    @property
    def store(self) -> Store | None:
        """Where artifacts are kept, now."""
        store: Store | None = self._store() if callable(self._store) else self._store
        return store

    def identity(self) -> tuple[object, ...]:
        """Return the options that change what is compiled."""
        return (*self.arguments.identity(), tuple(self.tool), self._compilers(), self.variant)

    def shown(self) -> dict[str, Any]:
        """Return the options that change what is compiled, for people."""
        compilers = {
            what: ShownParts(f"{module}.{name}", [("", fingerprint(digest), "")])
            for what, (module, name, digest) in zip(("compile", "load"), self._compilers(), strict=True)
        }
        known: dict[str, Any] = {**self.arguments.shown(), "variant": self.variant, **compilers}
        return {name: value for name, value in known.items() if value not in ([], {}, None, False)}

    def _compilers(self) -> tuple[tuple[object, str, bytes | None], ...]:
        """Return what tells compilers apart: names if ``tool`` says which version it is, otherwise their text."""
        compilers = []
        for compiler in (self.compile, self.load):
            inner: Any = getattr(compiler, "__func__", compiler)
            code = getattr(inner, "__code__", None)
            digest = None
            if isinstance(code, types.CodeType) and self.tool is KEYPRINT:
                source = self.rules.sources.of(code, inner.__globals__)
                digest = bytes(source.code if source.function is None else source.function.digest)
            name = getattr(inner, "__qualname__", type(inner).__qualname__)
            compilers.append((getattr(inner, "__module__", None), name, digest))
        return tuple(compilers)


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
        raise TypeError(f"`{what}` is a function, found {_short_text(value)}")
    return value
