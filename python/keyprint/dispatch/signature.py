"""Signatures: what a call's arguments contribute to a key.

A scalar counts by its type, or by its value if it is a compile-time parameter; an array by its
specification: element type, number of dimensions, layout; an object by the members that the function
really reads, through any depth of members and helpers. Anything else has to say what counts of it: by
``__cache_signature__``, or by :func:`register_argument`. Nothing counts by the name of its type alone.

A signature also yields *steps*: what the dispatcher compares to tell, without Python code, that another
call has the same one.
"""

from __future__ import annotations

import sys
import types

from .._native import Fingerprint, Fingerprinter, Guards, NdArray, _array_spec, _short_text, fingerprint
from ..errors import FingerprintError, FunctionKeyError, SignatureError
from ..fingerprints import rule
from ..fingerprints.kinds import is_a
from ..fingerprints.shown import ShownParts
from ..functions import observable
from ..functions.access_paths import function_of, is_slot, keeps_members, lookup
from ..functions.reads import HOW, effective, grow, spoken, tree, where_of
from ..functions.resolution import Resolution
from .argument import Argument, foreign_array, numpy_array, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from ..functions.entry import FunctionEntry
    from ..functions.memo import Memo
    from ..functions.reads import Node
    from ..functions.resolution import Rules
    from .argument_options import ArgumentOptions

    #: A way to read an object, and what it must be.
    Step = tuple[tuple[Any, ...], tuple[Any, ...]]

__all__ = ["Signature", "make_one", "make_signature", "register_argument"]

#: What counts of the instances of a class, for classes that do not say so themselves.
_registered: dict[type, Callable[[Any], Any]] = {}

#: What arrays have.
_ARRAYS: Final = ("__cuda_array_interface__", "__dlpack__", "__array_interface__")

#: Builtin types whose values are plain.
_SCALARS: Final = (bool, int, float, complex)
_BY_VALUE: Final = (str, bytes, type(None), type(Ellipsis))

#: Builtin types whose values are taken as they are.
_PLAIN: Final = (range, slice, frozenset)

