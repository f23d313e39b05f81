"""What classes count by: what they define, what was registered with them, and what they annotate."""

from __future__ import annotations

import sys
import types

from .._native import Fingerprinter, fingerprint
from ..errors import FingerprintError
from ..fingerprints.kinds import is_a, module_of_class
from .captured import classes_in, in_order, is_behaviour, is_enum, is_made, table_behind
from .texts import short_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .resolution import Resolver

__all__ = ["Classes"]


class Classes:
    """Counts classes that a function reaches."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._class_fingerprinter: Fingerprinter | None = None
        #: By identity: a metaclass may say what is equal, and leave classes without a hash.
        self._known: dict[int, tuple[str, type]] = {}
        #: Abstract classes, and what was registered with them.
        self._abstract: list[tuple[type, list[type]]] = []

    def count(self, cls: type) -> str:
        """Count what a class defines, if it belongs to the program; return what it is called."""
        known = self._known.get(id(cls))
        if known is not None:
            return known[0]
        name = f"{module_of_class(cls)}.{cls.__qualname__}"
        self._known[id(cls)] = name, cls
        self._count_registered(cls)
        is_builtin = module_of_class(cls) == "builtins" and not is_made(cls)
        if cls is object or is_builtin or self._resolver.version_of(cls) is not None:
            return name
        number = self._resolver.names[name] = self._resolver.names.get(name, 0) + 1
        if number > 1:
            name = f"{name} #{number}"
            self._known[id(cls)] = name, cls
        if self._resolver.values.count_native_module(module_of_class(cls)):
            return name
        from .class_parts import RULES, attributes

        label = f"class {name}"
        self._resolver.described[label] = cls
        if not self._resolver.guards.type(cls):
            self._resolver.access_paths.rechecks.append(lambda: False)
        if self._class_fingerprinter is None:
            self._class_fingerprinter = self._resolver.values.make_fingerprinter(
                {**RULES, **self._resolver.values.overrides()}
            )
        self._resolver.values.arrays.clear()
        parts = []
        for attribute, value in attributes(cls).items():
            try:
                digest, classes, _ = self._class_fingerprinter._with_classes(value)
            except FingerprintError as error:
                raise self._resolver.values.unidentified(
                    f"{label}.{attribute}", error, self._resolver.at
                ) from error
            if self._resolver.values.arrays:
                raise self._resolver.values.writable(f"{label}.{attribute}", self._resolver.at)
            parts.append((attribute, bytes(digest)))
            for other in in_order(classes):
                self.count(other)
            if not is_behaviour(value) and not self._resolver.guards.value(value):
                self._resolver.values.recheck(value, digest, self._class_fingerprinter)
        self._watch_parts(cls)
        for member in getattr(cls, "__members__", {}).values() if is_enum(cls) else ():
            # What is put on members changes nothing about their class.
            if not self._resolver.guards.value(member):
                extras = vars(member)
                self._resolver.values.recheck(
                    extras, self._class_fingerprinter(extras), self._class_fingerprinter
                )
        bases = [self.count(base) for base in (*cls.__bases__, type(cls))]
        self._resolver.put(label, fingerprint((sorted(parts), bases)), f"class {name}", self._resolver.at)
        return name

    def _watch_parts(self, cls: type) -> None:
        """Watch what a class keeps in places of its own: defaults of fields, tables of dispatch and of enums."""
        own = vars(cls)
        for field in dict(own.get("__dataclass_fields__") or {}).values():
            for name in ("default", "default_factory"):
                self._resolver.guards.member(field, name)
        for value in list(own.values()):
            is_dispatch = type(value).__name__ == "singledispatchmethod"
            dispatcher = getattr(value, "dispatcher", None) if is_dispatch else None
            table = table_behind(dispatcher) if isinstance(dispatcher, types.FunctionType) else None
            if table is not None:
                self._resolver.guards.value(table)
        if is_enum(cls) and "_flag_mask_" not in own:
            for name in ("_value2member_map_", "_member_map_", "_member_names_"):
                self._resolver.guards.value(own.get(name))

    def _count_registered(self, cls: type) -> None:
        """Count the classes of the program that were registered with an abstract class, and those to come."""
        abc = sys.modules.get("abc")
        if abc is None or not isinstance(cls, abc.ABCMeta):
            return
        from .class_parts import registered_classes, subclasses_with_hooks

        known = registered_classes(cls)
        own = [kind for kind in known if self._resolver.version_of(kind) is None]
        if own:
            names = [f"{module_of_class(kind)}.{kind.__qualname__}" for kind in own]
            self._resolver.put(
                f"registered with {cls.__qualname__}", fingerprint(names), ", ".join(names), self._resolver.at
            )
        for sub in subclasses_with_hooks(cls):
            self.count(sub)
        if not self._abstract:
            abstract, token = self._abstract, abc.get_cache_token()
            self._resolver.access_paths.rechecks.append(
                lambda: (
                    abc.get_cache_token() == token
                    or all(registered_classes(base) == known for base, known in abstract)
                )
            )
        self._abstract.append((cls, known))

    def count_named_constants(self, annotation: object, names: dict[str, Any]) -> None:
        """Count the types of the kernel language that an annotation names which is written as a text."""
        if not isinstance(annotation, str):
            return
        import re

        for path in re.findall(r"[A-Za-z_][\w.]*", annotation):
            first, *rest = path.split(".")
            binding = self._resolver.guards.name(names, first)
            reached = binding[0] if binding else None
            for name in rest:
                reached = getattr(reached, name, None)
            if hasattr(type(reached), "__keyprint_constant__") and not isinstance(reached, type):
                module = names.get("__name__", "?")
                self._resolver.put(
                    f"annotation {module}.{path}",
                    fingerprint(reached),
                    short_text(reached),
                    self._resolver.at,
                )

    def annotation(self, value: Any) -> object:
        """Return what counts of something that annotates: of a class, its name and its own annotations."""
        if not is_a(value, type) or is_a(value, types.GenericAlias):
            return bytes(self._resolver.values.digest_of("annotation", value, self._resolver.at))
        if self._resolver.version_of(value) is not None:
            return "outside", module_of_class(value), value.__qualname__
        from .class_parts import annotation_texts, attributes

        parts: list[object] = []
        for cls in value.__mro__:
            if cls is object or self._resolver.version_of(cls) is not None:
                parts.append((module_of_class(cls), cls.__qualname__))
                continue
            # A parameter that is taken apart by its annotation is taken apart by those of its fields too.
            names = vars(sys.modules.get(module_of_class(cls), types))
            for annotation in vars(cls).get("__annotations__", {}).values():
                self.count_named_constants(annotation, names)
                for kind in classes_in(annotation, names):
                    label = f"annotation {module_of_class(kind)}.{kind.__qualname__}"
                    if kind is not value and label not in self._resolver.components:
                        self._resolver.put(label, fingerprint(None), short_text(kind), self._resolver.at)
                        self._resolver.components[label] = fingerprint(self.annotation(kind))
            data = {
                name: attribute
                for name, attribute in attributes(cls).items()
                if not hasattr(type(attribute), "__get__") and not name.startswith("__")
            }
            digest = bytes(
                self._resolver.values.digest_of(f"annotation {cls.__qualname__}", data, self._resolver.at)
            )
            parts.append(
                (module_of_class(cls), cls.__qualname__, sorted(annotation_texts(cls).items()), digest)
            )
        if not self._resolver.guards.type(value):
            self._resolver.access_paths.rechecks.append(lambda: False)
        return "annotation", parts
