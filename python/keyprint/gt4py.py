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

import collections
import dataclasses
import enum
import functools
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeAlias, TypeVar

from . import cached_step, rule, serializers
from ._native import Description, aggregate, fold
from ._native import Fingerprinter as NativeFingerprinter
from .metadata import no_fingerprint
from .serializers import Serializer
from .store import Store

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
    found: Any = sys.modules.get(module, missing)
    for part in name.split("."):
        found = getattr(found, part, missing)
    return found is obj


# -- Deconstructors -----------------------------------------------------------------------------


class _DataDeconstructor:
    """A deconstructor built by this module: a native mode and the caller's overrides.

    Calling it takes one level of an object apart in Python. A fingerprinter made of it does not call
    it: it walks natively, and only the overrides run.
    """

    def __init__(
        self,
        overrides: Mapping[type, Deconstructor],
        *,
        fallback: Deconstructor | None,
        mode: str | None,
        name: str | None,
        module: str | None,
    ) -> None:
        defaults = _STRICT if mode == "strict" else _LENIENT if mode == "lenient" else _COMMON
        dispatch = functools.singledispatch(fallback or _deconstruct_fields_or_reduction)
        for cls, deconstructor in {**defaults, **overrides}.items():
            dispatch.register(cls, deconstructor)
        self._dispatch = dispatch
        self.__name__ = self.__qualname__ = name or "deconstructor"
        if module is not None:
            self.__module__ = module
        self._reduces_to = name
        self.native: NativeFingerprinter | None = None
        if mode is not None and fallback is None:
            self.native = NativeFingerprinter(
                mode=mode,  # type: ignore[arg-type]
                overrides={cls: _native_rule(override) for cls, override in overrides.items()},
                metadata_keys=_METADATA_KEYS,
            )

    def __call__(self, obj: Any) -> Deconstruction[Any]:
        if isinstance(obj, enum.Enum):
            # The mixin of an enum may come first in its MRO.
            override = self._dispatch.dispatch(type(obj))
            if override not in _COMMON.values():
                return override(obj)
            return _deconstruct_enum_member(obj)
        return self._dispatch(obj)

    @property
    def register(self) -> Callable[..., Any]:
        """Registering later is refused: fingerprinters made before would not see it."""
        raise AttributeError("a deconstructor does not change; make another with `overrides=`")

    @property
    def dispatch(self) -> Callable[[type], Callable[..., Any]]:
        """The deconstructor for a type."""
        return self._dispatch.dispatch

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
        found = deconstructor(obj)
        tag = _state_bytes(found.state)
        if isinstance(found, OrderInsensitiveDeconstruction):
            return rule.unordered(*found.pieces, tag=b"unordered\0" + tag)
        return rule.ordered(*found.pieces, tag=b"ordered\0" + tag)

    return described


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

    def __call__(self, node: Any) -> Deconstruction[Any]:
        items = getattr(node, "iter_children_items", None)
        if items is None and _declared_fields(type(node)) is None:
            pairs: Iterable[tuple[str, Any]] = sorted(vars(node).items())
        else:
            pairs = items() if items is not None else _field_items(node, type(node))
        return _fields(type(node), (pair for pair in pairs if pair[0] not in self.skipped))


@functools.cache
def skipping_fields_node_deconstructor(*skipped_fields: str) -> NodeDeconstructor:
    """A deconstructor for nodes that leaves some fields out: an override for a node class."""
    return _SkippingFields(skipped_fields)


def _fields(cls: type, items: Iterable[tuple[str, Any]]) -> Deconstruction[Any]:
    return Deconstruction.from_pieces(*items, state=b"fields\0" + _qualified_name(cls).encode())


def _declared_fields(cls: type) -> Iterable[Any] | None:
    if dataclasses.is_dataclass(cls):
        return dataclasses.fields(cls)
    return getattr(cls, "__attrs_attrs__", None)


def _field_items(obj: Any, cls: type) -> Iterator[tuple[str, Any]]:
    for field in _declared_fields(cls) or ():
        if all(field.metadata.get(key, {}).get("fingerprint", True) for key in _METADATA_KEYS):
            yield field.name, getattr(obj, field.name)