#: Classes of the standard library whose instances do not change.
_IMMUTABLE: Final = frozenset(
    {
        *(("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("builtins", "mappingproxy")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(("pathlib", name) for name in ("PurePosixPath", "PosixPath", "PureWindowsPath")),
    }
)

#: Modules of classes that keep nothing in instances, and whose methods only call those of the program.
_STORES_NOTHING: Final = frozenset({"abc", "collections.abc", "numbers", "typing", "builtins"})

#: Arguments with more members than this are refused.
_MOST_STEPS: Final = 4096

#: Tuples and objects inside each other, deeper than this, are refused.
_MOST_LEVELS: Final = 64


def register_argument(cls: type, signature: Callable[[Any], Any]) -> None:
    """Say what counts of arguments of a class, and of its subclasses.

    ``signature`` returns any value that has a fingerprint. It is called at each launch, so it should be
    quick; and it must say everything that compiled code may depend on::

        kp.register_argument(Mesh, lambda mesh: (mesh.kind, mesh.order))
    """
    if not isinstance(cls, type):
        raise TypeError(f"expected a class, found `{_short_text(cls)}`")
    if not callable(signature):
        raise TypeError(f"`signature` is a function, found `{_short_text(signature)}`")
    _registered[cls] = signature


class Signature:
    """The signature of one call."""

    __slots__ = ("arguments", "components", "guards", "is_fleeting", "shown", "steps", "texts")

    def __init__(self) -> None:
        self.arguments: dict[str, Argument] = {}
        self.components: dict[str, Fingerprint] = {}
        self.texts: dict[str, str] = {}
        #: What is shown of components, where that is more than a text.
        self.shown: dict[str, Any] = {}
        self.steps: list[Step] = []
        self.guards: list[Guards] = []
        #: Whether it holds something that only means something in this process.
        self.is_fleeting = False

    def let_go(self) -> None:
        """Forget the functions and fields that came with the call: only a compiler needed them."""
        pending = list(self.arguments.values())
        while pending:
            one = pending.pop()
            if one.kind in ("callable", "fleeting", "opaque"):
                one.value = None
            pending += (one.members or {}).values()


class _Maker:
    """Makes the signature of one call."""

    def __init__(self, root: Resolution, rules: Rules, options: ArgumentOptions, memo: Memo) -> None:
        assert root.root is not None
        self._entry = root.root
        self._asks = root.asks
        self._rules = rules
        self._options = options
        self._memo = memo
        self.found = Signature()
        self._guards = Guards()
        self._methods: dict[str, Resolution] = {}
        self._name = ""
        self._levels = 0

    @classmethod
    def _of(cls, outer: _Maker, name: str) -> _Maker:
        """Return a maker for what is inside of something that an outer one takes."""
        made = object.__new__(cls)
        made.__dict__.update(vars(outer))
        made.found, made._guards, made._methods, made._name = Signature(), Guards(), {}, name
        return made

    def make(self, arguments: Mapping[str, Any]) -> Signature:
        names = [name for name, _ in self._entry.parameters]
        trees = [tree(uses) for uses in self._entry.uses]
        values = [arguments[name] for name in names]
        self._pass_on(trees, values)
        positions = {name: at for at, name in enumerate(arguments)}
        for name, value, node in zip(names, values, trees, strict=True):
            self._name = name
            argument = self._top(name, value, node, ("argument", positions[name]))
            self.found.arguments[name] = argument
            self.found.components[f"argument {name}"] = fingerprint(argument.identity())
            self.found.texts[f"argument {name}"] = str(argument)
        for label, resolution in self._methods.items():
            self.found.components[label] = resolution.fingerprint
            self.found.texts[label] = label
            self.found.shown[label] = _shown(label, resolution)
            self.found.guards.append(resolution.guards)
        if len(self._guards):
            self.found.guards.append(self._guards)
        return self.found

    def one(self, name: str, value: Any) -> bytes:
        """Return the digest of one argument, and of everything that it brings along."""
        at = [known for known, _ in self._entry.parameters].index(name)
        self._name = name
        node = tree(effective(self._entry, at))
        identity = self._top(name, value, node, ("argument", at)).identity()
        brought = [(label, bytes(one.fingerprint)) for label, one in self._methods.items()]
        return bytes(fingerprint((identity, sorted(brought))))

    # -- What functions that come with arguments read ---------------------------------------------

    def _pass_on(self, trees: list[Node], values: list[Any]) -> None:
        """Add what is read by functions that are reached through arguments, of other arguments."""
        for root, path, callee, callee_path, slot, line, _ in self._entry.passes:
            if root[0] != "parameter" or callee[0] != "parameter":
                continue
            where = self._entry.where(line)
            target = self._callee(values[callee[1]], callee_path)
            parameter = None if target is None else target[0].slot(slot, target[1])
            if target is None or parameter is None:
                grow(trees[root[1]], path, "whole", where)
                continue
            for (more, how), place in effective(target[0], parameter).items():
                grow(trees[root[1]], path + more, how, place)

    def _callee(self, value: Any, path: tuple[str, ...]) -> tuple[FunctionEntry, int] | None:
        """Return the function that a chain of members of an argument leads to, and the arguments it has."""
        if not path:
            function = value.__func__ if is_a(value, types.MethodType) else value
            given = int(is_a(value, types.MethodType))
        else:
            for name in path[:-1]:
                found = _stored(value, name)
                if not found:
                    return None
                value = found[0]
            if _stored(value, path[-1]):
                return None
            attribute = lookup(type(value), path[-1])
            function, given = (attribute[0], 1) if attribute else (None, 0)
            if isinstance(function, staticmethod):
                function, given = function.__func__, 0
        if not isinstance(function, types.FunctionType):
            return None
        resolution = self._resolution(function)
        return None if resolution.root is None else (resolution.root, given)

    def _resolution(self, value: Any) -> Resolution:
        return self._memo.of(value, self._rules)

    # -- Arguments -------------------------------------------------------------------------------

    def _step(self, source: tuple[Any, ...], check: tuple[Any, ...]) -> int:
        if len(self.found.steps) >= _MOST_STEPS:
            raise SignatureError(
                f"the argument `{self._name}` has more than {_MOST_STEPS} members that are read",
                code="argument-type",
                hint="pass what is needed by itself, or give its class a `__cache_signature__`",
            )
        self.found.steps.append((source, check))
        return len(self.found.steps) - 1

    def _top(self, name: str, value: Any, node: Node, source: tuple[Any, ...]) -> Argument:
        annotation = self._options.builders.get(name)
        if annotation is not None and not annotation.takes(value):
            return self._built(annotation.cls, value, source, name)
        if name in self._options.scalars:
            return self._numbers(value, self._options.scalars[name], source, name)
        if name in self._options.static:
            return self._static(value, source, name)
        members = "type" if name in self._options.open_members else self._options.members
        in_object = "value" if name in self._options.templates else ""
        return self._any(value, node, source, name, in_object=in_object, members=members)

    def _numbers(self, value: Any, scalar: str, source: tuple[Any, ...], path: str) -> Argument:
        """Take a number of a type, or a tuple or vector of them."""
        kind = type(value)
        held = getattr(kind, "__keyprint_numbers__", None)
        if held is not None:
            step = self._step(source, ("object",))
            items = getattr(value, held)
            inner = self._numbers(items, scalar, ("member", step, held), f"{path}.{held}")
            argument = Argument("object", type=type_name(value), members={held: inner}, python_type=kind)
            return self._as(argument, step)
        if kind is not tuple:
            return self._number(value, scalar, source, path)
        step = self._step(source, ("tuple",))
        members: dict[Any, Argument] = {}
        with self._deeper(path):
            for at, item in enumerate(value):
                members[at] = self._numbers(item, scalar, ("item", step, at), f"{path}[{at}]")
        return self._as(Argument("tuple", type="builtins.tuple", members=members), step)

    def _vector(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take a vector in an object: its shape and type count, its numbers do not."""
        argument = self._numbers(value, value.dtype.name, source, path)
        argument.element, argument.dtype = value.shape, value.dtype.name
        self._step(("member", argument.step, "shape"), ("equal",))
        self._step(("member", argument.step, "dtype"), ("same",))
        return argument

    def _number(self, value: Any, scalar: str, source: tuple[Any, ...], path: str) -> Argument:
        """Take a number of a type: which number, and of which Python type, does not count."""
        is_float = scalar.startswith("f")
        kind = type(value)
        if kind in (bool, int) or (is_float and kind is float):
            return self._as(Argument("scalar", type=scalar), self._step(source, ("number", is_float)))
        if _is_number(value) and (is_float or hasattr(value, "__index__") or value.dtype.kind == "b"):
            return self._as(Argument("scalar", type=scalar), self._step(source, ("exact",)))
        expected = "a number" if is_float else "an int"
        raise SignatureError(
            f"the argument `{path}` is a `{scalar}`: expected {expected}, found {_a(type_name(value))}",
            code="argument-type",
            hint="pass a Python number; for a vector, a tuple or a `Vector`"
            if hasattr(value, "__len__")
            else "convert it: `float(...)`"
            if is_float
            else "convert it: `int(...)`",
        )

    def _built(self, annotation: Any, raw: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take the signature of what an annotation builds from a raw value."""
        of_raw = getattr(annotation, "__cache_signature_of__", None)

        def signature(raw: Any) -> bytes:
            found = annotation(raw).__cache_signature__() if of_raw is None else of_raw(raw)
            return bytes(self._fingerprint(found, path))

        known = signature(raw)
        self._step(source, ("exact",))
        step = self._step(source, ("signature", signature, known))
        name = f"{annotation.__module__}.{annotation.__qualname__}"
        shown = _said(annotation(raw).__cache_signature__() if of_raw is None else of_raw(raw))
        return self._as(Argument("signature", type=name, value=shown, signature=Fingerprint(known)), step)

    @staticmethod
    def _as(argument: Argument, step: int) -> Argument:
        argument.step = step
        return argument

    def _static(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take a compile-time parameter: by value."""
        kind = type(value)
        if kind in _SCALARS or kind in _BY_VALUE:
            return self._value(value, source)
        if _is_number(value):
            return self._constant(value, source, path)
        if _is_array(value):
            raise SignatureError(
                f"the argument `{path}` is an array, and `static` parameters count by value",
                code="argument-type",
                hint=f"take `{path}` out of `static`: arrays count by their specification",
            )
        if kind is tuple and all(type(one) in _SCALARS or type(one) in _BY_VALUE for one in value):
            step = self._step(source, ("tuple",))
            for at in range(len(value)):
                self._step(("item", step, at), ("equal",))
            digest = fingerprint(value)
            return self._as(Argument("value", type="tuple", value=value, signature=digest), step)
        if callable(value) and not hasattr(kind, "__cache_signature__") and _registration(kind) is None:
            return self._callable(value, source, path)
        if _is_instance(value) or hasattr(kind, "__cache_signature__") or _registration(kind) is not None:
            node: Node = {HOW: {"whole": ("", "", 0)}}
            return self._any(value, node, source, path, in_object="value", members="value")
        return self._by_digest(value, source, path)

    def _by_digest(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take something by value that is looked at anew in each call."""
        self._step(source, ("exact",))

        def signature(value: Any) -> bytes:
            return self._content(value, path)

        known = signature(value)
        step = self._step(source, ("signature", signature, known))
        argument = Argument("value", type=type_name(value), value=value, signature=Fingerprint(known))
        return self._as(argument, step)

    def _content(self, value: Any, path: str) -> bytes:
        """Return the digest of everything that is in a value, functions and classes of the program by meaning."""
        met: list[Any] = []
        plain = Fingerprinter(overrides={**observable.rules(), **_noting(met)}, _observable=True)
        try:
            digest, classes, _ = plain._with_classes(value)
        except FingerprintError as error:
            raise self._unidentified(path, error) from error
        if not met and all(self._rules.packages.version_of(cls.__module__) is not None for cls in classes):
            return bytes(digest)
        try:
            return bytes(self._resolution(value).fingerprint)
        except FunctionKeyError as error:
            raise _not_identified(path, error) from error

    def _value(self, value: Any, source: tuple[Any, ...]) -> Argument:
        step = self._step(source, ("equal",))
        name = type(value).__qualname__
        return self._as(Argument("value", type=name, value=value, signature=fingerprint(value)), step)

    def _any(
        self, value: Any, node: Node, source: tuple[Any, ...], path: str, *, in_object: str, members: str
    ) -> Argument:
        """Take anything. ``in_object`` says how numbers count here, ``members`` how they do in objects."""
        kind = type(value)
        if kind in _BY_VALUE:
            return self._value(value, source)
        if kind in _SCALARS:
            if in_object == "value" or path in self._options.needed:
                return self._value(value, source)
            return self._scalar(value, source, path)
        if kind is NdArray:
            return self._own_array(value, source)
        if hasattr(kind, "__keyprint_fleeting__"):
            return self._fleeting(value, source, path)
        if hasattr(kind, "__keyprint_numbers__"):
            return (
                self._by_digest(value, source, path)
                if in_object != "type"
                else self._vector(value, source, path)
            )
        if hasattr(kind, "__keyprint_by_value__"):
            # What its type defines counts as a class does.
            held = kind.__keyprint_by_value__
            self._count(f"type of {path}", self._resolution(getattr(value, held)))
            argument = self._by_digest(value, source, path)
            self._step(("member", argument.step, held), ("same",))
            return argument
        if hasattr(kind, "__cache_signature__"):
            self._used_methods(kind, node, path)
            return self._signed(value, source, path, lambda value: value.__cache_signature__())
        registered = _registration(kind)
        if registered is not None:
            self._used_methods(kind, node, path)
            return self._signed(value, source, path, registered)
        if _is_number(value):
            if in_object == "value" or path in self._options.needed:
                return self._constant(value, source, path)
            return self._as(Argument("scalar", type=type_name(value)), self._step(source, ("exact",)))
        array = self._array(value, source, path)
        if array is not None:
            self._beside_elements(array, value, node, path, members)
            return array
        if kind is tuple or (is_a(value, tuple) and hasattr(kind, "_fields") and not stored_names(value)):
            return self._tuple(value, node, source, path, in_object, members)
        if kind in _PLAIN or kind in (set, bytearray) or self._holds_values(value):
            return self._by_digest(value, source, path)
        if kind in (list, dict):
            if self._options.on_opaque is None:
                return self._container(value, node, source, path, members)
            if _is_plain(value):
                return self._by_digest(value, source, path)
        if _is_constant(value):
            found = self._constant(value, source, path)
            if self._rules.packages.version_of(kind.__module__) is None:
                # An enum of the program: its methods may be called.
                self._count(f"class of {path}", self._resolution(kind))
            return found
        if is_a(value, type) or (callable(value) and not self._is_program_object(value)):
            return self._callable(value, source, path)
        return self._object(value, node, source, path, members)

    def _holds_values(self, value: Any) -> bool:
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
        is_own = self._rules.packages.version_of(kind.__module__) is None
        return is_own and is_a(value, bases) and not is_a(value, type) and not _is_constant(value)

    def _own_array(self, value: NdArray, source: tuple[Any, ...]) -> Argument:
        # The same as an array of NumPy that is laid out so: what is compiled for one is good for the other.
        argument = Argument("array", type="numpy.ndarray", layout="C", writable=True)
        kinds = {"b": "", "i": "int", "u": "uint", "f": "float"}
        name = value.scalar
        argument.dtype = name if name == "bool" else kinds[name[0]] + name[1:]
        argument.ndim, argument.needs_grad = value.ndim, value.needs_grad or None
        argument.element = value.element_shape or None
        return self._as(argument, self._step(source, ("own",)))

    def _fleeting(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take something that counts by what it is in this process: the very object."""
        self.found.is_fleeting = True
        if hasattr(value, "__keyprint_type__"):
            self._count(f"type of {path}", self._resolution(value.__keyprint_type__()))
        digest = fingerprint(("fleeting", value.__keyprint_fleeting__()))
        argument = Argument("fleeting", type=type_name(value), value=value, signature=digest)
        return self._as(argument, self._step(source, ("same",)))

    def _is_program_object(self, value: Any) -> bool:
        """Whether something is an instance of a class of the program, whose members are just stored."""
        return _is_instance(value) and self._rules.packages.version_of(type(value).__module__) is None

    def _scalar(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        name = type(value).__qualname__
        by = self._options.divisible.get(path)
        if by is None or type(value) is not int:
            return self._as(Argument("scalar", type=name), self._step(source, ("exact",)))
        if not -(1 << 63) <= value < 1 << 63:
            raise SignatureError(
                f"the argument `{path}` is {_short_text(value)}, which does not fit into 64 bits",
                code="argument-type",
                hint=f"take `{path}` out of `divisible`",
            )
        known = "one" if value == 1 else f"multiple of {by}" if value % by == 0 else f"no multiple of {by}"
        return self._as(
            Argument("scalar", type=name, divisibility=known), self._step(source, ("divides", by))
        )

    def _signed(
        self, value: Any, source: tuple[Any, ...], path: str, speak: Callable[[Any], Any]
    ) -> Argument:
        """Take an argument that says itself what counts of it, or whose class was registered."""
        self._step(source, ("exact",))

        def signature(value: Any) -> bytes:
            return bytes(self._fingerprint(speak(value), path))

        known = signature(value)
        step = self._step(source, ("signature", signature, known))
        argument = Argument("signature", type=type_name(value), signature=Fingerprint(known))
        argument.value = _said(speak(value))
        argument.members = self._slots(value, step, path)
        return self._as(argument, step)

    def _slots(self, value: Any, step: int, path: str) -> dict[Any, Argument] | None:
        """Take the members that native code is given of an argument that says itself what counts."""
        names = getattr(type(value), "__cache_slots__", None)
        if names is None:
            return None
        members: dict[Any, Argument] = {}
        for name in names:
            found = _stored(value, name)
            if not found:
                raise SignatureError(
                    f"`__cache_slots__` of the argument `{path}` names `{name}`, which is not stored in it",
                    code="missing-member",
                    hint="slots are plain attributes that hold numbers or arrays",
                )
            node: Node = {HOW: {"whole": ("", "", 0)}}
            place = f"{path}.{name}"
            members[name] = self._any(
                found[0], node, ("member", step, name), place, in_object="", members="type"
            )
        return members

    def _used_methods(self, cls: type, node: Node, path: str) -> None:
        """Count the methods that are called on something whose signature speaks for its data."""
        names = [name for name in node if name != HOW]
        if "called" in node.get(HOW, ()):
            names.append("__call__")
        for name in names:
            for attribute in lookup(cls, name):
                inner = attribute.__func__ if is_a(attribute, (staticmethod, classmethod)) else attribute
                for function in (inner, *_accessors(inner)):
                    if isinstance(function, types.FunctionType):
                        self._count(f"method {path}.{name}", self._resolution(function))

    def _fingerprint(self, value: Any, path: str) -> Fingerprint:
        try:
            return fingerprint(value)
        except FingerprintError as error:
            raise self._unidentified(path, error) from error

    def _unidentified(self, path: str, error: FingerprintError) -> SignatureError:
        return SignatureError(
            f"the signature of the argument `{path}` cannot be identified: {error}",
            code="argument-type",
            hint="return plain values from `__cache_signature__`",
        )

    def _array(self, value: Any, source: tuple[Any, ...], path: str) -> Argument | None:
        kind = type(value)
        multiple = self._options.align.get(path, 0)
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is getattr(numpy, "ndarray", None):
            step = self._step(source, ("numpy", multiple))
            if value.dtype.names is not None:
                # The names of fields can be changed in place.
                self._step(source, ("signature", _dtype_digest, _dtype_digest(value)))
            return self._as(numpy_array(value, multiple), step)
        if hasattr(kind, "__dlpack_c_exchange_api__"):
            found = _array_spec(value, multiple)
            if found is not None:
                step = self._step(source, ("exchange", multiple))
                dtype, ndim, layout, device, needs_grad, aligned = found
                argument = Argument("array", dtype=dtype, ndim=ndim, layout=layout, needs_grad=needs_grad)
                argument.device = device
                argument.type = type_name(value)
                argument.aligned = aligned if multiple else None
                return self._as(argument, step)
        if not _is_array(value):
            return None
        describe = numpy_array if is_a(value, getattr(numpy, "ndarray", ())) else foreign_array
        self._step(source, ("exact",))

        def signature(value: Any) -> bytes:
            return bytes(fingerprint(describe(value, multiple).identity()))

        argument = describe(value, multiple)
        return self._as(argument, self._step(source, ("signature", signature, signature(value))))

    def _beside_elements(self, array: Argument, value: Any, node: Node, path: str, members: str) -> None:
        """Take what is read of an array besides its elements: what its class or the program put on it."""
        cls = type(value)
        if "whole" in node.get(HOW, ()) and is_a(value, getattr(sys.modules.get("numpy"), "ndarray", ())):
            # What is handed on may be asked for anything that was put on it.
            for name in stored_names(value):
                grow(node, (name,), "whole", where_of(node))
        for name in [name for name in node if name != HOW]:
            child: Any = node[name]
            found = _stored(value, name)
            place = f"{path}.{name}"
            if found:
                source = ("member", array.step, name)
                taken = self._any(found[0], child, source, place, in_object="value", members=members)
                array.members = {**(array.members or {}), name: taken}
                continue
            self._step(("member", array.step, name), ("absent",))
            if not self._guards.type(cls):
                self._guards.set_recheck(lambda: False)
            for attribute in lookup(cls, name):
                owner = next(base for base in cls.__mro__ if name in vars(base))
                if self._rules.packages.version_of(owner.__module__) is not None:
                    continue
                function = function_of(attribute)
                if function is None and _is_computed(attribute):
                    raise SignatureError(
                        f"the argument `{self._name}` computes `{place}` in a property ({spoken(child)})",
                        code="argument-type",
                        hint="store the value in a plain attribute, or pass it by itself",
                    )
                inner = function if function is not None else getattr(attribute, "__func__", attribute)
                self._count(f"class attribute {place}", self._resolution(inner))

    def _container(self, value: Any, node: Node, source: tuple[Any, ...], path: str, mode: str) -> Argument:
        """Take a list or a dict: what is in it, looked at anew in each call."""
        self._step(source, ("exact",))

        def inside(value: Any) -> tuple[dict[Any, Argument], bytes]:
            """Return what is in a container, and the digest of it, and of what it brings along."""
            maker = _Maker._of(self, self._name)
            members: dict[Any, Argument] = {}
            items = value.items() if type(value) is dict else enumerate(value)
            order = []
            with self._deeper(path):
                for at, item in items:
                    whole: Node = {HOW: {"whole": where_of(node)}}
                    place = f"{path}[{at!r}]"
                    members[at] = maker._any(
                        item, whole, ("argument", 0), place, in_object=mode, members=mode
                    )
                    order.append((self._content(at, place), members[at].identity()))
            brought = [(label, bytes(one.fingerprint)) for label, one in maker._methods.items()]
            self._methods.update(maker._methods)
            self.found.guards += maker.found.guards
            self.found.is_fleeting |= maker.found.is_fleeting
            return members, bytes(fingerprint((type_name(value), order, sorted(brought))))

        members, known = inside(value)
        step = self._step(source, ("signature", lambda value: inside(value)[1], known))
        argument = Argument("container", type=type_name(value), members=members, signature=Fingerprint(known))
        return self._as(argument, step)

    def _tuple(
        self,
        value: tuple[Any, ...],
        node: Node,
        source: tuple[Any, ...],
        path: str,
        in_object: str,
        mode: str,
    ) -> Argument:
        step = self._step(source, ("tuple",))
        members = {}
        with self._deeper(path):
            for at, item in enumerate(value):
                whole: Node = {HOW: {"whole": where_of(node)}}
                place = f"{path}[{at}]"
                item_source = ("item", step, at)
                members[at] = self._any(item, whole, item_source, place, in_object=in_object, members=mode)
        kind = type(value)
        if kind is not tuple and self._rules.packages.version_of(kind.__module__) is None:
            self._count(f"class of {path}", self._resolution(kind))
        return self._as(Argument("tuple", type=type_name(value), members=members), step)

    def _constant(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take something that cannot change, by value."""
        step = self._step(source, ("same",))
        digest = self._fingerprint(value, path)
        return self._as(Argument("value", type=type_name(value), value=value, signature=digest), step)

    def _callable(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        try:
            resolution = self._resolution(value)
        except FunctionKeyError as error:
            raise _not_identified(path, error) from error
        step = self._step(source, ("same",))
        self.found.guards.append(resolution.guards)
        name = getattr(value, "__qualname__", None) or type_name(value)
        called = getattr(value, "__name__", None)
        if isinstance(called, str) and called != str(name).rpartition(".")[2]:
            name = f"{name}, called {called}"
        return self._as(Argument("callable", type=name, value=value, signature=resolution.fingerprint), step)

    # -- Objects ---------------------------------------------------------------------------------

    def _object(self, value: Any, node: Node, source: tuple[Any, ...], path: str, mode: str) -> Argument:
        cls = type(value)
        mode = getattr(cls, "__keyprint_members__", mode)
        if not _is_instance(value):
            return self._opaque(value, source, path)
        if "called" in node.get(HOW, ()):
            grow(node, ("__call__",), "called", where_of(node))
        # First everything that methods read of the object, then the members: each is taken once.
        self._expand(value, node, path)
        is_whole = "whole" in node.get(HOW, ())
        if is_whole:
            # The object itself is handed on: by then nobody knows what is read of it.
            if not self._is_taken_whole(value):
                return self._opaque(value, source, path)
            for name in (*(_fields(cls) or ()), *_slot_names(cls), *stored_names(value)):
                grow(node, (name,), "whole", where_of(node))
            # Whatever the class defines may be used as well.
            self._count(f"class of {path}", self._resolution(cls))
        if "class" in node.get(HOW, ()):
            self._class_of(value, path)
        step = self._step(source, ("whole",) if is_whole else ("object",))
        if is_whole and (cls is types.SimpleNamespace or "order" in self._asks):
            # Other instances may have the same members in another order.
            order = bytes(fingerprint(_order(value)))
            self._step(source, ("signature", lambda value: bytes(fingerprint(_order(value))), order))
            self.found.components[f"order of {path}"] = Fingerprint(order)
            self.found.texts[f"order of {path}"] = ", ".join(_order(value))
        members: dict[Any, Argument] = {}
        with self._deeper(path):
            self._members(value, node, step, path, members, mode)
        argument = Argument("object", type=type_name(value), members=members, python_type=cls)
        return self._as(argument, step)

    def _is_taken_whole(self, value: Any) -> bool:
        """Whether all of an object is what it stores: nothing of it is made up by its class, or hidden in native code."""
        cls = type(value)
        if _fields(cls) is not None:
            return True
        packages = self._rules.packages
        own = [base for base in cls.__mro__ if packages.version_of(base.__module__) is None]
        others = [base for base in cls.__mro__ if base not in own and base.__module__ not in _STORES_NOTHING]
        return (bool(own) and others in ([], [object])) or cls is types.SimpleNamespace

    def _class_of(self, value: Any, path: str) -> None:
        """Count what a class is that `isinstance` is asked about: its bases, and what it is registered with."""
        cls = type(value)
        if self._rules.packages.version_of(cls.__module__) is None:
            self._count(f"class of {path}", self._resolution(cls))

    def _expand(self, value: Any, node: Node, path: str) -> None:
        """Count the methods of an object that are reached, and add what they read of it to what is read."""
        cls = type(value)
        seen: set[tuple[str, int]] = set()
        is_growing = True
        while is_growing:
            is_growing = False
            if "super whole" in node.get(HOW, ()):
                for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
                    if any(is_a(one, types.FunctionType) for one in lookup(cls, name)):
                        grow(node, (name,), "super", where_of(node))
            for name in [name for name in node if name != HOW]:
                found = [] if _stored(value, name) else list(lookup(cls, name))
                if "super" in node[name].get(HOW, ()):
                    found += [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
                for attribute in found:
                    if (name, id(attribute)) not in seen:
                        seen.add((name, id(attribute)))
                        is_growing = True
                        is_super = "super" in node[name].get(HOW, ())
                        met = self._from_class(value, attribute, node, f"{path}.{name}", is_super=is_super)
                        # What a class holds as data is looked at like a member; a method is code.
                        inner = getattr(attribute, "__func__", attribute)
                        if met is not None and not is_super and function_of(inner) is not None:
                            self._memo.check_baseline(cls, name, met)

    def _from_class(
        self, value: Any, attribute: Any, node: Node, place: str, *, is_super: bool
    ) -> Resolution | None:
        """Count something that a class defines, and add what it reads of the object; return what it depends on."""
        if _is_computed(attribute):
            # Refused where it is read, but what `super()` finds may be a property.
            for accessor in _accessors(attribute) if is_super else ():
                self._method(accessor, node, place)
            return None
        if type(attribute) is types.MemberDescriptorType:
            return None
        function = function_of(attribute)
        if function is not None:
            return self._method(function, node, place)
        inner: Any = attribute
        if is_a(attribute, (staticmethod, classmethod)):
            inner = attribute.__func__
        # The step for the object says that the class is what it was; what the attribute holds may change.
        bound = type(value) if is_a(attribute, classmethod) else None
        found = self._memo.of(inner, self._rules, bound)
        self._count(f"class attribute {place}", found)
        return found

    def _method(self, function: types.FunctionType, node: Node, place: str) -> Resolution:
        """Count a method, and add what it reads of the object it belongs to."""
        resolution = self._resolution(function)
        self._count(f"method {place} ({function.__module__}.{function.__qualname__})", resolution)
        if resolution.root is not None and resolution.root.uses:
            for (more, how), where in effective(resolution.root, 0).items():
                if more or how in ("whole", "super whole"):
                    grow(node, more, how, where)
        return resolution

    def _members(
        self, value: Any, node: Node, step: int, path: str, members: dict[Any, Argument], mode: str
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
            if attribute and _is_computed(attribute[0]):
                raise SignatureError(
                    f"the argument `{self._name}` computes `{place}` in a property ({spoken(child)})",
                    code="argument-type",
                    hint="store the value in a plain attribute, or read what the property reads",
                )
            source = ("member", step, name)
            found = _stored(value, name)
            is_glance = set(child) == {HOW} and how <= {"optional", "type", "class"}
            if is_glance and "class" in how and found:
                self._class_of(found[0], place)
            if is_glance and (found or "optional" not in how):
                members[name] = self._type_of(found, attribute, source)
            elif found:
                members[name] = self._any(found[0], child, source, place, in_object=mode, members=mode)
            elif attribute and type(attribute[0]) is not types.MemberDescriptorType:
                # A member of its own would hide what the class has.
                self._step(source, ("absent",))
            elif ("optional" in how and len(child) == 1) or self._options.absent_members:
                members[name] = self._as(Argument("absent"), self._step(source, ("absent",)))
            else:
                raise SignatureError(
                    f"the argument `{self._name}` has no member `{place}` ({spoken(child)})",
                    code="missing-member",
                    hint=f"`{path}` is {_a(type_name(value))}; set the member before the call",
                )

    def _type_of(
        self, found: tuple[Any, ...], on_class: tuple[Any, ...], source: tuple[Any, ...]
    ) -> Argument:
        """Take a member of which only the type is asked for: `s.grid is None`."""
        if not found:
            kind = type_name(on_class[0]) if on_class else None
            return self._as(Argument("absent", type=kind), self._step(source, ("absent",)))
        return self._as(Argument("scalar", type=type_name(found[0])), self._step(source, ("exact",)))

    def _count(self, label: str, resolution: Resolution) -> None:
        """Count something that an argument brings along; several may be found in one place."""
        number, name = 1, label
        while name in self._methods and self._methods[name] is not resolution:
            number += 1
            name = f"{label} #{number}"
        self._methods[name] = resolution

    # -- Trouble ---------------------------------------------------------------------------------

    def _opaque(self, value: Any, source: tuple[Any, ...], path: str) -> Argument:
        """Take something of which nothing says what counts: refuse it, or let the compiler say what it reads."""
        if self._options.on_opaque is None:
            raise self._unknown(value, path)
        # Most programs have none of these.
        from .observed import Observed, Seen, opaque_numbers

        self._options.on_opaque(path, value)
        self.found.is_fleeting = True
        observed = Observed()
        self._step(source, ("exact",))
        step = self._step(source, ("signature", Seen, observed))
        # No other call has this one: what is compiled is found by what was read, not by a key.
        digest = fingerprint(("opaque", next(opaque_numbers)))
        argument = Argument("opaque", type=type_name(value), value=(value, observed), signature=digest)
        return self._as(argument, step)

    def _unknown(self, value: Any, path: str) -> SignatureError:
        name = type_name(value)
        where = "" if path == self._name else f", at `{path}`,"
        hint = f"give `{name}` a `__cache_signature__`, or call `keyprint.register_argument`"
        if _is_instance(value):
            hint = f"read its members by name in the function, make it a dataclass, or {hint}"
        return SignatureError(
            f"the argument `{self._name}`{where} is {_a(name)}, which has no cache signature",
            code="argument-type",
            hint=hint,
        )

    def _deeper(self, path: str) -> _Level:
        if self._levels >= _MOST_LEVELS:
            raise SignatureError(
                f"the argument `{self._name}` is nested more than {_MOST_LEVELS} levels deep",
                code="argument-type",
                hint="pass what is needed by itself",
            )
        return _Level(self)


class _Level:
    def __init__(self, maker: _Maker) -> None:
        self._maker = maker

    def __enter__(self) -> None:
        self._maker._levels += 1

    def __exit__(self, *_: object) -> None:
        self._maker._levels -= 1


def _not_identified(path: str, error: FunctionKeyError) -> SignatureError:
    """Return the error for an argument that holds something which has no function key."""
    return SignatureError(
        f"the argument `{path}` cannot be identified: {error.args[0]}", code=error.code, hint=error.hint
    )


def _said(signature: Any) -> str:
    from ..fingerprints.summary import text_of

    return text_of(signature)


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
    return _Maker(root, rules, options, memo).make(arguments)


def make_one(
    name: str, value: Any, root: Resolution, rules: Rules, options: ArgumentOptions, memo: Memo
) -> bytes:
    """Return the digest of one argument; what it passes on to others counts whole."""
    maker = _Maker(root, rules, options, memo)
    return maker.one(name, value)


def _stored(value: Any, name: str) -> tuple[()] | tuple[Any]:
    """Return a member that is stored in an instance."""
    found = Guards().member(value, name)
    return found or ()


def _is_instance(value: Any) -> bool:
    """Whether something is an instance of a class written in Python, whose members are just stored."""
    kinds = (type, types.ModuleType, list, dict, set, tuple, str, int, float)
    if type(value) is types.SimpleNamespace:
        return True
    return keeps_members(type(value)) and not is_a(value, kinds)


def _is_array(value: Any) -> bool:
    kind = type(value)
    return any(hasattr(kind, name) for name in _ARRAYS)


def _is_plain(value: Any) -> bool:
    """Whether there are only numbers, texts and the like in a value."""
    pending, seen = [value], 0
    while pending:
        one = pending.pop()
        kind = type(one)
        if kind in (list, tuple):
            pending += one
        elif kind is dict:
            pending += [*one, *one.values()]
        elif kind not in _SCALARS and kind not in _BY_VALUE:
            return False
        seen += 1
        if seen > _MOST_STEPS:
            return False
    return True


def _slot_names(cls: type) -> list[str]:
    """Return the names of the slots that instances of a class keep members in."""
    kind = types.MemberDescriptorType
    return sorted(
        {name for base in cls.__mro__ for name, one in vars(base).items() if is_a(one, kind)}
        - {"__dict__", "__weakref__"}
    )


def _noting(met: list[Any]) -> dict[type, Any]:
    """Return rules that take note of what counts by more than its name."""

    def note(value: Any) -> Any:
        met.append(value)
        return rule.leaf("met")

    enum = sys.modules.get("enum")
    kinds: tuple[type, ...] = (types.FunctionType, types.ModuleType, type)
    return dict.fromkeys((*kinds, *((enum.EnumMeta,) if enum is not None else ())), note)


def _dtype_digest(array: Any) -> bytes:
    return bytes(fingerprint(array.dtype))


def _is_number(value: Any) -> bool:
    """Whether something is a scalar of NumPy; those of structured types can be written to."""
    numpy = sys.modules.get("numpy")
    return is_a(value, getattr(numpy, "generic", ())) and not is_a(value, getattr(numpy, "void", ()))


def _is_constant(value: Any) -> bool:
    """Whether something cannot change: members of enums, data types."""
    enum, numpy, torch = (sys.modules.get(name) for name in ("enum", "numpy", "torch"))
    kinds = (getattr(enum, "Enum", None), getattr(numpy, "dtype", None), getattr(torch, "dtype", None))
    return is_a(value, tuple(kind for kind in kinds if kind is not None))


def _is_computed(attribute: Any) -> bool:
    """Whether code decides what an attribute of a class is for an instance: properties and the like."""
    plain = (types.FunctionType, staticmethod, classmethod)
    return (
        hasattr(type(attribute), "__get__")
        and not is_slot(attribute)
        and not is_a(attribute, plain)
        and function_of(attribute) is None
    )


def _accessors(attribute: Any) -> list[types.FunctionType]:
    found = [getattr(attribute, name, None) for name in ("fget", "fset", "fdel", "func")]
    return [one for one in found if is_a(one, types.FunctionType)]


def _order(value: Any) -> list[str]:
    """Return the names of members in the order in which they were set."""
    return [str(name) for name in getattr(value, "__dict__", {})]


def stored_names(value: Any) -> list[str]:
    """Return the names of the members that an instance has of its own, slots aside."""
    return sorted(getattr(value, "__dict__", {}))


def _fields(cls: type) -> list[str] | None:
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None:
        return None
    return [name for name, field in fields.items() if field._field_type.name == "_FIELD"]


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} `{name}`"


def _registration(cls: type) -> Callable[[Any], Any] | None:
    for base in cls.__mro__:
        if base in _registered:
            return _registered[base]
    return None
