"""What a class defines: its attributes, without what says nothing or nothing stable.

Fields of dataclasses, attrs and pydantic count by their definitions, the methods that were written from
them do not; members of enums count by name and value.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import abc
import dataclasses
import enum
import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._native import fingerprint
from ..errors import FingerprintError
from ..fingerprints import rule
from ..fingerprints.kinds import is_a, module_of_class
from ..fingerprints.metadata import has_opted_out
from . import observable
from .captured import classes_in
from .observable import parts_of

__all__ = [
    "RULES",
    "annotation_texts",
    "attributes",
    "package_of",
    "registered_classes",
    "subclasses_with_hooks",
]

#: Attributes of classes that say nothing about what a class does, or nothing stable.
_NOISE: Final = frozenset(
    {
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__classcell__"),
        *("__firstlineno__", "__static_attributes__", "_abc_impl", "__slotnames__"),
        *("__annotate__", "__annotate_func__", "__annotations_cache__", "__parameters__", "__type_params__"),
        *("__protocol_attrs__", "__non_callable_proto_members__", "_is_protocol"),
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


def attributes(cls: type) -> dict[str, Any]:
    """Return what a class itself defines."""
    own = vars(cls)
    is_pydantic = "__pydantic_core_schema__" in own
    parts: dict[str, Any] = {}
    generated = {}
    for name, value in own.items():
        if name in _NOISE:
            continue
        if _is_generated(cls, value):
            # What it does is said by the fields; whether it is there, and whose it is, is not.
            generated[name] = value.__qualname__
            continue
        if is_a(value, _DESCRIPTORS) and value.__objclass__ is cls and value.__name__ == name:
            continue
        if name == "__abstractmethods__":
            value = sorted(value)
        if is_pydantic and (name in _PYDANTIC_NOISE or name.startswith("__pydantic_")):
            continue
        if isinstance(cls, enum.EnumMeta) and (name in _ENUM_NOISE or is_a(value, cls)):
            continue
        parts[name] = value
    parts["__annotations__"] = annotation_texts(cls)
    parts["__generated__"] = generated
    if cls.__name__ != cls.__qualname__.rpartition(".")[2]:
        parts["__name__"] = cls.__name__
    if "__orig_bases__" in own:
        parts["__orig_bases__"] = [_text(base) for base in own["__orig_bases__"]]
    if isinstance(cls, enum.EnumMeta):
        members: Mapping[str, Any] = cls.__members__
        parts["__members__"] = [(name, *_member_parts(member)) for name, member in members.items()]
        parts["__lookup__"] = _lookup_table(cls)
        parts["__names__"] = list(cls._member_names_)
        parts["__boundary__"] = getattr(own.get("_boundary_"), "name", None)
    registered = registered_classes(cls)
    if registered:
        parts["__registered__"] = [_text(kind) for kind in registered]
    if "__dataclass_fields__" in own:
        parts["__dataclass_fields__"] = [
            _dataclass_field(field) for field in own["__dataclass_fields__"].values()
        ]
        parts["__dataclass_params__"] = repr(own.get("__dataclass_params__"))
    if "__attrs_attrs__" in own:
        parts["__attrs_attrs__"] = [_attrs_field(field) for field in own["__attrs_attrs__"]]
        parts.pop("__attrs_props__", None)
    if is_pydantic:
        fields = own.get("__pydantic_fields__") or getattr(cls, "model_fields", {})
        parts["__pydantic_fields__"] = [(name, *_pydantic_field(field)) for name, field in fields.items()]
        private = own.get("__private_attributes__") or {}
        parts["__private_attributes__"] = [
            (name, *_pydantic_private(attribute)) for name, attribute in private.items()
        ]
        parts["__pydantic_decorators__"] = _pydantic_decorators(own.get("__pydantic_decorators__"))
    return parts


def registered_classes(cls: type) -> list[type]:
    """Return the classes that were registered with an abstract class, or with what derives from it, by name."""
    classes = [reference() for sub in _abstract_classes(cls) for reference in _abc._get_dump(sub)[0]]
    known = {kind for kind in classes if kind is not None}
    return sorted(known, key=lambda kind: (module_of_class(kind), kind.__qualname__))


def subclasses_with_hooks(cls: type) -> list[type]:
    """Return what derives from an abstract class and decides itself what is an instance."""
    return [sub for sub in _abstract_classes(cls)[1:] if "__subclasshook__" in vars(sub)]


def _abstract_classes(cls: type) -> list[type]:
    """Return an abstract class and all that derive from it: all of them are asked for instances."""
    classes: list[type] = [cls] if isinstance(cls, abc.ABCMeta) else []
    for base in classes:
        derived: list[type] = type.__subclasses__(base)
        classes += [sub for sub in derived if isinstance(sub, abc.ABCMeta) and sub not in classes]
    return classes


def _member_parts(member: Any) -> tuple[Any, ...]:
    """Return what a member of an enum is: its value, what it is mixed with, and what was put on it."""
    value = None if type(member._value_) is object else member._value_
    mixed = [read(member) for base, read in _MIXED.items() if is_a(member, base)]
    return value, mixed, _own_attributes(member)


#: How the values of builtin types are read from what derives from them.
_MIXED: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__index__,
    float: float.__float__,
    str: lambda member: str.__str__(member),
    bytes: lambda member: bytes.__getitem__(member, slice(None)),
    tuple: lambda member: tuple(tuple.__iter__(member)),
}


def _lookup_table(cls: Any) -> list[tuple[Any, str]] | None:
    """Return by which values members are found; combinations of flags are made as they are asked for."""
    if issubclass(cls, enum.Flag):
        return None
    return [(value, member._name_) for value, member in cls._value2member_map_.items()]


def _own_attributes(member: Any) -> dict[str, Any]:
    """Return what a program put on a member of an enum."""
    known = {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_", "_hashable_", "_unhashable_"}
    return {name: value for name, value in getattr(member, "__dict__", {}).items() if name not in known}


def _dataclass_field(field: Any) -> tuple[Any, ...]:
    kind = field._field_type.name
    flags = (field.name, _text(field.type), kind, field.init, field.repr, field.hash, field.compare)
    if has_opted_out(field.metadata):
        # A field that opted out does not count, and neither does what it begins with.
        return flags
    given = [("default", field.default), ("factory", field.default_factory)]
    defaults = [(kind, value) for kind, value in given if value is not dataclasses.MISSING]
    return (*flags, getattr(field, "kw_only", None), defaults, dict(field.metadata))


def _attrs_field(field: Any) -> tuple[Any, ...]:
    flags = (field.name, _text(field.type), field.repr, field.eq, field.order, field.hash, field.init)
    factory = getattr(field.default, "factory", None)
    default = field.default if factory is None else ("factory", factory)
    # What stands for no default is of the package, and goes by its name.
    known = _text(type(default)) if package_of(type(default)) in ("attr", "attrs") else (default,)
    keys = (field.eq_key, field.order_key, getattr(field, "alias", None))
    return (*flags, field.kw_only, known, field.converter, field.validator, dict(field.metadata), keys)


def _pydantic_field(field: Any) -> tuple[Any, ...]:
    # Nested models and validators in annotations do their work whenever an instance is made.
    classes = classes_in(field.annotation, {})
    names = [name for name in type(field).__slots__ if not name.startswith("_") and name != "annotation"]
    return _text(field.annotation), classes, [(name, _pydantic_value(getattr(field, name))) for name in names]


def _pydantic_value(value: Any) -> Any:
    """Return a value of a field; what stands for none is of the package, and goes by its name."""
    return _text(type(value)) if package_of(type(value)) == "pydantic_core" else value


def _pydantic_private(attribute: Any) -> tuple[Any, ...]:
    return _pydantic_value(attribute.default), attribute.default_factory


def _pydantic_decorators(decorators: Any) -> list[Any]:
    """Return which fields the validators and serializers of a model are for; they count as functions themselves."""
    entries = []
    for kind in ("field_validators", "validators", "field_serializers", "model_validators"):
        for name, decorator in getattr(decorators, kind, {}).items():
            info = decorator.info
            entries.append((kind, name, getattr(info, "fields", None), getattr(info, "mode", None)))
    return entries


def _is_generated(cls: type, value: Any) -> bool:
    """Whether a function was written by a decorator from fields, which count themselves."""
    if not is_a(value, types.FunctionType):
        return False
    # `dataclasses` wraps what it writes for `repr`; what others wrap is theirs.
    wraps = value.__globals__.get("__name__") in ("dataclasses", "reprlib")
    inner = getattr(value, "__wrapped__", value) if wraps else value
    code = inner.__code__ if is_a(inner, types.FunctionType) else value.__code__
    if value.__module__ == "dataclasses" or value.__code__.co_filename.startswith("<attrs generated"):
        return True
    # What `dataclasses` writes is nested in a function of this name; before 3.11 code does not tell.
    qualname = getattr(code, "co_qualname", inner.__qualname__ if inner is not value else "")
    if qualname.startswith("__create_fn__."):
        return True
    is_old = not hasattr(code, "co_qualname") and "__dataclass_fields__" in vars(cls)
    return is_old and code.co_filename == "<string>" and value.__name__ in _GENERATED


def annotation_texts(owner: Any) -> dict[str, str]:
    """Return annotations as text: what they name is not followed."""
    try:
        # A class without annotations would answer with those of its base.
        annotations = (
            vars(owner).get("__annotations__", {}) if isinstance(owner, type) else owner.__annotations__
        )
        return {name: _text(value) for name, value in annotations.items()}
    except Exception:
        # Newer interpreters evaluate annotations when asked, which may fail.
        return {}


def _text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return f"{module_of_class(annotation)}.{annotation.__qualname__}"
    try:
        # The text of what holds sets depends on the order of hashes.
        return fingerprint(annotation).hex()
    except FingerprintError:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(annotation))


def package_of(cls: type) -> str:
    """Return the top-level package of a class."""
    return module_of_class(cls).partition(".")[0]


#: How what classes are made of counts, where that differs from values. Functions are up to the caller.
RULES: Final[dict[type, Any]] = {
    functools.cached_property: parts_of("func"),
    functools.partialmethod: parts_of("func", "args", "keywords"),
    functools.singledispatchmethod: lambda value: rule.ordered(
        value.func, dict(value.dispatcher.registry), tag="keyprint dispatch"
    ),
    **observable.rules(),
    **{kind: parts_of("__objclass__", "__name__") for kind in _DESCRIPTORS},
}


#: What `dataclasses` writes.
_GENERATED: Final = frozenset(
    {
        *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
        *("__setattr__", "__delattr__"),
    }
)
