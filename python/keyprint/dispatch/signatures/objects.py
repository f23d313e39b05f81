"""Arguments that are objects: they count by the members that are read, and by the methods that are called."""

from __future__ import annotations

import types

from ..._native import Check, Fingerprint, Source, fingerprint
from ...errors import SignatureError
from ...fingerprints.kinds import is_a
from ...functions.access_paths import function_of, lookup
from ...functions.reads import HOW, add_use, effective, format_read, where_of
from .argument import Argument, type_name
from .inspection import (
    accessors,
    fields_of,
    is_computed,
    is_instance,
    order_of,
    slot_names,
    stored,
    stored_names,
    with_article,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...functions.reads import Node
    from ...functions.resolution import Resolution
    from .signature import SignatureMaker

#: Modules of classes that keep nothing in instances, and whose methods only call those of the program.
_STORES_NOTHING: Final = frozenset({"abc", "collections.abc", "numbers", "typing", "builtins"})


def is_program_object(maker: SignatureMaker, value: Any) -> bool:
    """Whether something is an instance of a class of the program, whose members are just stored."""
    return is_instance(value) and maker.rules.packages.version_of(type(value).__module__) is None


def count_used_methods(maker: SignatureMaker, cls: type, node: Node, path: str) -> None:
    """Count the methods that are called on something whose signature speaks for its data."""
    names = [name for name in node if name != HOW]
    if "called" in node.get(HOW, ()):
        names.append("__call__")
    for name in names:
        for attribute in lookup(cls, name):
            inner = attribute.__func__ if is_a(attribute, (staticmethod, classmethod)) else attribute
            for function in (inner, *accessors(inner)):
                if isinstance(function, types.FunctionType):
                    maker.count(f"method {path}.{name}", maker.resolution(function))


def take_object(
    maker: SignatureMaker, value: Any, node: Node, source: Source, path: str, mode: str
) -> Argument:
    cls = type(value)
    mode = getattr(cls, "__keyprint_members__", mode)
    if not is_instance(value):
        return maker.take_opaque(value, source, path)
    if "called" in node.get(HOW, ()):
        add_use(node, ("__call__",), "called", where_of(node))
    # First everything that methods read of the object, then the members: each is taken once.
    _expand(maker, value, node, path)
    is_whole = "whole" in node.get(HOW, ())
    if is_whole:
        # The object itself is handed on: by then nobody knows what is read of it.
        if not is_taken_whole(maker, value):
            return maker.take_opaque(value, source, path)
        for name in (*(fields_of(cls) or ()), *slot_names(cls), *stored_names(value)):
            add_use(node, (name,), "whole", where_of(node))
        # Whatever the class defines may be used as well.
        maker.count(f"class of {path}", maker.resolution(cls))
    if "class" in node.get(HOW, ()):
        count_class_of(maker, value, path)
    guard = maker.add_guard(source, Check.whole() if is_whole else Check.object())
    if is_whole and (cls is types.SimpleNamespace or "order" in maker.asks):
        # Other instances may have the same members in another order.
        order = bytes(fingerprint(order_of(value)))
        maker.add_guard(source, Check.signature(lambda value: bytes(fingerprint(order_of(value))), order))
        maker.signature.components[f"order of {path}"] = Fingerprint(order)
        maker.signature.texts[f"order of {path}"] = ", ".join(order_of(value))
    members: dict[Any, Argument] = {}
    with maker.deeper(path):
        _take_members(maker, value, node, guard, path, members, mode)
    argument = Argument("object", type=type_name(value), members=members, python_type=cls)
    return argument.guarded_by(guard)


def is_taken_whole(maker: SignatureMaker, value: Any) -> bool:
    """Whether all of an object is what it stores: nothing of it is made up by its class, or hidden in native code."""
    cls = type(value)
    if fields_of(cls) is not None:
        return True
    packages = maker.rules.packages
    own = [base for base in cls.__mro__ if packages.version_of(base.__module__) is None]
    others = [base for base in cls.__mro__ if base not in own and base.__module__ not in _STORES_NOTHING]
    return (bool(own) and others in ([], [object])) or cls is types.SimpleNamespace


def count_class_of(maker: SignatureMaker, value: Any, path: str) -> None:
    """Count what a class is that `isinstance` is asked about: its bases, and what it is registered with."""
    cls = type(value)
    if maker.rules.packages.version_of(cls.__module__) is None:
        maker.count(f"class of {path}", maker.resolution(cls))


def _expand(maker: SignatureMaker, value: Any, node: Node, path: str) -> None:
    """Count the methods of an object that are reached, and add what they read of it to what is read."""
    cls = type(value)
    seen: set[tuple[str, int]] = set()
    is_growing = True
    while is_growing:
        is_growing = False
        if "super whole" in node.get(HOW, ()):
            for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
                if any(is_a(attribute, types.FunctionType) for attribute in lookup(cls, name)):
                    add_use(node, (name,), "super", where_of(node))
        for name in [name for name in node if name != HOW]:
            attributes = [] if stored(value, name) else list(lookup(cls, name))
            if "super" in node[name].get(HOW, ()):
                attributes += [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
            for attribute in attributes:
                if (name, id(attribute)) not in seen:
                    seen.add((name, id(attribute)))
                    is_growing = True
                    is_super = "super" in node[name].get(HOW, ())
                    met = _count_from_class(
                        maker, value, attribute, node, f"{path}.{name}", is_super=is_super
                    )
                    # What a class holds as data is looked at like a member; a method is code.
                    inner = getattr(attribute, "__func__", attribute)
                    if met is not None and not is_super and function_of(inner) is not None:
                        maker.memo.check_baseline(cls, name, met)


def _count_from_class(
    maker: SignatureMaker, value: Any, attribute: Any, node: Node, place: str, *, is_super: bool
) -> Resolution | None:
    """Count something that a class defines, and add what it reads of the object; return what it depends on."""
    if is_computed(attribute):
        # Refused where it is read, but what `super()` finds may be a property.
        for accessor in accessors(attribute) if is_super else ():
            _count_method(maker, accessor, node, place)
        return None
    if type(attribute) is types.MemberDescriptorType:
        return None
    function = function_of(attribute)
    if function is not None:
        return _count_method(maker, function, node, place)
    inner: Any = attribute
    if is_a(attribute, (staticmethod, classmethod)):
        inner = attribute.__func__
    # The guard of the object says that the class is what it was; what the attribute holds may change.
    bound = type(value) if is_a(attribute, classmethod) else None
    resolution = maker.memo.of(inner, maker.rules, bound)
    maker.count(f"class attribute {place}", resolution)
    return resolution


def _count_method(maker: SignatureMaker, function: types.FunctionType, node: Node, place: str) -> Resolution:
    """Count a method, and add what it reads of the object it belongs to."""
    resolution = maker.resolution(function)
    maker.count(f"method {place} ({function.__module__}.{function.__qualname__})", resolution)
    if resolution.root is not None and resolution.root.uses:
        for (more, how), where in effective(resolution.root, 0).items():
            if more or how in ("whole", "super whole"):
                add_use(node, more, how, where)
    return resolution


def _take_members(
    maker: SignatureMaker,
    value: Any,
    node: Node,
    guard: int,
    path: str,
    members: dict[Any, Argument],
    mode: str,
) -> None:
    """Take the members of an object that are read, by the function or by methods of the object."""
    for name in [name for name in node if name != HOW]:
        child: Any = node[name]
        place = f"{path}.{name}"
        how = set(child.get(HOW, ()))
        attribute = lookup(type(value), name)
        if how == {"super"} and len(child) == 1:
            # Found behind the class, and counted already.
            continue
        if attribute and is_computed(attribute[0]):
            raise SignatureError(
                f"the argument `{maker.name}` computes `{place}` in a property ({format_read(child)})",
                code="argument-type",
                hint="store the value in a plain attribute, or read what the property reads",
            )
        source = Source.member(guard, name)
        member = stored(value, name)
        is_glance = set(child) == {HOW} and how <= {"optional", "type", "class"}
        if is_glance and "class" in how and member:
            count_class_of(maker, member[0], place)
        if is_glance and (member or "optional" not in how):
            members[name] = _take_type_of(maker, member, attribute, source)
        elif member:
            members[name] = maker.take_any(member[0], child, source, place, in_object=mode, members=mode)
        elif attribute and type(attribute[0]) is not types.MemberDescriptorType:
            # A member of its own would hide what the class has.
            maker.add_guard(source, Check.absent())
        elif ("optional" in how and len(child) == 1) or maker.options.absent_members:
            members[name] = Argument("absent").guarded_by(maker.add_guard(source, Check.absent()))
        else:
            raise SignatureError(
                f"the argument `{maker.name}` has no member `{place}` ({format_read(child)})",
                code="missing-member",
                hint=f"`{path}` is {with_article(type_name(value))}; set the member before the call",
            )


def _take_type_of(
    maker: SignatureMaker, member: tuple[Any, ...], on_class: tuple[Any, ...], source: Source
) -> Argument:
    """Take a member of which only the type is asked for: `s.grid is None`."""
    if not member:
        kind = type_name(on_class[0]) if on_class else None
        return Argument("absent", type=kind).guarded_by(maker.add_guard(source, Check.absent()))
    return Argument("scalar", type=type_name(member[0])).guarded_by(maker.add_guard(source, Check.exact()))
