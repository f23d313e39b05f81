"""Everything that a function depends on, followed through what is loaded.

:class:`Resolution` begins with a function and follows what its source reads: globals, members of
modules, closure cells, class and instance members, and every function that is reached that way. Each
becomes a named component: functions by what they mean, values by their fingerprint, installed packages
by their version. What is read is read through guards, which tell later whether anything has changed.

Every use of a name or member comes to exactly one end: it is *followed* (its code counts), *counted* (its
value counts, and is guarded), *counted whole*, or *refused*. What does not count is a closed list
(:mod:`keyprint.not_counted`).

What a function reads of its *parameters* is found here too, through any depth of helpers; what they hold
is a matter of the call (:mod:`keyprint.signature`).
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from _weakref import ref

from .._native import Fingerprint, Fingerprinter, Guards, NdArray, _short_text, fingerprint
from ..errors import FingerprintError, FunctionKeyError
from ..fingerprints import rule
from ..fingerprints.kinds import is_a, module_of_class
from ..fingerprints.shown import ShownParts
from . import observable
from .access_paths import WRAPPER_TYPES, AccessPaths, Reached, function_of, lookup, sets_members
from .argument_flow import ArgumentFlow
from .captured import (
    PLAIN,
    can_change,
    classes_in,
    has_parts,
    in_order,
    is_behaviour,
    is_enum,
    is_made,
    is_same_by_nature,
    is_same_dict,
    only_adds,
    table_behind,
    weakly,
)
from .dynamic_access import asks_of, check_function, check_name, check_value, dynamic
from .entry import LONGEST_PATH, FunctionEntry, module_of, place_of
from .interpreter import INTERPRETER
from .reads import effective
from .registered import COUNTED_BY, PROCESS_LOCAL
from .sources import FUTURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Final, Literal

    from .entry import Where
    from .packages import Packages
    from .sources import Sources

__all__ = ["Resolution", "Rules", "resolve"]

#: A value that changes while it is read is read again this often.
_ATTEMPTS: Final = 64

_ABSENT: Final = ("absent",)

#: Types of values that go into nothing but themselves when something is added to them.
_VALUES: Final = (*PLAIN, tuple, frozenset)

#: What code can ask of things in general.
_ASKS: Final = frozenset({"annotations", "documentation", "identity", "names", "order"})

#: How something is used that is written.
_WRITES: Final = frozenset({"assigned", "mutated", "stored", "updated", "written"})

#: The ends that a use can come to, besides being refused.
FOLLOWED: Final = "followed"
COUNTED: Final = "counted"
WHOLE: Final = "counted whole"
EXEMPT: Final = "does not count"


class Resolution:
    """What a function depends on, arguments aside, as it was found at one moment."""

    __slots__ = (
        *(
            "asks",
            "components",
            "ends",
            "entries",
            "fingerprint",
            "guards",
            "is_process_local",
            "root",
            "parts",
            "texts",
            "where",
        ),
    )

    def __init__(self, resolver: _Resolver, root: FunctionEntry | None) -> None:
        #: Everything that counts, by name.
        self.components: dict[str, Fingerprint] = resolver.components
        #: A text for each component, for people.
        self.texts: dict[str, str] = resolver.texts
        #: What is in them, for people: as it was when they were read.
        self.parts: dict[str, ShownParts] = resolver.parts
        #: Where each component is read first.
        self.where: dict[str, Where] = resolver.where
        #: What code that was reached asks of things in general.
        self.asks: set[str] = resolver._asks
        #: How each use that was met ended, by its label.
        self.ends: dict[str, str] = resolver.ends
        self.guards: Guards = resolver.guards
        self.entries: list[FunctionEntry] = list(resolver.entries.values())
        self.root = root
        #: Whether it holds something that only means something in this process.
        self.is_process_local = resolver.is_process_local
        digests = sorted((name, bytes(digest)) for name, digest in self.components.items())
        self.fingerprint = Fingerprint(bytes(fingerprint(("keyprint function key", digests))))


class Rules:
    """How functions are followed; the same for all functions of a kernel."""

    __slots__ = (
        *("compiled_by", "ignore", "locations", "metadata_keys", "mode", "packages", "sources"),
        "writable_arrays",
    )

    def __init__(
        self,
        packages: Packages,
        sources: Sources,
        ignore: Iterable[str] = (),
        compiled_by: Iterable[object] = (),
        locations: bool = False,
        mode: Literal["strict", "lenient"] = "strict",
        writable_arrays: bool = False,
        metadata_keys: tuple[str, ...] = ("keyprint",),
    ) -> None:
        #: Whether what has no name across processes is refused.
        self.mode: Literal["strict", "lenient"] = mode
        #: Whether arrays that can be written count by content, which is looked at again each time.
        self.writable_arrays = writable_arrays
        #: Under which keys of field metadata a field can opt out.
        self.metadata_keys = metadata_keys
        self.packages = packages
        self.sources = sources
        self.ignore = frozenset(ignore)
        self.compiled_by = tuple(compiled_by)
        self.locations = locations


def resolve(value: Any, rules: Rules, bound: Any = None, *, label: str = "") -> Resolution:
    """Follow a function, or anything that holds functions; again if something changes meanwhile.

    ``bound`` is what the first parameter of a function is known to be. With a ``label``, it is a value that goes by
    that name: then a function of an installed package counts by its version.
    """
    for _ in range(_ATTEMPTS):
        resolver = _Resolver(rules)
        try:
            root = resolver.run(value, ("", "", 0), bound, label)
        except RecursionError as error:
            raise FunctionKeyError(
                f"what {_text(value)} reads is nested too deeply to be followed",
                code="unidentified",
                hint="give what is nested a `__fingerprint__`, or pass it as an argument",
            ) from error
        found = Resolution(resolver, root)
        if found.guards.check():
            return found
    raise FunctionKeyError(
        f"what {_text(value)} reads keeps changing while it is looked at",
        code="unstable",
        hint="do not change globals in another thread while the function is called for the first time",
    )


class _Resolver:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.guards = Guards()
        self.access_paths = AccessPaths(self.guards)
        self.components: dict[str, Fingerprint] = {}
        self.texts: dict[str, str] = {}
        self.parts: dict[str, ShownParts] = {}
        self.where: dict[str, Where] = {}
        self.ends: dict[str, str] = {}
        self.entries: dict[int, FunctionEntry] = {}
        self._names: dict[str, int] = {}
        self._pending: list[FunctionEntry] = []
        self._kept: list[Any] = []
        self._is_running = True
        #: By identity: a metaclass may say what is equal, and leave classes without a hash.
        self._classes: dict[int, tuple[str, type]] = {}
        #: Values that are handed to parameters of functions: entry, parameter, label, value.
        self._bound: dict[tuple[int, int, int], tuple[FunctionEntry, int, str, Any]] = {}
        self._followed: set[tuple[Any, ...]] = set()
        self._at: Where = ("", "", 0)
        self.is_process_local = False
        self._arrays: list[Any] = []
        self._fingerprinter: Fingerprinter | None = None
        self._class_fingerprinter: Fingerprinter | None = None
        #: What code that was reached asks of things in general: `documentation`, `identity`, `order`.
        self._asks: set[str] = set()
        #: What is captured, by label: to tell which of it is the same.
        self._captured: dict[str, tuple[Any, list[tuple[int, bool]]]] = {}
        #: Functions and classes whose documentation, and order of members, may be asked for.
        self._described: dict[str, Any] = {}
        #: Functions that have attributes, by address; they are kept meanwhile.
        self._with_attributes: set[int] = set()
        #: What is written, and what members are read of, by label.
        self._written: dict[str, Any] = {}
        self._held: dict[str, Any] = {}
        #: Abstract classes, and what was registered with them.
        self._abstract: list[tuple[type, list[type]]] = []

    def run(self, value: Any, where: Where, bound: Any, label: str) -> FunctionEntry | None:
        root = None
        if is_a(value, types.FunctionType) and (not label or self._version_of(value) is None):
            root = self.entry(value)
            if bound is not None:
                self._bind((root, 0), 0, "bound", bound, where)
        else:
            self._add(Reached("value", label or "value", value), "whole", where)
        changed = True
        while changed:
            while self._pending:
                self._read(self._pending.pop(0))
            changed = self._pass_on() or bool(self._pending)
            if not changed and "annotations" in self._asks:
                # What is met that way is followed like everything else.
                self._answer_annotations()
                changed = bool(self._pending)
        self._answer()
        if self.access_paths.rechecks:
            rechecks = tuple(self.access_paths.rechecks)
            self.guards.set_recheck(lambda: all(recheck() for recheck in rechecks))
        # What is looked at again later must not keep what was found alive.
        self._is_running = False
        self._kept.clear()
        self._bound.clear()
        self._captured.clear()
        self._described.clear()
        self._written.clear()
        self._held.clear()
        self.access_paths.forget()
        return root

    def _answer(self) -> None:
        """Count what code that was reached asks of things in general, now that all of them are known."""
        where = self._at
        shared = self._shared()
        if shared:
            texts = sorted({f"{_name(one)} in {_name(other)}" for one, _, other, _ in shared})
            self._put("shared objects", fingerprint(shared), ", ".join(texts[:4]), where)
        if "documentation" in self._asks:
            # What is nested in a function has documentation too: its whole text counts.
            sources = [(entry.name, self._location(entry)[2]) for entry in self.entries.values()]
            self._put(
                "text of functions", fingerprint(sorted(sources)), f"of {len(sources)} functions", where
            )
            self._answer_attributes("documentation", ("__doc__",))
        if "names" in self._asks:
            self._answer_attributes("names", ("__name__", "__qualname__", "__module__"))
        if "order" in self._asks:
            orders = [
                (label, [name for name in vars(value) if name != "__doc__"])
                for label, value in self._described.items()
                if is_a(value, type)
            ]
            self._put("order of members", fingerprint(orders), f"of {len(orders)} classes", where)

    def _answer_attributes(self, what: str, names: tuple[str, ...]) -> None:
        """Count attributes of every function and class that was reached."""

        def read(value: Any) -> list[str | None]:
            found = [getattr(value, name, None) for name in names]
            return [one if is_a(one, str) else None for one in found]

        known = {label: read(value) for label, value in self._described.items()}
        self._put(what, fingerprint(list(known.items())), f"of {len(known)} objects", self._at)
        held = [(weakly(value), known[label]) for label, value in self._described.items()]
        self.access_paths.rechecks.append(lambda: all(read(get()) == now for get, now in held))

    def _answer_annotations(self) -> None:
        """Count the classes that annotations name, and those that their annotations name in turn."""
        counted = -1
        while counted != len(self._described):
            counted = len(self._described)
            for value in list(self._described.values()):
                names = vars(sys.modules.get(getattr(value, "__module__", ""), types))
                # Asking a class for annotations that it has not leaves an empty dict in it.
                held = vars(value).get("__annotations__") if is_a(value, type) else value.__annotations__
                for annotation in list(held.values()) if isinstance(held, dict) else ():
                    for one in classes_in(annotation, names):
                        self._class(one)

    def _shared(self) -> list[tuple[str, int, str, int]]:
        """Return which objects are met in several places, as far as the code that was reached can tell."""
        is_asked = "identity" in self._asks
        first: dict[int, tuple[str, int]] = {}
        found = []
        captured = dict(self._captured)
        if self._written:
            others = {**self._held, **{f"written {label}": one for label, one in self._written.items()}}
            captured.update({label: (one, [(id(one), True)]) for label, one in others.items()})
        for label in sorted(captured):
            value, met = captured[label]
            if is_same_by_nature(value) or is_a(value, (type, types.ModuleType, types.FunctionType)):
                continue
            if is_asked and not met and not is_same_by_nature(value):
                met = [(id(value), True)]
            for at, (address, is_told_apart) in enumerate(met):
                known = first.setdefault(address, (label, at))
                if known != (label, at) and (is_told_apart or is_asked):
                    found.append((*known, label, at))
        return found

    # -- Functions -------------------------------------------------------------------------------

    def entry(self, function: types.FunctionType) -> FunctionEntry:
        """Return what is known of a function, and see to it that it is followed."""
        known = self.entries.get(id(function))
        if known is not None:
            return known
        # Asking a function for its annotations may make a dict of them: before the guard looks.
        function.__annotations__  # noqa: B018
        if self.guards.function(function):
            self._with_attributes.add(id(function))
        source = self.rules.sources.of(function.__code__, function.__globals__)
        base = f"{self.access_paths.module_label(function.__globals__)}.{function.__qualname__}"
        # Several functions may go by one name: what a factory makes.
        number = self._names[base] = self._names.get(base, 0) + 1
        entry = FunctionEntry(function, base if number == 1 else f"{base} #{number}", source)
        self.entries[id(function)] = entry
        # Alive until everything is read; from then on whoever holds it decides.
        if self._is_running:
            self._kept.append(function)
        self._pending.append(entry)
        return entry

    def _read(self, entry: FunctionEntry) -> None:
        function, source = entry.function, entry.source
        self._at = entry.where(function.__code__.co_firstlineno)
        found = source.function
        if found is not None:
            uses: Any = found.uses
            # The same text may be compiled in several ways: with `-O`, after `from __future__ import ...`.
            mode = (sys.flags.optimize, function.__code__.co_flags & FUTURE)
            meaning: tuple[object, ...] = ("source", bytes(found.digest), self._decorators(entry), mode)
        else:
            from .code_reads import reads_of

            uses = reads_of(function.__code__)
            text = None if source.text_digest is None else bytes(source.text_digest)
            # Byte code belongs to an interpreter.
            meaning = ("code", bytes(source.code), INTERPRETER, text)
        label = f"function {entry.name}"
        self._described[label] = function
        extras = {}
        if id(function) in self._with_attributes:
            extras = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
            # Some of it may be the program's notes to itself; all of it can be read by a compiler.
            if not self.guards.value(vars(function)):
                known = dict(vars(function))
                self.access_paths.rechecks.append(is_same_dict(ref(function), known))
        parts = (
            *meaning,
            self._inside(label, "default", function.__defaults__),
            self._inside(label, "default", function.__kwdefaults__),
            self._inside(label, "attribute", extras or None),
            self._location(entry) if self.rules.locations else None,
            self._annotations(entry),
        )
        self._put(label, fingerprint(parts), place_of(entry), self._at)
        has_attributes = id(function) in self._with_attributes
        wrapped = vars(function).get("__wrapped__") if has_attributes else None
        if wrapped is not None:
            self._add(Reached("value", f"wrapped {entry.name}", wrapped), "called", self._at)
        for root, path, how, line in sorted(uses, key=lambda use: use[2] != "imported"):
            where = entry.where(line)
            if how == "imported":
                # From here on, submodules are where they are looked for. The import itself sees what is missing.
                there = self.access_paths.reach(entry, root, path, where).state != "absent"
                name = ".".join(str(one) for one in root[1] if one)
                self._put(f"import {name}", fingerprint(there), "there" if there else "not there", where)
            elif how == "dynamic":
                raise dynamic(f"`{root[1]}`", where)
            elif how in _ASKS:
                self._asks.add(how)
            elif how == "builtin":
                if self.access_paths.reach(entry, root, path, where).value is not getattr(builtins, root[1]):
                    raise dynamic(f"a `{root[1]}` that is not the builtin", where)
            elif root[0] == "parameter":
                if root[1] < len(entry.uses):
                    entry.read(root[1], path, how, where)
            else:
                self._add(self.access_paths.reach(entry, root, path, where), how, where)

    def _decorators(self, entry: FunctionEntry) -> list[bytes]:
        """Return what decorates a function, but for the decorators that compile it."""
        found = entry.source.function
        assert found is not None
        counted = []
        for names, digest, line in found.decorators:
            if names and self.rules.compiled_by:
                reached = self.access_paths.reach(
                    entry, ("global", names[0]), tuple(names[1:]), entry.where(line)
                )
                if reached.state == "value" and any(reached.value is one for one in self.rules.compiled_by):
                    continue
            if ".".join(names) in self.rules.compiled_by:
                continue
            counted.append(bytes(digest))
        return counted

    def _location(self, entry: FunctionEntry) -> tuple[object, ...]:
        text = self.rules.sources.text(entry.source, entry.function.__globals__)
        return entry.file, entry.function.__code__.co_firstlineno, text

    def _annotations(self, entry: FunctionEntry) -> list[tuple[str, object]]:
        """Return the annotations of a function as they are: byte code does not tell whether a file is right."""
        found = entry.function.__annotations__
        for annotation in found.values():
            self._named_constants(annotation, entry.function.__globals__)
        # That there are none is watched with the function.
        if found and not self.guards.value(found):
            known = {name: id(value) for name, value in found.items()}
            self.access_paths.rechecks.append(
                lambda: {name: id(value) for name, value in found.items()} == known
            )
        return [(str(name), self._annotation(value)) for name, value in found.items()]

    def _inside(self, label: str, what: str, value: Any) -> bytes | None:
        """Return the digest of something that belongs to a function."""
        return None if value is None else bytes(self._value(f"{label}, {what}", value, self._at))

    # -- What is found ---------------------------------------------------------------------------

    def _add(self, reached: Reached, how: str, where: Where) -> None:
        """Bring a use of what an access path leads to, to its end."""
        mode = how if how in ("annotation", "class", "type", *_WRITES) else "value"
        key = (reached.label, mode, id(reached.value), reached.state, reached.owner is not None)
        if key not in self._followed:
            self._followed.add(key)
            self._at = where
            if reached.holder is not None:
                self._held.setdefault(f"member {reached.label}", reached.holder)
            self.ends[reached.label] = self._conclude(reached, how, where)

    def _conclude(self, reached: Reached, how: str, where: Where) -> str:
        """Make a component of what an access path leads to; return how that ended."""
        label, value = reached.label, reached.value
        is_written = how in _WRITES
        if is_written:
            # What is written under one name can be read under another.
            self._asks.add("identity")
            owner = value if reached.owner is None else reached.owner
            self._written.setdefault(label, reached.holder if how == "assigned" else owner)
        if how == "mutated" and not reached.is_early:
            owner = value if reached.owner is None else reached.owner
            if only_adds(owner, reached.name):
                # The method of a builtin: of what it adds to, nothing is read but the type.
                value, reached, how = owner, Reached("value", label, owner), "type"
        elif how == "assigned" and reached.state != "whole":
            if reached.holder is not None and not sets_members(reached.holder):
                self._count(label.rpartition(".")[0], reached.holder, where)
            how = "type"
        elif (how == "written" and (type(value) is list or type(value) in _VALUES)) or (
            how in ("stored", "updated") and self._places(label, value, how, where)
        ):
            how = "type"
        if label.partition(" ")[2] in self.rules.ignore:
            return EXEMPT
        if reached.state == "absent":
            self._put(label, fingerprint(_ABSENT), "not defined", where)
            return COUNTED
        if reached.owner is not None:
            name = label.rpartition(".")[2]
            if observable.is_log_call(reached.owner, name):
                return EXEMPT
            target = self.target(reached)
            if target is None:
                # A method that cannot be followed may read anything of what it was found on.
                self._count(reached.owner_label, reached.owner, where)
            else:
                # What a method reads of its first argument is read of what it was found on.
                self._bind(target, 0, reached.owner_label, reached.owner, where)
        if how in ("type", "class") and reached.state != "absent":
            kind = type(value)
            is_odd = how == "class" and lookup(kind, "__class__") != lookup(object, "__class__")
            if is_odd or (reached.state == "whole" and not is_written):
                # Only code could tell what is asked for: a property, say.
                self._count(label, value, where)
                return WHOLE
            name = self._class(kind) if how == "class" else f"{module_of_class(kind)}.{kind.__qualname__}"
            self._put(f"type of {label}", fingerprint((how, name)), kind.__qualname__, where)
            return COUNTED
        if how == "annotation":
            self._put(label, fingerprint(self._annotation(value)), _text(value), where)
            return COUNTED
        if observable.is_standard_stream(value):
            return EXEMPT
        self._count(label, value, where)
        if function_of(value) is not None or is_a(value, type):
            return FOLLOWED
        return WHOLE if reached.state == "whole" else COUNTED

    def _places(self, label: str, value: Any, how: str, where: Where) -> bool:
        """Count which items there are in a container that code writes to, as far as writing looks at them.

        Return whether that is all that counts.
        """
        kind = type(value)

        def places() -> Any:
            if kind in (list, bytearray):
                return len(value) if how == "stored" else [type(item) for item in value]
            if how == "stored":
                return None
            return [(key, type(item)) for key, item in value.items()]

        if kind not in (list, bytearray, dict):
            return False
        plain = [*value, *value.values()] if kind is dict and how == "updated" else list(value)
        if (kind is dict or how == "updated") and not all(type(one) in PLAIN for one in plain):
            # Code of their classes runs when they are compared or added to.
            return False
        known = places()
        self.access_paths.rechecks.append(lambda: places() == known)
        self._put(f"items of {label}", self._value(f"items of {label}", known, where), _text(known), where)
        return True

    def _count(self, label: str, value: Any, where: Where) -> None:
        """Count a value: all of it."""
        try:
            digest = self._value(label, value, where)
        except FunctionKeyError as error:
            if error.code != "unidentified" or not self._is_installed(label):
                raise
            if is_a(value, tuple):
                # `sys.version_info` and the like: of types that have no name.
                digest = self._value(label, tuple(value), where)
            elif callable(value):
                # What a package keeps behind a function is its own business.
                digest = fingerprint(("outside", label))
            else:
                raise
        self._put(label, digest, _text(value), where)
        if label not in self.parts and has_parts(value):
            from ..fingerprints.summary import describe

            try:
                self.parts[label] = ShownParts(*describe(value))
            except Exception:
                # Code of the program runs when its objects are looked at; what is only told to people may be missing.
                return

    def _put(self, label: str, digest: Fingerprint, text: str, where: Where) -> None:
        known = self.components.get(label)
        if known is not None and known != digest:
            # Read in two ways, such as called and annotated with: both count.
            digest = fingerprint(sorted([bytes(known), bytes(digest)]))
        self.components[label] = digest
        self.texts.setdefault(label, text)
        self.where.setdefault(label, where)

    def _is_installed(self, label: str) -> bool:
        """Whether a label is that of something in a module that counts by its version."""
        kind, _, name = label.partition(" ")
        module = name
        while kind == "global" and module:
            module = module.rpartition(".")[0]
            if module in sys.modules:
                version = self.rules.packages.version_of(module)
                if version is not None:
                    self._put_version(version)
                return version is not None
        return False

    def target(self, reached: Reached) -> tuple[FunctionEntry, int] | None:
        """Return the function that calling something calls, and how many arguments it has already."""
        if reached.state != "value":
            return None
        value, given = reached.value, 0 if reached.owner is None else 1
        if is_a(value, types.MethodType):
            value, given = value.__func__, 1
        value = function_of(value)
        if value is None or self._version_of(value) is not None:
            return None
        return self.entry(value), given

    def _version_of(self, value: Any) -> tuple[str, str] | None:
        """Return the package version that something counts by; nothing if it counts by its source."""
        if is_a(value, types.FunctionType):
            module: Any = module_of(value)
        else:
            module = getattr(value, "__module__", None)
        version = self.rules.packages.version_of(module) if isinstance(module, str) else None
        if version == INTERPRETER and is_a(value, type) and is_made(value):
            # Made by a function of the standard library, of what the program gave it; or it bears another's name.
            return None
        if version is not None:
            self._put_version(version)
        return version

    def _put_version(self, version: tuple[str, str]) -> None:
        kind = "interpreter" if version == INTERPRETER else f"package {version[0]}"
        self._put(kind, fingerprint(version), version[1], self._at)

    def _value(self, label: str, value: Any, where: Where) -> Fingerprint:
        """Return the digest of a value, following the functions and classes in it."""
        self._at = where
        check_value(value, where)
        reference = self._reference(value, where)
        if reference is not None:
            return fingerprint(reference)
        if type(value) is str:
            self._asks |= check_name(value, where)
        watched = self.guards.value(value)
        self._arrays.clear()
        try:
            digest, classes, met = self._values()._with_classes(value)
        except FingerprintError as error:
            raise self._unidentified(label, error, where) from error
        if self._arrays:
            raise self._writable(label, where)
        self._captured.setdefault(label, (value, met))
        for cls in in_order(classes):
            self._class(cls)
        if not watched:
            self._recheck(value, digest, self._values())
        return digest

    def _reference(self, value: Any, where: Where) -> tuple[object, ...] | None:
        """Return what stands for something that is followed, or goes by its name and a version."""
        if is_a(value, types.ModuleType):
            return self._module(value, where)
        if lookup(type(value), "__keyprint_process_local__"):
            self.is_process_local = True
            kind = value.__keyprint_type__() if lookup(type(value), "__keyprint_type__") else None
            inner = None if kind is None else bytes(self._value("type of a field", kind, where))
            return "process-local", value.__keyprint_process_local__(), inner
        if is_a(value, type):
            return "class", self._class(value)
        function = function_of(value)
        if function is not None:
            version = self._version_of(function)
            if version is not None and function is value:
                check_function(function.__module__, function.__qualname__, where)
                self._asks |= asks_of(function.__module__, function.__qualname__)
                return "outside", module_of(function), function.__qualname__, self._content(function, where)
            options = getattr(type(value), "__keyprint_options__", None)
            extra = None if options is None else bytes(fingerprint(options(value)))
            if function is not value and options is None:
                # What another compiler makes of it: the compiler's version, and what it was told.
                self._version_of(type(value))
                told = getattr(value, "targetoptions", None)
                extra = None if told is None else bytes(fingerprint(repr(sorted(told.items()))))
            return "function", self.entry(function).name, type(value).__qualname__, extra
        if is_a(value, types.BuiltinFunctionType) and isinstance(
            value.__self__, (types.ModuleType, type(None))
        ):
            check_function(value.__module__, value.__name__, where)
            if value is id or value.__name__ in ("is_", "is_not"):
                self._asks.add("identity")
            elif value is vars or value is dir:
                self._asks.add("order")
            if self._version_of(value) is None:
                self._native_module(value.__module__)
            return "builtin", value.__module__, value.__qualname__
        return self._named(value)

    def _named(self, value: Any) -> tuple[object, ...] | None:
        """Return what stands for something callable that an installed package has under its name."""
        if not callable(value):
            return None
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if is_a(value, (types.BuiltinFunctionType, types.MethodType)):
            # Bound to what a module keeps for itself: `random.random`.
            module, name = type(value.__self__).__module__, value.__name__
        name = name or getattr(value, "__name__", None)
        if not isinstance(module, str) or not isinstance(name, str) or hasattr(value, "__wrapped__"):
            return None
        if getattr(sys.modules.get(module), name, None) is not value:
            return None
        version = self.rules.packages.version_of(module)
        if version is not None:
            self._put_version(version)
        elif not self._native_module(module):
            return None
        return "outside", module, name

    def _content(self, function: types.FunctionType, where: Where) -> list[bytes] | None:
        """Return what the program put into a function of an installed package: what it wraps, and its cells.

        A decorator of the standard library, say, returns a function of its own, around one of the program.
        """
        registry = vars(function).get("registry")
        if registry is not None and module_of(function) == "functools":
            # What `singledispatch` makes also holds caches.
            table = table_behind(function)
            if table is None or not self.guards.value(table):
                known = dict(registry)
                self.access_paths.rechecks.append(lambda: dict(registry) == known)
            return [bytes(self._value(f"registry {function.__qualname__}", dict(registry), where))]
        if function.__closure__ is None and "__wrapped__" not in vars(function):
            return None
        self.guards.function(function)
        found = []
        for at, name in enumerate(function.__code__.co_freevars):
            content = self.guards.cell(function, at)
            label = f"closure {module_of(function)}.{function.__qualname__}:{name}"
            if content and label.partition(" ")[2] not in self.rules.ignore:
                found.append(bytes(self._value(label, content[0], where)))
        for what in (function.__defaults__, function.__kwdefaults__, vars(function).get("__wrapped__")):
            if what is not None:
                found.append(bytes(self._value(f"content of {function.__qualname__}", what, where)))
        return found

    def _module(self, module: types.ModuleType, where: Where) -> tuple[object, ...]:
        name = module.__name__
        version = self.rules.packages.version_of(name)
        if version is None:
            function, file, line = where
            raise FunctionKeyError(
                f"`{function}` uses the module `{name}` as a value (`{file}`, line {line}): anything in it "
                "may be read",
                code="module-value",
                hint="read what is needed by name (`module.name`), or pass it as an argument",
            )
        self._put_version(version)
        return "module", name

    def _native_module(self, name: str | None) -> bool:
        """Count a module of the program by its file, if it is a compiled one."""
        file = getattr(sys.modules.get(name or ""), "__file__", None)
        if not isinstance(file, str) or file.endswith((".py", ".pyc")):
            return False
        with open(file, "rb") as content:
            self._put(f"native module {name}", fingerprint(content.read()), str(name), self._at)
        return True

    # -- Values ----------------------------------------------------------------------------------

    def _values(self) -> Fingerprinter:
        if self._fingerprinter is None:
            self._fingerprinter = self._made(self._overrides())
        return self._fingerprinter

    def _made(self, overrides: dict[type, Any]) -> Fingerprinter:
        return Fingerprinter(
            mode=self.rules.mode,
            overrides=overrides,
            metadata_keys=self.rules.metadata_keys,
            _observable=True,
        )

    def _overrides(self) -> dict[type, Any]:
        overrides: dict[type, Any] = {
            **observable.rules(),
            types.FunctionType: self._rule_function,
            types.BuiltinFunctionType: self._rule_builtin,
            types.ModuleType: self._rule_module,
            type: self._rule_class,
        }
        enum = sys.modules.get("enum")
        if enum is not None:
            overrides[enum.EnumMeta] = self._rule_class
        overrides[type(os.environ)] = self._rule_dynamic
        getter = getattr(sys.modules.get("operator"), "attrgetter", None)
        if isinstance(getter, type):
            overrides[getter] = self._rule_getter
        numpy = sys.modules.get("numpy")
        if hasattr(numpy, "ndarray"):
            overrides[numpy.ndarray] = self._rule_array  # type: ignore[union-attr]
        torch = sys.modules.get("torch")
        if hasattr(torch, "Tensor"):
            overrides[torch.Tensor] = self._rule_array  # type: ignore[union-attr]
        overrides[NdArray] = self._rule_array
        for module, name in WRAPPER_TYPES:
            wrapper = getattr(sys.modules.get(module), name, None)
            if isinstance(wrapper, type):
                overrides[wrapper] = self._rule_function
        overrides.update(COUNTED_BY)
        overrides.update(dict.fromkeys(PROCESS_LOCAL, self._rule_process_local))
        return overrides

    def _rule_function(self, function: Any) -> Any:
        reference = self._reference(function, self._at)
        if reference is None:
            return NotImplemented
        return rule.leaf(repr(reference), tag="keyprint function")

    def _rule_builtin(self, function: types.BuiltinFunctionType) -> Any:
        self._reference(function, self._at)
        return NotImplemented

    def _rule_module(self, module: types.ModuleType) -> Any:
        return rule.leaf(repr(self._module(module, self._at)), tag="keyprint module")

    def _rule_getter(self, getter: Any) -> Any:
        for name in getter.__reduce__()[1]:
            self._asks |= check_name(name, self._at)
        return NotImplemented

    def _rule_dynamic(self, value: Any) -> Any:
        check_value(value, self._at)
        return NotImplemented

    def _rule_class(self, cls: type) -> Any:
        self._class(cls)
        return NotImplemented

    def _rule_process_local(self, value: Any) -> Any:
        self.is_process_local = True
        token = PROCESS_LOCAL.get(type(value), type(value).__keyprint_process_local__)
        return rule.leaf(token(value), tag="keyprint process-local")

    def _rule_array(self, array: Any) -> Any:
        if self.rules.writable_arrays:
            return NotImplemented
        if type(array) is NdArray or can_change(array) or getattr(array.dtype, "hasobject", False):
            self._arrays.append(array)
            # What it holds does not matter any more.
            return rule.leaf(None)
        return NotImplemented

    def _recheck(self, value: Any, digest: Fingerprint, fingerprinter: Fingerprinter) -> None:
        """Look at a value again at each call: nothing else tells whether it changed."""
        get = weakly(value)

        def recheck() -> bool:
            current = get()
            try:
                return current is not None and fingerprinter._with_classes(current)[0] == digest
            except FingerprintError:
                return False

        self.access_paths.rechecks.append(recheck)

    def _class(self, cls: type) -> str:
        """Count what a class defines, if it belongs to the program; return what it is called."""
        known = self._classes.get(id(cls))
        if known is not None:
            return known[0]
        name = f"{module_of_class(cls)}.{cls.__qualname__}"
        self._classes[id(cls)] = name, cls
        self._registered(cls)
        is_builtin = module_of_class(cls) == "builtins" and not is_made(cls)
        if cls is object or is_builtin or self._version_of(cls) is not None:
            return name
        number = self._names[name] = self._names.get(name, 0) + 1
        if number > 1:
            name = f"{name} #{number}"
            self._classes[id(cls)] = name, cls
        if self._native_module(module_of_class(cls)):
            return name
        from .class_parts import RULES, attributes

        label = f"class {name}"
        self._described[label] = cls
        if not self.guards.type(cls):
            self.access_paths.rechecks.append(lambda: False)
        if self._class_fingerprinter is None:
            self._class_fingerprinter = self._made({**RULES, **self._overrides()})
        self._arrays.clear()
        parts = []
        for attribute, value in attributes(cls).items():
            try:
                digest, classes, _ = self._class_fingerprinter._with_classes(value)
            except FingerprintError as error:
                raise self._unidentified(f"{label}.{attribute}", error, self._at) from error
            if self._arrays:
                raise self._writable(f"{label}.{attribute}", self._at)
            parts.append((attribute, bytes(digest)))
            for other in in_order(classes):
                self._class(other)
            if not is_behaviour(value) and not self.guards.value(value):
                self._recheck(value, digest, self._class_fingerprinter)
        self._watch_parts(cls)
        for member in getattr(cls, "__members__", {}).values() if is_enum(cls) else ():
            # What is put on members changes nothing about their class.
            if not self.guards.value(member):
                extras = vars(member)
                self._recheck(extras, self._class_fingerprinter(extras), self._class_fingerprinter)
        bases = [self._class(base) for base in (*cls.__bases__, type(cls))]
        self._put(label, fingerprint((sorted(parts), bases)), f"class {name}", self._at)
        return name

    def _watch_parts(self, cls: type) -> None:
        """Watch what a class keeps in places of its own: defaults of fields, tables of dispatch and of enums."""
        own = vars(cls)
        for field in dict(own.get("__dataclass_fields__") or {}).values():
            for name in ("default", "default_factory"):
                self.guards.member(field, name)
        for value in list(own.values()):
            is_dispatch = type(value).__name__ == "singledispatchmethod"
            dispatcher = getattr(value, "dispatcher", None) if is_dispatch else None
            table = table_behind(dispatcher) if isinstance(dispatcher, types.FunctionType) else None
            if table is not None:
                self.guards.value(table)
        if is_enum(cls) and "_flag_mask_" not in own:
            for name in ("_value2member_map_", "_member_map_", "_member_names_"):
                self.guards.value(own.get(name))

    def _registered(self, cls: type) -> None:
        """Count the classes of the program that were registered with an abstract class, and those to come."""
        abc = sys.modules.get("abc")
        if abc is None or not isinstance(cls, abc.ABCMeta):
            return
        from .class_parts import registered_classes, subclasses_with_hooks

        known = registered_classes(cls)
        own = [one for one in known if self._version_of(one) is None]
        if own:
            names = [f"{module_of_class(one)}.{one.__qualname__}" for one in own]
            self._put(f"registered with {cls.__qualname__}", fingerprint(names), ", ".join(names), self._at)
        for sub in subclasses_with_hooks(cls):
            self._class(sub)
        if not self._abstract:
            abstract, token = self._abstract, abc.get_cache_token()
            self.access_paths.rechecks.append(
                lambda: (
                    abc.get_cache_token() == token
                    or all(registered_classes(one) == known for one, known in abstract)
                )
            )
        self._abstract.append((cls, known))

    def _named_constants(self, annotation: object, names: dict[str, Any]) -> None:
        """Count the types of the kernel language that an annotation names which is written as a text."""
        if not isinstance(annotation, str):
            return
        import re

        for path in re.findall(r"[A-Za-z_][\w.]*", annotation):
            first, *rest = path.split(".")
            found = self.guards.name(names, first)
            reached = found[0] if found else None
            for name in rest:
                reached = getattr(reached, name, None)
            if hasattr(type(reached), "__keyprint_constant__") and not isinstance(reached, type):
                module = names.get("__name__", "?")
                self._put(f"annotation {module}.{path}", fingerprint(reached), _text(reached), self._at)

    def _annotation(self, value: Any) -> object:
        """Return what counts of something that annotates: of a class, its name and its own annotations."""
        if not is_a(value, type) or is_a(value, types.GenericAlias):
            return bytes(self._value("annotation", value, self._at))
        if self._version_of(value) is not None:
            return "outside", module_of_class(value), value.__qualname__
        from .class_parts import annotation_texts, attributes

        parts: list[object] = []
        for cls in value.__mro__:
            if cls is object or self._version_of(cls) is not None:
                parts.append((module_of_class(cls), cls.__qualname__))
                continue
            # A parameter that is taken apart by its annotation is taken apart by those of its fields too.
            names = vars(sys.modules.get(module_of_class(cls), types))
            for annotation in vars(cls).get("__annotations__", {}).values():
                self._named_constants(annotation, names)
                for one in classes_in(annotation, names):
                    label = f"annotation {module_of_class(one)}.{one.__qualname__}"
                    if one is not value and label not in self.components:
                        self._put(label, fingerprint(None), _text(one), self._at)
                        self.components[label] = fingerprint(self._annotation(one))
            data = {
                name: attribute
                for name, attribute in attributes(cls).items()
                if not hasattr(type(attribute), "__get__") and not name.startswith("__")
            }
            digest = bytes(self._value(f"annotation {cls.__qualname__}", data, self._at))
            parts.append(
                (module_of_class(cls), cls.__qualname__, sorted(annotation_texts(cls).items()), digest)
            )
        if not self.guards.type(value):
            self.access_paths.rechecks.append(lambda: False)
        return "annotation", parts

    # -- Passing on ------------------------------------------------------------------------------

    def _bind(
        self, target: tuple[FunctionEntry, int] | None, slot: int, label: str, value: Any, where: Where
    ) -> None:
        """Take note that a parameter of a function receives a value that is known."""
        if target is not None and slot < len(target[0].uses):
            self._bound.setdefault((id(target[0]), slot, id(value)), (target[0], slot, label, value))

    def _pass_on(self) -> bool:
        """Hand on what functions read of their parameters to whoever fills them; return whether that is news."""
        changed = False
        # Those that were reached last first: what they read goes all the way up the calls at once.
        for entry in reversed(list(self.entries.values())):
            for flow in list(entry.argument_flows):
                root, path, where = flow.root, flow.path, entry.where(flow.line)
                if flow.is_to_parameter:
                    # Which function that is depends on the argument.
                    if not flow.is_of_parameter:
                        changed |= self._pass(entry, root, path, "whole", where)
                    continue
                reached = self.access_paths.reach(entry, flow.callee, flow.callee_path, where)
                if reached.value is isinstance and flow.slot == 0 and self._only_types(entry, flow):
                    changed |= self._pass(entry, root, path, "class", where)
                    continue
                target = self.target(reached)
                parameter = None if target is None else target[0].slot(flow.slot, target[1])
                if target is None or parameter is None:
                    changed |= self._pass(entry, root, path, "whole", where)
                    continue
                for (more, how), _ in list(target[0].uses[parameter].items()):
                    changed |= self._pass(entry, root, path + more, how, where)
                changed |= self._pass_through(entry, flow, target, parameter)
        for target_entry, parameter, label, value in list(self._bound.values()):
            for (path, how), where in effective(target_entry, parameter).items():
                key = (label, id(value), path, how)
                if key not in self._followed:
                    self._followed.add(key)
                    changed = True
                    start = Reached("value", label, value)
                    if how in ("super", "super whole"):
                        self._behind(start, path, how, where)
                    else:
                        self._add(self.access_paths.walk(start, path, where), how, where)
        return changed

    def _only_types(self, entry: FunctionEntry, flow: ArgumentFlow) -> bool:
        """Whether a call of `isinstance` asks for nothing but the type of an object."""
        given = [other for other in entry.argument_flows if other.call == flow.call and other.slot == 1]
        if not given:
            return False
        for other in given:
            if other.is_of_parameter:
                return False
            where = entry.where(other.line)
            classes = self.access_paths.reach(entry, other.root, other.path, where).value
            for cls in classes if isinstance(classes, tuple) else (classes,):
                if not isinstance(cls, type) or getattr(cls, "_is_protocol", False):
                    return False
                check = type(cls).__instancecheck__
                if check is not type.__instancecheck__ and type(cls).__module__ != "abc":
                    return False
        return True

    def _pass(
        self, entry: FunctionEntry, root: tuple[str, Any], path: tuple[str, ...], how: str, where: Where
    ) -> bool:
        if root[0] == "parameter":
            return root[1] < len(entry.uses) and entry.read(root[1], path, how, where)
        return self._follow(entry, root, path, how, where)

    def _pass_through(
        self, entry: FunctionEntry, flow: ArgumentFlow, target: tuple[FunctionEntry, int], parameter: int
    ) -> bool:
        """Hand on what a function gives to another that it received as an argument, or found on one."""
        root, where = flow.root, entry.where(flow.line)
        changed = False
        for inner in list(target[0].argument_flows):
            if inner.root != ("parameter", parameter) or not inner.is_to_parameter:
                continue
            path = flow.path + inner.path
            # What the caller gave for the function that is called.
            given = [
                other
                for other in entry.argument_flows
                if other.call == flow.call
                and (other.callee, other.callee_path) == (flow.callee, flow.callee_path)
                and target[0].slot(other.slot, target[1]) == inner.callee[1]
            ]
            if not given:
                changed |= self._pass(entry, root, path, "whole", where)
            for other in given:
                function = (other.root, other.path + inner.callee_path)
                if other.is_of_parameter:
                    derived = ArgumentFlow(root, path, *function, inner.slot, flow.line, flow.call)
                    if flow.is_of_parameter and len(path) <= LONGEST_PATH:
                        if derived not in entry.argument_flows:
                            entry.argument_flows.append(derived)
                            changed = True
                    else:
                        changed |= self._pass(entry, root, path, "whole", where)
                    continue
                reached = self.target(self.access_paths.reach(entry, *function, where))
                place = None if reached is None else reached[0].slot(inner.slot, reached[1])
                if reached is None or place is None:
                    changed |= self._pass(entry, root, path, "whole", where)
                    continue
                for (more, how), _ in list(reached[0].uses[place].items()):
                    changed |= self._pass(entry, root, path + more, how, where)
        return changed

    def _behind(self, start: Reached, path: tuple[str, ...], how: str, where: Where) -> None:
        """Follow what `super()` may find: every definition of a method in the hierarchy of an object."""
        names = path[-1:] if how == "super" else None
        owner = self.access_paths.walk(start, path[:-1] if names else path, where)
        if owner.state != "value" or is_a(owner.value, types.ModuleType):
            self._add(owner, "whole", where)
            return
        value = owner.value
        cls = value if is_a(value, type) else type(value)
        if not self.guards.type(cls):
            self.access_paths.rechecks.append(lambda: False)
        for base in cls.__mro__:
            for name, attribute in vars(base).items():
                if names is not None and name not in names:
                    continue
                inner = getattr(attribute, "__func__", attribute)
                label = f"{owner.label}.{name} of {module_of_class(base)}.{base.__qualname__}"
                if is_a(inner, types.FunctionType):
                    is_static = is_a(attribute, staticmethod)
                    bound = None if is_static else value
                    self._add(Reached("value", label, inner, bound, owner.label), "called", where)
                elif is_a(attribute, property):
                    for accessor in (attribute.fget, attribute.fset, attribute.fdel):
                        if isinstance(accessor, types.FunctionType):
                            found = Reached("value", label, accessor, value, owner.label)
                            self._add(found, "called", where)
                elif names is not None:
                    self._add(Reached("value", label, attribute), "whole", where)

    def _follow(
        self, entry: FunctionEntry, root: tuple[str, Any], path: tuple[str, ...], how: str, where: Where
    ) -> bool:
        if len(path) > LONGEST_PATH:
            path, how = path[:LONGEST_PATH], "whole"
        key = (id(entry), root, path, how)
        if key in self._followed:
            return False
        self._followed.add(key)
        self._add(self.access_paths.reach(entry, root, path, where), how, where)
        return True

    # -- Trouble ---------------------------------------------------------------------------------

    def _unidentified(self, label: str, error: FingerprintError, where: Where) -> FunctionKeyError:
        cause = error.__cause__
        if isinstance(cause, FunctionKeyError):
            # Refused by what is known here, somewhere inside of the value.
            return cause
        if isinstance(cause, FingerprintError):
            error = FingerprintError(str(cause.args[0]), code=cause.code, path=error.path, hint=cause.hint)
        function, file, line = where
        place = "" if error.path == "$" else f" at `{error.path}`"
        return FunctionKeyError(
            f"`{function}` reads {_spoken(label)} (`{file}`, line {line}), which cannot be identified"
            f"{place}: {error.args[0]}",
            code="unidentified",
            hint="pass it as an argument, give its class a `__fingerprint__`, or name it in `ignore` if "
            "nothing that is compiled depends on it",
        )

    def _writable(self, label: str, where: Where) -> FunctionKeyError:
        function, file, line = where
        return FunctionKeyError(
            f"`{function}` reads {_spoken(label)} (`{file}`, line {line}), an array whose elements can "
            "change without notice",
            code="writable-array",
            hint="pass it as an argument, or make it read-only: `array.flags.writeable = False`",
        )


def _name(label: str) -> str:
    return f"`{label.partition(' ')[2]}`"


def _text(value: Any) -> str:
    if is_a(value, types.FunctionType):
        return f"function {module_of(value)}.{value.__qualname__}"
    if is_a(value, type):
        return f"class {module_of_class(value)}.{value.__qualname__}"
    if is_a(value, types.ModuleType):
        return f"module {value.__name__}"
    if type(value) in (list, tuple, dict, set, frozenset) and len(value) <= 16:
        from ..fingerprints.summary import text_of

        return text_of(value)
    return _short_text(value)


def _spoken(label: str) -> str:
    """Return a label as part of a sentence."""
    kind, _, name = label.partition(" ")
    return f"{kind} `{name}`"
