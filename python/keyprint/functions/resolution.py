"""Everything that a function depends on, followed through what is loaded.

:class:`Resolution` begins with a function and follows what its source reads: globals, members of
modules, closure cells, class and instance members, and every function that is reached that way. Each
becomes a named component: functions by what they mean, values by their fingerprint, installed packages
by their version. What is read is read through guards, which tell later whether anything has changed.

Every use of a name or member comes to exactly one end: it is *followed* (its code counts), *counted* (its
value counts, and is guarded), *counted whole*, or *refused*. What does not count is a closed list
(:mod:`.not_counted`).

What a function reads of its *parameters* is found here too, through any depth of helpers; what they hold
is a matter of the call (:mod:`keyprint.dispatch.signatures`).
"""

from __future__ import annotations

import builtins
import sys
import types
from _weakref import ref

from .._native import Fingerprint, Guards, fingerprint
from ..errors import FunctionKeyError
from ..fingerprints.kinds import is_a, module_of_class
from ..fingerprints.shown import ShownParts
from . import observable
from .access_paths import AccessPaths, Reached, function_of, lookup, sets_members
from .captured import (
    PLAIN,
    has_parts,
    is_made,
    is_same_dict,
    only_adds,
)
from .classes import Classes
from .dynamic_access import dynamic
from .entry import FunctionEntry, module_of, place_of
from .flows import Flows
from .interpreter import INTERPRETER
from .questions import Questions
from .sources import FUTURE
from .texts import short_text
from .values import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Final, Literal

    from .entry import Where
    from .packages import Packages
    from .sources import Sources

__all__ = ["Resolution", "Resolver", "Rules", "resolve"]

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

    def __init__(self, resolver: Resolver, root: FunctionEntry | None) -> None:
        #: Everything that counts, by name.
        self.components: dict[str, Fingerprint] = resolver.components
        #: A text for each component, for people.
        self.texts: dict[str, str] = resolver.texts
        #: What is in them, for people: as it was when they were read.
        self.parts: dict[str, ShownParts] = resolver.parts
        #: Where each component is read first.
        self.where: dict[str, Where] = resolver.where
        #: What code that was reached asks of things in general.
        self.asks: set[str] = resolver.asks
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
        resolver = Resolver(rules)
        try:
            root = resolver.run(value, ("", "", 0), bound, label)
        except RecursionError as error:
            raise FunctionKeyError(
                f"what {short_text(value)} reads is nested too deeply to be followed",
                code="unidentified",
                hint="give what is nested a `__fingerprint__`, or pass it as an argument",
            ) from error
        resolution = Resolution(resolver, root)
        if resolution.guards.check():
            return resolution
    raise FunctionKeyError(
        f"what {short_text(value)} reads keeps changing while it is looked at",
        code="unstable",
        hint="do not change globals in another thread while the function is called for the first time",
    )


class Resolver:
    """Follows one function, or value, to everything that it reaches."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.guards = Guards()
        self.access_paths = AccessPaths(self.guards)
        self.values = Values(self)
        self.classes = Classes(self)
        self.flows = Flows(self)
        self._questions = Questions(self)
        self.components: dict[str, Fingerprint] = {}
        self.texts: dict[str, str] = {}
        self.parts: dict[str, ShownParts] = {}
        self.where: dict[str, Where] = {}
        self.ends: dict[str, str] = {}
        self.entries: dict[int, FunctionEntry] = {}
        self.names: dict[str, int] = {}
        self.pending: list[FunctionEntry] = []
        self._kept: list[Any] = []
        self._is_running = True
        self.followed: set[tuple[Any, ...]] = set()
        self.at: Where = ("", "", 0)
        self.is_process_local = False
        #: What code that was reached asks of things in general: `documentation`, `identity`, `order`.
        self.asks: set[str] = set()
        #: What is captured, by label: to tell which of it is the same.
        self.captured: dict[str, tuple[Any, list[tuple[int, bool]]]] = {}
        #: Functions and classes whose documentation, and order of members, may be asked for.
        self.described: dict[str, Any] = {}
        #: Functions that have attributes, by address; they are kept meanwhile.
        self._with_attributes: set[int] = set()
        #: What is written, and what members are read of, by label.
        self.written: dict[str, Any] = {}
        self.held: dict[str, Any] = {}

    def run(self, value: Any, where: Where, bound: Any, label: str) -> FunctionEntry | None:
        root = None
        if is_a(value, types.FunctionType) and (not label or self.version_of(value) is None):
            root = self.entry(value)
            if bound is not None:
                self.flows.bind((root, 0), 0, "bound", bound, where)
        else:
            self.add(Reached("value", label or "value", value), "whole", where)
        changed = True
        while changed:
            while self.pending:
                self._read(self.pending.pop(0))
            changed = self.flows.pass_on() or bool(self.pending)
            if not changed and "annotations" in self.asks:
                # What is met that way is followed like everything else.
                self._questions.answer_annotations()
                changed = bool(self.pending)
        self._questions.answer()
        if self.access_paths.rechecks:
            rechecks = tuple(self.access_paths.rechecks)
            self.guards.set_recheck(lambda: all(recheck() for recheck in rechecks))
        # What is looked at again later must not keep what was found alive.
        self._is_running = False
        self._kept.clear()
        self.flows.forget()
        self.captured.clear()
        self.described.clear()
        self.written.clear()
        self.held.clear()
        self.access_paths.forget()
        return root

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
        number = self.names[base] = self.names.get(base, 0) + 1
        entry = FunctionEntry(function, base if number == 1 else f"{base} #{number}", source)
        self.entries[id(function)] = entry
        # Alive until everything is read; from then on whoever holds it decides.
        if self._is_running:
            self._kept.append(function)
        self.pending.append(entry)
        return entry

    def _read(self, entry: FunctionEntry) -> None:
        function, source = entry.function, entry.source
        self.at = entry.where(function.__code__.co_firstlineno)
        parsed = source.function
        if parsed is not None:
            uses: Any = parsed.uses
            # The same text may be compiled in several ways: with `-O`, after `from __future__ import ...`.
            mode = (sys.flags.optimize, function.__code__.co_flags & FUTURE)
            meaning: tuple[object, ...] = ("source", bytes(parsed.digest), self._decorators(entry), mode)
        else:
            from .code_reads import reads_of

            uses = reads_of(function.__code__)
            text = None if source.text_digest is None else bytes(source.text_digest)
            # Byte code belongs to an interpreter.
            meaning = ("code", bytes(source.code), INTERPRETER, text)
        label = f"function {entry.name}"
        self.described[label] = function
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
            self.location(entry) if self.rules.locations else None,
            self._annotations(entry),
        )
        self.put(label, fingerprint(parts), place_of(entry), self.at)
        has_attributes = id(function) in self._with_attributes
        wrapped = vars(function).get("__wrapped__") if has_attributes else None
        if wrapped is not None:
            self.add(Reached("value", f"wrapped {entry.name}", wrapped), "called", self.at)
        for root, path, how, line in sorted(uses, key=lambda use: use[2] != "imported"):
            where = entry.where(line)
            if how == "imported":
                # From here on, submodules are where they are looked for. The import itself sees what is missing.
                there = self.access_paths.reach(entry, root, path, where).state != "absent"
                name = ".".join(str(part) for part in root[1] if part)
                self.put(f"import {name}", fingerprint(there), "there" if there else "not there", where)
            elif how == "dynamic":
                raise dynamic(f"`{root[1]}`", where)
            elif how in _ASKS:
                self.asks.add(how)
            elif how == "builtin":
                if self.access_paths.reach(entry, root, path, where).value is not getattr(builtins, root[1]):
                    raise dynamic(f"a `{root[1]}` that is not the builtin", where)
            elif root[0] == "parameter":
                if root[1] < len(entry.uses):
                    entry.read(root[1], path, how, where)
            else:
                self.add(self.access_paths.reach(entry, root, path, where), how, where)

    def _decorators(self, entry: FunctionEntry) -> list[bytes]:
        """Return what decorates a function, but for the decorators that compile it."""
        parsed = entry.source.function
        assert parsed is not None
        counted = []
        for names, digest, line in parsed.decorators:
            if names and self.rules.compiled_by:
                reached = self.access_paths.reach(
                    entry, ("global", names[0]), tuple(names[1:]), entry.where(line)
                )
                if reached.state == "value" and any(
                    reached.value is decorator for decorator in self.rules.compiled_by
                ):
                    continue
            if ".".join(names) in self.rules.compiled_by:
                continue
            counted.append(bytes(digest))
        return counted

    def location(self, entry: FunctionEntry) -> tuple[object, ...]:
        text = self.rules.sources.text(entry.source, entry.function.__globals__)
        return entry.file, entry.function.__code__.co_firstlineno, text

    def _annotations(self, entry: FunctionEntry) -> list[tuple[str, object]]:
        """Return the annotations of a function as they are: byte code does not tell whether a file is right."""
        annotations = entry.function.__annotations__
        for annotation in annotations.values():
            self.classes.count_named_constants(annotation, entry.function.__globals__)
        # That there are none is watched with the function.
        if annotations and not self.guards.value(annotations):
            known = {name: id(value) for name, value in annotations.items()}
            self.access_paths.rechecks.append(
                lambda: {name: id(value) for name, value in annotations.items()} == known
            )
        return [(str(name), self.classes.annotation(value)) for name, value in annotations.items()]

    def _inside(self, label: str, what: str, value: Any) -> bytes | None:
        """Return the digest of something that belongs to a function."""
        return None if value is None else bytes(self.values.digest_of(f"{label}, {what}", value, self.at))

    # -- What is found ---------------------------------------------------------------------------

    def add(self, reached: Reached, how: str, where: Where) -> None:
        """Bring a use of what an access path leads to, to its end."""
        mode = how if how in ("annotation", "class", "type", *_WRITES) else "value"
        key = (reached.label, mode, id(reached.value), reached.state, reached.owner is not None)
        if key not in self.followed:
            self.followed.add(key)
            self.at = where
            if reached.holder is not None:
                self.held.setdefault(f"member {reached.label}", reached.holder)
            self.ends[reached.label] = self._conclude(reached, how, where)

    def _conclude(self, reached: Reached, how: str, where: Where) -> str:
        """Make a component of what an access path leads to; return how that ended."""
        label, value = reached.label, reached.value
        is_written = how in _WRITES
        if is_written:
            # What is written under one name can be read under another.
            self.asks.add("identity")
            owner = value if reached.owner is None else reached.owner
            self.written.setdefault(label, reached.holder if how == "assigned" else owner)
        if how == "mutated" and not reached.is_early:
            owner = value if reached.owner is None else reached.owner
            if only_adds(owner, reached.name):
                # The method of a builtin: of what it adds to, nothing is read but the type.
                value, reached, how = owner, Reached("value", label, owner), "type"
        elif how == "assigned" and reached.state != "whole":
            if reached.holder is not None and not sets_members(reached.holder):
                self.count(label.rpartition(".")[0], reached.holder, where)
            how = "type"
        elif (how == "written" and (type(value) is list or type(value) in _VALUES)) or (
            how in ("stored", "updated") and self._places(label, value, how, where)
        ):
            how = "type"
        if label.partition(" ")[2] in self.rules.ignore:
            return EXEMPT
        if reached.state == "absent":
            self.put(label, fingerprint(_ABSENT), "not defined", where)
            return COUNTED
        if reached.owner is not None:
            name = label.rpartition(".")[2]
            if observable.is_log_call(reached.owner, name):
                return EXEMPT
            target = self.target(reached)
            if target is None:
                # A method that cannot be followed may read anything of what it was found on.
                self.count(reached.owner_label, reached.owner, where)
            else:
                # What a method reads of its first argument is read of what it was found on.
                self.flows.bind(target, 0, reached.owner_label, reached.owner, where)
        if how in ("type", "class") and reached.state != "absent":
            kind = type(value)
            is_odd = how == "class" and lookup(kind, "__class__") != lookup(object, "__class__")
            if is_odd or (reached.state == "whole" and not is_written):
                # Only code could tell what is asked for: a property, say.
                self.count(label, value, where)
                return WHOLE
            name = (
                self.classes.count(kind) if how == "class" else f"{module_of_class(kind)}.{kind.__qualname__}"
            )
            self.put(f"type of {label}", fingerprint((how, name)), kind.__qualname__, where)
            return COUNTED
        if how == "annotation":
            self.put(label, fingerprint(self.classes.annotation(value)), short_text(value), where)
            return COUNTED
        if observable.is_standard_stream(value):
            return EXEMPT
        self.count(label, value, where)
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
        if (kind is dict or how == "updated") and not all(type(item) in PLAIN for item in plain):
            # Code of their classes runs when they are compared or added to.
            return False
        known = places()
        self.access_paths.rechecks.append(lambda: places() == known)
        self.put(
            f"items of {label}",
            self.values.digest_of(f"items of {label}", known, where),
            short_text(known),
            where,
        )
        return True

    def count(self, label: str, value: Any, where: Where) -> None:
        """Count a value: all of it."""
        try:
            digest = self.values.digest_of(label, value, where)
        except FunctionKeyError as error:
            if error.code != "unidentified" or not self._is_installed(label):
                raise
            if is_a(value, tuple):
                # `sys.version_info` and the like: of types that have no name.
                digest = self.values.digest_of(label, tuple(value), where)
            elif callable(value):
                # What a package keeps behind a function is its own business.
                digest = fingerprint(("outside", label))
            else:
                raise
        self.put(label, digest, short_text(value), where)
        if label not in self.parts and has_parts(value):
            from ..fingerprints.summary import describe

            try:
                self.parts[label] = ShownParts(*describe(value))
            except Exception:
                # Code of the program runs when its objects are looked at; what is only told to people may be missing.
                return

    def put(self, label: str, digest: Fingerprint, text: str, where: Where) -> None:
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
                    self.put_version(version)
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
        if value is None or self.version_of(value) is not None:
            return None
        return self.entry(value), given

    def version_of(self, value: Any) -> tuple[str, str] | None:
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
            self.put_version(version)
        return version

    def put_version(self, version: tuple[str, str]) -> None:
        kind = "interpreter" if version == INTERPRETER else f"package {version[0]}"
        self.put(kind, fingerprint(version), version[1], self.at)