def _deconstruct_fields_or_reduction(obj: Any) -> Deconstruction[Any]:
    cls = type(obj)
    if _declared_fields(cls) is not None:
        return _fields(cls, _field_items(obj, cls))
    import copyreg

    try:
        reducer = copyreg.dispatch_table.get(cls)
        reduced = reducer(obj) if reducer is not None else obj.__reduce_ex__(4)
    except Exception as error:
        raise TypeError(f"a `{cls.__qualname__}` does not say what it consists of") from error
    if isinstance(reduced, str):
        return EmptyDeconstruction(f"global\0{getattr(obj, '__module__', '')}:{reduced}".encode())
    function, arguments, *rest = reduced
    state, items, pairs, setter = (*rest, None, None, None, None)[:4]
    return Deconstruction.from_pieces(
        function, arguments, state, tuple(items or ()), tuple(pairs or ()), setter, state=b"reduce"
    )


def _instance_state(obj: Any) -> Any:
    """Attributes and slots of an instance of a subclass of a builtin; ``None`` if there are none."""
    if type(obj).__module__ == "builtins":
        return None
    return object.__reduce_ex__(obj, 2)[2] or None


def _with_state(obj: Any, content: Any, state: Any) -> Deconstruction[Any]:
    """An instance of a subclass of a builtin: what it holds as one, and its state."""
    return Deconstruction.from_pieces(content, state, state=b"stateful\0" + _tag(obj))


def _tag(obj: Any) -> bytes:
    return _qualified_name(type(obj)).encode()


def _deconstruct_enum_member(obj: enum.Enum) -> Deconstruction[Any]:
    return Deconstruction.from_pieces(type(obj), obj.name, obj.value, state=b"enum_member")


def _deconstruct_enum_class(obj: enum.EnumMeta) -> Deconstruction[Any]:
    table: Mapping[str, Any] = obj.__members__
    members = ((name, member._value_) for name, member in table.items())
    return Deconstruction.from_pieces(*members, state=b"enum_class\0" + _qualified_name(obj).encode())


def _leaf(encode: Callable[[Any], bytes]) -> Deconstructor:
    def deconstruct(obj: Any) -> Deconstruction[Any]:
        if (state := _instance_state(obj)) is not None:
            return _with_state(obj, encode(obj), state)
        return EmptyDeconstruction.from_typed_value(type(obj), encode(obj))

    return deconstruct


def _sequence(base: type, ordered: bool) -> Deconstructor:
    def deconstruct(obj: Any) -> Deconstruction[Any]:
        if (state := _instance_state(obj)) is not None:
            return _with_state(obj, base(obj), state)
        return Deconstruction.from_pieces(*obj, state=_tag(obj), ordered=ordered)

    return deconstruct


def _deconstruct_dict(obj: dict[Any, Any]) -> Deconstruction[Any]:
    ordered = isinstance(obj, collections.OrderedDict)
    if (state := _instance_state(obj)) is not None:
        return _with_state(obj, tuple(obj.items()) if ordered else dict(obj), state)
    return Deconstruction.from_pieces(*obj.items(), state=_tag(obj), ordered=ordered)


def _deconstruct_defaultdict(obj: collections.defaultdict[Any, Any]) -> Deconstruction[Any]:
    return Deconstruction.from_pieces(obj.default_factory, dict(obj), _instance_state(obj), state=_tag(obj))


def _deconstruct_namespace(obj: types.SimpleNamespace) -> Deconstruction[Any]:
    return Deconstruction.from_pieces(*vars(obj).items(), state=b"namespace\0" + _tag(obj), ordered=False)


def _by_name_or(
    structure: Callable[[Any], Deconstruction[Any]] | None,
) -> Deconstructor:
    def deconstruct(obj: Any) -> Deconstruction[Any]:
        if structure is None or _resolves(obj):
            return EmptyDeconstruction.from_reference(obj, strict=structure is None)
        return structure(obj)

    return deconstruct


def _function_structure(obj: types.FunctionType) -> Deconstruction[Any]:
    return Deconstruction.from_pieces(
        obj.__code__, obj.__defaults__, obj.__kwdefaults__, obj.__closure__ or (), state=b"function"
    )


def _deconstruct_code(obj: types.CodeType) -> Deconstruction[Any]:
    names = (
        "co_name co_code co_consts co_names co_varnames co_freevars co_cellvars "
        "co_argcount co_posonlyargcount co_kwonlyargcount co_flags"
    )
    return Deconstruction.from_pieces(*(getattr(obj, name) for name in names.split()), state=b"code")


def _deconstruct_cell(obj: types.CellType) -> Deconstruction[Any]:
    try:
        return Deconstruction.from_pieces(obj.cell_contents, state=b"cell")
    except ValueError:
        return EmptyDeconstruction(b"cell\0empty")


def _float_bytes(value: complex) -> bytes:
    import struct

    return struct.pack("<dd", value.real, value.imag)


