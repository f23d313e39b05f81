"""The parameters of a kernel: names, defaults, and Python's own words for arguments that do not fit."""

from __future__ import annotations

import types

from ..errors import FunctionKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["builders_of", "defaults_of", "parameters_of", "signature_stub"]


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
    defaults: list[tuple[Any, ...]] = [() for _ in range(first)] + [(default,) for default in given]
    named = function.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return defaults + [(named[name],) if name in named else () for name in names]


class Builder:
    """A class that a parameter is annotated with, and that builds arguments from raw values."""

    __slots__ = ("cls", "is_optional")

    def __init__(self, cls: Any, is_optional: bool) -> None:
        self.cls = cls
        self.is_optional = is_optional

    def takes(self, value: Any) -> bool:
        """Whether a value is handed on as it is."""
        return isinstance(value, self.cls) or (value is None and self.is_optional)


def builders_of(function: types.FunctionType) -> dict[str, Builder]:
    """Return the annotations that are classes which build arguments from raw values."""
    builders = {}
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, function)
        builder = _builder(annotation)
        if builder is not None and name != "return":
            builders[name] = builder
    return builders


def _evaluated(text: str, function: types.FunctionType) -> Any:
    """Return what a postponed annotation means where the function is; nothing if it cannot be told."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    try:
        return eval(text, function.__globals__, {name: cell.cell_contents for name, cell in cells.items()})
    except Exception:
        return None


def _builder(annotation: Any) -> Builder | None:
    """Return the class that an annotation has arguments built by: itself, or inside of `Annotated` or `Optional`."""
    if hasattr(annotation, "__metadata__") and hasattr(annotation, "__origin__"):
        return _builder(annotation.__origin__)
    if isinstance(annotation, type):
        return Builder(annotation, False) if hasattr(annotation, "__cache_signature__") else None
    kinds = getattr(annotation, "__args__", None)
    if not isinstance(kinds, tuple) or type(None) not in kinds:
        return None
    # `X | None` and `Optional[X]`; which of several classes a raw value is for cannot be told.
    builders = [builder for builder in map(_builder, kinds) if builder is not None]
    if len(builders) != 1 or len(kinds) != 2:
        return None
    return Builder(builders[0].cls, True)


def signature_stub(function: types.FunctionType) -> types.FunctionType:
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
