"""Arguments that count by value or by type: numbers, constants, containers, functions, what says itself what counts."""

from __future__ import annotations

import sys
import types

from ..._native import Check, Fingerprint, Fingerprinter, Source, _short_text, fingerprint
from ...errors import FingerprintError, FunctionKeyError, SignatureError
from ...fingerprints import rule
from ...fingerprints.kinds import is_a
from ...functions import observable
from ...functions.reads import HOW, where_of
from .argument import Argument, type_name
from .inspection import BY_VALUE, SCALARS, is_array, is_constant, is_instance, is_number, stored, with_article
from .registered import registration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from ...functions.reads import Node
    from .signature import SignatureMaker

#: Builtin types whose values are taken as they are.
TAKEN_BY_DIGEST: Final = (range, slice, frozenset)

#: Classes of the standard library whose instances do not change.
_IMMUTABLE: Final = frozenset(
    {
        *(("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("builtins", "mappingproxy")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(("pathlib", name) for name in ("PurePosixPath", "PosixPath", "PureWindowsPath")),
    }
)


def take_numbers(maker: SignatureMaker, value: Any, scalar: str, source: Source, path: str) -> Argument:
    """Take a number of a type, or a tuple or vector of them."""
    kind = type(value)
    held = getattr(kind, "__keyprint_numbers__", None)
    if held is not None:
        guard = maker.add_guard(source, Check.object())
        items = getattr(value, held)
        inner = take_numbers(maker, items, scalar, Source.member(guard, held), f"{path}.{held}")
        argument = Argument("object", type=type_name(value), members={held: inner}, python_type=kind)
        return argument.guarded_by(guard)
    if kind is not tuple:
        return take_number(maker, value, scalar, source, path)
    guard = maker.add_guard(source, Check.tuple())
    members: dict[Any, Argument] = {}
    with maker.deeper(path):
        for at, item in enumerate(value):
            members[at] = take_numbers(maker, item, scalar, Source.item(guard, at), f"{path}[{at}]")
    return Argument("tuple", type="builtins.tuple", members=members).guarded_by(guard)


def take_vector(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    """Take a vector in an object: its shape and type count, its numbers do not."""
    argument = take_numbers(maker, value, value.dtype.name, source, path)
    argument.element, argument.dtype = value.shape, value.dtype.name
    maker.add_guard(Source.member(argument.guard, "shape"), Check.equal())
    maker.add_guard(Source.member(argument.guard, "dtype"), Check.same())
    return argument


def take_number(maker: SignatureMaker, value: Any, scalar: str, source: Source, path: str) -> Argument:
    """Take a number of a type: which number, and of which Python type, does not count."""
    is_float = "f" in scalar
    kind = type(value)
    if kind in (bool, int) or (is_float and kind is float):
        return Argument("scalar", type=scalar).guarded_by(
            maker.add_guard(source, Check.number(is_float=is_float))
        )
    if is_number(value) and (is_float or hasattr(value, "__index__") or value.dtype.kind == "b"):
        return Argument("scalar", type=scalar).guarded_by(maker.add_guard(source, Check.exact()))
    expected = "a number" if is_float else "an int"
    raise SignatureError(
        f"the argument `{path}` is a `{scalar}`: expected {expected}, found {with_article(type_name(value))}",
        code="argument-type",
        hint="pass a Python number; for a vector, a tuple or a `Vector`"
        if hasattr(value, "__len__")
        else "convert it: `float(...)`"
        if is_float
        else "convert it: `int(...)`",
    )


def take_built(maker: SignatureMaker, annotation: Any, raw: Any, source: Source, path: str) -> Argument:
    """Take the signature of what an annotation builds from a raw value."""
    of_raw = getattr(annotation, "__cache_signature_of__", None)

    def signature(raw: Any) -> bytes:
        value = annotation(raw).__cache_signature__() if of_raw is None else of_raw(raw)
        return bytes(maker.identify(value, path))

    known = signature(raw)
    maker.add_guard(source, Check.exact())
    guard = maker.add_guard(source, Check.signature(signature, known))
    name = f"{annotation.__module__}.{annotation.__qualname__}"
    shown = _text_of(annotation(raw).__cache_signature__() if of_raw is None else of_raw(raw))
    return Argument("signature", type=name, value=shown, signature=Fingerprint(known)).guarded_by(guard)


def take_static(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    """Take a compile-time parameter: by value."""
    kind = type(value)
    if kind in SCALARS or kind in BY_VALUE:
        return take_value(maker, value, source)
    if is_number(value):
        return take_constant(maker, value, source, path)
    if is_array(value):
        raise SignatureError(
            f"the argument `{path}` is an array, and `static` parameters count by value",
            code="argument-type",
            hint=f"take `{path}` out of `static`: arrays count by their specification",
        )
    if kind is tuple and all(type(item) in SCALARS or type(item) in BY_VALUE for item in value):
        guard = maker.add_guard(source, Check.tuple())
        for at in range(len(value)):
            maker.add_guard(Source.item(guard, at), Check.equal())
        digest = fingerprint(value)
        return Argument("value", type="tuple", value=value, signature=digest).guarded_by(guard)
    if callable(value) and not hasattr(kind, "__cache_signature__") and registration(kind) is None:
        return take_callable(maker, value, source, path)
    if is_instance(value) or hasattr(kind, "__cache_signature__") or registration(kind) is not None:
        node: Node = {HOW: {"whole": ("", "", 0)}}
        return maker.take_any(value, node, source, path, in_object="value", members="value")
    return take_by_digest(maker, value, source, path)


def take_by_digest(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    """Take something by value that is looked at anew in each call."""
    maker.add_guard(source, Check.exact())

    def signature(value: Any) -> bytes:
        return digest_of_content(maker, value, path)

    known = signature(value)
    guard = maker.add_guard(source, Check.signature(signature, known))
    argument = Argument("value", type=type_name(value), value=value, signature=Fingerprint(known))
    return argument.guarded_by(guard)


def digest_of_content(maker: SignatureMaker, value: Any, path: str) -> bytes:
    """Return the digest of everything that is in a value, functions and classes of the program by meaning."""
    met: list[Any] = []
    plain = Fingerprinter(overrides={**observable.rules(), **_noting(met)}, _observable=True)
    try:
        digest, classes, _ = plain._with_classes(value)
    except FingerprintError as error:
        raise maker.unidentified(path, error) from error
    if not met and all(maker.rules.packages.version_of(cls.__module__) is not None for cls in classes):
        return bytes(digest)
    try:
        return bytes(maker.resolution(value).fingerprint)
    except FunctionKeyError as error:
        raise not_identified(path, error) from error


def take_value(maker: SignatureMaker, value: Any, source: Source) -> Argument:
    guard = maker.add_guard(source, Check.equal())
    name = type(value).__qualname__
    return Argument("value", type=name, value=value, signature=fingerprint(value)).guarded_by(guard)


def holds_values(maker: SignatureMaker, value: Any) -> bool:
    """Whether something is a container of the standard library, or of the program, that counts by its content."""
    kind = type(value)
    if (kind.__module__, kind.__name__) in _IMMUTABLE:
        return True
    if kind.__module__ == "collections":
        return kind.__name__ in (
            "ChainMap",
            "Counter",
            "OrderedDict",
            "UserDict",
            "UserList",
            "defaultdict",
            "deque",
        )
    bases = (list, dict, set, frozenset, tuple, str, bytes, int, float)
    is_own = maker.rules.packages.version_of(kind.__module__) is None
    return is_own and is_a(value, bases) and not is_a(value, type) and not is_constant(value)


def take_process_local(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    """Take something that counts by what it is in this process: the very object."""
    maker.signature.is_process_local = True
    if hasattr(value, "__keyprint_type__"):
        maker.count(f"type of {path}", maker.resolution(value.__keyprint_type__()))
    digest = fingerprint(("process-local", value.__keyprint_process_local__()))
    argument = Argument("process-local", type=type_name(value), value=value, signature=digest)
    return argument.guarded_by(maker.add_guard(source, Check.same()))


def take_scalar(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    name = type(value).__qualname__
    by = maker.options.divisible.get(path)
    if by is None or type(value) is not int:
        return Argument("scalar", type=name).guarded_by(maker.add_guard(source, Check.exact()))
    if not -(1 << 63) <= value < 1 << 63:
        raise SignatureError(
            f"the argument `{path}` is {_short_text(value)}, which does not fit into 64 bits",
            code="argument-type",
            hint=f"take `{path}` out of `divisible`",
        )
    known = "one" if value == 1 else f"multiple of {by}" if value % by == 0 else f"no multiple of {by}"
    return Argument("scalar", type=name, divisibility=known).guarded_by(
        maker.add_guard(source, Check.divides(by))
    )


def take_signed(
    maker: SignatureMaker, value: Any, source: Source, path: str, speak: Callable[[Any], Any]
) -> Argument:
    """Take an argument that says itself what counts of it, or whose class was registered."""
    maker.add_guard(source, Check.exact())

    def signature(value: Any) -> bytes:
        return bytes(maker.identify(speak(value), path))

    known = signature(value)
    guard = maker.add_guard(source, Check.signature(signature, known))
    argument = Argument("signature", type=type_name(value), signature=Fingerprint(known))
    argument.value = _text_of(speak(value))
    argument.members = take_slots(maker, value, guard, path)
    return argument.guarded_by(guard)


def take_slots(maker: SignatureMaker, value: Any, guard: int, path: str) -> dict[Any, Argument] | None:
    """Take the members that native code is given of an argument that says itself what counts."""
    names = getattr(type(value), "__cache_slots__", None)
    if names is None:
        return None
    members: dict[Any, Argument] = {}
    for name in names:
        member = stored(value, name)
        if not member:
            raise SignatureError(
                f"`__cache_slots__` of the argument `{path}` names `{name}`, which is not stored in it",
                code="missing-member",
                hint="slots are plain attributes that hold numbers or arrays",
            )
        node: Node = {HOW: {"whole": ("", "", 0)}}
        place = f"{path}.{name}"
        members[name] = maker.take_any(
            member[0], node, Source.member(guard, name), place, in_object="", members="type"
        )
    return members


def take_container(
    maker: SignatureMaker, value: Any, node: Node, source: Source, path: str, mode: str
) -> Argument:
    """Take a list or a dict: what is in it, looked at anew in each call."""
    maker.add_guard(source, Check.exact())

    def inside(value: Any) -> tuple[dict[Any, Argument], bytes]:
        """Return what is in a container, and the digest of it, and of what it brings along."""
        inner = maker.inner()
        members: dict[Any, Argument] = {}
        items = value.items() if type(value) is dict else enumerate(value)
        order = []
        with maker.deeper(path):
            for at, item in items:
                whole: Node = {HOW: {"whole": where_of(node)}}
                place = f"{path}[{at!r}]"
                members[at] = inner.take_any(
                    item, whole, Source.argument(0), place, in_object=mode, members=mode
                )
                order.append((digest_of_content(maker, at, place), members[at].identity()))
        brought = [(label, bytes(resolution.fingerprint)) for label, resolution in inner.methods.items()]
        maker.methods.update(inner.methods)
        maker.signature.guards += inner.signature.guards
        maker.signature.is_process_local |= inner.signature.is_process_local
        return members, bytes(fingerprint((type_name(value), order, sorted(brought))))

    members, known = inside(value)
    guard = maker.add_guard(source, Check.signature(lambda value: inside(value)[1], known))
    argument = Argument("container", type=type_name(value), members=members, signature=Fingerprint(known))
    return argument.guarded_by(guard)


def take_tuple(
    maker: SignatureMaker,
    value: tuple[Any, ...],
    node: Node,
    source: Source,
    path: str,
    in_object: str,
    mode: str,
) -> Argument:
    guard = maker.add_guard(source, Check.tuple())
    members = {}
    with maker.deeper(path):
        for at, item in enumerate(value):
            whole: Node = {HOW: {"whole": where_of(node)}}
            place = f"{path}[{at}]"
            item_source = Source.item(guard, at)
            members[at] = maker.take_any(item, whole, item_source, place, in_object=in_object, members=mode)
    kind = type(value)
    if kind is not tuple and maker.rules.packages.version_of(kind.__module__) is None:
        maker.count(f"class of {path}", maker.resolution(kind))
    return Argument("tuple", type=type_name(value), members=members).guarded_by(guard)


def take_constant(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    """Take something that cannot change, by value."""
    guard = maker.add_guard(source, Check.same())
    digest = maker.identify(value, path)
    return Argument("value", type=type_name(value), value=value, signature=digest).guarded_by(guard)


def take_callable(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument:
    try:
        resolution = maker.resolution(value)
    except FunctionKeyError as error:
        raise not_identified(path, error) from error
    guard = maker.add_guard(source, Check.same())
    maker.signature.guards.append(resolution.guards)
    name = getattr(value, "__qualname__", None) or type_name(value)
    called = getattr(value, "__name__", None)
    if isinstance(called, str) and called != str(name).rpartition(".")[2]:
        name = f"{name}, called {called}"
    return Argument("callable", type=name, value=value, signature=resolution.fingerprint).guarded_by(guard)


def not_identified(path: str, error: FunctionKeyError) -> SignatureError:
    """Return the error for an argument that holds something which has no function key."""
    return SignatureError(
        f"the argument `{path}` cannot be identified: {error.args[0]}", code=error.code, hint=error.hint
    )


def _noting(met: list[Any]) -> dict[type, Any]:
    """Return rules that take note of what counts by more than its name."""

    def note(value: Any) -> Any:
        met.append(value)
        return rule.leaf("met")

    enum = sys.modules.get("enum")
    kinds: tuple[type, ...] = (types.FunctionType, types.ModuleType, type)
    return dict.fromkeys((*kinds, *((enum.EnumMeta,) if enum is not None else ())), note)


def _text_of(signature: Any) -> str:
    # Only arguments that say themselves what counts of them need it.
    from ...fingerprints.summary import text_of

    return text_of(signature)
