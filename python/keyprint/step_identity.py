"""What a step is: its configuration, and what its functions do.

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

import enum
import functools
import os
import sys
import threading
import types
import weakref
from typing import Any, Final, Literal, TypeAlias

from . import rule
from ._native import Fingerprint, Fingerprinter, fingerprint
from .errors import FingerprintError

__all__ = ["Mode", "class_fingerprint", "step_fingerprint"]

#: Strict for what outlives the process.
Mode: TypeAlias = Literal["strict", "lenient"]

#: The parts of a code object that decide what it does; positions and file do not.
_CODE: Final = (
    *("co_name", "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_exceptiontable"),
)

#: What synchronises or remembers, and holds nothing that a result depends on.
_BY_TYPE: Final = (
    *(type(threading.Lock()), type(threading.RLock()), threading.local),
    *(weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, weakref.ReferenceType),
)

#: Attributes of classes that say nothing about what a class does, or nothing stable.
_NOISE: Final = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__slots__", "__classcell__"),
        *("__firstlineno__", "__static_attributes__", "__signature__", "__abstractmethods__", "_abc_impl"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__orig_bases__", "__parameters__", "__type_params__"),
        *("__protocol_attrs__", "__non_callable_proto_members__", "_is_protocol", "_is_runtime_protocol"),
        *("__dataclass_fields__", "__dataclass_params__", "__attrs_attrs__", "__attrs_props__"),
        *("__private_attributes__", "__class_vars__", "__fields__", "__slotnames__"),
    }
)

#: Where interpreters keep what they read attributes by; the attribute itself is in the instance.
_DESCRIPTORS: Final = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)

#: The directory of the standard library.
_STDLIB: Final = os.path.join(os.path.dirname(os.__file__), "")


def step_fingerprint(step: Any, *, mode: Mode) -> Fingerprint:
    """Return the fingerprint of a step; strict for what outlives the process, lenient otherwise."""
    if mode == "strict":
        _NAMED(step)
    return _Meaning(mode).of_value(step)


def class_fingerprint(cls: type, *, mode: Mode) -> Fingerprint:
    """Return the fingerprint of what a class and its bases define."""
    return _Meaning(mode).of_value(cls)


class _Meaning:
    """One fingerprint of a step in the making."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._named: list[type] = []
        self._fingerprinter = Fingerprinter(mode=mode, overrides={**_RULES, type: self._note})

    def _note(self, cls: type) -> Any:
        """Take note of a class that is met as a value; it counts by name here."""
        self._named.append(cls)
        return NotImplemented

    def _walk(self, value: Any) -> tuple[Fingerprint, list[type]]:
        """Return the fingerprint of a value and all classes met in it."""
        self._named.clear()
        found, classes = self._fingerprinter._with_classes(value)
        return found, [*classes, *self._named]

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
        attributes = _attributes(cls)
        try:
            return self._walk(attributes)
        except FingerprintError as error:
            if self._mode == "strict" and not _is_installed(cls):
                error.add_hint(f"it belongs to the class `{cls.__module__}.{cls.__qualname__}`")
                raise
        # A class of another package cannot be mended by whoever uses it, and within one process a class
        # is the same for all: what has no identity is left out.
        identified = {}
        for name, value in attributes.items():
            try:
                self._walk({name: value})
            except FingerprintError:
                continue
            identified[name] = value
        return self._walk(identified)


def _function(function: types.FunctionType) -> Any:
    return rule.ordered(
        function.__module__,
        function.__qualname__,
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
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


#: How things count inside functions and classes, where that differs from values.
_RULES: Final[dict[type, Any]] = {
    types.FunctionType: _function,
    types.CodeType: _code,
    functools._lru_cache_wrapper: lambda value: rule.ordered(value.__wrapped__, tag="keyprint cache"),
    property: lambda value: rule.ordered(value.fget, value.fset, value.fdel, tag="keyprint property"),
    staticmethod: lambda value: rule.ordered(value.__func__, tag="keyprint static"),
    classmethod: lambda value: rule.ordered(value.__func__, tag="keyprint class method"),
    functools.cached_property: lambda value: rule.ordered(value.func, tag="keyprint cached property"),
    functools.partialmethod: lambda value: rule.ordered(
        value.func, value.args, value.keywords, tag="keyprint partial method"
    ),
    functools.singledispatchmethod: lambda value: rule.ordered(
        value.func, dict(value.dispatcher.registry), tag="keyprint dispatch"
    ),
    **{kind: rule.leaf(f"{kind.__module__}.{kind.__qualname__}") for kind in _BY_TYPE},
    **{kind: lambda value: rule.leaf(value.__name__) for kind in _DESCRIPTORS},
}


def _named_function(function: types.FunctionType) -> Any:
    # What has no name is left to strict mode, which refuses it with the path to it.
    return NotImplemented if "<" in function.__qualname__ else rule.leaf(function.__qualname__)


#: Refuses configurations that hold something without a name.
_NAMED: Final = Fingerprinter(overrides={types.FunctionType: _named_function})


def _is_by_name(cls: type) -> bool:
    """Whether a class is the interpreter's own, of the standard library, or of this package."""
    top, _, _ = cls.__module__.partition(".")
    if top == __package__:
        return True
    if top == "__main__" or top not in sys.stdlib_module_names:
        return False
    # A program may have a module of the same name.
    spec = getattr(sys.modules.get(cls.__module__), "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin in (None, "built-in", "frozen"):
        return cls.__module__ in sys.builtin_module_names or origin is not None
    return origin.startswith(_STDLIB) and "-packages" not in origin


def _is_installed(cls: type) -> bool:
    """Whether a class belongs to an installed package."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _attributes(cls: type) -> dict[str, Any]:
    """Return what a class itself defines."""
    found: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if name in _NOISE or name.startswith("__pydantic_") or isinstance(value, _DESCRIPTORS):
            continue
        if _is_generated(cls, value):
            continue
        # The members of an enum count with its members; what else it holds are indexes over them.
        if isinstance(cls, enum.EnumMeta) and not isinstance(value, (types.FunctionType, *_WRAPPERS)):
            continue
        found[name] = value
    return found


_WRAPPERS: Final = (property, staticmethod, classmethod, functools.cached_property)


def _is_generated(cls: type, value: Any) -> bool:
    """Whether a function was written by a decorator from fields, which count themselves."""
    if not isinstance(value, types.FunctionType):
        return False
    inner = getattr(value, "__wrapped__", value)
    code = inner.__code__ if isinstance(inner, types.FunctionType) else value.__code__
    if value.__module__ == "dataclasses" or value.__code__.co_filename.startswith("<attrs generated"):
        return True
    # What `dataclasses` writes is nested in a function of this name; before 3.11 code does not tell.
    made = getattr(code, "co_qualname", inner.__qualname__ if inner is not value else "")
    if made.startswith("__create_fn__."):
        return True
    is_old = not hasattr(code, "co_qualname") and "__dataclass_fields__" in vars(cls)
    return is_old and code.co_filename == "<string>" and value.__name__ in _GENERATED


#: What `dataclasses` writes.
_GENERATED: Final = frozenset(
    {
        *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
        *("__setattr__", "__delattr__"),
    }
)
