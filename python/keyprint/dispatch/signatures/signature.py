"""Signatures: what a call's arguments contribute to a key.

A scalar counts by its type, or by its value if it is a compile-time parameter; an array by its
specification: element type, number of dimensions, layout; an object by the members that the function
really reads, through any depth of members and helpers. Anything else has to say what counts of it: by
``__cache_signature__``, or by :func:`keyprint.register_argument`. Nothing counts by the name of its type alone.

A signature also yields *argument guards*: what the dispatcher compares to tell, without Python code, that another
call has the same one.
"""

from __future__ import annotations

import types

from ..._native import ArgumentGuard, Check, Guards, NdArray, Source, fingerprint
from ...errors import FingerprintError, SignatureError
from ...fingerprints.kinds import is_a
from ...fingerprints.shown import ShownParts
from ...functions.access_paths import lookup
from ...functions.reads import add_use, effective, tree
from .argument import Argument, type_name
from .arrays import take_array, take_beside_elements, take_own_array
from .inspection import (
    BY_VALUE,
    SCALARS,
    is_constant,
    is_instance,
    is_number,
    is_plain,
    stored,
    stored_names,
    with_article,
)
from .objects import count_used_methods, is_program_object, take_object
from .registered import registration
from .values import (
    TAKEN_BY_DIGEST,
    holds_values,
    take_built,
    take_by_digest,
    take_callable,
    take_constant,
    take_container,
    take_numbers,
    take_process_local,
    take_scalar,
    take_signed,
    take_static,
    take_tuple,
    take_value,
    take_vector,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ..._native import Fingerprint
    from ...functions.entry import FunctionEntry
    from ...functions.memo import Memo
    from ...functions.reads import Node
    from ...functions.resolution import Resolution, Rules
    from .options import ArgumentOptions

__all__ = ["Signature", "SignatureMaker", "make_one", "make_signature"]

#: Arguments with more members than this are refused.
_MOST_GUARDS: Final = 4096

#: Tuples and objects inside each other, deeper than this, are refused.
_MOST_LEVELS: Final = 64


class Signature:
    """The signature of one call."""

    __slots__ = ("argument_guards", "arguments", "components", "guards", "is_process_local", "shown", "texts")

    def __init__(self) -> None:
        self.arguments: dict[str, Argument] = {}
        self.components: dict[str, Fingerprint] = {}
        self.texts: dict[str, str] = {}
        #: What is shown of components, where that is more than a text.
        self.shown: dict[str, Any] = {}
        #: What recognises arguments such as these.
        self.argument_guards: list[ArgumentGuard] = []
        #: What methods depend on that arguments bring along.
        self.guards: list[Guards] = []
        #: Whether it holds something that only means something in this process.
        self.is_process_local = False

    def release(self) -> None:
        """Forget the functions and fields that came with the call: only a compiler needed them."""
        pending = list(self.arguments.values())
        while pending:
            argument = pending.pop()
            if argument.kind in ("callable", "process-local", "opaque"):
                argument.value = None
            pending += (argument.members or {}).values()


class SignatureMaker:
    """Makes the signature of one call."""

    def __init__(self, root: Resolution, rules: Rules, options: ArgumentOptions, memo: Memo) -> None:
        assert root.root is not None
        self._entry = root.root
        self.asks = root.asks
        self.rules = rules
        self.options = options
        self.memo = memo
        self.signature = Signature()
        self.guards = Guards()
        self.methods: dict[str, Resolution] = {}
        self.name = ""
        self.levels = 0

    def inner(self) -> SignatureMaker:
        """Return a maker for what is inside of something that this one takes."""
        maker = object.__new__(SignatureMaker)
        maker.__dict__.update(vars(self))
        maker.signature, maker.guards, maker.methods = Signature(), Guards(), {}
        return maker

    def make(self, arguments: Mapping[str, Any]) -> Signature:
        names = [name for name, _ in self._entry.parameters]
        trees = [tree(uses) for uses in self._entry.uses]
        values = [arguments[name] for name in names]
        self._pass_on(trees, values)
        positions = {name: at for at, name in enumerate(arguments)}
        for name, value, node in zip(names, values, trees, strict=True):
            self.name = name
            argument = self.take(name, value, node, Source.argument(positions[name]))
            self.signature.arguments[name] = argument
            self.signature.components[f"argument {name}"] = fingerprint(argument.identity())
            self.signature.texts[f"argument {name}"] = str(argument)
        for label, resolution in self.methods.items():
            self.signature.components[label] = resolution.fingerprint
            self.signature.texts[label] = label
            self.signature.shown[label] = _shown(label, resolution)
            self.signature.guards.append(resolution.guards)
        if len(self.guards):
            self.signature.guards.append(self.guards)
        return self.signature

    def one(self, name: str, value: Any) -> bytes:
        """Return the digest of one argument, and of everything that it brings along."""
        at = [known for known, _ in self._entry.parameters].index(name)
        self.name = name
        node = tree(effective(self._entry, at))
        identity = self.take(name, value, node, Source.argument(at)).identity()
        brought = [(label, bytes(resolution.fingerprint)) for label, resolution in self.methods.items()]
        return bytes(fingerprint((identity, sorted(brought))))

    # -- What functions that come with arguments read ---------------------------------------------

    def _pass_on(self, trees: list[Node], values: list[Any]) -> None:
        """Add what is read by functions that are reached through arguments, of other arguments."""
        for flow in self._entry.argument_flows:
            if not flow.is_of_parameter or not flow.is_to_parameter:
                continue
            tree_of_root = trees[flow.root[1]]
            target = self._callee(values[flow.callee[1]], flow.callee_path)
            parameter = None if target is None else target[0].slot(flow.slot, target[1])
            if target is None or parameter is None:
                add_use(tree_of_root, flow.path, "whole", self._entry.where(flow.line))
                continue
            for (more, how), place in effective(target[0], parameter).items():
                add_use(tree_of_root, flow.path + more, how, place)

    def _callee(self, value: Any, path: tuple[str, ...]) -> tuple[FunctionEntry, int] | None:
        """Return the function that an access path of an argument leads to, and the arguments it has."""
        if not path:
            function = value.__func__ if is_a(value, types.MethodType) else value
            given = int(is_a(value, types.MethodType))
        else:
            for name in path[:-1]:
                member = stored(value, name)
                if not member:
                    return None
                value = member[0]
            if stored(value, path[-1]):
                return None
            attribute = lookup(type(value), path[-1])
            function, given = (attribute[0], 1) if attribute else (None, 0)
            if isinstance(function, staticmethod):
                function, given = function.__func__, 0
        if not isinstance(function, types.FunctionType):
            return None
        resolution = self.resolution(function)
        return None if resolution.root is None else (resolution.root, given)

    def resolution(self, value: Any) -> Resolution:
        return self.memo.of(value, self.rules)

    # -- Arguments -------------------------------------------------------------------------------

    def add_guard(self, source: Source, check: Check) -> int:
        """Have something looked at in each call; return the number of the guard."""
        if len(self.signature.argument_guards) >= _MOST_GUARDS:
            raise SignatureError(
                f"the argument `{self.name}` has more than {_MOST_GUARDS} members that are read",
                code="argument-type",
                hint="pass what is needed by itself, or give its class a `__cache_signature__`",
            )
        self.signature.argument_guards.append(ArgumentGuard(source, check))
        return len(self.signature.argument_guards) - 1

    def take(self, name: str, value: Any, node: Node, source: Source) -> Argument:
        annotation = self.options.builders.get(name)
        if annotation is not None and not annotation.takes(value):
            return take_built(self, annotation.cls, value, source, name)
        if name in self.options.scalars:
            return take_numbers(self, value, self.options.scalars[name], source, name)
        if name in self.options.static:
            return take_static(self, value, source, name)
        members = "type" if name in self.options.open_members else self.options.members
        in_object = "value" if name in self.options.templates else ""
        return self.take_any(value, node, source, name, in_object=in_object, members=members)

    def take_any(
        self, value: Any, node: Node, source: Source, path: str, *, in_object: str, members: str
    ) -> Argument:
        """Take anything. ``in_object`` says how numbers count here, ``members`` how they do in objects."""
        kind = type(value)
        if kind in BY_VALUE:
            return take_value(self, value, source)
        if kind in SCALARS:
            if in_object == "value" or path in self.options.needed:
                return take_value(self, value, source)
            return take_scalar(self, value, source, path)
        if kind is NdArray:
            return take_own_array(self, value, source)
        if hasattr(kind, "__keyprint_process_local__"):
            return take_process_local(self, value, source, path)
        if hasattr(kind, "__keyprint_numbers__"):
            return (
                take_by_digest(self, value, source, path)
                if in_object != "type"
                else take_vector(self, value, source, path)
            )
        if hasattr(kind, "__keyprint_by_value__"):
            # What its type defines counts as a class does.
            held = kind.__keyprint_by_value__
            self.count(f"type of {path}", self.resolution(getattr(value, held)))
            argument = take_by_digest(self, value, source, path)
            self.add_guard(Source.member(argument.guard, held), Check.same())
            return argument
        if hasattr(kind, "__cache_signature__"):
            count_used_methods(self, kind, node, path)
            return take_signed(self, value, source, path, lambda value: value.__cache_signature__())
        registered = registration(kind)
        if registered is not None:
            count_used_methods(self, kind, node, path)
            return take_signed(self, value, source, path, registered)
        if is_number(value):
            if in_object == "value" or path in self.options.needed:
                return take_constant(self, value, source, path)
            return Argument("scalar", type=type_name(value)).guarded_by(self.add_guard(source, Check.exact()))
        array = take_array(self, value, source, path)
        if array is not None:
            take_beside_elements(self, array, value, node, path, members)
            return array
        if kind is tuple or (is_a(value, tuple) and hasattr(kind, "_fields") and not stored_names(value)):
            return take_tuple(self, value, node, source, path, in_object, members)
        if kind in TAKEN_BY_DIGEST or kind in (set, bytearray) or holds_values(self, value):
            return take_by_digest(self, value, source, path)
        if kind in (list, dict):
            if self.options.on_opaque is None:
                return take_container(self, value, node, source, path, members)
            if is_plain(value):
                return take_by_digest(self, value, source, path)
        if is_constant(value):
            constant = take_constant(self, value, source, path)
            if self.rules.packages.version_of(kind.__module__) is None:
                # An enum of the program: its methods may be called.
                self.count(f"class of {path}", self.resolution(kind))
            return constant
        if is_a(value, type) or (callable(value) and not is_program_object(self, value)):
            return take_callable(self, value, source, path)
        return take_object(self, value, node, source, path, members)

    def identify(self, value: Any, path: str) -> Fingerprint:
        try:
            return fingerprint(value)
        except FingerprintError as error:
            raise self.unidentified(path, error) from error

    def unidentified(self, path: str, error: FingerprintError) -> SignatureError:
        return SignatureError(
            f"the signature of the argument `{path}` cannot be identified: {error}",
            code="argument-type",
            hint="return plain values from `__cache_signature__`",
        )

    # -- Objects ---------------------------------------------------------------------------------

    def count(self, label: str, resolution: Resolution) -> None:
        """Count something that an argument brings along; several may be found in one place."""
        number, name = 1, label
        while name in self.methods and self.methods[name] is not resolution:
            number += 1
            name = f"{label} #{number}"
        self.methods[name] = resolution

    # -- Trouble ---------------------------------------------------------------------------------

    def take_opaque(self, value: Any, source: Source, path: str) -> Argument:
        """Take something that has no cache signature: refuse it, or let the compiler say what it reads."""
        if self.options.on_opaque is None:
            raise self._unknown(value, path)
        # Most programs have none of these.
        from .observed import Observed, Seen, opaque_numbers

        self.options.on_opaque(path, value)
        self.signature.is_process_local = True
        observed = Observed()
        self.add_guard(source, Check.exact())
        guard = self.add_guard(source, Check.signature(Seen, observed))
        # No other call has this one: what is compiled is found by what was read, not by a key.
        digest = fingerprint(("opaque", next(opaque_numbers)))
        argument = Argument("opaque", type=type_name(value), value=(value, observed), signature=digest)
        return argument.guarded_by(guard)

    def _unknown(self, value: Any, path: str) -> SignatureError:
        name = type_name(value)
        where = "" if path == self.name else f", at `{path}`,"
        hint = f"give `{name}` a `__cache_signature__`, or call `keyprint.register_argument`"
        if is_instance(value):
            hint = f"read its members by name in the function, make it a dataclass, or {hint}"
        return SignatureError(
            f"the argument `{self.name}`{where} is {with_article(name)}, which has no cache signature",
            code="argument-type",
            hint=hint,
        )

    def deeper(self, path: str) -> _Level:
        if self.levels >= _MOST_LEVELS:
            raise SignatureError(
                f"the argument `{self.name}` is nested more than {_MOST_LEVELS} levels deep",
                code="argument-type",
                hint="pass what is needed by itself",
            )
        return _Level(self)


class _Level:
    def __init__(self, maker: SignatureMaker) -> None:
        self._maker = maker

    def __enter__(self) -> None:
        self._maker.levels += 1

    def __exit__(self, *_: object) -> None:
        self._maker.levels -= 1


def _shown(label: str, resolution: Resolution) -> ShownParts:
    """Return what people see of something that an argument brings along: what it depends on."""
    parts = [
        (f"[{name}]", digest, resolution.texts.get(name, ""))
        for name, digest in resolution.components.items()
    ]
    return ShownParts(f"{len(parts)} parts", parts)


def make_signature(
    arguments: Mapping[str, Any], root: Resolution, rules: Rules, options: ArgumentOptions, memo: Memo
) -> Signature:
    """Return the signature of a call, by name of parameter; keyword-only ones last."""
    return SignatureMaker(root, rules, options, memo).make(arguments)


def make_one(
    name: str, value: Any, root: Resolution, rules: Rules, options: ArgumentOptions, memo: Memo
) -> bytes:
    """Return the digest of one argument; what it passes on to others counts whole."""
    maker = SignatureMaker(root, rules, options, memo)
    return maker.one(name, value)
