"""What a step is: its configuration, and what its functions do.

The fingerprint of a step is that of its value, with two differences: a function counts by its code
and not by its name alone, and so do the methods of the classes of all objects in it. The standard
library counts by name (the interpreter's version is a component of every step's key). Functions that
the code calls by a global name are not followed.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Final, Literal, TypeAlias

from . import rule
from ._native import Fingerprint, Fingerprinter, fingerprint
from .errors import FingerprintError

__all__ = ["Mode", "step_fingerprint"]

#: Strict for what outlives the process.
Mode: TypeAlias = Literal["strict", "lenient"]

#: Immutable values that class attributes are read as.
_CONSTANTS: Final = (type(None), bool, int, float, complex, str, bytes)

#: The parts of a code object that decide what it does; positions and file do not.
_CODE: Final = (
    *("co_name", "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_exceptiontable"),
)

#: Attributes that say nothing about what a class does.
_NOT_BEHAVIOUR: Final = frozenset({"__module__", "__qualname__", "__doc__", "__firstlineno__", "__weakref__"})


class _Code:
    """A function that counts by its code whatever its name is: it belongs to a class or a closure."""

    __slots__ = ("function",)

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function


def step_fingerprint(step: Any, *, mode: Mode) -> Fingerprint:
    """Return the fingerprint of a step; strict for what outlives the process, lenient otherwise."""
    named: list[type] = []
    fingerprinter = _fingerprinter(mode, named)
    value, classes = fingerprinter._with_classes(step)
    known: dict[type, Fingerprint] = {}
    pending = [*classes, *named]
    durable = value.durable
    # Methods hold other classes, in defaults and closures; those have methods too.
    while pending:
        for cls in pending.pop().__mro__:
            if cls in known or _is_by_name(cls):
                continue
            named.clear()
            known[cls], classes = _behaviour_fingerprint(cls, fingerprinter)
            durable = durable and known[cls].durable
            pending += [*classes, *named]
    by_name = sorted((f"{cls.__module__}.{cls.__qualname__}", bytes(digest)) for cls, digest in known.items())
    return Fingerprint(bytes(fingerprint(("keyprint step", bytes(value), by_name))), durable=durable)


def _fingerprinter(mode: Mode, named: list[type]) -> Fingerprinter:
    """Return a fingerprinter that looks into functions and takes note of classes it meets as values."""

    def function(value: types.FunctionType) -> Any:
        # What has no name is refused in strict mode, with the path to it, and described in lenient mode.
        return NotImplemented if "<" in value.__qualname__ else _parts(value)

    def note(value: type) -> Any:
        named.append(value)
        return NotImplemented

    overrides: dict[type, Any] = {
        types.FunctionType: function,
        _Code: lambda value: _parts(value.function),
        types.CodeType: _code_parts,
        functools._lru_cache_wrapper: lambda value: rule.ordered(value.__wrapped__, tag="keyprint wrapper"),
        type: note,
    }
    return Fingerprinter(mode=mode, overrides=overrides)


def _parts(function: types.FunctionType) -> Any:
    """Return the description of a function by what it does."""
    return rule.ordered(
        function.__module__,
        function.__qualname__,
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        [_cell(cell) for cell in function.__closure__ or ()],
        tag="keyprint function",
    )


def _code_parts(code: types.CodeType) -> Any:
    # Interpreters before 3.11 have no table of exceptions.
    return rule.ordered(*(getattr(code, name, None) for name in _CODE), tag="keyprint code")


def _cell(cell: Any) -> Any:
    try:
        content = cell.cell_contents
    except ValueError:
        return ()
    return (_Code(content) if isinstance(content, types.FunctionType) else content,)


def _behaviour_fingerprint(cls: type, fingerprinter: Fingerprinter) -> tuple[Fingerprint, list[type]]:
    """Return the fingerprint of what a class adds, and the classes of what its functions hold."""
    behaviour = _behaviour(cls)
    try:
        return fingerprinter._with_classes(behaviour)
    except FingerprintError:
        pass
    # A function holds something without an identity (a lock, a weak cache): its code stands for it.
    classes: list[type] = []
    for name, value in behaviour.items():
        try:
            classes += fingerprinter._with_classes(value)[1]
        except FingerprintError:
            behaviour[name] = [code.function.__code__ for code in value]
    return fingerprinter(behaviour), classes


def _is_by_name(cls: type) -> bool:
    """Whether a class is the interpreter's own, or of the standard library."""
    module = cls.__module__.partition(".")[0]
    return module != "__main__" and (module in sys.stdlib_module_names or module == "keyprint")


def _behaviour(cls: type) -> dict[str, Any]:
    """Return what a class itself adds: its functions, and its constants."""
    found: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if name in _NOT_BEHAVIOUR:
            continue
        functions = _functions(value)
        if functions:
            found[name] = functions
        elif _is_constant(value):
            found[name] = (value,)
    return found


def _functions(value: Any) -> list[_Code]:
    """Return the functions behind an attribute of a class."""
    if isinstance(value, types.FunctionType):
        candidates: list[Any] = [value]
    elif isinstance(value, property):
        candidates = [value.fget, value.fset, value.fdel]
    elif isinstance(value, (staticmethod, classmethod)):
        candidates = [value.__func__]
    elif isinstance(value, functools.cached_property):
        candidates = [value.func]
    else:
        # Decorators of all kinds name what they wrap.
        candidates = [getattr(value, name, None) for name in ("__wrapped__", "__func__", "func")]
    unwrapped = [getattr(value, "__wrapped__", value) for value in candidates if value is not None]
    found = [*candidates, *unwrapped]
    return [_Code(function) for function in found if isinstance(function, types.FunctionType)]


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(_is_constant(item) for item in value)
    return type(value) in _CONSTANTS
