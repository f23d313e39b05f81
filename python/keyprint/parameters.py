"""The parameters of a kernel: names, defaults, and Python's own words for arguments that do not fit."""

from __future__ import annotations

import types

from .errors import FunctionKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["builders_of", "defaults_of", "parameters_of", "twin_of"]


def parameters_of(function: types.FunctionType) -> list[str]:
    code = function.__code__
    if code.co_flags & 0x0C:
        raise FunctionKeyError(
            f"the kernel `{function.__qualname__}` takes `*` or `**` parameters, of which nobody knows how "
            "many there are",
            code="variadic",
            hint="take a tuple, or name the parameters",
        )
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def defaults_of(function: types.FunctionType) -> list[tuple[Any, ...]]:
    """Return the default of each parameter, as a tuple that is empty where there is none."""
    code = function.__code__
    given = function.__defaults__ or ()
    first = code.co_argcount - len(given)
    found: list[tuple[Any, ...]] = [() for _ in range(first)] + [(one,) for one in given]
    named = function.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return found + [(named[name],) if name in named else () for name in names]


def builders_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the annotations that are classes which build arguments from raw values."""
    found = {}
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str):
            # Postponed: looked up where the function would.
            first, *rest = annotation.split(".")
            annotation = function.__globals__.get(first)
            for part in rest:
                annotation = getattr(annotation, part, None)
        if isinstance(annotation, type) and hasattr(annotation, "__cache_signature__") and name != "return":
            found[name] = annotation
    return found


def twin_of(function: types.FunctionType) -> types.FunctionType:
    """Return a function that takes what another takes, and does nothing."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    parts: list[str] = []
    for at, name in enumerate(names):
        if at == code.co_argcount:
            parts.append("*")
        parts.append(name)
        if at + 1 == code.co_posonlyargcount:
            parts.append("/")
    scope: dict[str, Any] = {}
    exec(
        f"def {function.__name__ if function.__name__.isidentifier() else 'f'}({', '.join(parts)}): pass",
        scope,
    )
    twin: types.FunctionType = next(
        value for value in scope.values() if isinstance(value, types.FunctionType)
    )
    twin.__qualname__ = function.__qualname__
    twin.__code__ = (
        twin.__code__.replace(co_name=function.__name__, co_qualname=function.__qualname__)
        if hasattr(twin.__code__, "co_qualname")
        else twin.__code__.replace(co_name=function.__name__)
    )
    twin.__defaults__ = function.__defaults__
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin
