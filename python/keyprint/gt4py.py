"""GT4Py's fingerprinting interface on Keyprint's native engine.

Code written against ``gt4py.next.fingerprinting`` runs against this module unchanged, GT4Py itself
not being needed. A fingerprinter that is built from the deconstructors and the aggregator of this
module walks natively; Python code runs only for deconstructors that a caller supplies. Any other
deconstructor or aggregator is driven by the native fold.

Digests differ from GT4Py's own (256 bits, another encoding), and so do a few answers that were
wrong there: equal arrays agree whatever their memory layout, state of container subclasses in slots
counts, and values memoised by ``functools.cached_property`` do not.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ._native import Description, _tagged_item, aggregate, fold
from ._native import Fingerprinter as NativeFingerprinter
from .fingerprints import rule
from .fingerprints.metadata import no_fingerprint
from .steps import cached as cached_step
from .steps.identity import register_step
from .store import serializers
from .store.serializers import Serializer
from .store.stores import Store

__all__ = [
    "Aggregator",
    "CachedStep",
    "Deconstruction",
    "Deconstructor",
    "EmptyDeconstruction",
    "Fingerprinter",
    "NodeDeconstructor",
    "OrderInsensitiveDeconstruction",
    "catabolize",
    "fingerprint_aggregator",
    "gt4py_metadata",
    "lenient_fingerprint_deconstructor",
    "lenient_fingerprinter",
    "make_deconstructor",
    "make_fingerprinter",
    "make_lenient_data_deconstructor",
    "make_strict_data_deconstructor",
    "skipping_fields_node_deconstructor",
    "strict_fingerprint_deconstructor",
    "strict_fingerprinter",
]

_T = TypeVar("_T")
_R = TypeVar("_R")

#: The key under which GT4Py keeps its field metadata.
GT4PY_CLASS_METADATA_NS: Final = "GT4PY_META"

#: Metadata keys that can opt a field out: GT4Py's, and Keyprint's own.
_METADATA_KEYS: Final = (GT4PY_CLASS_METADATA_NS, *no_fingerprint())


def gt4py_metadata(**options: Any) -> dict[str, dict[str, Any]]:
    """Field metadata in GT4Py's namespace: ``gt4py_metadata(fingerprint=False)`` opts a field out."""
    return {GT4PY_CLASS_METADATA_NS: options}


# -- One level of an object ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Deconstruction(Collection[_T]):
    """One level of an object: its own state, and its pieces in order."""

    state: Any
    pieces: tuple[Any, ...]

    def __contains__(self, piece: object) -> bool:
        return piece in self.pieces

    def __iter__(self) -> Iterator[_T]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    @staticmethod
    def from_id(obj: Any) -> EmptyDeconstruction[Any]:
        """An object that stands for itself, in this process only."""
        return EmptyDeconstruction(b"id\0%d" % id(obj))

    @staticmethod
    def from_reference(obj: Any, *, strict: bool = True) -> EmptyDeconstruction[Any]:
        """An object by qualified name; ``strict`` verifies that the name leads to it."""
        name = _qualified_name(obj)
        if strict and not _resolves(obj):
            raise TypeError(
                f"`{name}` cannot be named across processes: that name does not lead to it\n"
                "hint: move it to module level, or use a lenient deconstructor"
            )
        return EmptyDeconstruction(b"ref\0" + name.encode())

    @staticmethod
    def from_typed_value(type_: type, /, value: bytes = b"") -> EmptyDeconstruction[Any]:
        """A value without pieces, kept apart from those of other types."""
        return EmptyDeconstruction(_qualified_name(type_).encode() + b"\0" + value)

    @staticmethod
    def from_pieces(*pieces: Any, state: Any = None, ordered: bool = True) -> Deconstruction[Any]:
        """An object made of pieces."""
        cls = Deconstruction if ordered else OrderInsensitiveDeconstruction
        return cls(state=state, pieces=pieces)