_COMMON: Final[dict[type, Deconstructor]] = {
    enum.Enum: _deconstruct_enum_member,
    enum.EnumMeta: _deconstruct_enum_class,
    type(None): _leaf(lambda obj: b""),
    bool: _leaf(lambda obj: b"1" if obj else b"0"),
    int: _leaf(lambda obj: int.__format__(obj, "x").encode()),
    float: _leaf(_float_bytes),
    complex: _leaf(_float_bytes),
    str: _leaf(lambda obj: str.encode(obj, "utf-8", "surrogatepass")),
    bytes: _leaf(bytes),
    bytearray: _leaf(bytes),
    tuple: _sequence(tuple, ordered=True),
    list: _sequence(list, ordered=True),
    set: _sequence(set, ordered=False),
    frozenset: _sequence(frozenset, ordered=False),
    dict: _deconstruct_dict,
    collections.defaultdict: _deconstruct_defaultdict,
    types.SimpleNamespace: _deconstruct_namespace,
}

_STRICT: Final[dict[type, Deconstructor]] = {
    **_COMMON,
    type: _by_name_or(None),
    types.FunctionType: _by_name_or(None),
    types.BuiltinFunctionType: _by_name_or(None),
    types.ModuleType: _by_name_or(None),
}

_LENIENT: Final[dict[type, Deconstructor]] = {
    **_COMMON,
    type: functools.partial(EmptyDeconstruction.from_reference, strict=False),
    types.FunctionType: _by_name_or(_function_structure),
    types.BuiltinFunctionType: functools.partial(EmptyDeconstruction.from_reference, strict=False),
    types.ModuleType: functools.partial(EmptyDeconstruction.from_reference, strict=False),
    types.CodeType: _deconstruct_code,
    types.CellType: _deconstruct_cell,
}


def _caller_module() -> str | None:
    """The module that called the function which calls this one."""
    name: str | None = sys._getframe(2).f_globals.get("__name__")
    return name


def make_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    fallback: Deconstructor,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor with rules for builtin data, the given ones, and a fallback for everything else."""
    module = module or (_caller_module() if name is not None else None)
    return _DataDeconstructor(overrides or {}, fallback=fallback, mode=None, name=name, module=module)


def make_strict_data_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor that refuses what has no importable name."""
    module = module or (_caller_module() if name is not None else None)
    return _DataDeconstructor(overrides or {}, fallback=None, mode="strict", name=name, module=module)


def make_lenient_data_deconstructor(
    overrides: Mapping[type, Deconstructor] | None = None,
    *,
    name: str | None = None,
    module: str | None = None,
) -> Deconstructor:
    """A deconstructor that falls back to structure where there is no importable name."""
    module = module or (_caller_module() if name is not None else None)
    return _DataDeconstructor(overrides or {}, fallback=None, mode="lenient", name=name, module=module)


# -- Folding ------------------------------------------------------------------------------------


def fingerprint_aggregator(deconstruction: Deconstruction[str]) -> str:
    """The digest of a deconstruction whose pieces are digests."""
    return aggregate(_state_bytes(deconstruction.state), deconstruction.pieces)


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
    native = getattr(deconstructor, "native", None)
    if native is not None and aggregator is fingerprint_aggregator and allow_cycles and memoize:
        return native(obj).hex()  # type: ignore[no-any-return]

    def take_apart(node: Any) -> tuple[Deconstruction[Any], tuple[Any, ...]]:
        found = deconstructor(node)
        return found, found.pieces

    def put_together(found: Deconstruction[Any], results: tuple[_R, ...]) -> _R:
        if isinstance(found, EmptyDeconstruction):
            return aggregator(found)
        if isinstance(found, OrderInsensitiveDeconstruction):
            results = tuple(sorted(results))  # type: ignore[type-var]
        return aggregator(type(found)(found.state, results))

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
        found = _input_fingerprinter(input_fingerprinter, older)
        return cls(
            step,
            found,
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


def _input_fingerprinter(
    given: Callable[[Any], Any] | None, older: dict[str, Any], *, stacklevel: int = 3
) -> Callable[[Any], Any]:
    """Return the function that is given by its name or by one of its older names."""
    for name in ("key_function", "hash_function"):
        if name in older:
            found = older.pop(name)
            if given is not None:
                raise TypeError(f"`{name}` is an older name of `input_fingerprinter`: give one of them")
            warnings.warn(
                f"`{name}` is an older name of `input_fingerprinter`",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
            given = found
    if given is None:
        raise TypeError(
            "`input_fingerprinter` is required: it says what of an input counts\n"
            "hint: keyprint.gt4py.strict_fingerprinter counts all of it"
        )
    return given
