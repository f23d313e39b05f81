"""What a step is by its code alone, for those who ask for it: ``step_key="code"``.

The fingerprint of a step is that of its value, with two differences. A function counts by its code,
defaults, closure and attributes, and not by its name alone. And for the class of every object in the
step, and every class that is named in it, all that the class defines counts too: methods, properties,
class attributes. The standard library counts by name (the interpreter's version is a component of
every step's key). Functions that the code calls by a global name are not followed.

In strict mode the step's own configuration may hold only what has a name across processes: a lambda
or a lock in it is refused. Inside functions and classes such things are common and harmless: functions
count by their code there, locks and weak caches by their type.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from enum import EnumMeta
from typing import Any, Final, Literal, TypeAlias

from .._native import Fingerprint, Fingerprinter, fingerprint
from ..errors import FingerprintError
from ..fingerprints import rule
from ..functions.class_parts import RULES, annotation_texts, attributes, package_of
from ..functions.interpreter import INTERPRETER
from ..functions.packages import installed_version, is_installed
from ..version import PACKAGE
from .names import check_named

__all__ = ["step_fingerprint"]

#: Strict for what outlives the process.
Mode: TypeAlias = Literal["strict", "lenient"]

#: The parts of a code object that decide what it does; positions and file do not.
_CODE: Final = (
    *("co_name", "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_exceptiontable"),
)


def step_fingerprint(step: Any, *, mode: Mode) -> Fingerprint:
    """Return the fingerprint of a step; strict for what outlives the process, lenient otherwise."""
    if mode == "strict":
        check_named(step)
    return _Meaning(mode).of_value(step)


class _Meaning:
    """One fingerprint of a step in the making."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._named: list[type] = []
        self._fingerprinter = Fingerprinter(
            mode=mode, overrides={**_RULES, type: self._note, EnumMeta: self._note}
        )

    def _note(self, cls: type) -> Any:
        """Take note of a class that is met as a value; it counts by name here."""
        self._named.append(cls)
        return NotImplemented

    def _walk(self, value: Any) -> tuple[Fingerprint, list[type]]:
        """Return the fingerprint of a value and all classes met in it."""
        self._named.clear()
        digest, classes, _ = self._fingerprinter._with_classes(value)
        return digest, [*classes, *self._named]

    def of_value(self, value: Any) -> Fingerprint:
        whole, pending = self._walk(value)
        known: dict[type, Fingerprint] = {}
        # What classes define holds other classes, and those define something too.
        while pending:
            for cls in pending.pop().__mro__:
                if cls not in known and not _is_by_name(cls):
                    known[cls], classes = self._of_class(cls)
                    pending += [*classes, type(cls)]
        durable = whole.durable and all(digest.durable for digest in known.values())
        by_name = sorted(
            (f"{cls.__module__}.{cls.__qualname__}", bytes(digest)) for cls, digest in known.items()
        )
        return Fingerprint(bytes(fingerprint(("keyprint step", bytes(whole), by_name))), durable=durable)

    def _of_class(self, cls: type) -> tuple[Fingerprint, list[type]]:
        defined = attributes(cls)
        try:
            return self._walk(defined)
        except FingerprintError as error:
            if self._mode == "strict" and not _is_installed(cls):
                error.add_hint(f"it belongs to the class `{cls.__module__}.{cls.__qualname__}`")
                raise
        # A class of another package cannot be mended by whoever uses it, and within one process a class
        # is the same for all: what has no identity is left out.
        identified = {}
        for name, value in defined.items():
            try:
                self._walk({name: value})
            except FingerprintError:
                continue
            identified[name] = value
        return self._walk(identified)


def _function(function: types.FunctionType) -> Any:
    raw = getattr(function, "raw_function", None)
    if raw is not None and function.__globals__.get("__package__", "").partition(".")[0] == "pydantic":
        return rule.ordered(raw, tag="keyprint validated")
    if function.__globals__ is vars(functools) and hasattr(function, "registry"):
        # Besides the table, a dispatcher holds caches, and how often anything was registered anywhere.
        return rule.ordered(function.__qualname__, dict(function.registry), tag="keyprint dispatch")
    return rule.ordered(
        function.__module__,
        function.__qualname__,
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        annotation_texts(function),
        [_cell(cell) for cell in function.__closure__ or ()],
        dict(vars(function)),
        tag="keyprint function",
    )


def _code(code: types.CodeType) -> Any:
    # Interpreters before 3.11 have no table of exceptions.
    return rule.ordered(*(getattr(code, name, None) for name in _CODE), tag="keyprint code")


def _cell(cell: Any) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _module(module: types.ModuleType) -> Any:
    """Count a module of the program by its file, or by what is in it; others by name."""
    file = getattr(module, "__file__", None) or ""
    if _is_standard(module.__name__) or is_installed(file):
        return NotImplemented
    if os.path.isfile(file):
        with open(file, "rb") as source:
            return rule.ordered(module.__name__, source.read(), tag="keyprint module")
    content = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return rule.ordered(module.__name__, content, tag="keyprint module")


#: How things count inside functions and classes, where that differs from values.
_RULES: Final[dict[type, Any]] = {
    **RULES,
    types.FunctionType: _function,
    types.CodeType: _code,
    types.ModuleType: _module,
}


def _is_by_name(cls: type) -> bool:
    """Whether a class is the interpreter's own, of the standard library, or of this package."""
    return package_of(cls) == PACKAGE or _is_standard(cls.__module__)


def _is_standard(module: str) -> bool:
    """Whether a module is of the standard library."""
    return installed_version(module) == INTERPRETER


def _is_installed(cls: type) -> bool:
    return is_installed(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