@dataclasses.dataclass(frozen=True, slots=True)
class EmptyDeconstruction(Deconstruction[_T]):
    """An object without pieces."""

    state: Any = None
    pieces: tuple[Any, ...] = dataclasses.field(default=(), init=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OrderInsensitiveDeconstruction(Deconstruction[_T]):
    """An object whose pieces have no order; their results are put into a canonical one."""


#: Takes one level of an object apart.
Deconstructor: TypeAlias = Callable[[Any], Deconstruction[Any]]

#: Takes one level of a node apart: an override for a node class.
NodeDeconstructor: TypeAlias = Callable[[Any], Deconstruction[Any]]

#: Makes a digest of a value.
Fingerprinter: TypeAlias = Callable[[Any], str]

#: Makes a result of a deconstruction whose pieces are results already.
Aggregator: TypeAlias = Callable[[Deconstruction[Any]], _R]


def _qualified_name(obj: Any) -> str:
    if isinstance(obj, types.ModuleType):
        return obj.__name__
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    return f"{getattr(obj, '__module__', None) or ''}.{name or type(obj).__qualname__}"


def _resolves(obj: Any) -> bool:
    if isinstance(obj, types.ModuleType):
        return sys.modules.get(obj.__name__) is obj
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not module or not name or "<" in name:
        return False
    missing = object()
    reached: Any = sys.modules.get(module, missing)
    for part in name.split("."):
        reached = getattr(reached, part, missing)
    return reached is obj


# -- One level, as the native walk sees it --------------------------------------------------------


class _Level(bytes):
    """What an object is by itself: the state of its deconstruction.

    Equal for equal objects whose pieces are left out. It also knows the object, so that the native walk can put
    the items of its pieces together.
    """

    native: NativeFingerprinter
    owner: Any


class _Group(tuple[Any, ...]):
    """Pieces of an object that belong together: its items, its attributes."""

    is_ordered = True
    state = b"keyprint group"

    def items_of(self, pieces: tuple[_Digest, ...]) -> tuple[bytes, ...]:
        """Return what stands for the group in the object, of digests of its pieces."""
        return tuple(item for piece in pieces for item in piece.items)


class _Unordered(_Group):
    """Pieces of an object that have no order."""

    is_ordered = False


class _Pair(_Group):
    """A key and its value."""

    state = b"keyprint pair"


class _Field(_Group):
    """The name of a field and its value. The object knows the name, so that only the value stands for it."""

    state = b"keyprint field"

    def items_of(self, pieces: tuple[_Digest, ...]) -> tuple[bytes, ...]:
        return pieces[1].items


class _GroupState(bytes):
    """The state of a group."""

    group: _Group


def _deconstructed(group: _Group) -> Deconstruction[Any]:
    state = _GroupState(group.state)
    state.group = group
    cls = Deconstruction if group.is_ordered else OrderInsensitiveDeconstruction
    return cls(state, tuple(group))


def _grouped(events: list[tuple[Any, ...]]) -> list[Any]:
    """Return the pieces of one level, in groups."""
    open_groups: list[tuple[bool, bool, list[Any]]] = [(True, False, [])]
    for event in events:
        pieces = open_groups[-1][2]
        if len(event) == 3:
            pieces.append(_Field((event[1], event[0])))
        elif len(event) == 2:
            open_groups.append((event[0], event[1], []))
        elif event:
            pieces.append(event[0])
        else:
            is_ordered, has_pairs, inner = open_groups.pop()
            if has_pairs:
                inner = [_Pair(pair) for pair in zip(inner[::2], inner[1::2], strict=True)]
            open_groups[-1][2].append((_Group if is_ordered else _Unordered)(inner))
    return open_groups[0][2]


def _level(native: NativeFingerprinter, obj: Any) -> Deconstruction[Any]:
    """Return one level of an object, by the rules of the native walk."""
    digest, events = native._level(obj)
    state = _Level(digest)
    state.native, state.owner = native, obj
    groups = _grouped(events)
    if not groups:
        return EmptyDeconstruction(state)
    # The object is the only group at the top, and what it holds may be one group again.
    (group,) = groups
    while len(group) == 1 and type(group[0]) in (_Group, _Unordered):
        group = group[0]
    cls = Deconstruction if group.is_ordered else OrderInsensitiveDeconstruction
    return cls(state, tuple(group)) if group else EmptyDeconstruction(state)


# -- Deconstructors -----------------------------------------------------------------------------


class _DataDeconstructor:
    """A deconstructor built by this module: the native rules, and the caller's overrides.

    Calling it takes one level of an object apart. A fingerprinter made of it does not call it: it walks natively,
    and only the overrides run.
    """

    def __init__(
        self,
        overrides: Mapping[type, Deconstructor],
        *,
        mode: Literal["strict", "lenient"],
        name: str | None,
        module: str | None,
    ) -> None:
        rules = {cls: _native_rule(override) for cls, override in overrides.items()}
        #: Classes whose fields are skipped, until it is clear that they have them: classes may come later.
        self._unchecked = {
            cls: override for cls, override in overrides.items() if isinstance(override, _SkippingFields)
        }
        #: Overrides by the rules that stand for them.
        self._overrides = {id(rules[cls]): override for cls, override in overrides.items()}
        self.__name__ = self.__qualname__ = name or "deconstructor"
        if module is not None:
            self.__module__ = module
        self._reduces_to = name
        options: dict[str, Any] = {"mode": mode, "overrides": rules, "metadata_keys": _METADATA_KEYS}
        self.native = NativeFingerprinter(**options)
        #: The same, for those who refuse cycles.
        self.acyclic = NativeFingerprinter(**options, cycles=False)

    def __call__(self, obj: Any) -> Deconstruction[Any]:
        if isinstance(obj, _Group):
            return _deconstructed(obj)
        self.check()
        given = self.native._rule_for(obj)
        override = None if given is None else self._overrides.get(id(given))
        return _level(self.native, obj) if override is None else override(obj)

    def check(self) -> None:
        """Refuse names of fields to be skipped that are misspelt; once, when the first value is taken apart."""
        while self._unchecked:
            cls, override = next(iter(self._unchecked.items()))
            override.check(cls)
            del self._unchecked[cls]

    @property
    def register(self) -> Callable[..., Any]:
        """Registering later is refused: fingerprinters made before would not see it."""
        raise AttributeError("a deconstructor does not change; make another with `overrides=`")

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._reduces_to is None:
            raise TypeError("a deconstructor without a `name` cannot be pickled by reference")
        return self._reduces_to


def _native_rule(deconstructor: Deconstructor) -> rule.Rule:
    """The rule that does natively what a deconstructor says."""
    if isinstance(deconstructor, _SkippingFields):
        return rule.by_fields(skip=deconstructor.skipped)
    if isinstance(deconstructor, _DataDeconstructor):
        raise TypeError("an override takes one class apart; a whole deconstructor is not one")

    def described(obj: Any) -> Description:
        deconstruction = deconstructor(obj)
        is_ordered, tag = _tag(deconstruction)
        parts = rule.ordered if is_ordered else rule.unordered
        return parts(*deconstruction.pieces, tag=tag)

    return described


def _tag(deconstruction: Deconstruction[Any]) -> tuple[bool, bytes]:
    """Return whether the pieces of a deconstruction have an order, and the tag that it goes by."""
    is_ordered = not isinstance(deconstruction, OrderInsensitiveDeconstruction)
    return is_ordered, (b"ordered\0" if is_ordered else b"unordered\0") + _state_bytes(deconstruction.state)


def _state_bytes(state: Any) -> bytes:
    if isinstance(state, bytes):
        return b"b" + state
    if isinstance(state, str):
        return b"s" + state.encode("utf-8", "surrogatepass")
    if state is None:
        return b"n"
    raise TypeError(f"the state of a deconstruction is bytes, str or None, found `{type(state).__name__}`")


class _SkippingFields:
    """Takes a node apart by its fields, except some."""

    def __init__(self, skipped: tuple[str, ...]) -> None:
        self.skipped = skipped
        self._native = NativeFingerprinter(mode="lenient", skip_fields=skipped, metadata_keys=_METADATA_KEYS)

    def __call__(self, node: Any) -> Deconstruction[Any]:
        return _level(self._native, node)

    def check(self, cls: type) -> None:
        """Refuse names that neither a class nor one that derives from it has as a field: they are misspelt."""
        pending, known = [cls], set[str]()
        while pending:
            kind = pending.pop()
            pending += type.__subclasses__(kind)
            known |= _field_names(kind)
        for name in self.skipped:
            if known and name not in known:
                raise TypeError(
                    f"`{name}` is to be skipped, and neither `{cls.__qualname__}` nor what derives from it has "
                    f"such a field\nhint: there are {', '.join(f'`{field}`' for field in sorted(known))}"
                )


def _field_names(cls: type) -> set[str]:
    """Return the fields that a class declares."""
    if dataclasses.is_dataclass(cls):
        return {field.name for field in dataclasses.fields(cls)}
    return {attribute.name for attribute in getattr(cls, "__attrs_attrs__", ())}


@functools.cache
def skipping_fields_node_deconstructor(*skipped_fields: str) -> NodeDeconstructor:
    """A deconstructor for nodes that leaves some fields out: an override for a node class."""
    for name in skipped_fields:
        if not isinstance(name, str) or not name.isidentifier():
            raise TypeError(f"fields are skipped by name, found {name!r}")
    return _SkippingFields(skipped_fields)


def _caller_module() -> str | None:
    """The module that called the function which calls this one."""
    name: str | None = sys._getframe(2).f_globals.get("__name__")
    return name


#: What is no builtin data, so that a fallback takes it: what has no more special rule, and what goes by name.
_FALLBACK: Final = (
    *(object, type, enum.EnumMeta, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    types.ModuleType,
)


def make_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    fallback: Deconstructor,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor with rules for builtin data, the given ones, and a fallback for everything else."""
    module = module or (_caller_module() if name is not None else None)
    rules = {**dict.fromkeys(_FALLBACK, fallback), **(overrides or {})}
    return _DataDeconstructor(rules, mode="lenient", name=name, module=module)


def make_strict_data_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor that refuses what has no importable name."""
    module = module or (_caller_module() if name is not None else None)
    return _DataDeconstructor(overrides or {}, mode="strict", name=name, module=module)


def make_lenient_data_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor that falls back to structure where there is no importable name."""
    module = module or (_caller_module() if name is not None else None)
    return _DataDeconstructor(overrides or {}, mode="lenient", name=name, module=module)


# -- Folding ------------------------------------------------------------------------------------


class _Digest(str):
    """A digest that knows the items it was made of: what stands for an object inside of another."""

    items: tuple[bytes, ...]


def fingerprint_aggregator(deconstruction: Deconstruction[str]) -> str:
    """The digest of a deconstruction whose pieces are digests.

    It is that of the native walk, as long as the pieces are what this function returned for them.
    """
    state, pieces = deconstruction.state, deconstruction.pieces
    if not all(isinstance(piece, _Digest) for piece in pieces):
        return aggregate(_state_bytes(state), pieces)
    if isinstance(state, _GroupState):
        return _digest(aggregate(state, pieces), state.group.items_of(pieces))
    items = tuple(item for piece in pieces for item in piece.items)
    if isinstance(state, _Level):
        item, digest = state.native._assemble(state.owner, items)
    else:
        is_ordered, tag = _tag(deconstruction)
        item, digest = _tagged_item(tag, is_ordered, items)
    return _digest(digest, (item,))


def _digest(text: str, items: tuple[bytes, ...]) -> _Digest:
    digest = _Digest(text)
    digest.items = items
    return digest


def catabolize(
    obj: Any,
    *,
    deconstructor: Deconstructor,
    aggregator: Aggregator[_R],
    allow_cycles: bool = False,
    memoize: bool = True,
) -> _R:
    """Reduce an object bottom-up: take it apart, and make a result of each level.

    The pieces that ``aggregator`` sees are results, in the order of the pieces, or sorted for an
    :class:`OrderInsensitiveDeconstruction`. With ``allow_cycles``, an object met inside itself is
    aggregated as an :class:`EmptyDeconstruction` whose state tells the distance; otherwise it raises
    ``ValueError``. Shared objects are reduced once, unless ``memoize`` is off.
    """
    if isinstance(deconstructor, _DataDeconstructor) and aggregator is fingerprint_aggregator:
        deconstructor.check()
        # Remembering what was seen changes nothing about the result.
        return (deconstructor.native if allow_cycles else deconstructor.acyclic)(obj).hex()  # type: ignore[return-value]

    def take_apart(node: Any) -> tuple[Deconstruction[Any], tuple[Any, ...]]:
        deconstruction = deconstructor(node)
        return deconstruction, deconstruction.pieces

    def put_together(deconstruction: Deconstruction[Any], results: tuple[_R, ...]) -> _R:
        if isinstance(deconstruction, EmptyDeconstruction):
            return aggregator(deconstruction)
        if isinstance(deconstruction, OrderInsensitiveDeconstruction):
            results = tuple(sorted(results))  # type: ignore[type-var]
        return aggregator(type(deconstruction)(deconstruction.state, results))

    def back_reference(distance: int) -> _R:
        return aggregator(EmptyDeconstruction(b"cycle\0%d" % distance))

    cycles = back_reference if allow_cycles else None
    return fold(obj, take_apart, put_together, cycles=cycles, memoize=memoize)


#: The deconstructor of :data:`strict_fingerprinter`.
strict_fingerprint_deconstructor: Final = make_strict_data_deconstructor(
    name="strict_fingerprint_deconstructor"
)

#: The deconstructor of :data:`lenient_fingerprinter`.
lenient_fingerprint_deconstructor: Final = make_lenient_data_deconstructor(
    name="lenient_fingerprint_deconstructor"
)


def make_fingerprinter(
    *,
    deconstructor: Deconstructor = strict_fingerprint_deconstructor,
    aggregator: Aggregator[str] = fingerprint_aggregator,
    allow_cycles: bool = True,
) -> Fingerprinter:
    """A fingerprinter from a deconstructor and an aggregator."""
    return functools.partial(
        catabolize, deconstructor=deconstructor, aggregator=aggregator, allow_cycles=allow_cycles
    )


#: Deterministic across processes; refuses what has no importable name.
strict_fingerprinter: Final = make_fingerprinter(deconstructor=strict_fingerprint_deconstructor)

#: For keys that live in one process: takes structure where there is no importable name.
lenient_fingerprinter: Final = make_fingerprinter(deconstructor=lenient_fingerprint_deconstructor)


class CachedStep(cached_step.CachedStep[Any, Any]):
    """A workflow step whose results are kept, with GT4Py's keywords.

    The key of a result is made of the step, of ``input_fingerprinter(input)``, and of the salt. By
    default the step counts by its configuration and the code of its functions; a
    ``step_fingerprinter`` may say otherwise. ``cache`` is any mapping from strings to results.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        input_fingerprinter: Callable[[Any], Any] | None = None,
        step_fingerprinter: Callable[[Any], Any] | None = None,
        cache: MutableMapping[str, Any] | None = None,
        **older: Any,
    ) -> None:
        # Instances are made by their type, which is one more call in between.
        input_fingerprinter = _input_fingerprinter(input_fingerprinter, older, stacklevel=4)
        super().__init__(
            step, input_key=input_fingerprinter, step_key=step_fingerprinter, cache=cache, **older
        )

    @classmethod
    def persistent(
        cls,
        step: Callable[[Any], Any],
        input_fingerprinter: Callable[[Any], Any] | None = None,
        step_fingerprinter: Callable[[Any], Any] | None = None,
        store: Store | None = None,
        serializer: Serializer | str = serializers.plain,
        **older: Any,
    ) -> CachedStep:
        """Return a cached step whose results outlive the process; strict about the step."""
        fingerprinter = _input_fingerprinter(input_fingerprinter, older)
        return cls(
            step,
            fingerprinter,
            step_fingerprinter,
            store=Store() if store is None else store,
            serializer=serializer,
            **older,
        )

    @property
    def input_fingerprinter(self) -> Callable[[Any], Any]:
        """What of an input counts."""
        return self.input_key

    @property
    def step_fingerprinter(self) -> Any:
        """What of the step counts."""
        return self.step_key

    def cache_key(self, value: Any) -> str:
        """Return the key of the result for an input, as text."""
        return self.key(value).hex()


register_step(CachedStep, cached_step.behind_cache)


def _input_fingerprinter(
    given: Callable[[Any], Any] | None, older: dict[str, Any], *, stacklevel: int = 3
) -> Callable[[Any], Any]:
    """Return the function that is given by its name or by one of its older names."""
    for name in ("key_function", "hash_function"):
        if name in older:
            fingerprinter = older.pop(name)
            if given is not None:
                raise TypeError(f"`{name}` is an older name of `input_fingerprinter`: give one of them")
            warnings.warn(
                f"`{name}` is an older name of `input_fingerprinter`",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
            given = fingerprinter
    if given is None:
        raise TypeError(
            "`input_fingerprinter` is required: it says what of an input counts\n"
            "hint: keyprint.gt4py.strict_fingerprinter counts all of it"
        )
    return given
