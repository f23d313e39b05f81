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

import contextvars
import dataclasses
import enum
import functools
import os
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

from . import rule
from ._native import Fingerprint, Fingerprinter, fingerprint
from .errors import FingerprintError
from .metadata import has_opted_out

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
    *(type(threading.Lock()), type(threading.RLock())),
    *(weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet),
)

#: Attributes of classes that say nothing about what a class does, or nothing stable.
_NOISE: Final = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__classcell__"),
        *("__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__slotnames__"),
        *("__annotate__", "__annotate_func__", "__annotations_cache__", "__parameters__", "__type_params__"),
        *("__protocol_attrs__", "__non_callable_proto_members__", "_is_protocol", "_is_runtime_protocol"),
    }
)

#: The same for classes that pydantic makes; their fields are counted below.
_PYDANTIC_NOISE: Final = frozenset(
    {"__private_attributes__", "__class_vars__", "__fields__", "__signature__"}
)

#: What enum classes keep besides what was written into them; their members are counted below.
_ENUM_NOISE: Final = frozenset(
    {
        *("_member_map_", "_member_names_", "_value2member_map_", "_member_type_", "_value_repr_"),
        *("_unhashable_values_", "_unhashable_values_map_", "_hashable_values_", "_use_args_"),
        "_new_member_",
        *("_flag_mask_", "_all_bits_", "_singles_mask_", "_boundary_", "_inverted_", "__new_member__"),
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
        try:
            _NAMED(step)
        except FingerprintError as error:
            error.add_hint(
                "a step whose results outlive the process needs a name; without `store=` any will do"
            )
            raise
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
        _annotations(function),
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


def _annotations(owner: Any) -> dict[str, str]:
    """Return annotations as text: what they name is not followed."""
    try:
        # A class without annotations would answer with those of its base.
        found = vars(owner).get("__annotations__", {}) if isinstance(owner, type) else owner.__annotations__
        return {name: _text(value) for name, value in found.items()}
    except Exception:
        # Newer interpreters evaluate annotations when asked, which may fail.
        return {}


def _text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return f"{annotation.__module__}.{annotation.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(annotation))


def _parts_of(*names: str) -> Callable[[Any], Any]:
    """Return a rule that counts attributes of an object, and the state of a subclass."""

    def parts(value: Any) -> Any:
        found = [getattr(value, name) for name in names]
        return rule.ordered(type(value), *found, getattr(value, "__dict__", {}), tag="keyprint parts")

    return parts


def _module(module: types.ModuleType) -> Any:
    """Count a module of the program by its file, or by what is in it; others by name."""
    file = getattr(module, "__file__", None) or ""
    if _is_standard(module.__name__) or _is_package(file):
        return NotImplemented
    if os.path.isfile(file):
        with open(file, "rb") as source:
            return rule.ordered(module.__name__, source.read(), tag="keyprint module")
    content = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return rule.ordered(module.__name__, content, tag="keyprint module")


#: How things count inside functions and classes, where that differs from values.
_RULES: Final[dict[type, Any]] = {
    types.FunctionType: _function,
    types.CodeType: _code,
    types.ModuleType: _module,
    functools._lru_cache_wrapper: _parts_of("__wrapped__"),
    property: _parts_of("fget", "fset", "fdel"),
    staticmethod: _parts_of("__func__"),
    classmethod: _parts_of("__func__"),
    functools.cached_property: _parts_of("func"),
    functools.partialmethod: _parts_of("func", "args", "keywords"),
    functools.singledispatchmethod: lambda value: rule.ordered(
        value.func, dict(value.dispatcher.registry), tag="keyprint dispatch"
    ),
    threading.local: _parts_of(),
    contextvars.ContextVar: lambda value: rule.leaf(value.name, tag="keyprint context"),
    TypeVar: lambda value: rule.leaf(value.__name__, tag="keyprint type variable"),
    weakref.ReferenceType: lambda value: rule.ordered(value(), tag="keyprint reference"),
    **{kind: rule.leaf(f"{kind.__module__}.{kind.__qualname__}") for kind in _BY_TYPE},
    **{kind: _parts_of("__objclass__", "__name__") for kind in _DESCRIPTORS},
}


def _named_function(function: types.FunctionType) -> Any:
    # What has no name is left to strict mode, which refuses it with the path to it.
    return NotImplemented if "<" in function.__qualname__ else rule.leaf(function.__qualname__)


#: Refuses configurations that hold something without a name.
_NAMED: Final = Fingerprinter(overrides={types.FunctionType: _named_function})


def _is_by_name(cls: type) -> bool:
    """Whether a class is the interpreter's own, of the standard library, or of this package."""
    return _package_of(cls) == __package__ or _is_standard(cls.__module__)


def _package_of(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _is_standard(module: str) -> bool:
    """Whether a module is of the standard library."""
    top, _, _ = module.partition(".")
    if top == "__main__" or top not in sys.stdlib_module_names:
        return False
    # A program may have a module of the same name.
    spec = getattr(sys.modules.get(module), "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin in (None, "built-in", "frozen"):
        return module in sys.builtin_module_names or origin is not None
    return origin.startswith(_STDLIB) and not _is_package(origin)


def _is_package(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return "site-packages" in file or "dist-packages" in file


def _is_installed(cls: type) -> bool:
    return _is_package(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")


def _attributes(cls: type) -> dict[str, Any]:
    """Return what a class itself defines."""
    own = vars(cls)
    is_pydantic = "__pydantic_core_schema__" in own
    found: dict[str, Any] = {}
    for name, value in own.items():
        if name in _NOISE or _is_generated(cls, value):
            continue
        if isinstance(value, _DESCRIPTORS) and value.__objclass__ is cls:
            continue
        if is_pydantic and (name in _PYDANTIC_NOISE or name.startswith("__pydantic_")):
            continue
        if isinstance(cls, enum.EnumMeta) and (name in _ENUM_NOISE or isinstance(value, cls)):
            continue
        found[name] = value
    found["__annotations__"] = _annotations(cls)
    if "__orig_bases__" in own:
        found["__orig_bases__"] = [_text(base) for base in own["__orig_bases__"]]
    if isinstance(cls, enum.EnumMeta):
        members: Mapping[str, Any] = cls.__members__
        found["__members__"] = [(name, member._value_) for name, member in members.items()]
    if "__dataclass_fields__" in own:
        found["__dataclass_fields__"] = [
            _dataclass_field(field) for field in own["__dataclass_fields__"].values()
        ]
        found["__dataclass_params__"] = repr(own.get("__dataclass_params__"))
    if "__attrs_attrs__" in own:
        found["__attrs_attrs__"] = [_attrs_field(field) for field in own["__attrs_attrs__"]]
        found.pop("__attrs_props__", None)
    if is_pydantic:
        fields = own.get("__pydantic_fields__") or getattr(cls, "model_fields", {})
        found["__pydantic_fields__"] = [(name, *_pydantic_field(field)) for name, field in fields.items()]
    return found


def _dataclass_field(field: Any) -> tuple[Any, ...]:
    flags = (field.name, _text(field.type), field.init, field.repr, field.hash, field.compare)
    if has_opted_out(field.metadata):
        # A field that opted out does not count, and neither does what it begins with.
        return flags
    given = [("default", field.default), ("factory", field.default_factory)]
    defaults = [(kind, value) for kind, value in given if value is not dataclasses.MISSING]
    return (*flags, getattr(field, "kw_only", None), defaults)


def _attrs_field(field: Any) -> tuple[Any, ...]:
    flags = (field.name, _text(field.type), field.repr, field.eq, field.order, field.hash, field.init)
    factory = getattr(field.default, "factory", None)
    default = field.default if factory is None else ("factory", factory)
    # What stands for no default is of the package, and goes by its name.
    known = _text(type(default)) if _package_of(type(default)) in ("attr", "attrs") else (default,)
    return (*flags, field.kw_only, known, field.converter, field.validator)


def _pydantic_field(field: Any) -> tuple[Any, ...]:
    default = field.default
    known = _text(type(default)) if _package_of(type(default)) == "pydantic_core" else (default,)
    texts = (_text(field.annotation), repr(field.metadata), repr(field.exclude), repr(field.alias))
    return (*texts, known, field.default_factory)


def _is_generated(cls: type, value: Any) -> bool:
    """Whether a function was written by a decorator from fields, which count themselves."""
    if not isinstance(value, types.FunctionType):
        return False
    # `dataclasses` wraps what it writes for `repr`; what others wrap is theirs.
    wraps = value.__globals__.get("__name__") in ("dataclasses", "reprlib")
    inner = getattr(value, "__wrapped__", value) if wraps else value
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
